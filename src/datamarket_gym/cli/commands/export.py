"""``datamarket export``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli import options


def command(
    book: Annotated[
        str,
        typer.Argument(
            metavar="BOOK",
            help="The book: its file or its address; or the folder of a run, for the payees of that run alone.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="File to write.")],
    accounts: Annotated[
        Path | None,
        typer.Option(
            help="Table with a row for each payee: payee, name, iban (or account with bic or clearing); "
            "country and town may be there. CSV can do without."
        ),
    ] = None,
    debtor: Annotated[
        str | None, typer.Option("--from", help="Name of the account holder who pays.")
    ] = None,
    debtor_account: Annotated[
        str | None,
        typer.Option("--from-account", help="IBAN that is paid from; else a number, with --from-bic."),
    ] = None,
    debtor_bic: Annotated[str | None, typer.Option("--from-bic", help="BIC of its bank.")] = None,
    debtor_country: Annotated[
        str | None, typer.Option("--from-country", help="Two letters; with --from-town.")
    ] = None,
    debtor_town: Annotated[str | None, typer.Option("--from-town", help="Town.")] = None,
    run: Annotated[
        str | None,
        typer.Option(
            help="Pay the payees of this run alone: its folder, or its id as book show has it."
        ),
    ] = None,
    currency: Annotated[
        str | None, typer.Option(help="Three letters; needed where there are several.")
    ] = None,
    on: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="Day of payment; the day of the order if left out."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="pain.001 (ISO 20022 XML, pain.001.001.09) or csv.")
    ] = "pain.001",
    by: options.By = None,
) -> None:
    """Order what is owed, and write it as a file for the bank.

    All that approved runs owe is ordered as one batch, except to payees who are held and amounts below the least that
    is sent. The file is checked against its schema before anything is ordered. The same command again writes the same
    file, with the same message id, until the batch is confirmed (datamarket ledger paid, datamarket book sent) or
    cancelled (datamarket book cancel).
    """
    from datamarket_gym.cli.bank import export_and_show

    payer = (debtor, debtor_account, debtor_bic, debtor_country, debtor_town)
    export_and_show(book, accounts, payer, out, run, currency, on.date() if on else None, form, by)
