"""``datamarket explain``: why a payee is paid what it is, or which validation rows no unit covers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape

from datamarket_gym.cli import terminal
from datamarket_gym.cli.terminal import FEW, make_table, print_rows, say, say_more
from datamarket_gym.errors import require_known
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.payout.comparison import compare_runs
from datamarket_gym.payout.explain import (
    SECRET,
    SHOWN,
    counterfactual_messages,
    coverage_rows,
    covered_lines,
    describe_validation_rows,
    least_covered_lines,
    match_row,
    match_summary,
    no_coverage_error,
    other_messages,
    payment_messages,
    submission_messages,
)
from datamarket_gym.payout.explain import explain as explain_payment
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import first_words, visible
from datamarket_gym.payout.settings import option
from datamarket_gym.payout.statements.record import MOST_MATCHES, Explanation
from datamarket_gym.registry import Document

_UNITS = 10


class ExplainOptions(Document):
    """The options of ``datamarket explain``."""

    payee: str | None = option("Whose payment to explain.")
    json_: bool = option("Print JSON instead of tables.", False, option="json")
    what_if: bool = option(
        "Also pay again without the matches of this payee's units; reads the run's inputs and takes time.",
        False,
    )
    needs: bool = option(
        "Also print the validation rows that its units cover, with their content; without --payee, the rows that are "
        "covered least. They are secret: for the operator alone.",
        False,
    )
    against: Path | None = option(
        "Folder of another run, such as last month's: print each payee's payment in both, and which settings and "
        "inputs differ; with --payee, of that one alone."
    )


@terminal.with_moved_inputs
@terminal.with_options(ExplainOptions)
def explain(run: terminal.RunFolder, options: ExplainOptions, moved: dict[str, Any]) -> None:
    """Explain a payment: what a payee's units were matched with, by which evidence, and who is paid for them."""
    payee, needs, validation = options.payee, options.needs, moved.get("validation")
    if options.against is not None:
        if options.what_if or needs:
            raise typer.BadParameter("--against compares two runs; leave --what-if and --needs out")
        _compare(run, options.against, payee, options.json_)
        return
    if payee is None:
        if not needs or options.what_if:
            raise typer.BadParameter(
                "say whose payment to explain: --payee NAME (or --needs or --against alone)"
            )
        _show_least_covered(run, validation, options.json_)
        return
    explanation = explain_payment(run, payee, MOST_MATCHES if options.json_ else SHOWN, with_rows=needs)
    if needs and explanation.needs is None:
        raise no_coverage_error("Leave --needs out")
    if options.what_if:
        from datamarket_gym.payout.what_if import without_its_evidence

        with shown_on_stderr(in_logs=False) as progress:
            without = without_its_evidence(run, payee, progress, **moved)
        explanation = replace(explanation, without_its_evidence=without)
    contents = describe_validation_rows(run, validation) if needs else []
    if options.json_:
        record = asdict(explanation)
        if contents and explanation.needs is not None:
            rows = sorted({need.row for unit in explanation.needs.units for need in unit.needs})
            record["need_words"] = {row: contents[row] for row in rows}
        Console().print_json(json.dumps(record))
    else:
        _print(explanation, contents)


def _print(explanation: Explanation, contents: Sequence[str]) -> None:
    name = escape(visible(explanation.identity))
    Console().print(f"[bold]{name}[/] {payment_messages(explanation)}", highlight=False)
    say(submission_messages(explanation))
    if explanation.unit_payments:
        money, units = Currency(explanation.currency), explanation.unit_payments[:_UNITS]
        table = make_table(
            "unit", "", money.code, "why nothing", title="What its units earn", right=[money.code]
        )
        for row in units:
            amount, reason = money.shown(row.amount), visible(row.reason, 200)
            table.add_row(
                *map(escape, (visible(row.unit), first_words(row.content, 40), amount, reason))
            )
        Console().print(table)
        say_more(explanation.units, " in units.csv", len(units))
    covered = explanation.needs
    if covered is not None:
        for indent, line in covered_lines(covered, contents):
            say(line, indent=indent)
        if not contents and covered.units:
            say("To see which validation rows these are: --needs. They are secret: keep it to yourself.")
    say(match_summary(explanation))
    if explanation.matches:
        table = make_table("matched", "by", "earlier", "paid to", title="What matched what")
        print_rows(table, map(match_row, explanation.matches))
    else:
        say("None of its units was matched with another.")
    if explanation.matches_in_all > SHOWN:
        rest = "all of them" if explanation.matches_in_all <= MOST_MATCHES else f"{MOST_MATCHES:,}"
        say(
            f"{SHOWN} of {explanation.matches_in_all:,} matches of its units are shown; --json lists {rest}, and "
            "evidence.parquet holds those of all payees."
        )
    say(other_messages(explanation))
    say(counterfactual_messages(explanation))


def _show_least_covered(run: Path, validation: Path | None, as_json: bool) -> None:
    rows = coverage_rows(run, validation, "Say whose payment to explain: --payee NAME")
    if as_json:
        Console().print_json(json.dumps({"needs": sorted(rows, key=lambda row: row["row"])}))
        return
    for indent, line in least_covered_lines(rows):
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
    before, after = (Currency(code) for code in comparison.currencies)

    def cell(value: object) -> str:
        return "none" if value is None else visible(str(value), 80)

    def amount(currency: Currency, minor: int | None) -> str:
        return "none" if minor is None else currency.shown(minor)

    differing = [
        (each.name, cell(each.before), cell(each.after))
        for each in (*comparison.settings, *comparison.inputs)
    ]
    paid = []
    for each in payments[:FEW]:
        change = "" if each.change is None else f"{'+' * (each.change > 0)}{after.shown(each.change)}"
        amounts = amount(before, each.before), amount(after, each.after)
        paid.append((visible(each.identity), *amounts, change))
    codes = " and ".join(dict.fromkeys(comparison.currencies))
    if differing:
        print_rows(make_table(*columns, title="Settings and inputs that differ", boxed=True), differing)
    if paid:
        print_rows(make_table(*columns, "change", title=f"Payments ({codes})", boxed=True), paid)
    say_more(len(payments), "; --json has all of them")
