"""Options that several commands share, and how commands print: everything in full, on a terminal of any width."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from pydantic import ValidationError
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from datamarket_gym.execution.parallel import Compute, computing, device_named
from datamarket_gym.registry import D, fault

if TYPE_CHECKING:
    from datamarket_gym.payout.manifest import Check
    from datamarket_gym.payout.settings import Setting

WARNING = "bold red"
FEW = 20
"""Rows that are shown of a long table."""

Jobs = Annotated[int, Option(help="Processes to use; 0 uses every core.", min=0)]
# Where a command computes. None of this is a setting of a run, and none changes a result.
Cluster = Annotated[
    str,
    Option(
        help="Address of a dask scheduler, such as tcp://10.0.0.1:8786, whose workers compute instead of this "
        "machine. Results do not change. See docs/cluster.md."
    ),
]
Memory = Annotated[
    float,
    Option(
        help="Memory in GiB for intermediate results, besides two copies of the units. Results do not change. "
        "See docs/scale.md."
    ),
]
MEMORY = Compute().memory
BlockDevice = Annotated[
    str, Option(help="Where units are compared: cpu, cuda or auto. Payments do not change by a cent.")
]
Device = Annotated[str, Option(help="Where models are fitted: cpu, cuda or auto.")]
Data = Annotated[
    Path | None,
    Option(
        help="Folder of data sets and encoder weights; DATAMARKET_DATA if left out. See docs/real-domains.md."
    ),
]
Load = Annotated[
    list[Path] | None,
    Option(
        help="Python file that registers components of your own. Repeatable; see docs/plug-points.md."
    ),
]
Config = Annotated[
    Path | None, Option(help="TOML file with settings of `pay`; options take precedence.")
]
RunFolder = Annotated[Path, Argument(metavar="RUN", help="Folder of a payout run.")]
Ledger = Annotated[
    str,
    Argument(
        metavar="LEDGER", help="The ledger: its file, its address, or the folder of a run entered in it."
    ),
]
By = Annotated[str | None, Option(help="Your name, for the ledger; the user's name if left out.")]
Checkpoints = Annotated[
    Path | None,
    Option(
        "--checkpoints", help="File of checkpoints of the ledger (see: datamarket ledger checkpoint)."
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


def compute_context(
    *, cluster: str, device: str = "cpu", memory: float = MEMORY
) -> AbstractContextManager[None]:
    """Compute on the cluster or device of these options; print which device ``auto`` is."""
    resolved = device_named(device)
    if device == "auto":
        typer.echo(f"units are compared on: {resolved}", err=True)
    return computing(Compute(resolved, memory, cluster))


def _add_options(
    argument: str, options: Mapping[str, tuple[Any, Any]], build: Callable[[dict[str, Any]], Any] = dict
) -> Callable[[Callable[..., None]], Any]:
    """Give a command options (annotation and default); it receives what is made of those typed as ``argument``."""
    keys = {name.replace(".", "_"): name for name in options}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        keyword = inspect.Parameter.KEYWORD_ONLY  # of which those without a default may come last
        for each in inspect.signature(command, eval_str=True).parameters.values():
            if each.name != argument:
                parameters.append(each.replace(kind=keyword))
                continue
            for key, name in keys.items():
                annotation, default = options[name]
                parameters.append(
                    inspect.Parameter(key, keyword, default=default, annotation=annotation)
                )

        @wraps(command)
        def typed(*places: Any, **values: Any) -> None:
            settings = {name: values.pop(key, None) for key, name in keys.items()}
            settings = {name: value for name, value in settings.items() if value is not None}
            command(*places, **values, **{argument: build(settings)})

        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        typed.__annotations__ = {each.name: each.annotation for each in parameters}
        return typed

    return decorate


def with_settings(settings: Mapping[str, Setting]) -> Callable[[Callable[..., None]], Any]:
    """Give a command an option for each of these settings; it receives those typed as ``settings``."""
    options = {name: (_annotation(each, off=True), None) for name, each in settings.items()}
    return _add_options("settings", options)


def with_payout_settings(names: Iterable[str]) -> Callable[[Callable[..., None]], Any]:
    """Give a command options for some settings of a payout run."""
    from datamarket_gym.payout.settings import SETTINGS

    return with_settings({name: SETTINGS[name] for name in names})


def with_options(model: type[D]) -> Callable[[Callable[..., None]], Any]:
    """Give a command an option for each field of a model that has one; it receives the model as ``options``."""
    from datamarket_gym.payout.settings import settings_of

    def build(values: dict[str, Any]) -> D:
        try:
            return model.model_validate(values)
        except ValidationError as error:
            raise fault(error) from error

    options = {
        name: (
            _annotation(each, off=each.default is True),
            inspect.Parameter.empty if model.model_fields[name].is_required() else each.default,
        )
        for name, each in settings_of(model)
    }
    return _add_options("options", options, build)


def _annotation(setting: Setting, *, off: bool) -> Any:
    """Return the annotation of an option; ``off`` if a flag can also be turned off."""
    flag = f"{setting.flag}/{setting.off}" if setting.kind is bool and off else setting.flag
    kind = setting.annotation
    if get_origin(kind) is tuple:
        kind = list[get_args(kind)[0]]  # type: ignore[misc]
    return Annotated[kind | None, Option(flag, help=setting.help, rich_help_panel=setting.panel)]


def _moved(kind: Any, what: str) -> Any:
    option = Option(help=f"{what}, if moved since.", rich_help_panel="Moved inputs")
    return Annotated[kind | None, option], None


with_moved_inputs = _add_options(
    "moved",
    {
        "submissions": _moved(Path, "The table or folder of submissions"),
        "validation": _moved(Path, "The validation rows"),
        "reference": _moved(Path, "The reference rows"),
        "acquired": _moved(list[Path], "Folder of an earlier run that this one builds on (repeatable)"),
        "intake": _moved(str, "The ledger with the intake log"),
    },
)
"""Give a command options for where the inputs of a run are now; it receives those typed as ``moved``."""


def say(
    texts: str | Iterable[str], style: str | None = None, *, indent: int = 0, whole: bool = False
) -> None:
    """Print a sentence, or several, as they are, without markup; a ``whole`` one is never broken into lines."""
    console = Console()
    for text in [texts] if isinstance(texts, str) else texts:
        if indent:
            console.print(Padding(Text(text, overflow="fold"), (0, 0, 0, indent)))
        else:
            console.print(text, style=style, highlight=False, markup=False, soft_wrap=whole)


def say_more(total: int, where: str = "", shown: int = FEW) -> None:
    """Print how many rows are not shown, if any."""
    if total > shown:
        say(f"… and {total - shown:,} more{where}")


def make_table(
    *heads: str,
    title: str | None = None,
    right: Iterable[str] = (),
    whole: Iterable[str] = (),
    tight: bool = True,
    boxed: bool = False,
) -> Table:
    """Make a table whose cells are wrapped, never cut; columns in ``whole`` are not wrapped."""
    table = Table(title=title, show_header=any(map(str.strip, heads)))
    if not boxed:
        table.title_justify, table.box, table.pad_edge = "left", SIMPLE_HEAD, False
        table.collapse_padding = tight
    for head in heads:
        justify = "right" if head in right else "left"
        table.add_column(head, overflow="fold", justify=justify, no_wrap=head in whole)  # type: ignore[arg-type]
    return table


def make_list(*heads: str, right: Collection[int] = ()) -> Table:
    """Make a table without lines; ``right`` are numbers of columns of figures."""
    table = Table(box=None, pad_edge=False, show_header=any(heads))
    for i, head in enumerate(heads):
        table.add_column(head, overflow="fold", justify="right" if i in right else "left")
    return table


def print_rows(table: Table, rows: Iterable[Sequence[str]]) -> None:
    """Fill a table with rows of plain text, as names in it are shown, and print it."""
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)


def print_checks(checks: Sequence[Check]) -> bool:
    """Print what was verified; return whether all of it is good."""
    table = make_list("", "", "")
    for check in checks:
        table.add_row(
            "[green]ok[/]" if check.good else "[red]FAILED[/]", check.what, escape(check.detail)
        )
    Console().print(table)
    return all(check.good for check in checks)
