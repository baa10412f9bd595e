"""``datamarket embed``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli.options import Data


def command(
    source: Annotated[
        str,
        typer.Argument(
            help="A domain (cifar10, stl10, agnews, imdb), a table with a column 'text', "
            "or a folder of images (one sub-folder per class)."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write (.npz or .parquet); for a domain, one in the user's cache."),
    ] = None,
    encoder: Annotated[
        str, typer.Option(help="See: datamarket list encoder. Left out: the kind's usual one.")
    ] = "",
    device: Annotated[str, typer.Option(help="cpu, cuda, numpy or auto.")] = "auto",
    limit: Annotated[int, typer.Option(help="Only the first so many units; 0: all.", min=0)] = 0,
    skip_bad: Annotated[
        bool, typer.Option(help="Leave out what cannot be embedded, and say how many.")
    ] = False,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Nothing to do where a domain's embeddings are there.")
    ] = False,
    data: Data = None,
) -> None:
    """Embed texts or images by a frozen encoder, or resume; the same content is never embedded twice."""
    from datamarket_gym.cli.embed import Job, run_embed
    from datamarket_gym.world.data.files import looking_in

    with looking_in(data):
        run_embed(Job(source, out, encoder, device, limit, skip_bad, if_missing))
