"""``datamarket explain`` and ``statements``: a payee's payment as text or JSON, and pages for all payees."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from datamarket_gym.cli.needs import print_needs
from datamarket_gym.payout.covered_words import not_known
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.explained_words import (
    SHOWN,
    fate_words,
    other_words,
    paid_words,
    sent_words,
    tie_words,
    without_words,
)
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.statements.record import MOST_TIES, Explanation


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
    found = explain(run, identity, MOST_TIES if as_json else SHOWN, with_rows=needs)
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

    name = escape(visible(found.identity))
    console.print(f"[bold]{name}[/] {paid_words(found)}", highlight=False)
    for paragraph in sent_words(found):
        say(paragraph)
    if found.needs is not None:
        print_needs(found.needs, words, console)
    for paragraph in fate_words(found):
        say(paragraph)
    if not found.ties:
        say("None of its units was matched with another.")
    else:
        _print_ties(found, console)
    if found.ties_in_all > SHOWN:
        rest = "all of them" if found.ties_in_all <= MOST_TIES else f"{MOST_TIES:,}"
        say(
            f"{SHOWN} of {found.ties_in_all:,} matches of its units are shown; --json lists {rest}, and "
            "evidence.parquet holds those of everybody."
        )
    for paragraph in other_words(found):
        say(paragraph)
    say(without_words(found))


def _print_ties(found: Explanation, console: Console) -> None:
    """Two lines for each pair of units of which one is the payee's: names of any length stay whole."""
    console.print("What matched what", style="italic")
    for tie in found.ties:
        for indent, words in zip((2, 4), tie_words(tie), strict=True):
            console.print(Padding(Text(words, overflow="fold"), (0, 0, 0, indent)))


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
