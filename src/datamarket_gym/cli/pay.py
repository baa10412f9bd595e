"""``datamarket pay`` and ``verify``: divide an amount, and check a payout run and its ledger."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from typer import Argument, Option

from datamarket_gym import registry
from datamarket_gym.cli import terminal
from datamarket_gym.cli.terminal import FEW, WARNING, make_table, print_checks, print_rows, say, say_more
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.runs import ledger_at, run_folder
from datamarket_gym.payout.ledger.trust import is_address
from datamarket_gym.payout.manifest import Check
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.run import PaidRequest, PayRequest, pay_requested, rehearsal
from datamarket_gym.payout.settings import SETTINGS, PayOptions, payout_spec
from datamarket_gym.payout.verify import verify as verify_run
from datamarket_gym.payout.verify import verify_ledger

_ITEMS = 5  # of a warning


@terminal.with_settings(SETTINGS)
@terminal.with_options(PayOptions)
def pay(
    submissions: Annotated[
        str,
        Argument(
            help="Table of units (.csv, .parquet, .xlsx, ... or a query), or a folder identity/label/image. See "
            "docs/tables.md."
        ),
    ],
    options: PayOptions,
    settings: dict[str, Any],
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be paid; leave no folder and no entry.")
    ] = False,
    load: terminal.Load = None,
    cluster: terminal.Cluster = "",
    device: terminal.BlockDevice = "cpu",
    memory: terminal.Memory = terminal.MEMORY,
) -> None:
    """Divide an amount among those who submitted data, with an audit trail.

    Settings are those of market.toml (see: datamarket init). The run is a folder, and a draft in the ledger.
    """
    registry.load(load or [])
    out = options.out or _folder(submissions)
    if options.out is None:
        settings.setdefault("period", out.name[:100])
    spec = payout_spec(terminal.without_file_times(settings, options.intake))
    given = options.model_dump(exclude={"out"})
    request = PayRequest(submissions=submissions, spec=spec, out=out, **given)
    with (
        terminal.compute_context(cluster=cluster, device=device, memory=memory),
        shown_on_stderr() as progress,
        ExitStack() as ending,
    ):
        if dry_run:
            folder = ending.enter_context(TemporaryDirectory(prefix="datamarket-dry-run-"))
            request = rehearsal(request, Path(folder))
        paid = pay_requested(request, progress)
        _print_payments(paid, dry_run)


def _folder(submissions: str) -> Path:
    """Return the folder of a run that names none: what the table is called, in this folder."""
    path = Path(submissions.split("#")[0])
    name = path.name.split(".")[0] if path.is_file() else f"{path.name}-run" if path.is_dir() else ""
    if not name:
        raise DataMarketError(
            f"{submissions!r} is no file or folder that the run could be called after; check the path, or name its "
            "folder: --out FOLDER"
        )
    return Path(name)


def _print_payments(paid: PaidRequest, dry_run: bool) -> None:
    for warning in paid.warnings:
        say(f"Warning: {warning.title}. ({warning.name})", WARNING)
        say(warning.words, indent=2)
        for item in warning.items[:_ITEMS]:
            say(f"- {item}", indent=2)
        if warning.items and warning.count > _ITEMS:
            say(f"and {warning.count - _ITEMS:,} more", indent=2)
    for each in paid.market_warnings:
        say(f"Warning: {each.words.rstrip('.')}.", WARNING)
    columns = [*paid.columns, "units"]
    heads = ["carried\nforward" if name == "balance" else name.replace("_", "\n") for name in columns]
    table = make_table("payee", *heads, title=paid.title, right=heads, boxed=True)
    payees = paid.manifest["identities"]
    rows = paid.payments(payees if dry_run else FEW)  # a dry run leaves no payments.csv
    print_rows(
        table,
        [
            (visible(r["identity"]), *(f"{r[c]:,}" if c == "units" else r[c] for c in columns))
            for r in rows
        ],
    )
    say_more(payees, " in payments.csv", len(rows))
    say(paid.sentences)
    if dry_run:
        say(f"{paid.played} Nothing was written: this was a dry run.")
        return
    out = paid.request.out
    accept = ", with --accept WARNING for each warning" if paid.warnings else ""
    check = f"datamarket check sample {out}, and " if paid.request.spec.checks else ""
    say(
        f"{paid.played} Read {out / 'report.html'}; then: {check}datamarket ledger approve {out}{accept}"
    )


@terminal.with_moved_inputs
def verify(
    run: Annotated[
        str,
        Argument(metavar="RUN|LEDGER", help="Folder of a payout run, or a ledger (file or address)."),
    ],
    moved: dict[str, Any],
    recompute: Annotated[
        bool, Option("--recompute", help="Compute every payment again from the inputs, and compare.")
    ] = False,
    checkpoints: terminal.Checkpoints = None,
) -> None:
    """Check a payout run and its ledger, or a ledger and all of its runs.

    Compares hashes, sums and entries with what the run and the ledger recorded. The exit code is 1 if a check fails.
    """
    folder = run_folder(run)
    if folder is not None:
        with shown_on_stderr(in_logs=False) as progress:
            checks = verify_run(folder, recompute, progress=progress, checkpoint=checkpoints, **moved)
    else:
        try:
            checks = verify_ledger(ledger_at(run), checkpoints)
        except LedgerError as error:
            if is_address(run) or not Path(run).exists():
                raise  # there is nothing that could be verified
            checks = [Check("ledger", False, str(error))]
    if not print_checks(checks):
        raise typer.Exit(1)
