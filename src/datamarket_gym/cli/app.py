"""The application: every module of `datamarket_gym.cli.commands` is a command, found by name.

A command module has a function ``command`` whose signature and docstring are its options and help;
its heavy imports happen inside.
"""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated

import typer

from datamarket_gym import __version__
from datamarket_gym.cli import commands
from datamarket_gym.core.errors import DataMarketError

app = typer.Typer(
    name="datamarket",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Pay people for training data without paying cheats.",
)


def main() -> None:
    """Run the command line; a user's mistake is one readable line and exit code 2."""
    try:
        app()
    except DataMarketError as error:
        sys.stderr.write(f"datamarket: {error}\n")
        raise SystemExit(2) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        sys.stderr.write(f"datamarket: {error}; make room and run the same command again\n")
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
) -> None:
    pass


HEADINGS = {
    "Pay, and defend what was paid": (
        "theta", "pay", "check", "explain", "statements", "verify", "ledger", "book", "statement", "dispute", "export",
        "audit",
    ),
    "Compare mechanisms under attack": ("demo", "list", "run", "suite", "results", "figures", "embed", "bench"),
}  # fmt: skip
_HEADING = {name: heading for heading, names in HEADINGS.items() for name in names}

for _module in iter_modules(commands.__path__):
    _found = import_module(f"{commands.__name__}.{_module.name}")
    _name = _module.name.rstrip("_").replace("_", "-")
    if hasattr(_found, "group"):  # a command with sub-commands
        app.add_typer(_found.group, name=_name, rich_help_panel=_HEADING[_name])
    else:
        app.command(_name, rich_help_panel=_HEADING[_name])(_found.command)
