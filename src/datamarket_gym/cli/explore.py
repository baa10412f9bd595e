"""``datamarket explore``: look at it in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym import registry as scripts
from datamarket_gym.cli.options import Data, Load
from datamarket_gym.execution.parallel import available_cores


def explore(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN | RESULTS | LEDGER | FOLDER]...",
            help="What to show: a payout run, a folder of runs, results of experiments, a ledger (its file or "
            "address), a folder with tables. No file elsewhere is opened. With nothing: the market "
            "and the threshold alone.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help="Port; the first free one from 8765 on if left out, 0 for any.", min=0, max=65535
        ),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen to. Any but this machine's own makes every page ask for the token. What travels is "
            "not encrypted: put a proxy with TLS before it, or use a tunnel."
        ),
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="A further name under which the explorer is asked, such as market.example, or the address of a proxy "
            "before it, such as https://market.example; repeatable. Every page then asks for the token."
        ),
    ] = None,
    token: Annotated[
        bool,
        typer.Option(
            "--token", help="Ask for the token on every page, also on this machine: for shared machines."
        ),
    ] = False,
    workers: Annotated[
        int, typer.Option(help="Processes that compute for the pages; 0 uses every core.", min=0)
    ] = 0,
    uploads: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which uploads and dry runs are kept; if left out they are gone at the end."
        ),
    ] = None,
    upload_limit: Annotated[int, typer.Option(help="MiB that one uploaded file may have.", min=1)] = 256,
    data: Data = None,
    load: Load = None,
) -> None:
    """Look at it in a browser: a market under attack, the threshold, results, and payout runs from table to approval.

    The page is served by this machine to this machine, needs no network, and ends with Ctrl-C.
    """
    from datamarket_gym.explorer.server import ServerOptions
    from datamarket_gym.explorer.server import explore as serve
    from datamarket_gym.explorer.workers import Setup
    from datamarket_gym.market.datasets import looking_in

    files = tuple(load or ())
    scripts.load(files)
    with looking_in(data):
        serve(
            ServerOptions(
                named=tuple(named or ()), host=host, port=port, names=tuple(name or ()), token=token,
                workers=workers or available_cores(), upload_limit=upload_limit, uploads=uploads,
                setup=Setup(files, data, ("datamarket_gym.explorer.server",),
                            ("datamarket_gym.explorer.server.warm_up",)),
            ),
            browser,
            lambda words: typer.echo(words, err=True),
        )  # fmt: skip
