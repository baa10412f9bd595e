"""What the book itself has to say before a run is approved."""

from __future__ import annotations

from datamarket_gym.core.screen import counted
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.disputes import open_disputes
from datamarket_gym.payout.book.run_record import APPROVED, RunRecord
from datamarket_gym.payout.intake.times import ROLE as INTAKE
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.warnings import StandingWarning

_MUCH, _ALL = 0.1, 0.99  # parts of a run's units that were paid for before: told; all but a few


def book_warnings(accounts: Accounts, record: RunRecord) -> list[StandingWarning]:
    """Warnings that stand before the approval of a run, from what is in the book now."""
    return [
        *_unused_log(accounts, record),
        *_same_submissions(accounts, record),
        *_unnamed_prior(accounts, record),
        *_left_behind(record),
        *open_disputes(accounts, record.run),
    ]


def _unused_log(accounts: Accounts, record: RunRecord) -> list[StandingWarning]:
    """Batches were received here before the run was worked out, and its times are not from them."""
    before = [e for e in accounts.arrived.entries if e.number < record.history[0].number]
    if not before or INTAKE in record.places:
        return []
    return [
        StandingWarning.of(
            "unused_log",
            f"The book holds {counted(len(before), 'batch', 'batches')} with the time of receipt, and the run takes no "
            "times from there",
            "Whoever writes the table's times decides who was first, though you wrote down what arrived when. Pay with "
            "--intake and this book; units that are not in it are then refused by name.",
            count=len(before),
        )
    ]


def _same_submissions(accounts: Accounts, record: RunRecord) -> list[StandingWarning]:
    """The same table was paid for before, or units of it, under other settings, in another currency or format."""
    found = [
        (part, other)
        for other in accounts.runs.values()
        if other.run != record.run
        and other.state in APPROVED
        and (part := _part(record, other)) >= _MUCH
    ]
    if not found:
        return []
    most = max(part for part, _ in found)
    what = "the same submissions" if most > _ALL else f"about {most:.0%} of the units"
    return [
        StandingWarning.of(
            "same_submissions",
            f"{what} were paid for before",
            "Another run that is approved divides its amount by the same submissions, or by many of them. If it is the "
            "same payday, paid again under other settings, everybody is paid twice: do not approve this one. If units "
            "were submitted a second time, see by whom, and whether your market pays for them again: priced given that "
            "run (pay --prior), it does not.",
            [
                f"run {other.run[:16]} {other.period} ({other.state}), {other.currency} "
                f"{Currency(other.currency).text(other.amount)}: about {part:.0%} of the units of this run"
                for part, other in found
            ],
        )
    ]


def _unnamed_prior(accounts: Accounts, record: RunRecord) -> list[StandingWarning]:
    """A run that is priced given earlier ones, and not given all that the book has bought.

    Of one that names none: what was approved since it was worked out. Of what was there before, `pay` has told.
    """
    others = [
        other
        for other in accounts.runs.values()
        if other.state in APPROVED
        and other.run not in (record.run, *record.prior)
        and (record.prior or _approved(other) > record.history[0].number)
    ]
    if not others:
        return []
    return [
        StandingWarning.of(
            "unnamed_prior",
            f"{counted(len(others), 'approved run is', 'approved runs are')} not among those that this one is priced "
            "given",
            "Whoever copied what these have bought is paid for it now. If it is the same kind of data, pay again with "
            "--prior for each of them, into another folder.",
            [
                f"run {other.run[:16]} {other.period} ({other.state}), in {other.places.get('run', '')}"
                for other in others
            ],
        )
    ]


def _approved(record: RunRecord) -> int:
    """The entry by which a run was approved."""
    return next(entry.number for entry in record.history if entry.kind == "approved")


def _part(record: RunRecord, other: RunRecord) -> float:
    """What part of a run's units another was submitted, too."""
    if other.submissions == record.submissions:
        return 1.0
    shared = record.contents.shared(other.contents)
    return min(1.0, shared / record.contents.distinct) if shared else 0.0


def _left_behind(record: RunRecord) -> list[StandingWarning]:
    """Debts of those who submit nothing any more: the credits that stand against them are funded by nobody."""
    money = Currency(record.currency)
    entitled = {line.identity: line.entitled for line in record.lines}
    gone = [(who, left) for who, left in record.opening.items() if left < 0 and entitled[who] == left]
    if not gone:
        return []
    total = money.text(-sum(left for _, left in gone))
    return [
        StandingWarning.of(
            "left_behind",
            f"{record.currency} {total} are owed by payees who earn nothing in this run",
            "Credits of others stand against these debts, and nobody funds them while their debtors stay away. Pay the "
            "credits yourself (datamarket ledger fund), or end both sides (datamarket ledger write-off).",
            [f"{who} owes {money.text(-left)}" for who, left in gone],
        )
    ]
