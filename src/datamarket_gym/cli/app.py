"""The application: every module of `datamarket_gym.cli.commands` is a command, found by name.

A command module has a function ``command`` whose signature and docstring are its options and help;
its heavy imports happen inside. It is imported when it is asked for: a question is answered within a second, the
start of the process included.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from datamarket_gym import __version__
from datamarket_gym.cli import commands, options
from datamarket_gym.core import scripts
from datamarket_gym.core.errors import DataMarketError

HEADINGS = {
    "Look at it": ("explore",),
    "Pay, and defend what was paid": (
        "intake", "theta", "pay", "check", "explain", "statements", "verify", "ledger", "book", "statement", "dispute",
        "export", "audit",
    ),
    "Compare mechanisms under attack": (
        "demo", "list", "run", "suite", "results", "figures", "embed", "peers",
    ),
    "Enter the benchmark": ("submit", "leaderboard", "arena"),
}  # fmt: skip
_HEADING = {name: heading for heading, names in HEADINGS.items() for name in names}
_MODULES = {m.name.rstrip("_").replace("_", "-"): m.name for m in iter_modules(commands.__path__)}


class Commands(TyperGroup):
    """The commands, each imported when it is asked for; all of them, where somebody asks which there are."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names."""
        return list(_MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command; for a name that is none all are read, so that the error can name those it may have meant."""
        for name in [cmd_name] if cmd_name in _MODULES else _MODULES:
            if name not in self.commands:
                self.add_command(_command(name), name)
        return super().get_command(ctx, cmd_name)


def _command(name: str) -> Any:
    found = import_module(f"{commands.__name__}.{_MODULES[name]}")
    alone = typer.Typer()
    if hasattr(found, "group"):  # a command with sub-commands
        alone.add_typer(found.group, name=name, rich_help_panel=_HEADING[name])
    else:
        alone.command(name, rich_help_panel=_HEADING[name])(found.command)
    return get_group(alone).commands[name]


app = typer.Typer(
    cls=Commands,
    name="datamarket",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Pay people for training data without paying cheats.",
)


def main() -> None:
    """Run the command line; a user's mistake is one readable line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names in any script, on a terminal of any
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except DataMarketError as error:
        sys.stderr.write(f"datamarket: {error}\n")
        raise SystemExit(2) from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        if not full and error.filename is None:  # about no file: a fault of ours
            raise
        remedy = (
            "make room and run the same command again"
            if full
            else "check the path, and that you may use it"
        )
        named = "" if error.filename is None else f"{os.fsdecode(error.filename)!r}: "
        sys.stderr.write(f"datamarket: {named}{error.strerror or error}; {remedy}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("datamarket: interrupted; run the same command again to resume\n")
        raise SystemExit(130) from None


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"datamarket-gym {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    load: options.Load = None,
) -> None:
    scripts.load(load or [])
