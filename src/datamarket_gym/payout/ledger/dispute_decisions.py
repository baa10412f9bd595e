"""Opening disputes, deciding them, and ending what was decided: each is one page of the ledger, whole or not at all.

Disputes by the folder of a run, or by its ledger: units are looked up in the folder, which notes what was entered.
"""

from __future__ import annotations

import datetime
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from datamarket_gym.errors import ParameterError, RunError, require_choice, require_known
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.disputes import OUTCOMES, Dispute, DisputeError, make_override
from datamarket_gym.payout.ledger.entries import APPROVED, LedgerEntry, RunRecord, describe_state
from datamarket_gym.payout.ledger.integrity import (
    ledger_at,
    ledger_of,
    run_folder,
    run_of,
    write_receipt,
)
from datamarket_gym.payout.ledger.store import Ledger, Transaction, user
from datamarket_gym.payout.ledger.transactions import decide, known_payees
from datamarket_gym.payout.manifest import KNOWN
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.operator_evidence import Override

_LONGEST = 4000  # characters of a text


@dataclass(frozen=True)
class Effects:
    """What an upheld dispute brings about: money, and what later runs tie and untie."""

    correction: str = ""  # an amount in the run's currency, added to what the payee is owed
    taken_from: str = ""  # the payee who is owed so much less; the market pays it, if empty
    separate_units: tuple[str, ...] = ()
    separate_payees: tuple[str, ...] = ()
    join_units: tuple[str, ...] = ()
    join_payees: tuple[str, ...] = ()

    @property
    def named(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """(action, kind, names) of each override that is asked for."""
        asked = (
            ("split", "units", self.separate_units),
            ("split", "identities", self.separate_payees),
            ("join", "units", self.join_units),
            ("join", "identities", self.join_payees),
        )
        return [each for each in asked if each[2]]


def open_dispute(
    ledger: Ledger,
    run: str,
    payee: str,
    about: str,
    *,
    units: Sequence[str] = (),
    against: str = "",
    hold: bool = False,
    hold_against: bool = False,
    by: str | None = None,
) -> Dispute:
    """Enter that a payee of a run disputes it; ``hold`` keeps its payments back, ``hold_against`` the other's."""
    about = _written("about", about)
    if hold_against and not against:
        raise ParameterError(
            "hold-against", hold_against, "say whose payments are meant: --against NAME"
        )
    with ledger.transaction() as transaction:
        record = transaction.accounts.required(run)
        for name in (payee, *([against] if against else [])):
            _require_payee(record, name)
        if against == payee:
            raise ParameterError(
                "against", against, "that is the payee itself; name somebody else, or nobody"
            )
        if record.state == "superseded":
            raise DisputeError(
                f"run {run[:16]} pays nobody, for another has taken its place; open the dispute on that one"
            )
        held = [name for name, wanted in ((payee, hold), (against, hold_against)) if wanted]
        for name in held:
            if record.state == "paid" and not transaction.accounts.payable[name, record.currency]:
                raise DisputeError(
                    f"run {run[:16]} is paid, and {visible(name)!r} is owed nothing that could be held; open the "
                    "dispute without a hold: if it is upheld, a correction can be entered"
                )
        number = transaction.accounts.disputes.next_number
        transaction.add(
            "dispute",
            run=run,
            payee=payee,
            by=by,
            content={
                "number": number, "about": about, "units": list(dict.fromkeys(units)), "against": against,
                "holds": held,
            },
        )  # fmt: skip
        dispute = transaction.accounts.disputes.numbered(number)
        for name in held:
            if (
                name not in transaction.accounts.holds
            ):  # else they are held for another reason, which goes on
                _hold(transaction, name, dispute, by)
    return dispute


def resolve_dispute(
    ledger: Ledger,
    number: int,
    outcome: str,
    why: str,
    effects: Effects | None = None,
    *,
    units: Collection[str] | None = None,
    by: str | None = None,
) -> Dispute:
    """Decide a dispute, with all that follows from it; holds for it end.

    ``units`` are those of the run, by which names of units are checked; None where its folder is not at hand.
    """
    require_choice("outcome", outcome, OUTCOMES)
    why = _written("why", why)
    effects = effects or Effects()
    if outcome != "upheld" and effects != Effects():
        raise DisputeError(
            f"a dispute that is {outcome} has no effect; leave corrections and overrides out"
        )
    if effects.taken_from and not effects.correction:
        raise ParameterError("from", effects.taken_from, "say how much is taken: --correction AMOUNT")
    with ledger.transaction() as transaction:
        dispute = transaction.accounts.disputes.unresolved(number)
        record = transaction.accounts.required(dispute.run)
        overrides = _overrides(transaction.accounts, dispute, effects, why, by or user(), units)
        corrected = (
            _corrected(transaction, dispute, record, effects, why, by) if effects.correction else []
        )
        if any(entry.kind == "proposed" for entry in corrected):
            return dispute  # it is decided when somebody else asks for the same
        corrections = [entry.number for entry in corrected]
        transaction.add(
            "resolved",
            run=dispute.run,
            payee=dispute.payee,
            by=by,
            content={
                "number": number, "outcome": outcome, "why": why,
                "overrides": [each.model_dump(mode="json") for each in overrides], "corrections": corrections,
            },
        )  # fmt: skip
        for name in dispute.holds:
            _release(transaction, name, dispute, by)
        return transaction.accounts.disputes.numbered(number)


def revoke_dispute(ledger: Ledger, number: int, why: str, *, by: str | None = None) -> Dispute:
    """End what an upheld dispute unties and ties in later runs; corrections stay."""
    why = _written("why", why)
    with ledger.transaction() as transaction:
        dispute = transaction.accounts.disputes.standing(number)
        transaction.add(
            "revoked",
            run=dispute.run,
            payee=dispute.payee,
            by=by,
            content={"number": number, "why": why},
        )
        return transaction.accounts.disputes.numbered(number)


def _overrides(
    accounts: Accounts,
    dispute: Dispute,
    effects: Effects,
    why: str,
    by: str,
    units: Collection[str] | None,
) -> list[Override]:
    day = datetime.datetime.now(datetime.UTC).date()
    made = []
    for action, kind, names in effects.named:
        if kind == "identities":
            require_known("payee", names, known_payees(accounts))
        elif units is not None:
            require_known("unit", names, units)
        elif strange := [name for name in names if name not in dispute.units]:
            raise DisputeError(
                f"dispute {dispute.number} does not name the unit {visible(strange[0])!r}; give the folder of the run "
                "instead of the ledger, so that it can be looked up"
            )
        try:
            made.append(make_override(dispute, action, kind, names, why, by, day))
        except ValidationError as error:
            raise ParameterError(
                {"split": "separate", "join": "join"}[action], list(names), error.errors()[0]["msg"]
            ) from error
    return made


def _corrected(
    transaction: Transaction,
    dispute: Dispute,
    record: RunRecord,
    effects: Effects,
    why: str,
    by: str | None,
) -> list[LedgerEntry]:
    """Enter the correction and, where somebody else pays for it, its opposite; or that somebody asks for both."""
    if record.state not in APPROVED:
        raise DisputeError(
            f"run {record.run[:16]} is {describe_state(record.state)}: nothing of it was paid that could "
            f"be corrected. Uphold "
            "the dispute without --correction (with --separate or --join, if that is what was wrong), and pay again"
        )
    amount = Currency(record.currency).minor(effects.correction)
    changes = [(dispute.payee, amount)]
    if effects.taken_from:
        _require_payee(record, effects.taken_from)
        if effects.taken_from == dispute.payee:
            raise ParameterError(
                "from", effects.taken_from, "that is whom the correction is for; name somebody else"
            )
        _require_enough(transaction.accounts, record, effects.taken_from, amount)
        changes.append((effects.taken_from, -amount))
    whence = f"taken from {effects.taken_from}" if effects.taken_from else "paid by the market"
    told = {dispute.payee: whence, effects.taken_from: f"given to {dispute.payee}"}
    return [
        decide(
            transaction,
            "correction",
            who,
            record.currency,
            change,
            {
                "of": _corrects(record, who).number,
                "why": f"dispute {dispute.number}, upheld: {why} ({told[who]})",
                "dispute": dispute.number,
            },
            run=record.run,
            by=by,
        )
        for who, change in changes
    ]


def _corrects(record: RunRecord, payee: str) -> LedgerEntry:
    """The payment of a run to a payee; where it pays them nothing, the entry by which it was approved."""
    own = [e for e in record.history if e.kind == "payment" and e.payee == payee]
    return (own or [e for e in record.history if e.kind == "approved"])[0]


def _require_enough(accounts: Accounts, record: RunRecord, payee: str, amount: int) -> None:
    """Refuse to take more from somebody than the run, with its corrections, has left them."""
    left = sum(
        entry.amount
        for entry in accounts.entries
        if entry.kind in ("payment", "correction") and (entry.run, entry.payee) == (record.run, payee)
    )
    if amount > left:
        text = Currency(record.currency).text
        raise DisputeError(
            f"run {record.run[:16]} paid {visible(payee)!r} {record.currency} {text(max(left, 0))}, corrections "
            f"counted, so that {text(amount)} cannot be taken back; take less, or let the market pay, without --from"
        )


def _hold(transaction: Transaction, payee: str, dispute: Dispute, by: str | None) -> None:
    transaction.add(
        "hold",
        run=dispute.run,
        payee=payee,
        by=by,
        content={"why": dispute.hold_reason, "dispute": dispute.number},
    )


def _release(transaction: Transaction, payee: str, dispute: Dispute, by: str | None) -> None:
    """End the hold of a dispute, unless it was ended or replaced by hand; another dispute's takes its place."""
    if transaction.accounts.holds.get(payee) != dispute.hold_reason:
        return
    transaction.add(
        "release",
        run=dispute.run,
        payee=payee,
        by=by,
        content={"why": f"dispute {dispute.number} was decided", "dispute": dispute.number},
    )
    for other in transaction.accounts.disputes.open:
        if payee in other.holds:
            _hold(transaction, payee, other, by)
            return


def _written(parameter: str, text: str) -> str:
    """What somebody wrote, on one line; nothing, too much and what no file can hold is refused."""
    line = " ".join(text.split())
    if not line or len(line) > _LONGEST:
        raise ParameterError(parameter, visible(line), f"write 1 to {_LONGEST:,} characters")
    if bad := next((c for c in line if unicodedata.category(c) in ("Cc", "Cs")), ""):
        raise ParameterError(
            parameter, visible(line), f"it holds the control character U+{ord(bad):04X}; remove it"
        )
    return line


def _require_payee(record: RunRecord, name: str) -> None:
    require_known("payee of this run", [name], {line.identity for line in record.lines})


@dataclass(frozen=True)
class OpenedDispute:
    """A dispute, the state of its run, and what is to be said of payments that it holds."""

    dispute: Dispute
    state: str
    told: list[str]


def open_on_run(
    run: Path,
    payee: str,
    about: str,
    units: Sequence[str],
    against: str,
    hold: bool,
    hold_against: bool,
    by: str | None,
) -> OpenedDispute:
    """Enter a dispute about the run of a folder."""
    ledger, record = ledger_of(run), run_of(run)
    if units:
        require_known("unit of this run", units, units_of(run))
    dispute = open_dispute(
        ledger, record.run, payee, about, units=units, against=against, hold=hold, hold_against=hold_against, by=by
    )  # fmt: skip
    _noted(ledger, run)
    told = []
    if dispute.holds:
        told.append(f"held until it is decided: {', '.join(visible(name) for name in dispute.holds)}")
    ordered = ledger.accounts().outgoing
    for name in dispute.holds:
        if on_its_way := ordered[name, record.currency]:
            text = Currency(record.currency).text(on_its_way)
            told.append(
                f"{record.currency} {text} to {visible(name)} are ordered at the bank already, and not held: stop them "
                "there, then: datamarket ledger cancel"
            )
    return OpenedDispute(dispute, record.state, told)


def resolve_at(
    where: str, number: int, outcome: str, why: str, effects: Effects, by: str | None
) -> tuple[Ledger, Dispute]:
    """Decide a dispute; units are looked up in the run's folder, where that is named."""
    ledger, folder = ledger_at(where), run_folder(where)
    disputed = ledger.accounts().disputes.numbered(number)
    same = folder is not None and run_of(folder).run == disputed.run
    units = units_of(folder) if folder is not None and same else None
    dispute = resolve_dispute(ledger, number, outcome, why, effects, units=units, by=by)
    _noted(ledger, folder)
    return ledger, dispute


def revoke_at(where: str, number: int, why: str, by: str | None) -> None:
    """End what a dispute changes in later runs."""
    ledger, folder = ledger_at(where), run_folder(where)
    revoke_dispute(ledger, number, why, by=by)
    _noted(ledger, folder)


def units_of(run: Path) -> set[str]:
    """The names of all units of a run, those set aside included, and of earlier ones that some are tied to."""
    import pyarrow.parquet as pq

    columns = [("clusters.parquet", "unit"), ("leaks.parquet", "unit")]
    if (run / KNOWN).is_file():  # an earlier unit is named as overrides name it
        columns += [(KNOWN, "unit"), (KNOWN, "tied_to")]
    try:
        return {
            str(unit)
            for name, column in columns
            for unit in pq.read_table(run / name, columns=[column])[column].to_pylist()
        }
    except (OSError, KeyError, ValueError) as error:
        raise RunError(
            f"the units of {str(run)!r} cannot be read: {error}; run: datamarket verify {run}"
        ) from error


def _noted(ledger: Ledger, folder: Path | None) -> None:
    """The folder of a run notes the tip of the chain."""
    if folder is not None:
        write_receipt(folder, ledger, ledger.accounts())
