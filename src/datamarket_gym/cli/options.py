"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from datamarket_gym.execution.parallel import Compute, computing, device_named

if TYPE_CHECKING:
    from datamarket_gym.payout.settings import Setting


Jobs = Annotated[int, typer.Option(help="Processes to use; 0 uses every core.", min=0)]
# By what a command computes: none of it is a setting of a run, and none changes a result.
Cluster = Annotated[
    str,
    typer.Option(
        help="Address of a dask scheduler, such as tcp://10.0.0.1:8786, whose workers compute in the stead of this "
        "machine. The results are the same. See docs/cluster.md."
    ),
]
Memory = Annotated[
    float,
    typer.Option(
        help="Memory in GiB for blocks and buffers, beside the units and one copy of them. The results are the "
        "same. See docs/scale.md."
    ),
]
MEMORY = Compute().memory
BlockDevice = Annotated[
    str,
    typer.Option(
        help="What multiplies large blocks of units: cpu, cuda or auto. Payments are the same to the cent."
    ),
]
Device = Annotated[str, typer.Option(help="Where models are fitted: cpu, cuda or auto.")]
Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder with data sets and weights; also DATAMARKET_DATA. See docs/real-domains.md."
    ),
]
Load = Annotated[
    list[Path] | None,
    typer.Option(
        help="A Python file that registers components of yours (again for more). See docs/plug-points.md."
    ),
]
Config = Annotated[
    Path | None, typer.Option(help="TOML file with any settings of `pay`; options come on top.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
# What is done to a run or to a ledger: to which, by whom, why, and where the inputs are by now.
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a payout run.")]
Ledger = Annotated[
    str,
    typer.Argument(
        metavar="LEDGER", help="The ledger: its file, its address, or the folder of a run in it."
    ),
]
Payee = Annotated[str, typer.Option(help="The payee, as runs name it.")]
By = Annotated[str | None, typer.Option(help="Who does it; the user's name if left out.")]
Why = Annotated[str, typer.Option(help="The reason, for anybody who asks later.")]
Currency = Annotated[str, typer.Option(help="Three letters; needed where there are several.")]
Checkpoints = Annotated[
    Path | None,
    typer.Option(
        "--checkpoints", help="File of checkpoints of the ledger (see: datamarket ledger checkpoint)."
    ),
]
MovedSubmissions = Annotated[
    Path | None, typer.Option(help="Where the submissions are now, if they were moved.")
]
MovedValidation = Annotated[
    Path | None, typer.Option(help="Where the validation rows are now, if they were moved.")
]
MovedReference = Annotated[
    Path | None, typer.Option(help="Where the reference rows are now, if they were moved.")
]
MovedPrior = Annotated[
    list[Path] | None,
    typer.Option(
        help="Where an earlier run that this one builds on is now, if it was moved; repeat it."
    ),
]
MovedIntake = Annotated[
    str | None,
    typer.Option(
        "--intake", help="Where the intake log is now, where times are from one: its file or address."
    ),
]
Intake = Annotated[
    str | None,
    typer.Option(
        help="Ledger with your intake log: times are when it received each unit, and nothing that the table says; "
        "units that are not in it are refused. See: intake --help."
    ),
]

BATCH = (
    "columns.id", "columns.label", "columns.features", "columns.text", "columns.image", "files.images",
    "files.features",
)  # fmt: skip
"""The settings by which a batch of units is read."""
TABLE = ("columns.identity", *BATCH, "columns.embedding", "columns.time", "encoder")
"""The settings by which a table of units is read."""
TABLES = (*TABLE, "files.embedding", "files.validation_features", "files.reference_features")
"""The settings by which tables of units, validation and reference rows are read."""


def computes_by(
    *, cluster: str, device: str = "cpu", memory: float = MEMORY
) -> AbstractContextManager[None]:
    """Compute by what these options name while it is entered; say what ``auto`` is."""
    found = device_named(device)
    if device == "auto":
        typer.echo(f"large blocks are multiplied on: {found}", err=True)
    return computing(Compute(found, memory, cluster))


def with_settings(names: Iterable[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each of these settings of a payout run.

    The command has an argument ``settings``: those that were typed, by name; None for the others. The options' names,
    help and panels are in `payout.spec`.
    """
    from datamarket_gym.payout.settings import SETTINGS

    chosen = {name.replace(".", "_"): name for name in names}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [parameter for parameter in own if parameter.name != "settings"]
        for key, name in chosen.items():
            annotation = _option(SETTINGS[name])
            parameters.append(
                inspect.Parameter(
                    key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
                )
            )

        @wraps(command)
        def typed(**values: Any) -> None:
            settings = {name: values.pop(key) for key, name in chosen.items()}
            command(**values, settings=settings)

        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        typed.__annotations__ = {each.name: each.annotation for each in parameters}
        return typed

    return decorate


def _option(setting: Setting) -> Any:
    flags = f"{setting.flag}/{setting.off}" if setting.kind is bool else setting.flag
    kind = list[str] if setting.kind is list else setting.kind
    return Annotated[kind | None, typer.Option(flags, help=setting.help, rich_help_panel=setting.panel)]
