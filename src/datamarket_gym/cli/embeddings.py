"""``datamarket embed`` and ``theta``: embed texts or images, and measure the threshold that embeddings allow."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from typer import Argument, Option

from datamarket_gym.cli import terminal
from datamarket_gym.cli.terminal import make_table, print_rows, say
from datamarket_gym.data.inputs import are_numbers, is_labelled
from datamarket_gym.data.readers.databases import as_files
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.evidence.admissible_interval import Admissibility
from datamarket_gym.execution.files import write_text
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
from datamarket_gym.market.encoders.base import ENCODERS, EmbeddingStore, StoredEncoder
from datamarket_gym.payout.inputs import DEFAULTS
from datamarket_gym.payout.settings import option, payout_spec
from datamarket_gym.payout.threshold import (
    ThetaCheck,
    describe_threshold,
    domain_task,
    recommended,
    table_rows,
)
from datamarket_gym.registry import Document


class EmbedOptions(Document):
    """The options of ``datamarket embed``."""

    out: Path | None = option("File to write (.npz or .parquet); for a domain, one in the user's cache.")
    encoder: str = option(
        "The encoder (see: datamarket list encoder); minilm for texts and resnet18 for images if left out.",
        "",
    )
    device: str = option("Where the encoder runs: cpu, cuda, numpy or auto.", "auto")
    limit: int = option("Embed only this many units, the first of the source; 0: all.", 0, ge=0)
    skip_bad: bool = option("Leave out what cannot be embedded, and print how much.", False)
    if_missing: bool = option("Do nothing if the embeddings exist.", False)


@terminal.with_options(EmbedOptions)
def embed(
    source: Annotated[
        str,
        Argument(
            help="A domain (cifar10, stl10, agnews, imdb), a table with a column 'text', or a folder of images (one "
            "sub-folder per class)."
        ),
    ],
    options: EmbedOptions,
    data: terminal.Data = None,
) -> None:
    """Embed texts or images by a frozen encoder.

    The same command resumes an interrupted run, and the same content is never embedded twice.
    """
    out = options.out
    with looking_in(data):
        existing = out if out is not None and out.is_file() else None
        if out is None:
            if (
                source not in DOMAINS or options.encoder or options.limit
            ):  # of these there is no usual file
                raise ParameterError("--out", None, "name the file to write, for example embeddings.npz")
            name = DOMAINS[source].embeddings_file
            out, existing = cache_folder() / name, find(name)
        if options.if_missing and existing is not None:
            say(f"the embeddings of {source} are in {existing}")
        else:
            _embed(source, out, options)


def _embed(source: str, out: Path, options: EmbedOptions) -> None:
    if source in DOMAINS:
        corpus = load_corpus(source)
    else:
        with as_files({"texts": source}) as tables:
            corpus = read_source(tables["texts"])
    if options.limit:
        corpus = _rows(corpus, np.arange(min(options.limit, len(corpus))))
    encoder = _encoder(options.encoder, corpus.kind, options.device)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix not in (".npz", ".parquet"):
        raise DataMarketError(f"cannot write embeddings as {out.suffix!r}; use .npz or .parquet")
    good, bad = _usable_rows(corpus, encoder, options.skip_bad)
    corpus = _rows(corpus, good)
    parts = out.with_name(
        f"{out.name}.parts"
    )  # work in progress, by content: an interrupted run is resumed
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
    encoder = ENCODERS.create(name or DEFAULTS[kind])
    if encoder.kind != kind:
        raise ParameterError("encoder", name, f"it reads {encoder.kind}s, these are {kind}s")
    fields = getattr(encoder, "__dataclass_fields__", {})
    return replace(encoder, device=device) if "device" in fields else encoder  # type: ignore[type-var]


def _usable_rows(corpus: Corpus, encoder: Encoder, skip: bool) -> tuple[NDArray[np.int64], list[str]]:
    """Return the rows that can be embedded, and what is wrong with the others; checked before any work."""
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


@terminal.with_payout_settings(terminal.TABLE)
@terminal.with_options(ThetaCheck)
def theta(
    embeddings: Annotated[
        str,
        Argument(
            help="Embeddings (.npz, .npy, or a table with a column 'embedding' or 'features' as for `pay`), or a "
            "domain: cifar10, stl10, agnews, imdb."
        ),
    ],
    options: ThetaCheck,
    settings: dict[str, Any],
    json_: Annotated[
        Path | None, Option("--json", help="Write all that was measured to this file.")
    ] = None,
    plot: Annotated[
        Path | None, Option(help="Draw the measured curve and bounds (.png, .svg or .pdf).")
    ] = None,
    data: terminal.Data = None,
) -> None:
    """Measure which similarity thresholds (theta) these embeddings allow.

    Prints two answers. First, the threshold that `recommended` would take with these rows as its validation (or
    reference) rows: the lowest at which false matches cost honest providers at most 1 % of their pay. Second, the check
    for connected components, by which the paper's mechanisms match: two lower bounds, an upper bound, and whether a
    threshold lies between. The simulation options are those of the second. Columns are named as for `pay`.
    """
    with looking_in(data):
        domain = embeddings if embeddings in DOMAINS else ""
        rows = domain_task(domain).pool() if domain else _read(embeddings, settings)
        measured = options.of_domain(domain) if domain else options.of(rows.training())
        policy = recommended(rows)
    if json_ is not None:
        both = measured.as_dict() | {"recommended": policy.model_dump(mode="json")}
        write_text(json_, json.dumps(both, indent=2) + "\n")
    if plot is not None:
        measured.save_plot(plot)
    console = Console()
    console.print(describe_threshold(policy), style="green" if policy.theta else "red", highlight=False)
    classes = rows.label is not None and is_labelled(rows.label) and not are_numbers(rows.label)
    _print_components(measured, classes)
    style = "green" if measured.usable else "red"
    console.print(f"Components: {measured.verdict}", style=style, highlight=False)


def _read(embeddings: str, settings: dict[str, Any]) -> Embeddings:
    # Nothing is paid here; but the settings of a payout run include an amount.
    spec = payout_spec({"amount": "1", **settings})
    with as_files({"embeddings": embeddings}) as files:
        return table_rows(files["embeddings"], spec)


def _print_components(measured: Admissibility, classes: bool) -> None:
    title = f"For components: {measured.units} units of {measured.dimensions} numbers, {measured.partition} partition"
    owners = "honest units of one class" if classes else "any two honest units"
    low, high = measured.interval
    rows = [
        ("median norm", f"{measured.median_norm:.3f}"),
        (f"pairwise floor: cosine of {owners}, p90", f"{measured.pairwise_floor:.3f}"),
        *(
            (f"chaining floor: mixed components below {cutoff:g}", f"{floor:.2f}")
            for cutoff, floor in measured.chaining_floors.items()
        ),
        (
            f"ceiling: cosine with variants ({measured.variants}), p10",
            f"{measured.near_duplicate_p10:.4f}",
        ),
        ("admissible interval", f"[{low:.3f}, {high:.4f}]"),
        ("margin", f"{measured.margin:.3f}"),
    ]
    if measured.lonely_classes:
        rows.append(("classes of a single unit, left out", str(measured.lonely_classes)))
    print_rows(make_table("quantity", "value", title=title, right=("value",), boxed=True), rows)
