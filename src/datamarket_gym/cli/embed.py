"""``datamarket embed``: progress on stderr, one line on stdout.

Work in progress lies in a folder beside the file to be written, keyed by content: an interrupted run
is resumed, and a changed source only costs what changed.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from datamarket_gym.core.errors import DataMarketError, ParameterError
from datamarket_gym.core.progress import shown_on_stderr
from datamarket_gym.units.readers.databases import as_files
from datamarket_gym.world.data import (
    DOMAINS,
    Corpus,
    Embeddings,
    cache_folder,
    find,
    load_corpus,
    write_embeddings,
)
from datamarket_gym.world.data.corpus import read_source
from datamarket_gym.world.encoders import ContentError, EmbeddingStore, Encoder, StoredEncoder
from datamarket_gym.world.encoders.base import ENCODERS

USUAL = {"text": "minilm", "image": "resnet18"}


@dataclass(frozen=True)
class Job:
    """What the command line asked."""

    source: str
    out: Path | None
    encoder: str
    device: str
    limit: int
    skip_bad: bool
    if_missing: bool = False


def run_embed(job: Job) -> None:
    """Embed a source into a file."""
    if job.if_missing and (there := _there(job)) is not None:
        Console().print(f"the embeddings of {job.source} are in {there}", highlight=False)
        return
    if job.source in DOMAINS:
        corpus = load_corpus(job.source)
    else:
        with as_files({"texts": job.source}) as tables:
            corpus = read_source(tables["texts"])
    if job.limit:
        corpus = _rows(corpus, np.arange(min(job.limit, len(corpus))))
    encoder = _encoder(job, corpus.kind)
    out = job.out or _default(job)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix not in (".npz", ".parquet"):
        raise DataMarketError(f"cannot write embeddings as {out.suffix!r}; use .npz or .parquet")
    good, bad = _checked(corpus, encoder, job.skip_bad)
    corpus = _rows(corpus, good)
    parts = out.with_name(f"{out.name}.parts")
    worker = StoredEncoder(encoder, EmbeddingStore(parts))
    with shown_on_stderr() as progress:
        progress.stage(f"embedding {job.source}", "units")
        vectors = worker.encode(corpus.content.tolist(), progress.count)
    found = Embeddings(vectors, corpus.label, corpus.train)
    write_embeddings(out, found, worker.keys(corpus.content.tolist()))
    shutil.rmtree(parts, ignore_errors=True)
    left = f"; left out {len(bad)} that cannot be embedded, first: {bad[0]}" if bad else ""
    shape = f"{vectors.shape[0]} x {vectors.shape[1]}"
    Console().print(f"{shape} embeddings by {encoder.identity} in {out}{left}", highlight=False)


def _encoder(job: Job, kind: str) -> Encoder:
    encoder = ENCODERS.create(job.encoder or USUAL[kind])
    if encoder.kind != kind:
        raise ParameterError("encoder", job.encoder, f"it reads {encoder.kind}s, these are {kind}s")
    fields = getattr(encoder, "__dataclass_fields__", {})
    return replace(encoder, device=job.device) if "device" in fields else encoder  # type: ignore[type-var]


def _there(job: Job) -> Path | None:
    """The file that is already there."""
    if job.out is not None:
        return job.out if job.out.is_file() else None
    _default(job)  # only a whole domain by its usual encoder has a file of its own
    return find(DOMAINS[job.source].embeddings_file)


def _default(job: Job) -> Path:
    if job.source not in DOMAINS or job.encoder or job.limit:
        raise ParameterError("--out", None, "name the file to write, for example embeddings.npz")
    return cache_folder() / DOMAINS[job.source].embeddings_file


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
