"""Options that several commands share, and how commands print: everything in full, on a terminal of any width."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from typer import Argument, Option

from datamarket_gym.execution.parallel import Compute, computing, device_named
from datamarket_gym.registry import D

if TYPE_CHECKING:
    from datamarket_gym.payout.manifest import Check
    from datamarket_gym.payout.settings import Setting

WARNING = "bold red"
_LEDGER = "ledger.sqlite"
_LONGEST = 2000  # characters of what a check says
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


class _Market:
    """The file of settings of the command that runs: one that is named, else market.toml in this folder."""

    named: Path | None = None
    values: dict[str, Any] | None = None
    shown = False


def use_market(file: Path | None) -> Path | None:
    """Take settings from this file; from market.toml in this folder where none is named."""
    _Market.named, _Market.values, _Market.shown = file, None, False
    return file


def market_settings(*, is_shown: bool = False) -> dict[str, Any]:
    """Read the file of settings, by the names of their fields; empty where there is none."""
    from datamarket_gym.payout.market_file import FILE, read_market

    file = _Market.named or Path(FILE)
    if _Market.values is None:
        _Market.values = read_market(file) if _Market.named or file.exists() else {}
    if is_shown and _Market.values and not _Market.shown:
        _Market.shown = True
        typer.echo(f"settings: {file}", err=True)
    return _Market.values


def without_file_times(settings: dict[str, Any], intake: str | None) -> dict[str, Any]:
    """Leave out the column of times of market.toml, which ``intake import`` needs, where times are an intake log's."""
    column = market_settings().get("columns.time")
    if intake is None or settings.get("columns.time") != column:
        return settings
    return {name: value for name, value in settings.items() if name != "columns.time"}


Config = Annotated[
    Path | None,
    Option(
        "--config",
        help="File of settings; market.toml in this folder if left out. Options take precedence. See: datamarket "
        "init --help.",
        is_eager=True,
        callback=lambda file: file and use_market(file),
    ),
]
RunFolder = Annotated[Path, Argument(metavar="RUN", help="Folder of a payout run.")]


def market_ledgers() -> list[str]:
    """Return the ledger and the intake log that market.toml names: a run's folder may lead there."""
    settings = market_settings()
    return [str(settings.get(name) or "") for name in ("ledger", "intake")]


def _from_market(name: str) -> Callable[[str | None], str | None]:
    """Return a callback that takes an option from market.toml where it is not typed."""
    return lambda typed: (
        market_settings().get(name) if typed is None else typed
    )  # "" is refused where it is read


def chosen_ledger(typed: str | None = None) -> str:
    """Return the ledger that is typed, else that of market.toml, else the one in this folder."""
    ledger = market_settings().get("ledger") if typed is None else typed
    if ledger is not None:
        return str(ledger)
    if Path(_LEDGER).exists():
        return _LEDGER
    raise typer.BadParameter(
        f"name the ledger: there is neither a {_LEDGER} nor a market.toml that names one in this folder"
    )


Ledger = Annotated[
    str,
    Argument(
        metavar="LEDGER",
        default_factory=lambda: None,
        show_default=False,
        help="The ledger: its file, its address, or the folder of a run entered in it; that of market.toml, or "
        "ledger.sqlite in this folder, if left out.",
        callback=chosen_ledger,
    ),
]
By = Annotated[
    str | None,
    Option(
        help="Your name, for the ledger; that of market.toml, or the user's name, if left out.",
        callback=_from_market("by"),
    ),
]
Contact = Annotated[
    str,
    Option(
        help="Where payees write to, for statements and letters; that of market.toml if left out.",
        callback=lambda typed: typed or str(market_settings().get("contact", "")),
    ),
]
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
    argument: str,
    options: Mapping[str, tuple[Any, Any]],
    build: Callable[[dict[str, Any]], Any] = dict,
    in_file: Collection[str] = (),
) -> Callable[[Callable[..., None]], Any]:
    """Give a command options (annotation and default); it receives what is made of those typed as ``argument``.

    What is ``in_file`` and not typed is taken from market.toml.
    """
    keys = {name.replace(".", "_"): name for name in options}
    keyword = inspect.Parameter.KEYWORD_ONLY  # of which those without a default may come last

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        parameters: dict[str, inspect.Parameter] = {}
        for each in inspect.signature(command, eval_str=True).parameters.values():
            if each.name != argument:
                parameters[each.name] = each.replace(kind=keyword)
                continue
            for key, name in keys.items():
                annotation, default = options[name]
                parameters[key] = inspect.Parameter(key, keyword, default=default, annotation=annotation)
        if in_file:
            parameters["config"] = inspect.Parameter("config", keyword, default=None, annotation=Config)
        if any(_is_hidden(each) for each in parameters.values()):
            parameters |= {name: _hidden(parameters[name]) for name in _RARE if name in parameters}
            shown = inspect.Parameter("help_all", keyword, default=False, annotation=HelpAll)
            parameters["help_all"] = shown

        @wraps(command)
        def typed(*places: Any, **values: Any) -> None:
            values.pop("help_all", None)
            values.pop("config", None)
            market = market_settings(is_shown=True) if in_file else {}
            settings = {name: market[name] for name in in_file if name in market}
            for key, name in keys.items():
                if (value := values.pop(key, None)) is not None and value != []:
                    settings[name] = value
            command(*places, **values, **{argument: build(settings)})

        signature = inspect.Signature(list(parameters.values()))
        typed.__signature__ = signature  # type: ignore[attr-defined]
        typed.__annotations__ = {each.name: each.annotation for each in parameters.values()}
        return typed

    return decorate


_RARE = ("cluster", "device", "memory", "load")
"""Shared options that a short help leaves out."""


def _hidden(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, info = get_args(parameter.annotation)
    info = copy(info)
    info.hidden = True
    return parameter.replace(annotation=Annotated[kind, info])


def _is_hidden(parameter: inspect.Parameter) -> bool:
    infos = getattr(parameter.annotation, "__metadata__", ())
    return any(getattr(info, "hidden", False) for info in infos)


def _show_all(context: typer.Context, wanted: bool) -> None:
    """Print the help with the options that the short help leaves out."""
    if wanted:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    Option(
        "--help-all", help="Show all options, in groups, and exit.", is_eager=True, callback=_show_all
    ),
]


def with_settings(
    settings: Mapping[str, Setting], *, read_market: bool = True
) -> Callable[[Callable[..., None]], Any]:
    """Give a command an option for each of these settings; it receives those typed, or in market.toml."""
    is_short = not all(each.common for each in settings.values())
    options = {
        name: (_annotation(each, off=True, is_short=is_short), None) for name, each in settings.items()
    }
    return _add_options("settings", options, in_file=_in_file(settings) if read_market else ())


def _in_file(settings: Mapping[str, Setting]) -> list[str]:
    return [name for name, each in settings.items() if each.in_file]


def with_payout_settings(names: Iterable[str]) -> Callable[[Callable[..., None]], Any]:
    """Give a command options for some settings of a payout run."""
    from datamarket_gym.payout.settings import SETTINGS

    return with_settings({name: SETTINGS[name] for name in names})


def with_options(model: type[D]) -> Callable[[Callable[..., None]], Any]:
    """Give a command an option for each field of a model that has one; it receives the model as ``options``."""
    from datamarket_gym.payout.settings import settings_of, validated

    settings = dict(settings_of(model))
    is_short = not all(each.common for each in settings.values())
    options = {}
    for name, each in settings.items():
        default = None if each.in_file else each.default
        if model.model_fields[name].is_required() and not each.in_file:
            default = inspect.Parameter.empty
        options[name] = _annotation(each, off=each.default is True, is_short=is_short), default
    return _add_options("options", options, partial(validated, model), _in_file(settings))


def _annotation(setting: Setting, *, off: bool, is_short: bool) -> Any:
    """Return the annotation of an option; ``off`` if a flag can be turned off, ``is_short`` if some stay hidden."""
    flag = f"{setting.flag}/{setting.off}" if setting.kind is bool and off else setting.flag
    kind = setting.annotation
    if get_origin(kind) is tuple:
        kind = list[get_args(kind)[0]]  # type: ignore[misc]
    panel = None if is_short and setting.common else setting.panel
    about = Option(flag, help=setting.help, rich_help_panel=panel, hidden=not setting.common)
    return Annotated[kind | None, about]


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
    from datamarket_gym.payout.manifest import Note
    from datamarket_gym.payout.names import visible

    table = make_list("", "", "")
    for check in checks:
        good = "[yellow]note[/]" if isinstance(check, Note) else "[green]ok[/]"
        table.add_row(
            good if check.good else "[red]FAILED[/]",
            visible(check.what),
            escape(visible(check.detail, _LONGEST)),
        )
    Console().print(table)
    return all(check.good for check in checks)
