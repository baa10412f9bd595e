"""``datamarket ledger`` and ``export``: what the market owes and has sent, and every transaction that says so."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli import options
from datamarket_gym.cli.output import (
    FEW,
    WARNING,
    make_list,
    make_table,
    print_checks,
    print_rows,
    say,
    say_more,
)
from datamarket_gym.display import counted
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.payout.bank.export import PayerRequest, export_from
from datamarket_gym.payout.ledger import transactions
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import LedgerEntry
from datamarket_gym.payout.ledger.runs import attach as attach_run
from datamarket_gym.payout.ledger.runs import (
    ledger_at,
    ledger_of,
    mark_paid,
    run_folder,
    run_of,
    write_receipt,
)
from datamarket_gym.payout.ledger.statements import (
    balances_by_payee,
    describe_entry,
    entry_messages,
    format_time,
    rule_messages,
)
from datamarket_gym.payout.ledger.store import add_checkpoint
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.verify import approve_recomputed

_SHOWN = 50

ledger = typer.Typer(
    no_args_is_help=True,
    help="The market's ledger: every run, payment, balance and correction, as one chain of transactions.",
)
Batch = Annotated[str, typer.Option(help="The batch, as datamarket export and ledger show name it.")]
PartAmount = Annotated[str | None, typer.Option(help="How much of it; all if left out.")]


@ledger.command("show")
def show(
    where: Annotated[
        str,
        typer.Argument(
            metavar="LEDGER", help="The ledger: its file or address; or the folder of a run."
        ),
    ],
    entries: Annotated[
        int, typer.Option(min=0, help="Show this many of the last entries of a ledger, too.")
    ] = 0,
) -> None:
    """Show runs, balances, what is owed, ordered and held; of a run, its state and history."""
    folder = run_folder(where)
    if folder is not None:
        _show_run(folder)
        return
    book = ledger_at(where)
    accounts = book.accounts()
    say(f"{book.where}: {accounts.number:,} entries, tip hash {accounts.tip}")
    _print_rules(accounts)
    heads = ("run", "period", "state", "amount", "payees", "reference")
    table = make_table(
        *heads, title="Runs", right=("amount", "payees"), whole=("run", "state", "amount", "payees")
    )
    rows = (
        (run.run[:16], run.period, run.state, f"{run.currency} {Currency(run.currency).shown(run.amount)}",
         f"{len(run.lines):,}", run.reference or "")
        for run in accounts.runs.values()
    )  # fmt: skip
    print_rows(table, ([visible(cell) for cell in row] for row in rows))
    _print_payees(accounts)
    for batch in accounts.batches.values():
        if batch.state == "ordered":
            amount = Currency(batch.currency).shown(sum(batch.lines.values()))
            say(
                f"Batch {batch.id}: {batch.currency} {amount} to {counted(len(batch.lines), 'payee')}, ordered and not "
                "confirmed (datamarket ledger sent, or cancel)."
            )
    if arrived := len(accounts.received):
        say(f"{counted(arrived, 'batch', 'batches')} of units arrived (datamarket intake show).")
    if entries:
        _print_entries(accounts.entries[-entries:])


def _show_run(run: Path) -> None:
    book = ledger_of(run)
    accounts = book.accounts()
    record = run_of(run, accounts)
    write_receipt(run, book, accounts)
    say(
        f"run {record.run[:16]}: {record.state}, {record.currency} {Currency(record.currency).shown(record.amount)} "
        f"to {sum(x.paid > 0 for x in record.lines):,} of {len(record.lines):,} payees; ledger {book.where}"
    )
    table = make_list("entry", "time (UTC)", "event", "by", "detail")
    for column in table.columns[:3]:
        column.no_wrap = True
    rows = (
        (str(entry.number), format_time(entry), entry.kind, entry.by, describe_entry(entry))
        for entry in record.history
        if entry.kind not in ("payment", "carried_forward")
    )
    print_rows(table, ([visible(cell, 90) for cell in row] for row in rows))


def _print_rules(accounts: Accounts) -> None:
    for words in rule_messages(accounts.rules):
        say(words)


def _print_payees(accounts: Accounts) -> None:
    places, rows = balances_by_payee(accounts)
    table = make_table("payee", "", *places, title="Payees", right=places, whole=("", *places))
    print_rows(
        table,
        (
            (visible(payee), code, *map(Currency(code).shown, amounts))
            for (payee, code), amounts in list(rows.items())[:_SHOWN]
        ),
    )
    if len(rows) > _SHOWN:
        say(f"… {_SHOWN} of {len(rows):,}; the others: datamarket statements LEDGER --payee NAME")
    for payee, why in list(accounts.holds.items())[:_SHOWN]:
        say(f"Held: {visible(payee)}: {visible(why, 200)}")
    if len(accounts.holds) > _SHOWN:
        say(f"… {_SHOWN} of {len(accounts.holds):,} who are held")


def _print_entries(entries: list[LedgerEntry]) -> None:
    say("Entries, times in UTC", "italic")
    for entry in entries:
        code = entry.currency
        amount = f", {code} {Currency(code).shown(entry.amount)}" if code and entry.amount else ""
        say(f"{entry.number:>6}  {format_time(entry)}  {entry.kind}{amount}, by {visible(entry.by)}")
        if about := "; ".join(filter(None, (visible(entry.payee), visible(describe_entry(entry), 120)))):
            say(about, indent=8)


@ledger.command("approve")
def approve(
    run: options.RunFolder,
    by: options.By = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WARNING",
            help="A warning of the run that you looked at and accept, by its name; repeat it for each. "
            "Without them all, the run is not approved and the missing ones are listed.",
        ),
    ] = None,
    submissions: options.MovedSubmissions = None,
    validation: options.MovedValidation = None,
    reference: options.MovedReference = None,
    prior: options.MovedPrior = None,
    intake: options.MovedIntake = None,
) -> None:
    """Compute a run again from its inputs, compare it, and approve it; its payments stand from then on.

    A second approval does nothing, unless the ledger asks for two people (datamarket ledger rules). A run with
    warnings is approved only if each is named (--accept leak --accept loses_half). The ledger keeps which were
    accepted, and by whom.
    """
    with shown_on_stderr(in_logs=False) as progress:
        approval = approve_recomputed(
            run, by, accept or [], submissions, validation, reference, prior or [], intake, progress
        )
    if approval.wrong:
        print_checks(approval.wrong)
        raise typer.Exit(1)
    say(approval.words)


@ledger.command("paid")
def paid(
    run: options.RunFolder,
    reference: Annotated[
        str, typer.Option(help="What the payment is known by, such as a transfer number.")
    ],
    by: options.By = None,
) -> None:
    """Mark an approved run as paid: what its payees are owed is sent, unless they are held or owed too little.

    A second time with the same reference does nothing; with another it is an error that shows the first.
    """
    done = mark_paid(run, reference, by)
    typer.echo("marked as paid" if done else "was marked as paid before; nothing changed")


@ledger.command("rules")
def rules(
    where: options.Ledger,
    approvals: Annotated[int | None, typer.Option(help="How many people must approve a run.")] = None,
    least: Annotated[
        str | None,
        typer.Option(help="The least amount that is sent to anybody; less waits, and adds up."),
    ] = None,
    currency: options.Currency = "",
    by: options.By = None,
) -> None:
    """Set how many people approve a run, and the least amount that is sent; without options, show both.

    To ask for fewer people than before, as many as before must say so, each under their own name.
    """
    _print_rules(transactions.set_rules(ledger_at(where), approvals, least, currency, by))


@ledger.command("correct")
def correct(
    where: options.Ledger,
    payee: options.Payee,
    amount: Annotated[str, typer.Option(help="What is owed more; below zero: less.")],
    of: Annotated[
        int, typer.Option(help="Number of the entry that is corrected (see: datamarket statements).")
    ],
    why: options.Why,
    by: options.By = None,
) -> None:
    """Enter a late correction, which names an earlier entry. An approved run is never rewritten."""
    _print_entered(transactions.correct(ledger_at(where), payee, amount, of, why, by))


@ledger.command("fee")
def fee(
    where: options.Ledger,
    payee: options.Payee,
    amount: Annotated[str, typer.Option(help="How much is taken.")],
    why: options.Why,
    currency: options.Currency = "",
    by: options.By = None,
) -> None:
    """Take a fee from what a payee is owed."""
    _print_entered(transactions.charge(ledger_at(where), payee, amount, currency, why, by))


@ledger.command("hold")
def hold(where: options.Ledger, payee: options.Payee, why: options.Why, by: options.By = None) -> None:
    """Send a payee nothing until it is released; what it is owed stays owed."""
    _print_entered(transactions.hold(ledger_at(where), payee, why, by))


@ledger.command("release")
def release(
    where: options.Ledger, payee: options.Payee, why: options.Why, by: options.By = None
) -> None:
    """End a hold."""
    _print_entered(transactions.release(ledger_at(where), payee, why, by))


@ledger.command("sent")
def sent(
    where: options.Ledger,
    batch: Batch,
    reference: Annotated[str, typer.Option(help="What the payment is known by.")],
    by: options.By = None,
) -> None:
    """Confirm that the bank has sent a batch; the runs whose payments it holds are paid."""
    done = transactions.confirm(ledger_at(where), batch, reference, by)
    amount = Currency(done.currency).shown(sum(done.lines.values()))
    say(f"batch {done.id}: {done.currency} {amount} sent to {counted(len(done.lines), 'payee')}")


@ledger.command("cancel")
def cancel(where: options.Ledger, batch: Batch, why: options.Why, by: options.By = None) -> None:
    """Cancel a batch that the bank will not send: all of it is owed again, and can be ordered anew."""
    done = transactions.cancel(ledger_at(where), batch, why, by)
    say(f"batch {done.id}: cancelled; all of it is owed again")


@ledger.command("bounced")
def bounced(
    where: options.Ledger,
    payee: options.Payee,
    why: options.Why,
    of: Annotated[
        int | None,
        typer.Option(help="Number of the entry that sent it; the payee's last one if left out."),
    ] = None,
    by: options.By = None,
) -> None:
    """Enter that what was sent to a payee has come back: it is owed again."""
    _print_entered(transactions.bounced(ledger_at(where), payee, why, of, by))


@ledger.command("fund")
def fund(
    where: options.Ledger,
    payee: options.Payee,
    why: options.Why,
    amount: PartAmount = None,
    currency: options.Currency = "",
    by: options.By = None,
) -> None:
    """Pay a carried-forward credit, or part of it, yourself: its debtor will not."""
    _print_entered(
        transactions.end_balance(ledger_at(where), "funded", payee, currency, why, amount, by)
    )


@ledger.command("write-off")
def write_off(
    where: options.Ledger,
    payee: options.Payee,
    why: options.Why,
    amount: PartAmount = None,
    currency: options.Currency = "",
    by: options.By = None,
) -> None:
    """End a carried-forward balance, or part of it: a debt (an amount below zero) or a credit."""
    _print_entered(
        transactions.end_balance(ledger_at(where), "written_off", payee, currency, why, amount, by)
    )


@ledger.command("checkpoint")
def checkpoint(
    where: options.Ledger,
    checkpoints: Annotated[
        Path | None,
        typer.Option(help="File to which the line is added; keep it where the ledger is not."),
    ] = None,
) -> None:
    """Print the tip hash of the chain, to be given to others: the ledger up to there can no longer be changed."""
    accounts = ledger_at(where).accounts()
    say(
        accounts.checkpoint if checkpoints is None else add_checkpoint(checkpoints, accounts),
        whole=True,
    )


@ledger.command("attach")
def attach(
    run: options.RunFolder,
    where: Annotated[str, typer.Argument(metavar="LEDGER", help="Where its ledger is now.")],
) -> None:
    """Tell a run's folder where its ledger is, after either was moved."""
    attach_run(run, where)
    typer.echo("attached")


def _print_entered(entry: LedgerEntry) -> None:
    for words in entry_messages(entry):
        say(words)


def export(
    where: Annotated[
        str,
        typer.Argument(
            metavar="LEDGER",
            help="The ledger: its file or its address; or the folder of a run, for the payees of that run alone.",
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
            help="Pay the payees of this run alone: its folder, or its id as ledger show has it."
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
    file, with the same message id, until the batch is confirmed (datamarket ledger paid, datamarket ledger sent) or
    cancelled (datamarket ledger cancel).
    """
    payer = PayerRequest(debtor, debtor_account, debtor_bic, debtor_country, debtor_town)
    order = export_from(where, accounts, payer, out, run, currency, on.date() if on else None, form, by)
    done, total = order.done, order.done.order
    for doubt in done.doubts:
        say(f"Warning: {doubt}.", WARNING)
    if done.respelled:
        say("Names are written in the letters that every bank takes, within its length:", whole=True)
        for name, written in done.respelled[:FEW]:
            say(f"{visible(name)} -> {written}", indent=2)
        say_more(len(done.respelled))
    before = ", ordered before and not confirmed" if done.again else ""
    say(
        f"{out}: {len(total.transfers):,} payments, {total.currency.code} {total.currency.text(total.total)}, "
        f"batch {done.batch.id}{before}.",
        whole=True,
    )
    confirm = f"datamarket ledger sent {order.place} --batch {done.batch.id}"
    if order.paid_as is not None:
        confirm = f"datamarket ledger paid {order.paid_as}"
    say(
        f"When the bank has sent it: {confirm} --reference ...; if it will not: datamarket ledger cancel {order.place} "
        f"--batch {done.batch.id} --why ...",
        whole=True,
    )
