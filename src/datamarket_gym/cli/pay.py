"""``datamarket pay`` and ``verify``: a payout run, and whether it and its ledger are as they were."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from datamarket_gym import registry as scripts
from datamarket_gym.cli import options
from datamarket_gym.cli.output import FEW, WARNING, print_checks, say, say_more
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.integrity import ledger_at, run_folder
from datamarket_gym.payout.ledger.store import is_address
from datamarket_gym.payout.manifest import Check
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.run import PaidRequest, PayRequest, pay_requested
from datamarket_gym.payout.settings import SETTINGS, payout_spec
from datamarket_gym.payout.verify import verify as verify_run
from datamarket_gym.payout.verify import verify_ledger

_ITEMS = 5  # of a warning
_EARLIER = "Earlier runs and the ledger"


@options.with_settings(SETTINGS)
def pay(
    submissions: Annotated[
        str,
        typer.Argument(
            help="Table of units (.parquet, .csv, .arrow, .jsonl, .xlsx#Sheet, 'duckdb:market.db#SELECT ...', "
            "'postgresql://user@host/db#SELECT ...'), or a folder identity/label/image; without "
            "labels, identity/image. See docs/tables.md."
        ),
    ],
    validation: Annotated[
        str,
        typer.Option(
            help="Table of validation rows, with labels where the units have them, or a folder label/image (without "
            "labels a folder of images)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the run; a killed run in it is resumed.")],
    settings: dict[str, Any],
    config: options.Config = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="Other honest units, laid out as the validation rows, on which the threshold is measured in their "
            "stead: for fewer than 500 validation rows. Nobody is paid for them, nothing is scored on them."
        ),
    ] = None,
    overrides: Annotated[
        Path | None, typer.Option(help="TOML file of signed-off splits and joins.")
    ] = None,
    intake: options.Intake = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            help="The market's ledger, in which every run is entered: a file, or postgresql://user@host/name. If left "
            "out: ledger.sqlite beside the folder --out. Its balances in this currency are taken up.",
            rich_help_panel=_EARLIER,
        ),
    ] = None,
    prior: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of an earlier run that is approved; repeat it for each. What it has bought is there already: "
            "units that evidence matches with it earn nothing, and new ones are paid for what they add.",
            rich_help_panel=_EARLIER,
        ),
    ] = None,
    reuse: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a run of most of these units, such as the one before late units came in: pairs of units "
            "that it compared are not compared again. The results are the same.",
            rich_help_panel=_EARLIER,
        ),
    ] = None,
    load: options.Load = None,
    cluster: options.Cluster = "",
    device: options.BlockDevice = "cpu",
    memory: options.Memory = options.MEMORY,
) -> None:
    """Divide an amount among those who submitted data, with an audit trail.

    Writes payments (CSV, Parquet), clusters, evidence, canonical units, manifest and report, and
    enters the run into the market's ledger.
    """
    scripts.load(load or [])
    spec = payout_spec(config, settings)
    request = PayRequest(
        submissions,
        validation,
        out,
        spec,
        overrides,
        reference,
        ledger,
        tuple(prior or ()),
        intake,
        reuse,
    )
    with (
        options.computes_by(cluster=cluster, device=device, memory=memory),
        shown_on_stderr() as progress,
    ):
        paid = pay_requested(request, progress)
    _print_payments(paid)


def _print_payments(paid: PaidRequest) -> None:
    for warning in paid.warnings:
        say(f"Warning: {warning.title}. ({warning.name})", WARNING)
        say(warning.words, indent=2)
        for item in warning.items[:_ITEMS]:
            say(f"- {item}", indent=2)
        if warning.items and warning.count > _ITEMS:
            say(f"and {warning.count - _ITEMS:,} more", indent=2)
    for each in paid.told:
        say(f"Warning: {each.words.rstrip('.')}.", WARNING)
    table = Table(title=paid.title)
    table.add_column("payee", overflow="fold")
    shown = paid.columns
    for name in [*shown, "units"]:
        head = {"balance": "carried forward"}.get(name, name.replace("_", " "))
        table.add_column(head, justify="right")
    for row in paid.payments(FEW):
        table.add_row(
            escape(visible(row["identity"])), *(row[name] for name in shown), f"{row['units']:,}"
        )
    Console().print(table)
    say_more(paid.manifest["identities"], " in payments.csv")
    for words in paid.sentences:
        say(words)
    out = paid.request.out
    accept = ", with --accept WARNING for each warning" if paid.warnings else ""
    check = f"datamarket check plan {out}, and " if paid.request.spec.checks else ""
    say(
        f"{paid.played} Read {out / 'report.html'}; then: {check}datamarket ledger approve {out}{accept}"
    )


def verify(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Folder of a payout run; or a ledger: its file or address."),
    ],
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Compute everything again and compare it.")
    ] = False,
    submissions: options.MovedSubmissions = None,
    validation: options.MovedValidation = None,
    reference: options.MovedReference = None,
    prior: options.MovedPrior = None,
    intake: options.MovedIntake = None,
    checkpoints: options.Checkpoints = None,
) -> None:
    """Check a payout run and its ledger, or a ledger with all of its runs; exit code 1 where something is wrong."""
    folder = run_folder(run)
    if folder is not None:
        with shown_on_stderr(in_logs=False) as progress:
            checks = verify_run(
                folder, recompute, submissions, validation, progress, reference, checkpoints, prior or [], intake
            )  # fmt: skip
    else:
        try:
            checks = verify_ledger(ledger_at(run), checkpoints)
        except LedgerError as error:
            if is_address(run) or not Path(run).exists():
                raise  # there is nothing that could be verified
            checks = [Check("ledger", False, str(error))]
    if not print_checks(checks):
        raise typer.Exit(1)
