"""``datamarket explain`` and ``statements``: a payee's payment as text or JSON, and pages for all payees."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from datamarket_gym.cli.needs import not_known, print_needs
from datamarket_gym.core.screen import counted, listed
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import run_called, visible
from datamarket_gym.payout.statements.record import MOST_TIES, Explanation, OwnTie
from datamarket_gym.payout.statements.tables import TableRow

_SHOWN = 20


def show_explanation(
    run: Path,
    identity: str,
    as_json: bool,
    what_if: bool,
    submissions: Path | None,
    validation: Path | None,
    reference: Path | None,
    prior: Sequence[Path] = (),
    intake: str | None = None,
    needs: bool = False,
) -> None:
    """Explain a payment and print it; ``what_if`` scores the market anew without the evidence in its clusters.

    ``needs``: with the validation rows that its units cover, and what these say.
    """
    found = explain(run, identity, MOST_TIES if as_json else _SHOWN, with_rows=needs)
    if needs and found.needs is None:
        raise not_known("Leave --needs out")
    if what_if:
        from datamarket_gym.core.progress import shown_on_stderr
        from datamarket_gym.payout.what_if import without_its_evidence

        with shown_on_stderr(in_logs=False) as progress:
            paid = without_its_evidence(
                run, identity, submissions, validation, progress, reference, prior, intake
            )
        found = replace(found, without_its_evidence=paid)
    words = None
    if needs:
        from datamarket_gym.payout.need_words import need_words

        words = need_words(run, validation)
    if as_json:
        told = {} if words is None else {"need_words": _told(found, words)}
        Console().print_json(json.dumps(asdict(found) | told))
    else:
        _print(found, Console(), words)


def _told(found: Explanation, words: Sequence[str]) -> dict[int, str]:
    """What the validation rows say that an explanation names."""
    units = [] if found.needs is None else found.needs.units
    return {row: words[row] for row in sorted({need.row for unit in units for need in unit.needs})}


def _print(found: Explanation, console: Console, words: Sequence[str] | None) -> None:
    """What is paid, what was sent, what matched what, and what else had a say; a paragraph each."""

    def say(words: str) -> None:
        console.print(words, highlight=False, markup=False)

    money = Currency(found.currency)
    text = money.shown
    error = f" ± {found.score_error:.4f}" if found.score_error >= 0.00005 else ""  # not ± 0.0000
    console.print(f"[bold]{escape(visible(found.identity))}[/] is paid {money.code} {text(found.paid)} "
                  f"({text(found.low)} to {text(found.high)} at {found.level:.0%}).", highlight=False)  # fmt: skip
    say(
        f"It submitted {found.units:,} units, which are in {found.clusters:,} clusters; it owns {found.owned:,} of "
        f"these. Its score is {found.score:.4f}{error}{found.measured}."
    )
    if found.repeated or found.for_others:
        say(
            f"{found.counted:,} of its units count for it, {found.repeated:,} repeat its own, and {found.for_others:,} "
            "count for others who came earlier."
        )
    if found.needs is not None:
        print_needs(found.needs, words, console)
    if found.received:
        batches = listed(
            (f"{counted(each.units, 'unit')} {each.words}" for each in found.received), _SHOWN, "; "
        )
        say(f"When its units came, by the operator's intake log: {batches}.")
    _print_leaks(found, say)
    _print_bought(found, say)
    _print_unusable(found, say)
    _print_checks(found, say)
    if found.opening:
        say(f"{money.code} {text(found.opening)} were carried into this run.")
    if found.balance:
        say(f"{money.code} {text(found.balance)} are carried to the next run.")
    if not found.ties:
        say("None of its units was matched with another.")
    else:
        _print_ties(found, console)
    if found.ties_in_all > _SHOWN:
        rest = "all of them" if found.ties_in_all <= MOST_TIES else f"{MOST_TIES:,}"
        say(
            f"{_SHOWN} of {found.ties_in_all:,} matches of its units are shown; --json lists {rest}, and "
            "evidence.parquet holds those of everybody."
        )
    _print_others(found, say)
    bought = ", what was bought before left out" if found.bought else ""
    if found.without_its_evidence is None:
        say(
            "Without any evidence in the market it would have been paid "
            f"{money.code} {text(found.without_any_evidence)}{bought}."
        )
    else:
        say(
            f"Without the evidence in its clusters it would have been paid {money.code} "
            f"{text(found.without_its_evidence)}; without any evidence in the market "
            f"{text(found.without_any_evidence)}{bought}."
        )


def _print_leaks(found: Explanation, say: Callable[[str], None]) -> None:
    if not found.leaked:
        return
    rows = listed(
        (
            f"{visible(leak['unit'])} is row {leak['row']} ({leak['by']}, {leak['likeness']:.3f})"
            for leak in found.leaked
        ),
        _SHOWN,
    )
    number = len(found.leaked)
    say(
        f"1 of its units is a validation row, or nearly, and earns nothing: {rows}."
        if number == 1
        else f"{number:,} of its units are validation rows, or nearly, and earn nothing: {rows}."
    )


def _print_bought(found: Explanation, say: Callable[[str], None]) -> None:
    if not found.bought:
        return
    number = len(found.bought)
    told = listed((_bought(each, found.identity) for each in found.bought), _SHOWN, "; ")
    say(
        f"{number:,} of its units {'was' if number == 1 else 'were'} bought before and "
        f"{'earns' if number == 1 else 'earn'} nothing now: {told}."
    )


def _bought(row: TableRow, identity: str) -> str:
    whose = "itself" if row["old_owner"] == identity else visible(row["old_owner"])
    return (
        f"{visible(row['unit'])} was bought in {run_called(row['period'], row['run'])} from {whose} as "
        f"{visible(row['old_unit'])} ({row['reason']} {row['score']:.3f})"
    )


def _print_unusable(found: Explanation, say: Callable[[str], None]) -> None:
    if not found.unusable:
        return
    rows = listed(
        (f"row {bad['row']} ({visible(bad['wrong'], 200)})" for bad in found.unusable), _SHOWN, "; "
    )
    say(f"{len(found.unusable):,} of its rows could not be used and were set aside: {rows}.")


def _print_checks(found: Explanation, say: Callable[[str], None]) -> None:
    """What spot checks of an earlier draft came to; before that there is nothing to tell."""
    checks = found.checks
    match checks.outcome:
        case "failed":
            units = f": {_listed(checks.found)}" if checks.found else ", under another of its names"
            say(f"It failed a spot check and is paid nothing{units}.")
        case "not checked":
            say("It would have been paid less than its checks cost: it was neither checked nor paid.")
        case "passed":
            say(
                f"It passed the spot checks of the draft before this one; looked at: {_listed(checks.drawn)}."
            )


def _print_others(found: Explanation, say: Callable[[str], None]) -> None:
    """Who is paid for its units, lots, names that are paid together, and claims."""
    if found.counted_for:
        told = "; ".join(
            f"{each.units:,} for {_listed(each.names)}" for each in found.counted_for[:_SHOWN]
        )
        more = found.counted_for_in_all - min(_SHOWN, len(found.counted_for))
        say(f"Its units that count for others: {told}" + (f"; {more:,} more." if more else "."))
    if found.by_lot:
        say(
            f"In {found.by_lot:,} of its clusters units of several names carry the same time: a lot decided who was "
            f"first, drawn under {found.drawn_under}."
        )
    for tie in found.linked[:_SHOWN]:
        say(f"Paid together: {visible(tie['left'])} and {visible(tie['right'])}, {tie['reason']}.")
    if len(found.linked) > _SHOWN:
        say(f"{_SHOWN} of {len(found.linked):,} such pairs are shown.")
    for claim in found.claims[:_SHOWN]:
        say(
            f"Claimed, and without effect on anybody's pay ({claim['reason']}): {_listed(claim['identities'])}."
        )
    if len(found.claims) > _SHOWN:
        say(f"{_SHOWN} of {len(found.claims):,} claims are shown.")


def _print_ties(found: Explanation, console: Console) -> None:
    """Two lines for each pair of units of which one is the payee's: names of any length stay whole."""
    console.print("What matched what", style="italic")
    for tie in found.ties:
        paid = [visible(name) for name in tie.paid_to]
        more = f" and {tie.paid_names - len(paid)} more" if tie.paid_names > len(paid) else ""
        when, then = (
            "" if each is None else f" ({each.words})" for each in (tie.received, tie.other_received)
        )
        matched = f"{visible(tie.unit)}{when} and {visible(tie.other)} of {visible(tie.of)}{then}"
        why = f"{', '.join(tie.reasons)} {tie.score:.4f}; earlier: {_earlier(tie)}; paid to {', '.join(paid)}{more}"
        for indent, words in ((2, matched), (4, why)):
            console.print(Padding(Text(words, overflow="fold"), (0, 0, 0, indent)))


def _earlier(tie: OwnTie) -> str:
    named = {"unit": "its own", "other": "the other", "neither": "neither"}[tie.earlier]
    return f"{named}, by lot" if tie.by_lot else named


def _listed(names: Sequence[str]) -> str:
    return listed(map(visible, names), _SHOWN)


def show_statements(
    run: Path, out: Path | None, payee: str | None, pseudonyms: bool, contact: str | None
) -> None:
    """Write statements and say where they are."""
    from datamarket_gym.core.progress import shown_on_stderr
    from datamarket_gym.payout.statements.files import (
        INDEX,
        Manner,
        write_statement,
        write_statements,
    )

    manner = Manner(pseudonyms, contact)
    if payee is not None:
        path = write_statement(run, payee, out, manner)
        Console().print(f"written: {path}", highlight=False, markup=False)
        return
    with shown_on_stderr(in_logs=False) as progress:
        progress.stage("writing statements", "payees")
        folder = write_statements(run, out, manner, progress.count)
    pages = len(list(folder.glob("*.html")))
    Console().print(
        f"{pages:,} statements in {folder}; {INDEX} says which is whose. Each is for its payee alone.",
        highlight=False,
        markup=False,
    )
