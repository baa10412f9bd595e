"""``datamarket embed`` and ``theta``: make embeddings, and measure which similarity threshold they allow.

Work in progress of ``embed`` lies in a folder beside the file to be written, keyed by content: an interrupted run is
resumed, and a changed source only costs what changed.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich import table as rich
from rich.console import Console

from datamarket_gym.cli import options
from datamarket_gym.cli.output import say
from datamarket_gym.core.errors import DataMarketError, ParameterError
from datamarket_gym.core.files import write_text
from datamarket_gym.core.progress import shown_on_stderr
from datamarket_gym.evidence.threshold.admissibility import Admissibility
from datamarket_gym.payout.spec import payout_spec
from datamarket_gym.payout.theta import ThetaCheck, domain_task, in_words, recommended, table_rows
from datamarket_gym.units.labels import are_numbers, is_labelled
from datamarket_gym.units.sql import as_files
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
from datamarket_gym.world.data.files import looking_in
from datamarket_gym.world.encoders import ContentError, EmbeddingStore, Encoder, StoredEncoder
from datamarket_gym.world.encoders.base import ENCODERS

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


@options.with_settings((*options.TABLE,))
def theta(
    embeddings: Annotated[
        str,
        typer.Argument(
            help="Embeddings (.npz, .npy, or a table with a column 'embedding' or 'features' as for `pay`), "
            "or a domain: cifar10, stl10, agnews, imdb."
        ),
    ],
    settings: dict[str, Any],
    partition: Annotated[
        str,
        typer.Option(
            help="How honest providers come by their units: iid, class_stratified, dirichlet@0.5, ..., "
            "or identities (the table's own). A domain has its own default."
        ),
    ] = "",
    providers: Annotated[int, typer.Option(help="Providers in a simulated market.", min=2)] = 4,
    per_provider: Annotated[int, typer.Option(help="Units of each.", min=1)] = 50,
    trials: Annotated[int, typer.Option(help="Simulated markets.", min=1)] = 30,
    variants: Annotated[
        str,
        typer.Option(help="The attack whose copies must be matched; see: datamarket list attack."),
    ] = "near_duplicate_2x_sybils@0.02",
    sample: Annotated[int, typer.Option(help="Units of which variants are made.", min=1)] = 5000,
    cutoff: Annotated[float, typer.Option(help="Tolerated share of mixed components.")] = 0.10,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    json_: Annotated[
        Path | None, typer.Option("--json", help="Write everything that was found to this file.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the curve and the bounds (.png, .svg or .pdf).")
    ] = None,
    data: options.Data = None,
    config: options.Config = None,
) -> None:
    """Measure which similarity threshold these embeddings allow.

    Prints the theta that `recommended` takes where these are the validation rows (or the reference rows), by the
    false-match cost of lineage: a share of pay by 5-NN accuracy, whatever a run pays for. Then the check for
    components, by which the paper's mechanisms match: two floors, a ceiling, the admissible interval and a verdict.
    The options are those of the second. Columns are named as for `pay`.
    """
    check = ThetaCheck(partition, providers, per_provider, trials, variants, sample, cutoff, seed)
    with looking_in(data):
        domain = embeddings if embeddings in DOMAINS else ""
        rows = domain_task(domain).pool() if domain else _read(embeddings, config, settings)
        found = check.of_domain(domain) if domain else check.of(rows.training())
        policy = recommended(rows)
    if json_ is not None:
        both = found.as_dict() | {"recommended": policy.model_dump(mode="json")}
        write_text(json_, json.dumps(both, indent=2) + "\n")
    if plot is not None:
        from datamarket_gym.evidence.threshold.drawing import draw

        draw(found, plot)
    console = Console()
    console.print(in_words(policy), style="green" if policy.theta else "red", highlight=False)
    classes = rows.label is not None and is_labelled(rows.label) and not are_numbers(rows.label)
    console.print(_table(found, classes))
    console.print(
        f"Components: {found.verdict}", style="green" if found.usable else "red", highlight=False
    )


def _read(embeddings: str, config: Path | None, settings: dict[str, Any]) -> Embeddings:
    # Nothing is paid here; but the settings of a payout run include an amount.
    spec = payout_spec(config, {"amount": "1", **settings})
    with as_files({"embeddings": embeddings}) as files:
        return table_rows(files["embeddings"], spec)


def _table(found: Admissibility, classes: bool) -> rich.Table:
    table = rich.Table(
        title=f"For components: {found.units} units of {found.dimensions} numbers, {found.partition} partition"
    )
    table.add_column("quantity")
    table.add_column("value", justify="right")
    table.add_row("median norm", f"{found.median_norm:.3f}")
    whose = "honest units of one class" if classes else "any two honest units"
    table.add_row(f"pairwise floor: cosine of {whose}, p90", f"{found.pairwise_floor:.3f}")
    for cutoff, floor in found.chaining_floors.items():
        style = "bold" if cutoff == found.cutoff else None
        table.add_row(f"chaining floor: mixed components below {cutoff:g}", f"{floor:.2f}", style=style)
    table.add_row(
        f"ceiling: cosine with variants ({found.variants}), p10", f"{found.near_duplicate_p10:.4f}"
    )
    low, high = found.interval
    table.add_row("admissible interval", f"[{low:.3f}, {high:.4f}]".replace("[", r"\["), style="bold")
    table.add_row("margin", f"{found.margin:.3f}")
    if found.lonely_classes:
        table.add_row("classes of a single unit, left out", str(found.lonely_classes))
    return table
