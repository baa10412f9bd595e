"""The times of a run from the operator's intake log alone: which entries count, and when each of its units arrived.

A run goes by the log up to the last batch that was there when it was worked out. What arrives later changes nothing of
it, so that it can be worked out again to the byte; a log that no longer holds these entries is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.display import counted, listed
from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution.arrays import Codes, Features, Values
from datamarket_gym.payout.intake.log import (
    Arrivals,
    read_arrivals,
    read_digests,
    seconds_of,
    unit_digests,
)
from datamarket_gym.payout.ledger.entries import ContentKind, LedgerError
from datamarket_gym.payout.ledger.store import (
    Ledger,
    Tip,
    has_ledger,
    holds_tip,
    is_address,
    open_ledger,
)
from datamarket_gym.payout.manifest import Check
from datamarket_gym.payout.names import visible

ROLE = "intake"
"""The log among the inputs of a run, and among their places."""
_FEW = 5


def absolute_address(where: str) -> str:
    """Where a log is, as ledgers and files may have it: an absolute path, or an address without a password."""
    return open_ledger(where).where if is_address(where) else str(Path(where).resolve())


@dataclass(frozen=True)
class LogTip:
    """A log up to its last batch: the id of its ledger, and the number and hash of that batch's entry."""

    log: str
    number: int
    tip: str

    @property
    def words(self) -> str:
        """The tip, short enough to be read out."""
        return f"log {self.log[:8]}, up to entry {self.number:,}, tip {self.tip[:16]}"


@dataclass(frozen=True, eq=False)
class ReceivedTimes:
    """When units were received, and in which entry.

    ``before`` says of each who handed the same in earlier and does not have it in the run; blank where nobody did.
    """

    upto: LogTip
    time: Values
    entry: Codes
    before: list[str]

    @property
    def sha256(self) -> str:
        """A hash of the log as far as it counts and of the times that were taken from it."""
        taken = [asdict(self.upto), [each.hex() for each in self.time.tolist()], self.entry.tolist()]
        return hashlib.sha256(json.dumps(taken, sort_keys=True).encode()).hexdigest()

    def of(self, rows: Codes) -> ReceivedTimes:
        """The same of some of the units."""
        before = [self.before[row] for row in rows.tolist()]
        return replace(self, time=self.time[rows], entry=self.entry[rows], before=before)


@dataclass(frozen=True)
class IntakeLog:
    """A log, as far as a run goes by it."""

    upto: LogTip
    arrivals: Arrivals

    @classmethod
    def open(cls, where: str, upto: LogTip | None = None) -> IntakeLog:
        """The log in a ledger, as it is now or up to an earlier tip; refused where it does not hold that as it was."""
        if not has_ledger(where):
            raise LedgerError(
                f"there is no intake log at {where!r}; if it was moved, say where it is now: --intake LEDGER"
            )
        ledger = open_ledger(where)
        with _naming(ledger):
            accounts = ledger.accounts()
        if upto is None:
            if not accounts.arrived.entries:
                raise LedgerError(
                    f"the ledger {ledger.where!r} holds no batch that was received; enter what arrives with "
                    "datamarket intake add, or leave --intake out"
                )
            last = accounts.arrived.entries[-1]
            upto = LogTip(accounts.id, last.number, last.hash)
        elif accounts.id != upto.log:
            raise LedgerError(
                f"the ledger {ledger.where!r} is not the intake log of the run: its id is {accounts.id[:16]}, not "
                f"{upto.log[:16]}; name the right one with --intake"
            )
        elif not holds_tip(accounts.entries, Tip(upto.number, upto.tip)):
            raise LedgerError(
                f"the intake log {ledger.where!r} does not hold entry {upto.number} as it was when the run was worked "
                "out: entries were lost or changed; bring the right copy back"
            )
        found = read_arrivals(ledger)
        counting = tuple(batch for batch in found.batches if batch.number <= upto.number)
        return cls(upto, replace(found, batches=counting))

    @property
    def ledger(self) -> Ledger:
        """The ledger that holds it."""
        return self.arrivals.ledger

    def examined(self) -> Check:
        """Whether the log is whole: its ledger, the digests of its batches included."""
        wrong = [f"{check.what}: {check.detail}" for check in self.ledger.examined() if not check.good]
        if wrong:
            return Check("intake log", False, f"{self.ledger.where}: {'; '.join(wrong)}")
        return Check("intake log", True, f"{self.ledger.where}: {self.upto.words}, as it was")

    def received(
        self,
        what: ContentKind,
        identity: Sequence[str],
        label: NDArray[Any],
        content: Sequence[str] | Sequence[bytes] | Features,
    ) -> tuple[ReceivedTimes, dict[int, str]]:
        """When units arrived under their identities; and the rows that did not, with the reason (they have no time)."""
        digests = unit_digests(what, label, content)
        with _naming(self.ledger):
            found = self.arrivals.of(identity, digests)
        missing = [row for row, batch in enumerate(found) if batch is None]
        seconds = {batch.number: seconds_of(batch) for batch in self.arrivals.batches}
        time = [np.nan if batch is None else seconds[batch.number] for batch in found]
        entry = [0 if batch is None else batch.number for batch in found]
        before = self._before(identity, digests, entry)
        taken = ReceivedTimes(self.upto, np.array(time), np.array(entry, dtype=np.int64), before)
        return taken, dict(self._reasons(what, missing, identity, digests)) if missing else {}

    def _before(self, identity: Sequence[str], digests: list[bytes], entry: Sequence[int]) -> list[str]:
        """For each unit the first who handed the same in before that entry, and does not have it among these units."""
        wanted, ours = set(digests), set(zip(identity, digests, strict=True))
        last = max(entry)
        batches = [batch for batch in self.arrivals.batches if batch.number < last]
        first: dict[bytes, tuple[int, str]] = {}
        with _naming(self.ledger):
            for batch, here in zip(batches, read_digests(self.ledger, batches), strict=True):
                for each in wanted.intersection(here):
                    if (batch.payee, each) not in ours:
                        first.setdefault(each, (batch.number, batch.payee))
        nobody = (last, "")
        found = [first.get(digest, nobody) for digest in digests]
        return [
            f"entry {number} has it from “{visible(who)}”" if number < at else ""
            for (number, who), at in zip(found, entry, strict=True)
        ]

    def _reasons(
        self, what: ContentKind, missing: list[int], identity: Sequence[str], digests: list[bytes]
    ) -> Iterator[tuple[int, str]]:
        """Why each of these is not there, as far as the log tells."""
        wanted, others = {digests[row] for row in missing}, dict[bytes, str]()
        kinds, batches = dict[str, set[str]](), self.arrivals.batches
        with _naming(self.ledger):
            for batch, here in zip(batches, read_digests(self.ledger, batches), strict=True):
                kinds.setdefault(batch.payee, set()).add(batch.content["what"])
                for each in wanted.intersection(here):
                    others.setdefault(each, f"entry {batch.number} has it from {batch.payee!r}")
        for row in missing:
            who = identity[row]
            reason = "not in the intake log under this identity"
            if digests[row] in others:
                reason += f": {others[digests[row]]}"
            elif who in kinds and what not in kinds[who]:
                reason += f": it holds {' and '.join(sorted(kinds[who]))} of {who!r}, and this run reads {what}"
            yield row, reason


@contextmanager
def _naming(ledger: Ledger) -> Iterator[None]:
    """What is wrong with a log is told with where it is: a run may have a ledger besides."""
    try:
        yield
    except LedgerError as error:
        raise LedgerError(f"the intake log {ledger.where!r}: {error}") from error


def require_received(
    unlogged: dict[int, str], ids: Sequence[str], identity: Sequence[str], log: IntakeLog
) -> None:
    """Refuse units that are not in the log, by name."""
    if not unlogged:
        return
    names = listed(
        (
            f"{visible(ids[i])!r} of {visible(identity[i])!r} ({visible(why, 200)})"
            for i, why in unlogged.items()
        ),
        _FEW,
        "; ",
    )
    raise SubmissionError(
        f"{counted(len(unlogged), 'unit')} of {len(ids):,} cannot be dated by the intake log {log.ledger.where!r}: "
        f"{names}. Enter what arrived (datamarket intake add; it counts from then on), correct identity, label or "
        "content to what was handed in, or set these units aside with --quarantine"
    )
