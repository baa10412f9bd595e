"""``datamarket explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli import options


def command(
    run: options.RunFolder,
    identity: Annotated[
        str | None, typer.Option("--identity", "--payee", help="Whose payment to explain.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    what_if: Annotated[
        bool,
        typer.Option(
            "--what-if",
            help="Also score the market again without the evidence in its clusters; needs the run's inputs, and time.",
        ),
    ] = False,
    needs: Annotated[
        bool,
        typer.Option(
            "--needs",
            help="Also say which validation rows its units cover, in their own words; without a payee, which rows are "
            "covered least. They are secret: for the operator alone.",
        ),
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(
            help="The folder of another run, such as last month's: print what each identity was paid then and now, "
            "and which settings and inputs differ; with a payee, of that one alone.",
        ),
    ] = None,
    submissions: Annotated[
        Path | None,
        typer.Option(help="For --what-if: where the submissions are now, if they were moved."),
    ] = None,
    validation: options.MovedValidation = None,
    reference: options.MovedReference = None,
    prior: options.MovedPrior = None,
    intake: options.MovedIntake = None,
) -> None:
    """Why did I get this? What a payee's units were matched with, by which evidence, and who is paid for them."""
    from datamarket_gym.cli.explain import show_explanation
    from datamarket_gym.cli.needs import show_least_covered

    if against is not None:
        if what_if or needs:
            raise typer.BadParameter("--against compares two runs; leave --what-if and --needs out")
        from datamarket_gym.cli.compared import show_compared

        show_compared(run, against, identity, as_json)
    elif identity is not None:
        show_explanation(
            run,
            identity,
            as_json,
            what_if,
            submissions,
            validation,
            reference,
            prior or [],
            intake,
            needs,
        )
    elif needs and not what_if:
        show_least_covered(run, validation, as_json)
    else:
        raise typer.BadParameter(
            "say whose payment to explain: --payee NAME (or --needs or --against alone)"
        )
