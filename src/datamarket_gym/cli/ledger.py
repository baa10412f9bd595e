"""``datamarket ledger``, ``export`` and ``dispute``: balances, payments, corrections and disputes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from datamarket_gym.cli import terminal
from datamarket_gym.cli.terminal import (
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
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import write_text
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.payout.bank.export import ExportRequest, export_from
from datamarket_gym.payout.ledger import transactions
from datamarket_gym.payout.ledger.account_statements import (
    balances_by_payee,
    describe_effects,
    describe_entry,
    entry_messages,
    format_time,
    rule_messages,
)
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.disputes import (
    DisputeRequest,
    Effects,
    open_on_run,
    resolve_at,
    revoke_at,
)
from datamarket_gym.payout.ledger.entries import LedgerEntry
from datamarket_gym.payout.ledger.journal import amount_of, journal_beancount, journal_csv
from datamarket_gym.payout.ledger.runs import attach as attach_run
from datamarket_gym.payout.ledger.runs import (
    ledger_at,
    ledger_of,
    mark_paid,
    run_folder,
    run_of,
    write_receipt,
)
from datamarket_gym.payout.ledger.store import add_checkpoint
from datamarket_gym.payout.ledger.trust import is_address
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.settings import option
from datamarket_gym.payout.verify import approve_recomputed
from datamarket_gym.registry import Document

_SHOWN = 50
_LONGEST = 300

ledger = typer.Typer(
    no_args_is_help=True,
    help="The market's ledger: every run, payment, balance and correction, as one chain of transactions.",
)
Batch = Annotated[str, Option(help="Id of the batch, as export and ledger show print it.")]
Reference = Annotated[str, Option(help="What identifies the payment, such as a transfer number.")]
Why = Annotated[str, Option(help="The reason, which the ledger keeps.")]
_CURRENCY = "Three letters, such as EUR; needed if the ledger has several currencies."
CurrencyCode = Annotated[str, Option("--currency", help=_CURRENCY)]


@ledger.command("show")
def show(
    where: terminal.Ledger,
    entries: Annotated[
        int, Option(min=0, help="Also show this many of the last entries of the ledger.")
    ] = 0,
) -> None:
    """Show runs, balances, and what is owed, ordered and held; of the folder of a run, its state and history."""
    folder = run_folder(where)
    if folder is not None:
        _show_run(folder)
        return
    store = ledger_at(where)
    accounts = store.accounts()
    say(f"{store.where}: {accounts.number:,} entries, tip hash {accounts.tip}")
    say(rule_messages(accounts.rules))
    heads = ("run", "period", "state", "amount", "payees", "reference")
    table = make_table(
        *heads, title="Runs", right=("amount", "payees"), whole=("run", "state", "amount", "payees")
    )
    rows = (
        (run.run[:16], run.period, run.state, _amount(run.currency, run.amount), f"{len(run.lines):,}",
         run.reference or "")
        for run in accounts.runs.values()
    )  # fmt: skip
    print_rows(table, ([visible(cell) for cell in row] for row in rows))
    _print_totals(accounts)
    _print_payees(accounts)
    for batch in accounts.batches.values():
        if batch.state == "ordered":
            say(
                f"Batch {batch.id}: {_amount(batch.currency, sum(batch.lines.values()))} to "
                f"{counted(len(batch.lines), 'payee')}, ordered and not confirmed (datamarket ledger sent, or cancel)."
            )
    if arrived := len(accounts.received):
        say(f"{counted(arrived, 'batch', 'batches')} of units arrived (datamarket intake show).")
    if entries:
        _print_entries(accounts, accounts.entries[-entries:])


def _show_run(run: Path) -> None:
    store = ledger_of(run)
    accounts = store.accounts()
    record = run_of(run, accounts)
    write_receipt(run, store, accounts)
    say(
        f"run {record.run[:16]}: {record.state}, {_amount(record.currency, record.amount)} to "
        f"{sum(x.paid > 0 for x in record.lines):,} of {len(record.lines):,} payees; ledger {store.where}"
    )
    shown = [entry for entry in record.history if entry.kind not in ("payment", "carried_forward")]
    _print_entries(accounts, shown)


def _print_entries(accounts: Accounts, entries: list[LedgerEntry]) -> None:
    table = make_list("entry", "time (UTC)", "event", "amount", "by", "detail", right=(3,))
    for column in table.columns[:4]:
        column.no_wrap = True
    rows = (
        (str(entry.number), format_time(entry), entry.kind, _entry_amount(entry, accounts), entry.by,
         "; ".join(filter(None, (entry.payee, describe_entry(entry)))))
        for entry in entries
    )  # fmt: skip
    print_rows(table, ([visible(cell, 120) for cell in row] for row in rows))


def _entry_amount(entry: LedgerEntry, accounts: Accounts) -> str:
    currency, amount = amount_of(entry, accounts)
    return _amount(currency, amount) if amount else ""


def _amount(currency: str, minor: int) -> str:
    return f"{currency} {Currency(currency).shown(minor)}"


def _print_totals(accounts: Accounts) -> None:
    codes = accounts.currencies
    table = make_table("", *codes, title="Totals", right=codes, whole=codes)
    totals = [accounts.totals_in(code) for code in codes]
    always = ("paid", "owed", "kept from forfeits")
    names = [
        n for n in (totals[0] if totals else ()) if n in always or any(total[n] for total in totals)
    ]
    print_rows(
        table,
        (
            (name, *(Currency(c).shown(t[name]) for c, t in zip(codes, totals, strict=True)))
            for name in names
        ),
    )


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


@ledger.command("export")
def export_journal(
    where: terminal.Ledger,
    csv: Annotated[
        Path | None, Option(help="File to write as CSV: every entry, with its amount.")
    ] = None,
    beancount: Annotated[
        Path | None, Option(help="File to write for beancount: every transaction in double entry.")
    ] = None,
) -> None:
    """Write the ledger as a journal, for accountants. For a bank: datamarket export."""
    if csv is None and beancount is None:
        raise DataMarketError("say what is written: --csv FILE, --beancount FILE, or both")
    accounts = ledger_at(where).accounts()
    for path, write in ((csv, journal_csv), (beancount, journal_beancount)):
        if path is not None:
            write_text(path, write(accounts), private=True)
            say(f"{path}: {counted(accounts.number, 'entry', 'entries')}", whole=True)


@ledger.command("approve")
@terminal.with_moved_inputs
def approve(
    run: terminal.RunFolder,
    moved: dict[str, Any],
    by: terminal.By = None,
    accept: Annotated[
        list[str] | None,
        Option(
            metavar="WARNING",
            help="Name of a warning that you have looked at and accept; repeatable. A run is approved only if all of "
            "its warnings are accepted.",
        ),
    ] = None,
) -> None:
    """Compute a run again from its inputs, compare, and approve it: from then on its payments are owed.

    A second approval does nothing, unless the ledger requires two people (datamarket ledger rules). A run with warnings
    is approved only if each is named (--accept leak --accept loses_half). The ledger keeps which warnings were
    accepted, and by whom.
    """
    with shown_on_stderr(in_logs=False) as progress:
        approval = approve_recomputed(run, by, accept or [], progress=progress, **moved)
    if approval.wrong:
        print_checks(approval.wrong)
        raise typer.Exit(1)
    say(approval.words)


@ledger.command("paid")
def paid(run: terminal.RunFolder, reference: Reference, by: terminal.By = None) -> None:
    """Record that the bank has paid an approved run; no money moves. Held and too small payments stay owed.

    A second time with the same reference does nothing; another reference is refused with the first.
    """
    done = mark_paid(run, reference, by)
    typer.echo("marked as paid" if done else "was marked as paid before; nothing changed")


@ledger.command("rules")
def rules(
    where: terminal.Ledger,
    approvals: Annotated[int | None, Option(help="How many people must approve a run.")] = None,
    least: Annotated[
        str | None, Option(help="The least amount that is sent to a payee; less waits and adds up.")
    ] = None,
    currency: CurrencyCode = "",
    by: terminal.By = None,
) -> None:
    """Set how many people approve a run and the least amount that is sent; without options, show both.

    To require fewer people than before, as many as before must give this command, each under their own name.
    """
    accounts = transactions.set_rules(ledger_at(where), approvals, least, currency, by)
    say(rule_messages(accounts.rules))


class PayeeEntry(Document):
    """The options of every command that enters something about a payee."""

    payee: str = option("The payee's name, as in payments.csv.", ...)
    why: str = option("The reason, which the ledger keeps.", ...)


class Correction(PayeeEntry):
    amount: str = option("How much more is owed, such as 12.50; below zero: less.", ...)
    of: int = option("Number of the entry that is corrected (see: datamarket statements).", ...)


class Fee(PayeeEntry):
    amount: str = option("The fee, such as 2.50.", ...)
    currency: str = option(_CURRENCY, "")


class ReturnedPayment(PayeeEntry):
    of: int | None = option("Number of the entry that sent it; the payee's last one if left out.")


class EndedBalance(PayeeEntry):
    amount: str | None = option("How much of the balance; all if left out.")
    currency: str = option(_CURRENCY, "")


def _add_command(name: str, model: type[PayeeEntry]) -> None:
    """Add a command that enters something by hand, with the options of a model."""
    enter, _, text = transactions.BY_HAND[name]

    @ledger.command(name, help=text)
    @terminal.with_options(model)
    def command(where: terminal.Ledger, options: Document, by: terminal.By = None) -> None:
        say(entry_messages(enter(ledger_at(where), **dict(options), by=by)))


for _name, _model in (
    ("correct", Correction), ("fee", Fee), ("hold", PayeeEntry), ("release", PayeeEntry),
    ("bounced", ReturnedPayment), ("fund", EndedBalance), ("write-off", EndedBalance),
):  # fmt: skip
    _add_command(_name, _model)


@ledger.command("sent")
def sent(where: terminal.Ledger, batch: Batch, reference: Reference, by: terminal.By = None) -> None:
    """Confirm that the bank has sent a batch of payments; the runs in it are then paid."""
    done = transactions.confirm(ledger_at(where), batch, reference, by)
    amount = _amount(done.currency, sum(done.lines.values()))
    say(f"batch {done.id}: {amount} sent to {counted(len(done.lines), 'payee')}")


@ledger.command("cancel")
def cancel(where: terminal.Ledger, batch: Batch, why: Why, by: terminal.By = None) -> None:
    """Cancel a batch that the bank will not send: all of it is owed again and can be ordered again."""
    done = transactions.cancel(ledger_at(where), batch, why, by)
    say(f"batch {done.id}: cancelled; all of it is owed again")


@ledger.command("checkpoint")
def checkpoint(
    where: terminal.Ledger,
    checkpoints: Annotated[
        Path | None, Option(help="File to append the line to; keep it apart from the ledger.")
    ] = None,
) -> None:
    """Print the ledger's tip hash, to be given to others: entries up to there can then no longer be changed."""
    accounts = ledger_at(where).accounts()
    say(
        accounts.checkpoint if checkpoints is None else add_checkpoint(checkpoints, accounts), whole=True
    )


@ledger.command("attach")
def attach(
    run: terminal.RunFolder,
    where: Annotated[
        str, Argument(metavar="LEDGER", help="The ledger's file or address, as it is now.")
    ],
    by: terminal.By = None,
) -> None:
    """Record in a run's folder where its ledger is, and in the ledger where the folder is, after either was moved."""
    attach_run(run, where, by)
    typer.echo("attached")


@terminal.with_options(ExportRequest)
def export(
    where: terminal.Ledger,
    options: ExportRequest,
    by: terminal.By = None,
) -> None:
    """Order what is owed, and write it as a file for the bank.

    All that approved runs owe is ordered as one batch, except to payees who are held and amounts below the least that
    is sent; with the folder of a run, what its payees are owed. The file is checked against its schema before anything
    is ordered. The same command again writes the same file, with the same message id, until the batch is confirmed
    (datamarket ledger paid, datamarket ledger sent) or cancelled (datamarket ledger cancel).
    """
    done = export_from(where, options, by)
    total, place = done.order, ledger_at(where).where if is_address(where) else where  # no password
    for doubt in done.doubts:
        say(f"Warning: {doubt}.", WARNING)
    if done.respelled:
        say("Names are written in the letters that every bank takes, within its length:", whole=True)
        for name, written in done.respelled[:FEW]:
            say(f"{visible(name)} -> {written}", indent=2)
        say_more(len(done.respelled))
    before = ", ordered before and not confirmed" if done.again else ""
    say(
        f"{options.out}: {counted(len(total.transfers), 'payment')}, {_amount(total.currency.code, total.total)}, "
        f"batch {done.batch.id}{before}.",
        whole=True,
    )
    confirm = f"datamarket ledger sent {place} --batch {done.batch.id}"
    if done.paid_as is not None:
        confirm = f"datamarket ledger paid {done.paid_as}"
    say(
        f"When the bank has sent it: {confirm} --reference ...; if it will not: datamarket ledger cancel {place} "
        f"--batch {done.batch.id} --why ...",
        whole=True,
    )


dispute = typer.Typer(
    no_args_is_help=True, help="A payee says that a run is wrong: enter the dispute, and decide it."
)
Number = Annotated[int, Option(help="Number of the dispute (see: dispute list).", min=1)]


@dispute.command("open")
@terminal.with_options(DisputeRequest)
def open_dispute(run: terminal.RunFolder, options: DisputeRequest, by: terminal.By = None) -> None:
    """Enter a dispute. A draft with an open dispute is approved only with --accept disputes."""
    opened, messages = open_on_run(run, options, by)
    say([f"dispute {opened.number} is open", *messages])
    say(f"decide it: datamarket dispute resolve {run} --number {opened.number} --outcome ... --why ...")


@dispute.command("resolve")
@terminal.with_options(Effects)
def resolve(
    where: terminal.Ledger,
    number: Number,
    outcome: Annotated[Literal["upheld", "rejected", "withdrawn"], Option(help="What was decided.")],
    options: Effects,
    why: Why,
    by: terminal.By = None,
) -> None:
    """Decide a dispute, once. One that is upheld can move money, and change what later runs match.

    What is separated or joined holds in all later runs that have the units or names, until: datamarket dispute revoke.
    """
    store, decided, earned = resolve_at(where, number, outcome, why, options, by)
    say([f"dispute {number} is {decided.state}", *earned])
    if decided.open:
        say(
            "the ledger requires several people: it is decided when another person gives the same command, "
            "correction and all"
        )
    say(describe_effects(decided, store.read()))


@dispute.command("revoke")
def revoke(where: terminal.Ledger, number: Number, why: Why, by: terminal.By = None) -> None:
    """End what an upheld dispute changes in later runs. Its correction stays; enter another one instead."""
    revoke_at(where, number, why, by)
    say(f"what dispute {number} changes ends with the next run; corrections stay")


@dispute.command("list")
def list_disputes(
    where: terminal.Ledger,
    only_open: Annotated[bool, Option("--open", help="List undecided disputes only.")] = False,
) -> None:
    """List the disputes of a ledger, what was decided, and what follows from it."""
    accounts = ledger_at(where).accounts()
    chosen = [each for each in accounts.disputes.by_number.values() if each.open or not only_open]
    if not chosen:
        say("no dispute is open" if only_open else "there are no disputes")
    for each in chosen:
        against = f" against {visible(each.against)}" if each.against else ""
        lines = [f"{visible(each.payee)}{against}, run {each.run[:16]}, {each.at[:10]}"]
        lines.append(visible(each.about, _LONGEST))
        if each.units:
            lines.append(f"units: {', '.join(map(visible, each.units))}")
        if (end := each.resolution) is not None:
            why = visible(end.why, _LONGEST)
            lines.append(f"{end.outcome} by {visible(end.by)}, {end.at[:10]}: {why}")
        say(f"Dispute {each.number}: {each.state}", "bold")
        say([*lines, *describe_effects(each, accounts.entries)], indent=2)
