"""The application: a table of commands, each of which is imported when it is typed.

Help for all commands comes from the table, so that it imports none of them.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from datamarket_gym import __version__
from datamarket_gym import registry as scripts
from datamarket_gym.cli import options
from datamarket_gym.errors import DataMarketError

COMMANDS = {
    "Look at it": {
        "explore": ("explore", "Look at markets, thresholds, results and payout runs in a browser."),
    },
    "Pay, and defend what was paid": {
        "intake": ("intake", "Log which units arrive, from whom and when."),
        "theta": ("theta", "Measure which similarity threshold embeddings allow."),
        "pay": ("pay", "Divide an amount among those who submitted data."),
        "check": ("check", "Check a few units of every payee before a payout run is approved."),
        "explain": ("explain", "Explain a payment."),
        "statements": ("statements", "Write a page for each payee of a run, or a payee's account."),
        "verify": ("pay", "Check a payout run and its ledger."),
        "ledger": ("ledger", "Approve runs, send money, correct, and see all of it."),
        "dispute": ("disputes", "Enter and decide what payees dispute."),
        "export": ("ledger", "Order what is owed as a file for the bank."),
        "audit": ("audit", "Let every provider try the attack library."),
    },
    "Compare mechanisms under attack": {
        "demo": ("demo", "Show the main job in a small market."),
        "list": ("experiments", "List components."),
        "run": ("experiments", "Run an experiment."),
        "suite": ("experiments", "Run all experiments of a suite."),
        "results": ("experiments", "Write the pages of results."),
        "figures": ("experiments", "Draw figures of results."),
        "embed": ("embed", "Embed texts or images by a frozen encoder."),
        "baselines": ("experiments", "Install other libraries as contestants."),
    },
    "Enter the benchmark": {
        "benchmark": ("benchmark", "Play DataMarket-v1, write a bundle, rank bundles."),
    },
}
"""The module of each command, which has it under its name (``list_`` for list), and its help in a line."""


class Commands(TyperGroup):
    """Commands that are imported when they are typed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List all names."""
        return [name for commands in COMMANDS.values() for name in commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a command; an error about a name that is none can name those that may be meant."""
        if cmd_name not in self.commands:
            if cmd_name in self.list_commands(ctx):
                self.commands[cmd_name] = _import_command(cmd_name)
            else:
                self._add_lines()
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help of all commands."""
        self._add_lines()
        super().format_help(ctx, formatter)

    def _add_lines(self) -> None:
        for heading, commands in COMMANDS.items():
            for name, (_, line) in commands.items():
                self.commands[name] = TyperCommand(name, help=line, rich_help_panel=heading)


def _import_command(name: str) -> Any:
    module = next(commands[name][0] for commands in COMMANDS.values() if name in commands)
    attribute = "list_" if name == "list" else name
    command = getattr(import_module(f"datamarket_gym.cli.{module}"), attribute)
    alone = typer.Typer()
    if isinstance(command, typer.Typer):  # a command with sub-commands
        alone.add_typer(command, name=name)
    else:
        alone.command(name)(command)
    return get_group(alone).commands[name]


app = typer.Typer(
    cls=Commands,
    name="datamarket",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Pay people for training data without paying attackers.",
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
