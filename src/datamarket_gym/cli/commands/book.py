"""``datamarket book``: what the market owes and has sent, and the entries that are no run's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli import options

group = typer.Typer(
    no_args_is_help=True,
    help="The market's book: every run, payment, balance and correction, as one chain of entries.",
)

Where = Annotated[
    str,
    typer.Argument(
        metavar="BOOK", help="The book: its file, its address, or the folder of a run in it."
    ),
]
Payee = Annotated[str, typer.Option(help="The payee, as runs call it.")]
Money = Annotated[str, typer.Option(help="Three letters; needed where there are several.")]


@group.command("show")
def show(
    book: Where,
    entries: Annotated[int, typer.Option(min=0, help="Show so many of the last entries, too.")] = 0,
) -> None:
    """Runs, balances, what is owed, what is ordered, who is held."""
    from datamarket_gym.cli.book import show_book

    show_book(book, entries)


@group.command("rules")
def rules(
    book: Where,
    approvals: Annotated[int | None, typer.Option(help="How many people must approve a run.")] = None,
    least: Annotated[
        str | None,
        typer.Option(help="The least amount that is sent to anybody; less waits, and adds up."),
    ] = None,
    currency: Money = "",
    by: options.By = None,
) -> None:
    """Set how many people approve a run, and the least amount that is sent; without options, show both.

    To ask for fewer people than before, as many as before must say so, each under their own name.
    """
    from datamarket_gym.cli.book import set_rules

    set_rules(book, approvals, least, currency, by)


@group.command("correct")
def correct(
    book: Where,
    payee: Payee,
    amount: Annotated[str, typer.Option(help="What is owed more; below zero: less.")],
    of: Annotated[
        int, typer.Option(help="Number of the entry that is corrected (see: datamarket statement).")
    ],
    why: options.Why,
    by: options.By = None,
) -> None:
    """A late correction: a new entry that names the old one, which stays. An approved run is never rewritten."""
    from datamarket_gym.cli.book import add_correction

    add_correction(book, payee, amount, of, why, by)


@group.command("fee")
def fee(book: Where, payee: Payee, amount: Annotated[str, typer.Option(help="How much is taken.")],
        why: options.Why, currency: Money = "", by: options.By = None) -> None:  # fmt: skip
    """Take a fee from what a payee is owed."""
    from datamarket_gym.cli.book import add_fee

    add_fee(book, payee, amount, currency, why, by)


@group.command("hold")
def hold(book: Where, payee: Payee, why: options.Why, by: options.By = None) -> None:
    """Send a payee nothing until it is released; what it is owed stays owed."""
    from datamarket_gym.cli.book import add_hold

    add_hold(book, payee, why, by)


@group.command("release")
def release(book: Where, payee: Payee, why: options.Why, by: options.By = None) -> None:
    """End a hold."""
    from datamarket_gym.cli.book import end_hold

    end_hold(book, payee, why, by)


@group.command("sent")
def sent(
    book: Where,
    batch: Annotated[str, typer.Option(help="The batch, as datamarket export and book show name it.")],
    reference: Annotated[str, typer.Option(help="What the payment is known by.")],
    by: options.By = None,
) -> None:
    """The bank has sent a batch; the runs whose payments it holds are paid."""
    from datamarket_gym.cli.book import confirm_batch

    confirm_batch(book, batch, reference, by)


@group.command("cancel")
def cancel(
    book: Where,
    batch: Annotated[str, typer.Option(help="The batch, as datamarket export and book show name it.")],
    why: options.Why,
    by: options.By = None,
) -> None:
    """The bank will not send a batch: all of it is owed again, and can be ordered anew."""
    from datamarket_gym.cli.book import cancel_batch

    cancel_batch(book, batch, why, by)


@group.command("bounced")
def bounced(
    book: Where,
    payee: Payee,
    why: options.Why,
    of: Annotated[
        int | None,
        typer.Option(help="Number of the entry that sent it; the payee's last one if left out."),
    ] = None,
    by: options.By = None,
) -> None:
    """What was sent to a payee has come back: it is owed again."""
    from datamarket_gym.cli.book import add_bounce

    add_bounce(book, payee, why, of, by)


@group.command("fund")
def fund(book: Where, payee: Payee, why: options.Why, amount: str | None = typer.Option(None),
         currency: Money = "", by: options.By = None) -> None:  # fmt: skip
    """Pay a credit that runs carry, or part of it, yourself: its debtor will not."""
    from datamarket_gym.cli.book import end_credit

    end_credit(book, "funded", payee, amount, currency, why, by)


@group.command("write-off")
def write_off(book: Where, payee: Payee, why: options.Why, amount: str | None = typer.Option(None),
              currency: Money = "", by: options.By = None) -> None:  # fmt: skip
    """End a balance that runs carry, or part of it: a debt (an amount below zero) or a credit."""
    from datamarket_gym.cli.book import end_credit

    end_credit(book, "written_off", payee, amount, currency, why, by)


@group.command("anchor")
def anchor(
    book: Where,
    to: Annotated[
        Path | None,
        typer.Option("--anchor", help="File to which the line is added; keep it where the book is not."),
    ] = None,
) -> None:
    """The head of the chain, to be given to others: what they hold, whoever keeps the book cannot change."""
    from datamarket_gym.cli.book import give_anchor

    give_anchor(book, to)


@group.command("attach")
def attach(
    run: options.RunFolder,
    book: Annotated[str, typer.Argument(help="Where its book is now.")],
) -> None:
    """Tell a run's folder where its book is, after either was moved."""
    from datamarket_gym.payout.book.place import attach as attach_run

    attach_run(run, book)
    typer.echo("attached")
