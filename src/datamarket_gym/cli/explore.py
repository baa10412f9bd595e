"""``datamarket explore``: look at it in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from datamarket_gym import registry
from datamarket_gym.cli.terminal import Data, Load
from datamarket_gym.execution.parallel import available_cores


def explore(
    named: Annotated[
        list[str] | None,
        Argument(
            metavar="[RUN | RESULTS | LEDGER | FOLDER]...",
            help="What to show: payout runs, folders of runs, results of experiments, ledgers (file or address), and "
            "folders of tables. No file elsewhere is opened. Without any, the market and the threshold alone.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        Option(help="Port; the first free one from 8765 if left out, 0 for any.", min=0, max=65535),
    ] = None,
    browser: Annotated[
        bool, Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    host: Annotated[
        str,
        Option(
            help="Address to listen on. With any but this machine's own, every page asks for the token. Traffic is not "
            "encrypted: put a proxy with TLS in front, or use a tunnel."
        ),
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        Option(
            help="Another host name of the explorer, such as market.example, or the address of a proxy in front, such "
            "as https://market.example; repeatable. Every page then asks for the token."
        ),
    ] = None,
    token: Annotated[
        bool, Option("--token", help="Always ask for the token: for machines with several users.")
    ] = False,
    workers: Annotated[
        int, Option(help="Processes that compute for the pages; 0 uses every core.", min=0)
    ] = 0,
    uploads: Annotated[
        Path | None, Option(help="Folder for uploads and dry runs; deleted at the end if left out.")
    ] = None,
    upload_limit: Annotated[int, Option(help="Largest upload, in MiB.", min=1)] = 256,
    data: Data = None,
    load: Load = None,
) -> None:
    """Open the explorer in a browser: markets under attack, thresholds, results, and payout runs up to their approval.

    This machine serves the pages to itself alone, without a network, until Ctrl-C.
    """
    from datamarket_gym.explorer.server import ServerOptions
    from datamarket_gym.explorer.server import explore as serve
    from datamarket_gym.explorer.workers import Setup
    from datamarket_gym.market.datasets import looking_in

    files = tuple(load or ())
    registry.load(files)
    with looking_in(data):
        serve(
            ServerOptions(
                named=tuple(named or ()), host=host, port=port, names=tuple(name or ()), token=token,
                workers=workers or available_cores(), upload_limit=upload_limit, uploads=uploads,
                setup=Setup(files, data, ("datamarket_gym.explorer.server.warm_up",)),
            ),
            browser,
            lambda text: typer.echo(text, err=True),
        )  # fmt: skip
