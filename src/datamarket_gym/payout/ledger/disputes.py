"""Opening disputes, deciding them, and ending what was decided: each is one transaction of the ledger.

While a dispute is open, its run is approved only if the warning is accepted. What an upheld one splits or joins holds
in all later runs until it is revoked.
"""

from __future__ import annotations

import datetime
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from datamarket_gym.errors import ParameterError, RunError, require_choice, require_known
from datamarket_gym.payout.ledger.balances import OUTCOMES, Accounts, Dispute, DisputeError
from datamarket_gym.payout.ledger.entries import APPROVED, LedgerEntry, RunRecord, describe_state
from datamarket_gym.payout.ledger.runs import ledger_at, ledger_of, run_folder, run_of, write_receipt
from datamarket_gym.payout.ledger.store import Ledger, Transaction, is_readable
from datamarket_gym.payout.ledger.transactions import decide, require_payee
from datamarket_gym.payout.manifest import KNOWN, UNITS
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.settings import option
from datamarket_gym.payout.unit_payments import FAILED, FALSE, UnitPayment, read_units
from datamarket_gym.registry import Document

_LONGEST = 4000  # characters of a text


class DisputeRequest(Document):
    """Request of a payee to dispute a run, or units of it."""

    payee: str = option("Who disputes the run: a payee of it.", ...)
    about: str = option("What is wrong, in the payee's words.", ...)
    units: tuple[str, ...] = option("A unit that the dispute is about; repeatable.", (), option="unit")
    against: str = option("Another payee whom the dispute is about.", "")
    hold: bool = option("Send the payee nothing until it is decided.", False)
    hold_against: bool = option("Send the other payee nothing until it is decided.", False)


class Effects(Document):
    """Consequences of an upheld dispute."""

    correction: str = option("Owe the payee this much more, in the run's currency.", "")
    taken_from: str = option(
        "The payee who is owed that much less; the market if left out.", "", option="from"
    )
    separate_units: tuple[str, ...] = option(
        "Match this unit with no other in later runs; repeatable.", (), option="separate"
    )
    separate_payees: tuple[str, ...] = option(
        "Pay this name apart from others in later runs; repeatable.", (), option="separate-payee"
    )
    join_units: tuple[str, ...] = option(
        "Match these units in later runs; repeat it for each.", (), option="join"
    )
    join_payees: tuple[str, ...] = option(
        "Pay these names as one payee in later runs; repeat it for each.", (), option="join-payee"
    )


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
    about = _one_line("about", about)
    if hold_against and not against:
        raise ParameterError(
            "hold-against", hold_against, "say whose payments are meant: --against NAME"
        )
    with ledger.transaction(by) as transaction:
        accounts = transaction.accounts
        record = accounts.required(run)
        _require_payee_of(record, payee, *([against] if against else []))
        if against == payee:
            raise ParameterError("against", against, "that is the payee itself; name another, or none")
        if record.state == "superseded":
            place = f" in {record.superseded[1]!r}" if record.superseded else ""
            raise DisputeError(
                f"run {run[:16]} pays no one, for another{place} has taken its place; open the dispute on that one, "
                "which has all units of this one"
            )
        _require_new(accounts, run, payee, units)
        holds = [name for name, wanted in ((payee, hold), (against, hold_against)) if wanted]
        for name in holds:
            if record.state == "paid" and not accounts.payable[name, record.currency]:
                raise DisputeError(
                    f"run {run[:16]} is paid, and {visible(name)!r} is owed nothing that could be held; open the "
                    "dispute without a hold: if it is upheld, a correction can be entered"
                )
        number = accounts.disputes.next_number
        content = {
            "number": number, "about": about, "units": list(dict.fromkeys(units)), "against": against,
            "holds": holds,
        }  # fmt: skip
        transaction.add("dispute", run=run, payee=payee, content=content)
        dispute = accounts.disputes.numbered(number)
        for name in holds:
            if name not in accounts.holds:  # else they are held for another reason, which goes on
                _hold(transaction, name, dispute)
    return dispute


def _require_new(accounts: Accounts, run: str, payee: str, units: Sequence[str]) -> None:
    """Refuse a second dispute of a payee about a unit that is being decided or was paid for, which would pay twice."""
    for other in accounts.disputes.by_number.values():
        same = sorted(set(units).intersection(other.units))
        if not same or (other.run, other.payee) != (run, payee):
            continue
        paid = other.resolution is not None and other.resolution.corrections
        if other.open or paid:
            remedy = (
                "another amount is a correction: datamarket ledger correct"
                if paid
                else "decide that one"
            )
            raise DisputeError(
                f"dispute {other.number} of {visible(payee)!r} is about {visible(same[0])!r}, too, and is "
                f"{'open' if other.open else 'upheld with a correction'}; {remedy}"
            )


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
    why = _one_line("why", why)
    effects = effects or Effects()
    if outcome != "upheld" and effects != Effects():
        raise DisputeError(
            f"a dispute that is {outcome} has no effect; leave corrections and overrides out"
        )
    if effects.taken_from and not effects.correction:
        raise ParameterError("from", effects.taken_from, "say how much is taken: --correction AMOUNT")
    with ledger.transaction(by) as transaction:
        accounts = transaction.accounts
        dispute = accounts.disputes.unresolved(number)
        overrides = _overrides(accounts, dispute, effects, why, transaction.by, units)
        corrections = _correct(transaction, dispute, effects, why) if effects.correction else []
        if any(entry.kind == "proposed" for entry in corrections):
            return dispute  # it is decided when another person asks for the same
        content = {
            "number": number, "outcome": outcome, "why": why,
            "overrides": [override.model_dump(mode="json") for override in overrides],
            "corrections": [entry.number for entry in corrections],
        }  # fmt: skip
        transaction.add("resolved", run=dispute.run, payee=dispute.payee, content=content)
        for name in dispute.holds:
            _release(transaction, name, dispute)
        return accounts.disputes.numbered(number)


def revoke_dispute(ledger: Ledger, number: int, why: str, *, by: str | None = None) -> Dispute:
    """End what an upheld dispute splits and joins in later runs; corrections stay."""
    content = {"number": number, "why": _one_line("why", why)}
    with ledger.transaction(by) as transaction:
        disputes = transaction.accounts.disputes
        dispute = disputes.revocable(number)
        transaction.add("revoked", run=dispute.run, payee=dispute.payee, content=content)
        return disputes.numbered(number)


def _overrides(
    accounts: Accounts,
    dispute: Dispute,
    effects: Effects,
    why: str,
    by: str,
    units: Collection[str] | None,
) -> list[Override]:
    overrides = []
    for action, kind, names in (
        ("split", "units", effects.separate_units),
        ("split", "identities", effects.separate_payees),
        ("join", "units", effects.join_units),
        ("join", "identities", effects.join_payees),
    ):
        if not names:
            continue
        if kind == "identities":
            require_payee(accounts, *names)
        elif units is not None:
            require_known("unit", names, units)
        elif strange := [name for name in names if name not in dispute.units]:
            raise DisputeError(
                f"dispute {dispute.number} does not name the unit {visible(strange[0])!r}; give the folder of the run "
                "instead of the ledger, so that it can be looked up"
            )
        override = {
            "action": action, kind: list(dict.fromkeys(names)), "by": by, "dispute": dispute.number,
            "reason": f"dispute {dispute.number} of {dispute.payee}, upheld: {why}",
            "date": datetime.datetime.now(datetime.UTC).date(),
        }  # fmt: skip
        try:
            overrides.append(Override.model_validate(override))
        except ValidationError as error:
            parameter = "separate" if action == "split" else "join"
            raise ParameterError(parameter, list(names), error.errors()[0]["msg"]) from error
    return overrides


def _correct(
    transaction: Transaction, dispute: Dispute, effects: Effects, why: str
) -> list[LedgerEntry]:
    record = transaction.accounts.required(dispute.run)
    if record.state not in APPROVED:
        raise DisputeError(
            f"run {record.run[:16]} is {describe_state(record.state)}: nothing of it was paid that could be corrected. "
            "Uphold the dispute without --correction (with --separate or --join, if that is what was wrong), and pay "
            "again"
        )
    amount, other = Currency(record.currency).minor(effects.correction), effects.taken_from
    source = f"taken from {other}" if other else "paid by the market"
    changes = [(dispute.payee, amount, source)]
    if other:
        _require_payee_of(record, other)
        if other == dispute.payee:
            raise ParameterError("from", other, "the correction is for that payee; name another one")
        _require_enough(transaction.accounts, record, other, amount)
        changes.append((other, -amount, f"given to {dispute.payee}"))
    entries = []
    for payee, change, note in changes:
        # The payment to the payee; where the run pays it nothing, the entry by which the run was approved.
        own = [e for e in record.history if e.kind == "payment" and e.payee == payee]
        corrected = (own or [e for e in record.history if e.kind == "approved"])[0]
        content = {
            "of": corrected.number, "dispute": dispute.number,
            "why": f"dispute {dispute.number}, upheld: {why} ({note})",
        }  # fmt: skip
        entries.append(
            decide(transaction, "correction", payee, record.currency, change, content, run=record.run)
        )
    return entries


def _require_enough(accounts: Accounts, record: RunRecord, payee: str, amount: int) -> None:
    """Refuse to take more from a payee than the run, with its corrections, has left it."""
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


def _hold(transaction: Transaction, payee: str, dispute: Dispute) -> None:
    content = {"why": dispute.hold_reason, "dispute": dispute.number}
    transaction.add("hold", run=dispute.run, payee=payee, content=content)


def _release(transaction: Transaction, payee: str, dispute: Dispute) -> None:
    if transaction.accounts.holds.get(payee) != dispute.hold_reason:
        return
    content = {"why": f"dispute {dispute.number} was decided", "dispute": dispute.number}
    transaction.add("release", run=dispute.run, payee=payee, content=content)
    other = next((d for d in transaction.accounts.disputes.open if payee in d.holds), None)
    if other is not None:
        _hold(transaction, payee, other)


def _one_line(parameter: str, text: str) -> str:
    """Return a text on one line; nothing, too much and what no file can hold is refused."""
    line = " ".join(text.split())
    if not line or len(line) > _LONGEST:
        raise ParameterError(parameter, visible(line), f"write 1 to {_LONGEST:,} characters")
    if bad := next((c for c in line if unicodedata.category(c) in ("Cc", "Cs")), ""):
        raise ParameterError(
            parameter, visible(line), f"it holds the control character U+{ord(bad):04X}; remove it"
        )
    return line


def _require_payee_of(record: RunRecord, *names: str) -> None:
    require_known("payee of this run", names, {line.identity for line in record.lines})


def open_on_run(run: Path, asked: DisputeRequest, by: str | None = None) -> tuple[Dispute, list[str]]:
    """Open a dispute about the run of a folder, whose units it may name; also return what to say of it."""
    ledger, record = ledger_of(run), run_of(run)
    while record.superseded is not None:  # a check failed: what took its place has all units of it
        run = Path(record.superseded[1])
        record = run_of(run)
    if asked.units:
        require_known("unit of this run", asked.units, _units_of(run))
    dispute = open_dispute(ledger, record.run, **dict(asked), by=by)
    accounts = ledger.accounts()
    write_receipt(run, ledger, accounts)
    messages = earnings_messages(accounts, run, asked.units)
    if dispute.holds:
        messages.append(f"held until it is decided: {', '.join(map(visible, dispute.holds))}")
    for name in dispute.holds:
        if ordered := accounts.outgoing[name, record.currency]:
            messages.append(
                f"{record.currency} {Currency(record.currency).text(ordered)} to {visible(name)} are ordered at the "
                "bank already, and not held: stop them there, then: datamarket ledger cancel"
            )
    if record.state not in APPROVED:
        messages.append("the run is approved only with --accept disputes")
    return dispute, messages


def resolve_at(
    where: str, number: int, outcome: str, why: str, effects: Effects, by: str | None
) -> tuple[Ledger, Dispute, list[str]]:
    """Decide a dispute of the ledger at a path or an address; also return what its units would have earned."""
    ledger, folder = ledger_at(where), run_folder(where)
    accounts = ledger.accounts()
    disputed = accounts.disputes.numbered(number)
    place = folder or Path(accounts.runs[disputed.run].places.get("run", ""))
    there = is_readable(place / UNITS) and run_of(place, accounts).run == disputed.run
    units = _units_of(place) if there else None
    dispute = resolve_dispute(ledger, number, outcome, why, effects, units=units, by=by)
    if folder is not None:
        write_receipt(folder, ledger, ledger.accounts())
    return ledger, dispute, earnings_messages(accounts, place, dispute.units) if there else []


def revoke_at(where: str, number: int, why: str, by: str | None) -> None:
    ledger, folder = ledger_at(where), run_folder(where)
    revoke_dispute(ledger, number, why, by=by)
    if folder is not None:
        write_receipt(folder, ledger, ledger.accounts())


def _units_of(run: Path) -> set[str]:
    """Return the units that a run's disputes may name: all that were submitted, and earlier ones as overrides do."""
    import pyarrow.parquet as pq

    try:
        units = {row.unit for row in read_units(run / UNITS) if row.unit}
        if (run / KNOWN).is_file():
            table = pq.read_table(run / KNOWN, columns=["matched_to"])
            units |= set(map(str, table["matched_to"].to_pylist()))
    except (OSError, KeyError, ValueError) as error:
        raise RunError(
            f"the units of {str(run)!r} cannot be read: {error}; run: datamarket verify {run}"
        ) from error
    return units


def earnings_messages(accounts: Accounts, run: Path, units: Sequence[str]) -> list[str]:
    """Say what units earned, or would have earned: in the place of the unit that they match, or before the checks."""
    record, rows = run_of(run, accounts), read_units(run / UNITS) if units else []
    own = {row.unit: row for row in rows}
    before = [
        Path(other.places.get("run", "")) / UNITS
        for other in accounts.runs.values()
        if other.superseded is not None and other.superseded[0] == record.run
    ]
    drafts = [{row.unit: row for row in read_units(path)} for path in before if is_readable(path)]
    messages, money = [], Currency(record.currency)
    for unit in units:
        if (row := own.get(unit)) is None:
            continue
        earnings = (
            f"{visible(unit)} of {visible(row.payee)} earned {money.code} {money.shown(row.amount)}"
        )
        if not row.amount:
            earnings = f"{visible(unit)} of {visible(row.payee)} earned nothing: {row.reason}"
            cluster = [each for each in rows if row.cluster and each.cluster == row.cluster]
            earned = [
                (draft[unit].amount, "in the draft before the checks it earned")
                for draft in drafts
                if unit in draft
            ]
            if other := own.get(row.matched_to):
                earned = [(
                    sum(each.amount for each in cluster),
                    f"in the place of {visible(other.unit)} of {visible(other.payee)} it would have earned",
                )]  # fmt: skip
            earnings += "".join(
                f"; {place} {money.code} {money.shown(minor)}" for minor, place in earned
            )
            if drafts and row.reason in (FALSE, FAILED):
                lost = sum(_earned(draft.values(), row.payee) for draft in drafts)
                lost -= _earned(rows, row.payee)
                earnings += f"; all that its payee forfeited is {money.code} {money.shown(lost)}"
        messages.append(earnings)
    return messages


def _earned(rows: Iterable[UnitPayment], payee: str) -> int:
    return sum(row.amount for row in rows if row.payee == payee)
