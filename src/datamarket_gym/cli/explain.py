"""``datamarket explain``: why a payee is paid what it is, or which validation rows nobody covers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer import Option

from datamarket_gym.cli import terminal
from datamarket_gym.cli.terminal import FEW, say, say_more
from datamarket_gym.errors import require_known
from datamarket_gym.payout.comparison import compare_runs
from datamarket_gym.payout.explain import (
    SECRET,
    SHOWN,
    RunCoverage,
    counterfactual_messages,
    covered_lines,
    match_messages,
    match_summary,
    no_coverage_error,
    other_messages,
    payment_messages,
    submission_messages,
)
from datamarket_gym.payout.explain import explain as explain_payment
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.statements.record import MOST_MATCHES, Explanation


@terminal.with_moved_inputs
def explain(
    run: terminal.RunFolder,
    moved: dict[str, Any],
    payee: Annotated[str | None, Option(help="Whose payment to explain.")] = None,
    as_json: terminal.AsJson = False,
    what_if: Annotated[
        bool,
        Option(
            "--what-if",
            help="Also pay again without the matches of this payee's units; reads the run's inputs and takes time.",
        ),
    ] = False,
    needs: Annotated[
        bool,
        Option(
            "--needs",
            help="Also print the validation rows that its units cover, with their content; without --payee, the rows "
            "that are covered least. They are secret: for the operator alone.",
        ),
    ] = False,
    against: Annotated[
        Path | None,
        Option(
            help="Folder of another run, such as last month's: print each payee's payment in both, and which settings "
            "and inputs differ; with --payee, of that one alone."
        ),
    ] = None,
) -> None:
    """Explain a payment: what a payee's units were matched with, by which evidence, and who is paid for them."""
    if against is not None:
        if what_if or needs:
            raise typer.BadParameter("--against compares two runs; leave --what-if and --needs out")
        _compare(run, against, payee, as_json)
        return
    validation = moved.get("validation")
    if payee is None:
        if not needs or what_if:
            raise typer.BadParameter(
                "say whose payment to explain: --payee NAME (or --needs or --against alone)"
            )
        _show_least_covered(run, validation, as_json)
        return
    explanation = explain_payment(run, payee, MOST_MATCHES if as_json else SHOWN, with_rows=needs)
    if needs and explanation.needs is None:
        raise no_coverage_error("Leave --needs out")
    if what_if:
        from datamarket_gym.execution.progress import shown_on_stderr
        from datamarket_gym.payout.what_if import without_its_evidence

        with shown_on_stderr(in_logs=False) as progress:
            without = without_its_evidence(run, payee, progress=progress, **moved)
        explanation = replace(explanation, without_its_evidence=without)
    contents = None
    if needs:
        from datamarket_gym.payout.explain import describe_validation_rows

        contents = describe_validation_rows(run, validation)
    if as_json:
        record = asdict(explanation)
        if contents is not None and explanation.needs is not None:
            rows = sorted({need.row for unit in explanation.needs.units for need in unit.needs})
            record["need_words"] = {row: contents[row] for row in rows}
        Console().print_json(json.dumps(record))
    else:
        _print(explanation, contents)


def _print(explanation: Explanation, contents: Sequence[str] | None) -> None:
    name = escape(visible(explanation.identity))
    Console().print(f"[bold]{name}[/] {payment_messages(explanation)}", highlight=False)
    for paragraph in submission_messages(explanation):
        say(paragraph)
    covered = explanation.needs
    if covered is not None:
        lines = covered_lines(covered) if contents is None else covered_lines(covered, contents)
        for indent, line in lines:
            say(line, indent=indent)
        if contents is None and covered.units:
            say("To see which validation rows these are: --needs. They are secret: keep it to yourself.")
    for paragraph in match_summary(explanation):
        say(paragraph)
    if explanation.matches:
        say("What matched what", "italic")
        for match in explanation.matches:
            for indent, line in zip((2, 4), match_messages(match), strict=True):
                say(line, indent=indent)
    else:
        say("None of its units was matched with another.")
    if explanation.matches_in_all > SHOWN:
        rest = "all of them" if explanation.matches_in_all <= MOST_MATCHES else f"{MOST_MATCHES:,}"
        say(
            f"{SHOWN} of {explanation.matches_in_all:,} matches of its units are shown; --json lists {rest}, and "
            "evidence.parquet holds those of everybody."
        )
    for paragraph in other_messages(explanation):
        say(paragraph)
    say(counterfactual_messages(explanation))


def _show_least_covered(run: Path, validation: Path | None, as_json: bool) -> None:
    needs = RunCoverage.read(run, validation, "Say whose payment to explain: --payee NAME")
    if as_json:
        Console().print_json(json.dumps({"needs": needs.rows()}))
        return
    for indent, line in needs.least_covered_lines():
        say(line, indent=indent)
    say(SECRET)


def _compare(run: Path, other: Path, payee: str | None, as_json: bool) -> None:
    """Print what differs between a run and an earlier one, and every payment, or that of one payee."""
    comparison = compare_runs(other, run)
    if payee is not None:
        require_known("payee", [payee], [each.identity for each in comparison.payments])
    payments = [each for each in comparison.payments if payee in (None, each.identity)]
    if as_json:
        Console().print_json(json.dumps(asdict(comparison if payee is None else payments[0])))
        return
    columns = ("", visible(other.name), visible(run.name))
    differing = Table(*columns, title="Settings and inputs that differ")
    for each in (*comparison.settings, *comparison.inputs):
        values = ("none" if value is None else str(value) for value in (each.before, each.after))
        differing.add_row(each.name, *(escape(visible(value, 80)) for value in values))
    before, after = (Currency(code) for code in comparison.currencies)
    codes = " and ".join(dict.fromkeys(comparison.currencies))
    paid = Table(*columns, "change", title=f"Payments ({codes})")
    for payment in payments[:FEW]:
        change = payment.change
        paid.add_row(
            escape(visible(payment.identity)),
            "none" if payment.before is None else before.shown(payment.before),
            "none" if payment.after is None else after.shown(payment.after),
            "" if change is None else f"{'+' * (change > 0)}{after.shown(change)}",
        )
    for table in (differing, paid):
        if table.row_count:
            Console().print(table)
    say_more(len(payments), "; --json has all of them")
