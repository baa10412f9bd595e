"""``datamarket explore``: look at it in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from datamarket_gym import registry
from datamarket_gym.cli.terminal import Data, Load, market_ledgers, market_settings, with_options
from datamarket_gym.execution.parallel import available_cores
from datamarket_gym.payout.settings import option
from datamarket_gym.registry import Document


class ExploreOptions(Document):
    """The options of ``datamarket explore``."""

    port: int | None = option(
        "Port; the first free one from 8765 if left out, 0 for any.", ge=0, le=65535
    )
    browser: bool = option("Open the page in a browser.", True)
    host: str = option(
        "Address to listen on. With any but this machine's own, every page asks for the token. Traffic is not "
        "encrypted: put a proxy with TLS in front, or use a tunnel.",
        "127.0.0.1",
    )
    names: tuple[str, ...] = option(
        "Another host name of the explorer, such as market.example, or the address of a proxy in front, such as "
        "https://market.example; repeatable. Every page then asks for the token.",
        (),
        option="name",
    )
    token: bool = option("Always ask for the token: for machines with several users.", False)
    workers: int = option("Processes that compute for the pages; 0 uses every core.", 0, ge=0)
    ledger: tuple[str, ...] = option(
        "Ledger to show, a file or an address such as postgresql://...; runs may lead to it. Repeatable.",
        (),
    )
    uploads: Path | None = option("Folder for uploads and dry runs; deleted at the end if left out.")
    upload_limit: int = option("Largest upload, in MiB.", 256, ge=1)


@with_options(ExploreOptions)
def explore(
    options: ExploreOptions,
    named: Annotated[
        list[str] | None,
        Argument(
            metavar="[RUN | RESULTS | LEDGER | FOLDER]...",
            help="What to show: payout runs, folders of runs, results of experiments, ledgers (file or address), and "
            "folders of tables. No file elsewhere is opened. If left out, this folder and the ledger of its "
            "market.toml; without one, the market and the threshold alone.",
        ),
    ] = None,
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
    from datamarket_gym.payout.ledger.trust import is_address, trust_source

    trust_source(market_ledgers)
    files = tuple(load or ())
    registry.load(files)
    with looking_in(data):
        server = "datamarket_gym.explorer.server"
        chosen = options.model_dump(exclude={"browser", "workers", "ledger"})
        setup = Setup(files, data, (f"{server}.warm_up",))
        workers = options.workers or available_cores()
        shown = named or (["."] if market_settings() else [])
        ledger = str(market_settings().get("ledger", ""))
        if is_address(ledger) or Path(ledger).is_file():
            shown = [*shown, ledger]

        def echo(text: str) -> None:
            typer.echo(text, err=True)

        try:
            given = tuple(dict.fromkeys((*shown, *options.ledger)))
            serve(ServerOptions(given, workers=workers, setup=setup, **chosen), options.browser, echo)
        except KeyboardInterrupt:
            echo(
                "The explorer has ended; runs and ledgers are as they were. The same command starts it again."
            )
