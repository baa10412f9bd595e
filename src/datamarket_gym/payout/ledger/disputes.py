"""Disputes: who says that a run is wrong about them, what was decided, and what follows for the next runs.

All of it is read from entries of the ledger, from the first to the last:

``dispute``   {"number", "about", "units", "against", "holds"}: a payee of ``run`` disputes it. Numbers count from 1.
``resolved``  {"number", "outcome", "why", "overrides", "corrections"}: upheld, rejected or withdrawn.
``revoked``   {"number", "why"}: the overrides of an upheld dispute end; corrections stay, for money has moved.

While a dispute is open, its run is approved only despite it (`open_disputes`, a warning). What an upheld one unties or
ties stands in all later runs until it is revoked (`Disputes.overrides`).
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from datamarket_gym.display import counted, listed
from datamarket_gym.payout.ledger.entries import APPROVED, LedgerEntry, LedgerError, RunRecord
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.operator_evidence import Override
from datamarket_gym.payout.warnings import UnresolvedWarning

if TYPE_CHECKING:
    from datamarket_gym.payout.ledger.balances import Accounts


OUTCOMES = ("upheld", "rejected", "withdrawn")
_SHORT, _FEW = 200, 3  # characters of what people wrote, and names, in a line


@dataclass(frozen=True)
class Resolution:
    """How a dispute ended."""

    outcome: str
    why: str
    by: str
    at: str
    entry: int
    overrides: tuple[Override, ...] = ()
    corrections: tuple[int, ...] = ()  # numbers of the entries that move money for it


@dataclass(frozen=True)
class Dispute:
    """One dispute, as the ledger has it now."""

    number: int
    run: str
    payee: str
    about: str
    units: tuple[str, ...]
    against: str
    holds: tuple[str, ...]  # whose payments were held for it when it was opened
    by: str
    at: str
    entry: int
    resolution: Resolution | None = None
    revoked: LedgerEntry | None = None

    @property
    def open(self) -> bool:
        """Whether nothing was decided yet."""
        return self.resolution is None

    @property
    def state(self) -> str:
        """Open, or what was decided."""
        if self.resolution is None:
            return "open"
        return self.resolution.outcome + (", override revoked" if self.revoked else "")

    @property
    def upheld_at(self) -> int:
        """The number of the entry that upheld it; 0 where none did."""
        decided = self.resolution
        return decided.entry if decided is not None and decided.outcome == "upheld" else 0

    @property
    def changes_runs(self) -> bool:
        """Whether later runs untie or tie something by it, or did until it was revoked."""
        return self.resolution is not None and bool(self.resolution.overrides)

    @property
    def hold_reason(self) -> str:
        """Why payments are held for it."""
        return f"dispute {self.number}: {self.about}"


class DisputeError(LedgerError):
    """A dispute that does not exist, is decided already, or cannot have the effect that was asked for."""


@dataclass
class Disputes:
    """All disputes of a ledger, by number."""

    by_number: dict[int, Dispute] = field(default_factory=dict)

    def after(self, entry: LedgerEntry) -> None:
        """Take up the next entry; kinds that are no matter of disputes change nothing."""
        content = entry.content
        if entry.kind == "dispute":
            number = content["number"]
            if number != self.next_number:
                raise DisputeError(
                    f"entry {entry.number} opens dispute {number}, and the next one is {self.next_number}; "
                    "the ledger was not written by this program"
                )
            self.by_number[number] = Dispute(
                number, entry.run, entry.payee, content["about"], tuple(content["units"]), content["against"],
                tuple(content["holds"]), entry.by, entry.at, entry.number,
            )  # fmt: skip
        elif entry.kind == "resolved":
            found = self._of(entry, self.unresolved(content["number"]))
            overrides = tuple(Override.model_validate(each) for each in content["overrides"])
            decided = Resolution(
                content["outcome"], content["why"], entry.by, entry.at, entry.number, overrides,
                tuple(content["corrections"]),
            )  # fmt: skip
            if decided.outcome not in OUTCOMES or (
                decided.outcome != "upheld" and (overrides or decided.corrections)
            ):
                raise DisputeError(f"a dispute that is {decided.outcome!r} has no effect")
            self.by_number[found.number] = replace(found, resolution=decided)
        elif entry.kind == "revoked":
            found = self._of(entry, self.standing(content["number"]))
            self.by_number[found.number] = replace(found, revoked=entry)

    def _of(self, entry: LedgerEntry, dispute: Dispute) -> Dispute:
        if (entry.run, entry.payee) != (dispute.run, dispute.payee):
            raise DisputeError(
                f"dispute {dispute.number} is not about run {entry.run[:16]} of {entry.payee!r}"
            )
        return dispute

    @property
    def next_number(self) -> int:
        """The number of the next dispute."""
        return len(self.by_number) + 1

    @property
    def open(self) -> list[Dispute]:
        """Those that nobody has decided yet."""
        return [dispute for dispute in self.by_number.values() if dispute.open]

    def require_standing(self, taken: Sequence[Mapping[str, Any]]) -> None:
        """Refuse a run that takes an override from the ledger which no dispute has decided, or one that was revoked."""
        decided = {_but_names(o): o for o in self.overrides}
        for each in (Override.model_validate(plain) for plain in taken):
            whole = decided.get(_but_names(each))
            named = set(each.units or each.identities)
            if whole is None or not named <= set(whole.units or whole.identities):
                raise DisputeError(
                    f"the run takes a {each.action} from the ledger by dispute {each.dispute} that does "
                    f"not stand there "
                    "(any more); pay again, into another folder"
                )

    @property
    def overrides(self) -> list[Override]:
        """What upheld disputes untie and tie in every run from now on that has the units and identities (`fitting`)."""
        return [
            override
            for dispute in self.by_number.values()
            if dispute.resolution is not None and dispute.revoked is None
            for override in dispute.resolution.overrides
        ]

    def numbered(self, number: int) -> Dispute:
        """A dispute by its number."""
        if number not in self.by_number:
            there = f"there are 1 to {len(self.by_number)}" if self.by_number else "it holds none"
            raise DisputeError(
                f"the ledger holds no dispute {number} ({there}); datamarket dispute list shows them"
            )
        return self.by_number[number]

    def unresolved(self, number: int) -> Dispute:
        """An open dispute by its number; a decided one is an error that shows the decision."""
        found = self.numbered(number)
        if (first := found.resolution) is not None:
            raise DisputeError(
                f"dispute {number} was {first.outcome} by {visible(first.by)} on {first.at[:10]} (entry {first.entry}: "
                f"{visible(first.why, _SHORT)}); a decision stands: open another dispute if it was wrong"
            )
        return found

    def standing(self, number: int) -> Dispute:
        """A dispute whose overrides hold for the next runs."""
        found = self.numbered(number)
        if found.resolution is None or not found.resolution.overrides:
            raise DisputeError(
                f"dispute {number} is {found.state} and has no override that could be revoked"
            )
        if found.revoked is not None:
            raise DisputeError(
                f"the override of dispute {number} was revoked by {visible(found.revoked.by)} on "
                f"{found.revoked.at[:10]} (entry {found.revoked.number}) already"
            )
        return found


def dispute_warnings(accounts: Accounts, run: str) -> list[UnresolvedWarning]:
    """What disputes have to say before a run is approved: those that are open, and decisions that it does not heed."""
    concern = [d for d in accounts.disputes.by_number.values() if _concerns(accounts, d, run)]
    undecided = [
        f"dispute {d.number} of “{visible(d.payee)}”"
        + (f" against “{visible(d.against)}”" if d.against else "")
        + f", about {_which(d, run)}: {visible(d.about, _SHORT)}"
        for d in concern
        if d.open
    ]
    unheeded = [
        f"dispute {d.number} of “{visible(d.payee)}” was {word} after this run was worked out{_effect(d)}"
        for d in accounts.disputes.by_number.values()
        if (word := _unheeded(accounts.runs[run], d, concerned=d in concern))
    ]
    if not undecided and not unheeded:
        return []
    told = [counted(len(undecided), "dispute is", "disputes are") + " open"] if undecided else []
    if unheeded:
        told.append(counted(len(unheeded), "decision is", "decisions are") + " newer than this run")
    return [
        UnresolvedWarning.of(
            "disputes",
            " and ".join(told),
            "Look into what is open, then: datamarket dispute resolve RUN/ --number N --outcome upheld, rejected or "
            "withdrawn --why TEXT. Where a payee is right, and where a decision is newer than the run, pay again, into "
            "another folder: the new run heeds it. Only a decision about units or names that the run does not have "
            "changes nothing in it.",
            [*undecided, *unheeded],
        )
    ]


def _concerns(accounts: Accounts, dispute: Dispute, run: str) -> bool:
    """Whether a dispute is about a run, or about a draft whose place the run takes.

    It takes the place of a draft that it supersedes, and of one that was entered before it for the same period in the
    same currency: paying again is no way around a dispute.
    """
    about, this = accounts.runs[dispute.run], accounts.runs[run]
    for _ in accounts.runs:  # no chain is longer
        if about.run != run and about.superseded and about.superseded[0] in accounts.runs:
            about = accounts.runs[about.superseded[0]]
    if about.run == run:
        return True
    later = this.history[0].number > about.history[0].number
    same = about.period and (about.period, about.currency) == (this.period, this.currency)
    theirs = any(line.identity == dispute.payee for line in this.lines)
    return bool(later and same and about.state not in APPROVED and theirs)


def _unheeded(run: RunRecord, dispute: Dispute, *, concerned: bool) -> str:
    """What was decided since a run was worked out, and is not in it: ``upheld``, ``revoked``, or nothing."""
    taken = dispute.number in {override["dispute"] for override in run.standing}
    if dispute.revoked is not None:
        return "revoked" if taken else ""
    newer = dispute.upheld_at > run.history[0].number
    return "upheld" if newer and (concerned or dispute.changes_runs) else ""


def _effect(dispute: Dispute) -> str:
    decided = dispute.resolution.overrides if dispute.resolution is not None else ()
    told = [f"{o.action} of {listed(map(visible, o.units or o.identities), _FEW)}" for o in decided]
    return f" ({'; '.join(told)})" if told else ""


def _which(dispute: Dispute, run: str) -> str:
    return "it" if dispute.run == run else f"the draft {dispute.run[:16]}, whose place it takes"


def make_override(
    dispute: Dispute, action: str, kind: str, names: Sequence[str], why: str, by: str, day: datetime.date
) -> Override:
    """What an upheld dispute unties (``split``) or ties (``join``): ``units`` or ``identities``."""
    return Override.model_validate(
        {
            "action": action,
            kind: list(dict.fromkeys(names)),
            "reason": f"dispute {dispute.number} of {dispute.payee}, upheld: {why}",
            "by": by,
            "date": day,
            "dispute": dispute.number,
        }
    )


def select_overrides(
    overrides: Iterable[Override], units: Collection[str], identities: Collection[str]
) -> tuple[list[Override], list[str]]:
    """Standing overrides as far as a run has the units and identities they name, and a line on each that is left out.

    A split keeps those that are there; a join needs two of them.
    """
    there: Mapping[str, frozenset[str]] = {
        "units": frozenset(units),
        "identities": frozenset(identities),
    }
    kept, told = [], []
    for each in overrides:
        kind = "units" if each.units else "identities"
        names: list[str] = getattr(each, kind)
        present = [name for name in names if name in there[kind]]
        if missing := [name for name in names if name not in there[kind]]:
            few = listed(map(visible, missing), _FEW)
            told.append(
                f"dispute {each.dispute}: the {each.action} of {kind} leaves out {few}, not in this run"
            )
        if len(present) >= (2 if each.action == "join" else 1):
            kept.append(each.model_copy(update={kind: present}))
    return kept, told


def _but_names(override: Override) -> tuple[object, ...]:
    kind = "units" if override.units else "identities"
    return (override.dispute, override.action, kind, override.reason, override.by, override.date)
