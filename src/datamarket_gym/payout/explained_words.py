"""Why somebody is paid what it is paid, in sentences: those that the command line prints and the explorer shows.

Names in them are visible ones (`names.visible`), and nothing in them is markup: whoever shows them escapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from datamarket_gym.core.screen import counted, listed
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import run_called, visible
from datamarket_gym.payout.statements.record import Explanation, OwnTie
from datamarket_gym.payout.statements.tables import TableRow

SHOWN = 20
"""Of a longer list this many are told."""


def paid_words(found: Explanation) -> str:
    """What is paid, and between what it could have come out; to be read after the payee's name."""
    money = Currency(found.currency)
    low, high = money.shown(found.low), money.shown(found.high)
    return f"is paid {money.code} {money.shown(found.paid)} ({low} to {high} at {found.level:.0%})."


def sent_words(found: Explanation) -> Iterator[str]:
    """What it sent, and how much of that counts for it."""
    error = f" ± {found.score_error:.4f}" if found.score_error >= 0.00005 else ""  # not ± 0.0000
    yield (
        f"It submitted {found.units:,} units, which are in {found.clusters:,} clusters; it owns {found.owned:,} of "
        f"these. Its score is {found.score:.4f}{error}{found.measured}."
    )
    if found.repeated or found.for_others:
        yield (
            f"{found.counted:,} of its units count for it, {found.repeated:,} repeat its own, and {found.for_others:,} "
            "count for others who came earlier."
        )


def fate_words(found: Explanation) -> Iterator[str]:
    """When units came, which were set aside and why, what checks came to, and what is carried."""
    money = Currency(found.currency)
    if found.received:
        batches = listed(
            (f"{counted(each.units, 'unit')} {each.words}" for each in found.received), SHOWN, "; "
        )
        yield f"When its units came, by the operator's intake log: {batches}."
    yield from _leaks(found)
    yield from _bought(found)
    yield from _unusable(found)
    yield from _checks(found)
    if found.opening:
        yield f"{money.code} {money.shown(found.opening)} were carried into this run."
    if found.balance:
        yield f"{money.code} {money.shown(found.balance)} are carried to the next run."


def other_words(found: Explanation) -> Iterator[str]:
    """Who is paid for its units, lots, names that are paid together, and claims."""
    if found.counted_for:
        told = "; ".join(
            f"{each.units:,} for {_listed(each.names)}" for each in found.counted_for[:SHOWN]
        )
        more = found.counted_for_in_all - min(SHOWN, len(found.counted_for))
        yield f"Its units that count for others: {told}" + (f"; {more:,} more." if more else ".")
    if found.by_lot:
        yield (
            f"In {found.by_lot:,} of its clusters units of several names carry the same time: a lot decided who was "
            f"first, drawn under {found.drawn_under}."
        )
    for tie in found.linked[:SHOWN]:
        yield f"Paid together: {visible(tie['left'])} and {visible(tie['right'])}, {tie['reason']}."
    if len(found.linked) > SHOWN:
        yield f"{SHOWN} of {len(found.linked):,} such pairs are shown."
    for claim in found.claims[:SHOWN]:
        yield (
            f"Claimed, and without effect on anybody's pay ({claim['reason']}): {_listed(claim['identities'])}."
        )
    if len(found.claims) > SHOWN:
        yield f"{SHOWN} of {len(found.claims):,} claims are shown."


def without_words(found: Explanation) -> str:
    """What it would have been paid without evidence."""
    money = Currency(found.currency)
    bought = ", what was bought before left out" if found.bought else ""
    if found.without_its_evidence is None:
        return (
            "Without any evidence in the market it would have been paid "
            f"{money.code} {money.shown(found.without_any_evidence)}{bought}."
        )
    return (
        f"Without the evidence in its clusters it would have been paid {money.code} "
        f"{money.shown(found.without_its_evidence)}; without any evidence in the market "
        f"{money.shown(found.without_any_evidence)}{bought}."
    )


def tie_words(tie: OwnTie) -> tuple[str, str]:
    """What matched what; and why, who was earlier and who is paid for it."""
    paid = [visible(name) for name in tie.paid_to]
    more = f" and {tie.paid_names - len(paid)} more" if tie.paid_names > len(paid) else ""
    when, then = (
        "" if each is None else f" ({each.words})" for each in (tie.received, tie.other_received)
    )
    return (
        f"{visible(tie.unit)}{when} and {visible(tie.other)} of {visible(tie.of)}{then}",
        f"{', '.join(tie.reasons)} {tie.score:.4f}; earlier: {_earlier(tie)}; paid to {', '.join(paid)}{more}",
    )


def _leaks(found: Explanation) -> Iterator[str]:
    if not found.leaked:
        return
    rows = listed(
        (
            f"{visible(leak['unit'])} is row {leak['row']} ({leak['by']}, {leak['likeness']:.3f})"
            for leak in found.leaked
        ),
        SHOWN,
    )
    number = len(found.leaked)
    yield (
        f"1 of its units is a validation row, or nearly, and earns nothing: {rows}."
        if number == 1
        else f"{number:,} of its units are validation rows, or nearly, and earn nothing: {rows}."
    )


def _bought(found: Explanation) -> Iterator[str]:
    if not found.bought:
        return
    number = len(found.bought)
    told = listed((_bought_unit(each, found.identity) for each in found.bought), SHOWN, "; ")
    yield (
        f"{number:,} of its units {'was' if number == 1 else 'were'} bought before and "
        f"{'earns' if number == 1 else 'earn'} nothing now: {told}."
    )


def _bought_unit(row: TableRow, identity: str) -> str:
    whose = "itself" if row["old_owner"] == identity else visible(row["old_owner"])
    return (
        f"{visible(row['unit'])} was bought in {run_called(row['period'], row['run'])} from {whose} as "
        f"{visible(row['old_unit'])} ({row['reason']} {row['score']:.3f})"
    )


def _unusable(found: Explanation) -> Iterator[str]:
    if not found.unusable:
        return
    rows = listed(
        (f"row {bad['row']} ({visible(bad['wrong'], 200)})" for bad in found.unusable), SHOWN, "; "
    )
    yield f"{len(found.unusable):,} of its rows could not be used and were set aside: {rows}."


def _checks(found: Explanation) -> Iterator[str]:
    """What spot checks of an earlier draft came to; before that there is nothing to tell."""
    checks = found.checks
    match checks.outcome:
        case "failed":
            units = f": {_listed(checks.found)}" if checks.found else ", under another of its names"
            yield f"It failed a spot check and is paid nothing{units}."
        case "not checked":
            yield "It would have been paid less than its checks cost: it was neither checked nor paid."
        case "passed":
            yield (
                f"It passed the spot checks of the draft before this one; looked at: {_listed(checks.drawn)}."
            )


def _earlier(tie: OwnTie) -> str:
    named = {"unit": "its own", "other": "the other", "neither": "neither"}[tie.earlier]
    return f"{named}, by lot" if tie.by_lot else named


def _listed(names: Sequence[str]) -> str:
    return listed(map(visible, names), SHOWN)
