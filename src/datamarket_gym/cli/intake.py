"""``datamarket intake``: batches on their way into the log, receipts, and what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from typer import Argument, Option

from datamarket_gym.cli import terminal
from datamarket_gym.cli.terminal import WARNING, make_table, print_checks, print_rows, say
from datamarket_gym.data.readers.databases import as_files, is_query
from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.intake import (
    IntakeReceipt,
    ReceiptError,
    UnitBatch,
    check_batch,
    check_in_ledger,
    check_itself,
    check_receipt_against_checkpoints,
    enter_batch,
    enter_export,
    read_batch,
    read_receipt,
)
from datamarket_gym.payout.ledger.entries import LedgerEntry
from datamarket_gym.payout.ledger.runs import ledger_at
from datamarket_gym.payout.ledger.store import NAME, Ledger, has_ledger, open_ledger
from datamarket_gym.payout.manifest import Check
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.settings import Columns, Files, nested

_FEW = 5

intake = typer.Typer(
    no_args_is_help=True,
    help="The intake log: which units arrived, from whom and when, by your clock. See docs/intake.md.",
)
PayeeColumn = Annotated[
    str | None,
    Option(
        help="Column with the payee; --payee must agree with it. That of market.toml, or identity, if left out."
    ),
]


@intake.command("init")
def init(
    where: Annotated[
        str | None,
        Argument(
            metavar="LEDGER",
            help="The log (file or address): that of market.toml, or ledger.sqlite in this folder, if left out.",
        ),
    ] = None,
) -> None:
    """Create a log. A ledger that exists takes batches as it is."""
    where = where or str(terminal.market_settings().get("ledger", NAME))
    existed = has_ledger(where)
    log = open_ledger(where, new=True)
    accounts = log.accounts()
    how = "was there before, and takes batches" if existed and accounts.number > 1 else "takes batches"
    say(
        f"{log.where}: {counted(accounts.number, 'entry', 'entries')}, id {accounts.id}; {how}",
        whole=True,
    )


@intake.command("add")
@terminal.with_payout_settings(terminal.BATCH)
def add(
    batch: Annotated[
        list[str],
        Argument(
            metavar="[LEDGER] BATCH",
            help="Table of one submitter's units, in any format of `pay`, or a folder identity/label/image; before it "
            "the log, that of market.toml, or ledger.sqlite in this folder, if left out.",
        ),
    ],
    settings: dict[str, Any],
    payee: Annotated[
        str | None, Option(help="Whose units they are; as in the batch's column if left out.")
    ] = None,
    payee_column: PayeeColumn = None,
    receipt: Annotated[
        Path | None, Option(help="File of the receipt; beside the batch if left out.")
    ] = None,
    by: terminal.By = None,
) -> None:
    """Enter a batch that has just arrived, and write a receipt for its submitter.

    A batch is not entered twice: a second time, the receipt is that of the first.
    """
    log, path = _log_and_table(batch, "batch.csv")
    before = log.accounts().number
    units = _read(path, payee_column, settings)
    _say_columns(units)
    entry = enter_batch(log, units.owner(payee), units.records, units.what, by)
    table = _table("entry", "time (UTC)", "payee", "units", "sha256")
    cells = (str(entry.number), _moment(entry), visible(entry.payee), f"{entry.content['units']:,}")
    print_rows(table, [(*cells, entry.content["sha256"][:16])])
    if entry.number <= before:
        say("It was entered before, just as it is; nothing was entered now: the first time counts.")
    file = Path("batch" if is_query(path) else path)
    beside = file.with_name(f"{file.name.partition('#')[0]}.entry-{entry.number}.receipt.json")
    IntakeReceipt.from_entry(log, entry).write(receipt or beside)
    say(f"receipt: {receipt or beside}", whole=True)


@intake.command("import")
@terminal.with_payout_settings((*terminal.BATCH, "columns.time"))
def import_(
    table: Annotated[
        list[str],
        Argument(
            metavar="[LEDGER] TABLE",
            help="The export of your portal: units of all submitters, with a column of times (UTC where it names no "
            "zone); before it the log, that of market.toml, or ledger.sqlite in this folder, if left out.",
        ),
    ],
    settings: dict[str, Any],
    payee_column: PayeeColumn = None,
    by: terminal.By = None,
) -> None:
    """Enter your own export of a portal with the times that it has, marked as such.

    These are your word: a batch that is entered when it arrives (intake add) has the time of the log's clock instead.
    Rows that were entered before change nothing; another time for the same unit is refused.
    """
    log, path = _log_and_table(table, "portal.csv")
    export = _read(path, payee_column, settings, timed=True)
    _say_columns(export)
    source = "a query" if is_query(path) else Path(path).name
    done = enter_export(log, export, source, by)
    submitters = counted(len(done.entries), "submitter")
    summary = f"{counted(done.units, 'unit')} of {submitters} entered, as the operator's export"
    if done.known:
        summary += f"; {done.known:,} were entered before, and nothing changes"
    if done.received:
        summary += f"; {done.received:,} were received by the log's own clock before, whose times stand"
    say(f"{summary}.")


@intake.command("check")
@terminal.with_payout_settings(terminal.BATCH)
def check(
    receipt: Annotated[Path, Argument(help="File of the receipt.")],
    settings: dict[str, Any],
    ledger: Annotated[
        str | None, Option(help="The log that must have the batch (file or address).")
    ] = None,
    checkpoints: terminal.Checkpoints = None,
    unit_in: Annotated[
        str | None, Option(help="A batch, to check that the receipt is for it, and for --unit.")
    ] = None,
    unit: Annotated[str | None, Option(help="Id of a unit that the batch must hold.")] = None,
    payee_column: PayeeColumn = None,
) -> None:
    """Verify a receipt; the exit code is 1 if a check fails.

    Anybody can write a receipt that agrees with itself. Only --ledger or --checkpoints show that the log has the batch.
    """
    if not receipt.is_file():
        raise DataMarketError(f"there is no file {str(receipt)!r}; name a receipt")
    try:
        shown = read_receipt(receipt)
    except ReceiptError as error:
        checks = [Check("receipt", False, str(error))]
    else:
        checks = [check_itself(shown)]
        if ledger is not None:
            checks += check_in_ledger(shown, ledger_at(ledger))
        if checkpoints is not None:
            checks.append(check_receipt_against_checkpoints(shown, checkpoints))
        if unit_in is not None:
            checks.append(check_batch(shown, _read(unit_in, payee_column, settings), unit))
        elif unit is not None:
            raise DataMarketError("there is no batch to look into; name it with --unit-in")
        if ledger is None and checkpoints is None:
            alone = (
                "not verified: the receipt agrees with itself, which anybody can write; whether the operator's log "
                "holds it is shown by the log (--ledger), or by a checkpoint that others keep (--checkpoints)"
            )
            checks.append(Check("log", False, alone))
    if not print_checks(checks):
        raise typer.Exit(1)


@intake.command("receipt")
def receipt_(
    where: terminal.Ledger,
    entry: Annotated[int, Option(help="Number of the batch's entry (see: datamarket intake show).")],
    out: Annotated[Path, Option(help="File of the receipt.")],
) -> None:
    """Write the receipt of a batch again."""
    log = ledger_at(where)
    batches = [each for each in log.accounts().received if each.number == entry]
    if not batches:
        raise DataMarketError(f"entry {entry} is no batch; see: datamarket intake show {where}")
    IntakeReceipt.from_entry(log, batches[0]).write(out)
    say(f"receipt: {out}", whole=True)


@intake.command("show")
def show(where: terminal.Ledger) -> None:
    """List the batches of the log: when they came, from whom, and how many units."""
    log = ledger_at(where)
    accounts = log.accounts()
    entries = accounts.received
    say(f"{log.where}: {counted(len(entries), 'batch', 'batches')}, tip hash {accounts.tip}", whole=True)
    table = _table("entry", "time (UTC)", "payee", "batch", "times of", "units", "sha256")
    print_rows(
        table,
        (
            (str(entry.number), _moment(entry), visible(entry.payee), str(entry.content.get("what")),
             visible(f"operator's export {entry.content['source']}") if "source" in entry.content else "the clock",
             f"{entry.content['units']:,}", entry.content["sha256"][:8])
            for entry in entries
        ),
    )  # fmt: skip


def _table(*heads: str) -> Table:
    return make_table(*heads, right=("units",), whole=("entry", "time (UTC)", "units", "sha256"))


def _log_and_table(places: list[str], example: str) -> tuple[Ledger, str]:
    """Return the log and the table of a command, which may name the table alone."""
    if len(places) > 2:
        raise DataMarketError(f"give one log and one table, such as: ledger.sqlite {example}")
    return ledger_at(places[0] if len(places) == 2 else terminal.chosen_ledger()), places[-1]


def _say_columns(units: UnitBatch) -> None:
    """Say which columns were taken as what, and which one may have been forgotten."""
    none = f"none (columns: {', '.join(map(visible, units.left)) or 'no others'})"
    label = visible(units.taken["label"]) if "label" in units.taken else none
    say(f"{units.what}: {visible(units.taken.get(units.what, 'a file'))}; labels: {label}", whole=True)
    if units.like_label:
        names = " or ".join(f"--label {visible(name)}" for name in units.like_label)
        say(
            f"Warning: no labels are taken, and a column looks like one: {names}. Without them the log does not show "
            "which label a unit had.",
            WARNING,
        )


def _read(
    batch: str, payee_column: str | None, settings: dict[str, Any], *, timed: bool = False
) -> UnitBatch:
    """Read a batch; files of a folder that are no units are named."""
    market = terminal.market_settings()
    in_file = (*terminal.BATCH, "columns.identity", "columns.time")
    sections = nested({name: market[name] for name in in_file if name in market} | settings)
    named = sections.get("columns", {})
    columns = Columns(**named | ({"identity": payee_column} if payee_column else {}))
    with as_files({"submissions": batch}) as tables:
        files = Files(**sections.get("files", {}))
        units = read_batch(tables["submissions"], columns, files, timed=timed)
    if units.skipped:
        names = listed((f"{visible(name)} ({why})" for name, why in units.skipped), _FEW, "; ")
        say(f"Not read, and not entered: {names}", whole=True)
    return units


def _moment(entry: LedgerEntry) -> str:
    """Write a time to the millisecond: it decides who was first."""
    return entry.at[:23].replace("T", " ")
