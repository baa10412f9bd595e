"""``datamarket embed``: embed texts or images by a frozen encoder.

Work in progress lies in a folder beside the file to be written, keyed by content: an interrupted run is
resumed, and a changed source only costs what changed.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from datamarket_gym.cli import options
from datamarket_gym.cli.output import say
from datamarket_gym.data.readers.databases import as_files
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.market.datasets import (
    DOMAINS,
    Corpus,
    Embeddings,
    cache_folder,
    find,
    load_corpus,
    looking_in,
    read_source,
    write_embeddings,
)
from datamarket_gym.market.encoders import ContentError, Encoder
from datamarket_gym.market.encoders.base import ENCODERS
from datamarket_gym.market.encoders.store import EmbeddingStore, StoredEncoder

USUAL = {"text": "minilm", "image": "resnet18"}


def embed(
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
        str,
        typer.Option(help="See: datamarket list encoder. Left out: the usual one for texts or images."),
    ] = "",
    device: Annotated[str, typer.Option(help="cpu, cuda, numpy or auto.")] = "auto",
    limit: Annotated[
        int, typer.Option(help="Embed only this many units, the first; 0: all.", min=0)
    ] = 0,
    skip_bad: Annotated[
        bool, typer.Option(help="Leave out what cannot be embedded, and say how many.")
    ] = False,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Do nothing where the embeddings are there.")
    ] = False,
    data: options.Data = None,
) -> None:
    """Embed texts or images by a frozen encoder, or resume; the same content is never embedded twice."""
    with looking_in(data):
        usual = source in DOMAINS and not encoder and not limit  # only then is there a usual file
        if out is None and not usual:
            raise ParameterError("--out", None, "name the file to write, for example embeddings.npz")
        existing = (
            find(DOMAINS[source].embeddings_file) if out is None else out if out.is_file() else None
        )
        if if_missing and existing is not None:
            say(f"the embeddings of {source} are in {existing}")
            return
        _embed(
            source,
            out or cache_folder() / DOMAINS[source].embeddings_file,
            encoder,
            device,
            limit,
            skip_bad,
        )


def _embed(source: str, out: Path, name: str, device: str, limit: int, skip_bad: bool) -> None:
    if source in DOMAINS:
        corpus = load_corpus(source)
    else:
        with as_files({"texts": source}) as tables:
            corpus = read_source(tables["texts"])
    if limit:
        corpus = _rows(corpus, np.arange(min(limit, len(corpus))))
    encoder = _encoder(name, corpus.kind, device)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix not in (".npz", ".parquet"):
        raise DataMarketError(f"cannot write embeddings as {out.suffix!r}; use .npz or .parquet")
    good, bad = _checked(corpus, encoder, skip_bad)
    corpus = _rows(corpus, good)
    parts = out.with_name(f"{out.name}.parts")
    worker = StoredEncoder(encoder, EmbeddingStore(parts))
    with shown_on_stderr() as progress:
        progress.stage(f"embedding {source}", "units")
        vectors = worker.encode(corpus.content.tolist(), progress.count)
    embeddings = Embeddings(vectors, corpus.label, corpus.train)
    write_embeddings(out, embeddings, worker.keys(corpus.content.tolist()))
    shutil.rmtree(parts, ignore_errors=True)
    left = f"; left out {len(bad)} that cannot be embedded, first: {bad[0]}" if bad else ""
    say(f"{vectors.shape[0]} x {vectors.shape[1]} embeddings by {encoder.identity} in {out}{left}")


def _encoder(name: str, kind: str, device: str) -> Encoder:
    encoder = ENCODERS.create(name or USUAL[kind])
    if encoder.kind != kind:
        raise ParameterError("encoder", name, f"it reads {encoder.kind}s, these are {kind}s")
    fields = getattr(encoder, "__dataclass_fields__", {})
    return replace(encoder, device=device) if "device" in fields else encoder  # type: ignore[type-var]


def _checked(corpus: Corpus, encoder: Encoder, skip: bool) -> tuple[NDArray[np.int64], list[str]]:
    """Rows that can be embedded, and what is wrong with the others; all checked before any work."""
    good, bad = [], []
    for row, item in enumerate(corpus.content.tolist()):
        try:
            encoder.prepare(item, row)
            good.append(row)
        except ContentError as error:
            if not skip:
                raise DataMarketError(f"{error}; or leave such units out by --skip-bad") from error
            bad.append(str(error))
    if not good:
        raise DataMarketError(f"none of {len(corpus)} units can be embedded; the first: {bad[0]}")
    return np.array(good), bad


def _rows(corpus: Corpus, rows: NDArray[np.int64]) -> Corpus:
    return Corpus(corpus.kind, corpus.content[rows], corpus.label[rows], corpus.train[rows])
