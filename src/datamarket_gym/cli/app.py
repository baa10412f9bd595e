"""The application: a table of commands, each of which is imported when it is typed.

Help for all commands comes from the table, so that it imports none of them.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from datamarket_gym import __version__, registry
from datamarket_gym.cli import terminal
from datamarket_gym.errors import DataMarketError

COMMANDS = {
    "Explore": {
        "explore": ("explore", "Open markets, thresholds, results and payout runs in a browser.")
    },
    "Pay for data": {
        "init": ("init", "Look at your tables, and write the settings of a market: market.toml."),
        "intake": ("intake", "Log which units arrive, from whom and when."),
        "theta": ("embeddings", "Measure which similarity thresholds embeddings allow."),
        "pay": ("pay", "Divide an amount among those who submitted data."),
        "check": ("check", "Spot-check units of every payee before a payout run is approved."),
        "explain": ("explain", "Explain a payment."),
        "statements": ("statements", "Write a page for each payee of a run, or the account of a payee."),
        "verify": ("pay", "Verify that a payout run and its ledger are unaltered."),
        "ledger": ("ledger", "Approve runs, record payments and corrections, and show balances."),
        "dispute": ("ledger", "Enter and decide disputes of payees."),
        "export": ("ledger", "Order what is owed, as a file for the bank."),
        "audit": ("audit", "Simulate the attack library for every provider, and print the gains."),
    },
    "Compare mechanisms under attack": {
        "demo": ("demo", "Pay a small simulated market with and without an attacker."),
        "list": ("experiments", "List components: mechanisms, utilities, attacks, experiments, ..."),
        "run": ("experiments", "Run an experiment."),
        "suite": ("experiments", "Run all experiments of a suite."),
        "results": ("experiments", "Write the pages of results."),
        "figures": ("experiments", "Draw figures of results."),
        "embed": ("embeddings", "Embed texts or images by a frozen encoder."),
        "baselines": ("experiments", "Install other data-valuation libraries to compare with."),
    },
    "Enter the benchmark": {"benchmark": ("benchmark", "Evaluate on DataMarket-v1, and rank results.")},
}
"""By panel and command: the module that has it under its name (``list_`` for list), and its help in a line."""
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
READS_RUNS = ("check", "explain", "statements", "verify", "ledger", "dispute", "export", "audit")
"""Commands that read the folders of payout runs, which may name a ledger."""


_RESUMED = ("pay", "audit", "run", "suite", "embed", "benchmark")
"""Commands that keep what they have computed, and go on from there."""


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

    def invoke(self, ctx: Any) -> Any:
        """Run a command; one that is interrupted says how to go on."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # of which typer would end without a word
            resumed = ctx.invoked_subcommand in _RESUMED
            how = (
                "it goes on where it stopped"
                if resumed
                else "it begins anew, and no entry is made twice"
            )
            _exit(f"interrupted; run the same command again: {how}", 130)

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
    made = get_group(alone).commands[name]
    if name in READS_RUNS:
        for each in getattr(made, "commands", {"": made}).values():
            if not any("--ledger" in parameter.opts for parameter in each.params):
                each.params.append(_ledger_option())
            each.callback = _in_one_line(each.callback)
    return made


def _in_one_line(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn what a command stumbles over in the files of a run, which may be anybody's, into an error of ours."""

    @wraps(command)
    def called(**options: Any) -> Any:
        try:
            return command(**options)
        except DataMarketError:
            raise
        except _UNREADABLE as error:
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if "datamarket_gym" in frame.filename] or frames
            at = f"{os.path.basename(ours[-1].filename)}:{ours[-1].lineno}"
            first = (str(error).splitlines() or [""])[0]
            raise DataMarketError(
                f"the files could not be read to the end ({type(error).__name__} in {at}: {first[:200]}): they "
                "are damaged, or another program made them; datamarket verify RUN says which. If all of them are good, "
                "this is a fault of datamarket: please report it with this line"
            ) from error

    return called


def _trust(addresses: list[str] | None) -> None:
    from datamarket_gym.payout.ledger.trust import trust_ledger, trust_source

    for address in addresses or ():
        trust_ledger(address)
    trust_source(terminal.market_ledgers)


def _ledger_option() -> Any:
    """Make the option that allows what a run's folder names: no server is asked that the operator has not named."""
    alone = typer.Typer(add_completion=False)

    @alone.command()
    def _(
        ledger: Annotated[
            list[str] | None,
            Option(
                callback=_trust,
                expose_value=False,
                metavar="ADDRESS",
                help="Address of a ledger or intake log on a server, that a run's folder may name; repeatable.",
            ),
        ] = None,
    ) -> None: ...

    return next(each for each in get_command(alone).params if each.name == "ledger")


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
        if isinstance(stream, io.TextIOWrapper):  # names in any script, on any terminal
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except DataMarketError as error:
        _exit(str(error))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        if not full and error.filename is None:  # about no file: a fault of ours
            raise
        remedy = (
            "make room and run the same command again"
            if full
            else "check the path, and that you may use it"
        )
        file = "" if error.filename is None else f"{os.fsdecode(error.filename)!r}: "
        _exit(f"{file}{error.strerror or error}; {remedy}")


def _exit(message: str, code: int = 2) -> NoReturn:
    # Names in it are as people chose them: nothing in one moves the cursor or turns the text around.
    shown = "".join(c if c.isprintable() or c == "\n" else f"⟨U+{ord(c):04X}⟩" for c in message)
    sys.stderr.write(f"datamarket: {shown}\n")
    raise SystemExit(code) from None


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"datamarket-gym {__version__}")
        raise typer.Exit


@app.callback()
def _callback(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    config: terminal.Config = None,
    load: terminal.Load = None,
) -> None:
    terminal.use_market(config)
    registry.load(load or [])
