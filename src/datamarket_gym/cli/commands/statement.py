"""``datamarket statement``."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class StatementFormat(StrEnum):
    """How a statement is written."""

    text = "text"
    html = "html"
    csv = "csv"


def command(
    book: Annotated[
        str,
        typer.Argument(
            help="A book: its file, its address (postgresql://...) or the folder of a run in it."
        ),
    ],
    payee: Annotated[str, typer.Option(help="Whose account.")],
    since: Annotated[
        datetime | None,
        typer.Option("--from", formats=["%Y-%m-%d"], help="The first day, such as 2026-01-01 (UTC)."),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option("--to", formats=["%Y-%m-%d"], help="The last day, included."),
    ] = None,
    form: Annotated[
        StatementFormat | None,
        typer.Option("--format", help="text, html or csv; by the ending of --out, else text."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write it to this file.")] = None,
) -> None:
    """The account of a payee over all runs: earned, carried, paid, corrected, sent; it adds up to the cent."""
    from datamarket_gym.cli.statement import write_statement

    days = [each.date() if each else None for each in (since, until)]
    write_statement(book, payee, days[0], days[1], form.value if form else None, out)
