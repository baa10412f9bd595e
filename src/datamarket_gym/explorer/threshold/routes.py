"""The rows of a payout run: its validation rows, its reference rows or its units, as its evidence compares them.

The answers of the page: what the library says of some rows, as plain values.

What the page can choose from: rows, partitions, and attacks that make variants.

What the page of thresholds asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool
from numpy.typing import NDArray
from pydantic import Field

from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.data.inputs import are_numbers, is_labelled
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.admissible_interval import IDENTITIES, forest_of, honest_market
from datamarket_gym.evidence.leakage import nearest_others
from datamarket_gym.evidence.threshold import (
    LIMIT,
    Sample,
    choose_threshold,
    honest_vectors,
    measure_threshold,
    with_compared_vectors,
)
from datamarket_gym.execution.arrays import Codes, Values, directions, in_order
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.jobs import WhoAsks
from datamarket_gym.explorer.site import Site
from datamarket_gym.explorer.threshold.rows import (
    PARTS,
    SYNTHETIC,
    AskedRows,
    Contents,
    Origin,
    RowPool,
    origin_of,
    pool_of,
)
from datamarket_gym.market.datasets import DOMAINS, Embeddings, find
from datamarket_gym.payout.checks.review_page import render_content, unit_images
from datamarket_gym.payout.input_files import image_bytes, image_tree, scores_file
from datamarket_gym.payout.inputs import Inputs, read_inputs
from datamarket_gym.payout.manifest import read_manifest, spec_of
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.payout.stored_inputs import Places, places_of
from datamarket_gym.payout.threshold import ThetaCheck, in_words
from datamarket_gym.registry import Document, components, describe

_MOST = 20_000  # units of a run that are looked at


def pool_of_run(origin: Origin) -> RowPool:
    """The rows of one part of a run."""
    folder = origin.file
    manifest = read_manifest(folder)
    spec, places = spec_of(manifest), places_of(folder)
    inputs = read_inputs(
        places.submissions,
        places.validation,
        spec,
        reference=places.reference,
        scores=scores_file(spec, places.scores),
    )
    taken = str(manifest["evidence"]["used"])
    if origin.part == "submissions":
        return _units(inputs, spec, places, taken)
    if origin.part == "reference" and inputs.reference is None:
        raise DataMarketError("this run has no reference rows; look at its validation rows")
    return _held(inputs, spec, places, origin.part, taken)


def _units(inputs: Inputs, spec: PayoutSpec, places: Places, taken: str) -> RowPool:
    utility, submission = inputs.utility_oracle(spec), inputs.submission
    some = np.sort(keyed_generator("rows of a run").permutation(len(submission))[:_MOST])
    names = [inputs.ids[i] for i in some.tolist()]
    texts = submission.metadata.get("text")

    def images(rows: Codes) -> list[bytes]:
        found = unit_images(spec, names, places.submissions, rows.tolist())
        return [found[row] for row in rows.tolist()]

    is_image = places.submissions.is_dir() or bool(spec.columns.image and spec.files.images)
    return RowPool(
        "The units of the run",
        Embeddings(
            in_order(with_compared_vectors(submission, utility)[0].vectors, some)[:],
            submission.label[some] if inputs.labelled else None,
            identity=np.array([inputs.identities[code] for code in inputs.owner[some].tolist()]),
        ),
        IDENTITIES,
        lambda: measure_threshold(submission, utility),
        *_shown_by(None if texts is None else texts[some], images if is_image else None),
        names,
        taken=taken,
    )


def _held(inputs: Inputs, spec: PayoutSpec, places: Places, part: Sample, taken: str) -> RowPool:
    """The operator's own rows; validation rows stand in the order of the utility, reference rows in their file's."""
    if part == "validation":
        inputs = replace(inputs, reference=None)
    honest = honest_vectors(inputs.submission, inputs.utility_oracle(spec))
    if honest is None:
        raise DataMarketError(
            f"the units of this run have embeddings, and its {part} rows have none; give them those that units have"
        )
    order = inputs.validation_order(spec)
    texts: Sequence[str | None] | None = inputs.validation_text
    if inputs.reference is not None:
        order, texts = np.arange(len(honest.vectors)), inputs.reference.text
    path: Path = getattr(places, part)
    folder = getattr(spec.files, f"{part}_images") or spec.files.images

    def images(rows: Codes) -> list[bytes]:
        return _held_images(path, spec, folder, order[rows])

    is_image = path.is_dir() or bool(spec.columns.image and folder)
    in_order_of_rows = None if texts is None else np.array(texts, dtype=object)[order]
    return RowPool(
        f"The {part} rows of the run",
        Embeddings(honest.vectors, honest.classes if is_labelled(honest.classes) else None),
        "iid",
        partial(choose_threshold, honest, None, measured_on=part),
        *_shown_by(in_order_of_rows, images if is_image else None),
        [f"{part} row {i}" for i in order.tolist()],
        taken=taken,
    )


def _shown_by(texts: NDArray[Any] | None, images: Contents | None) -> tuple[str, Contents | None]:
    """What a row is to look at, and how to get it."""
    if texts is not None:
        return "text", texts.__getitem__
    return ("numbers", None) if images is None else ("image", images)


def _held_images(path: Path, spec: PayoutSpec, folder: str | None, rows: Codes) -> list[bytes]:
    """The image files of some of the operator's rows, by their places in the table or folder."""
    if path.is_dir():
        names = image_tree(path, identities=False).names
        return image_bytes(path, [names[i] for i in rows.tolist()])
    column = Table.open(path).read([str(spec.columns.image)])[0][str(spec.columns.image)].named()
    return image_bytes(Path(str(folder)), [column[i] for i in rows.tolist()])


SHOWN = 2000
"""Rows of which a page is told what merges."""
_BIN = 0.01
_LONGEST, _SIDE = 4000, 224  # characters of a text, pixels of a picture
DEFAULT = ThetaCheck()


class ThetaOptions(Document):
    """The options of ``datamarket theta``, bounded: a page must not ask for hours."""

    partition: str = Field(default=DEFAULT.partition, max_length=100)
    providers: int = Field(default=DEFAULT.providers, ge=2, le=100)
    per_provider: int = Field(default=DEFAULT.per_provider, ge=1, le=2000)
    trials: int = Field(default=DEFAULT.trials, ge=1, le=300)
    variants: str = Field(default=DEFAULT.variants, max_length=200)
    sample: int = Field(default=DEFAULT.sample, ge=1, le=20_000)
    cutoff: float = Field(default=DEFAULT.cutoff, gt=0, lt=1)
    seed: int = Field(default=DEFAULT.seed, ge=0, le=2**31)

    def check(self) -> ThetaCheck:
        """The same for the library."""
        return ThetaCheck(**self.model_dump())


class ShownMarket(Document):
    """Which rows are shown: a sample of all, or the first of the simulated markets."""

    shown: Literal["sample", "market"] = "sample"
    partition: str = Field(default=DEFAULT.partition, max_length=100)
    providers: int = Field(default=DEFAULT.providers, ge=2, le=100)
    per_provider: int = Field(default=DEFAULT.per_provider, ge=1, le=2000)
    seed: int = Field(default=DEFAULT.seed, ge=0, le=2**31)


def rows_shown(origin: Origin, market: ShownMarket, progress: Progress) -> dict[str, Any]:
    """Some rows, whose they are, and the forest of their similarities: what merges at every theta."""
    pool = _read(origin, progress)
    everything = pool.rows.vectors
    places, owner, owners = _chosen(pool, market)
    vectors = everything[places]
    progress.stage("comparing rows")
    nearest = nearest_others(directions(vectors))
    forest = forest_of(vectors)
    label, classes = _classes(pool, places)
    return {
        "title": pool.title,
        "rows": len(places),
        "of": len(everything),
        "market": market.shown == "market" and owner is not None and pool.rows.identity is None,
        "place": places.tolist(),
        "left": forest.left.tolist(),
        "right": forest.right.tolist(),
        "score": forest.score.tolist(),
        "owner": owner,
        "owners": owners,
        "label": label,
        "labels": classes,
        "kind": pool.kind,
        "own_partition": pool.own,
        "identities": pool.rows.identity is not None,
        "taken": pool.taken,
        "nearest": histogram(nearest),
    }


def checked(origin: Origin, asked: ThetaOptions, progress: Progress) -> dict[str, Any]:
    """The check for components, with the similarities that it looked at."""
    pool = _read(origin, progress)
    found = pool.check(asked.check(), progress)
    label = pool.rows.label
    return found.as_dict() | {
        "alike": histogram(found.alike),
        "copies": histogram(found.copies),
        "classes": label is not None and not are_numbers(label) and len(np.unique(label)) > 1,
    }


def policy(origin: Origin, progress: Progress) -> dict[str, Any]:
    """The threshold that `recommended` takes, why, and the honest price by theta."""
    pool = _read(origin, progress)
    progress.stage("measuring the honest price")
    found = pool.policy()
    words = in_words(found)
    if origin.kind == "run" and origin.part == "submissions":
        words = f"{found.why[:1].upper()}{found.why[1:]}."
    return found.model_dump(mode="json") | {"floor": found.floor, "words": words, "limit": LIMIT}


def contents(origin: Origin, rows: tuple[int, ...], progress: Progress) -> dict[str, Any]:
    """What some rows hold: a text, a picture, or numbers."""
    pool = _read(origin, progress)
    names = pool.names
    return {
        "contents": [
            {"row": row, "name": f"row {row}" if names is None else names[row]}
            | render_content(each, _LONGEST, _SIDE)
            for row, each in zip(rows, pool.shown(rows), strict=True)
        ]
    }


def histogram(similarities: Values) -> dict[str, Any]:
    """Shares of similarities in bins of a hundredth, from the first that holds any."""
    edges = np.round(np.arange(-100, 101) / 100, 2)
    counts = np.histogram(np.clip(similarities, -1.0, 1.0), bins=edges)[0]
    used = np.flatnonzero(counts)
    if not len(used):
        return {"start": 0.0, "step": _BIN, "shares": [], "count": 0}
    some = counts[used[0] : used[-1] + 1]
    return {
        "start": float(edges[used[0]]),
        "step": _BIN,
        "shares": (some / counts.sum()).round(6).tolist(),
        "count": int(counts.sum()),
    }


def _read(origin: Origin, progress: Progress) -> RowPool:
    progress.stage("reading the rows")
    return pool_of(origin)


def _chosen(pool: RowPool, market: ShownMarket) -> tuple[Codes, list[int] | None, list[str]]:
    """The places of the rows that are shown, the number of each one's owner, and the owners' names."""
    rows, partition = pool.rows, market.partition or pool.own
    if market.shown == "market" and partition != IDENTITIES:
        if market.providers * market.per_provider > SHOWN:
            raise DataMarketError(
                f"a market of {market.providers} x {market.per_provider} units is too large to be shown; ask for at "
                f"most {SHOWN:,} units, or show a sample of all rows"
            )
        dealt = honest_market(rows, partition, market.providers, market.per_provider, market.seed)
        owner = np.repeat(np.arange(len(dealt)), [len(part) for part in dealt])
        return np.concatenate(dealt), owner.tolist(), [f"provider {i + 1}" for i in range(len(dealt))]
    pointed = np.flatnonzero(rows.vectors.any(axis=1))
    places = np.sort(
        pointed[keyed_generator(market.seed, "rows shown").permutation(len(pointed))[:SHOWN]]
    )
    if rows.identity is None:
        return places, None, []
    names, code = np.unique([str(each) for each in rows.identity[places].tolist()], return_inverse=True)
    return places, code.tolist(), names.tolist()


def _classes(pool: RowPool, places: Codes) -> tuple[list[int] | None, Sequence[str]]:
    """The number of each row's class, and their names; numbers are no classes."""
    labels = pool.labels()
    if labels is None or pool.rows.label is None or are_numbers(pool.rows.label):
        return None, []
    names, code = np.unique([labels[place] for place in places.tolist()], return_inverse=True)
    return (code.tolist(), names.tolist()) if len(names) > 1 else (None, [])


_WITH_VALUES = {"dominant_class": "dominant_class@0.75", "dirichlet": "dirichlet@0.5"}
_VARIANTS = (
    "near_duplicate_2x_sybils@0.02", "near_duplicate_2x_sybils@0.05", "exact_dup_2x_sybils", "synthetic_laundering",
    "text_variants", "image_variants",
)  # fmt: skip
"""Those that make copies of one's own units; others can be typed."""
_PART_WORDS = {
    "validation": "validation rows", "reference": "reference rows", "submissions": "submitted units",
}  # fmt: skip


def choices(
    runs: tuple[tuple[str, Path], ...], uploads: tuple[tuple[str, str], ...], progress: Progress
) -> dict[str, Any]:
    """Rows that can be looked at, and the options of the check; runs and uploads by their ids."""
    found = [{"value": SYNTHETIC, "label": "the synthetic market", "group": "Tasks"}]
    found += [
        {"value": name, "label": f"{domain.title} ({domain.kind}s)", "group": "Tasks"}
        for name, domain in DOMAINS.items()
        if _is_there(domain.embeddings_file)
    ]
    for name, folder in runs:
        found += [
            {
                "value": f"run:{name}:{part}",
                "label": f"{name}: {_PART_WORDS[part]}",
                "group": "Payout runs",
            }
            for part in _parts(folder)
        ]
    found += [
        {"value": f"upload:{key}", "label": name, "group": "Uploaded tables"} for key, name in uploads
    ]
    attacks = components("attack")
    return {
        "sources": found,
        "missing": [
            domain.title for domain in DOMAINS.values() if not _is_there(domain.embeddings_file)
        ],
        "partitions": [
            {"value": _WITH_VALUES.get(name, name), "label": describe("partition", name).summary}
            for name in components("partition")
        ],
        "variants": [
            {"value": name, "label": describe("attack", name).summary}
            for name in _VARIANTS
            if name.partition("@")[0] in attacks
        ],
        "defaults": ThetaOptions().model_dump(),
        "most": SHOWN,
    }


def _parts(folder: Path) -> list[str]:
    try:
        inputs = read_manifest(folder)["inputs"]
    except DataMarketError:
        return []
    return [part for part in PARTS if part in inputs]


def _is_there(name: str) -> bool:
    try:
        return find(name) is not None
    except DataMarketError:  # the folder that was named is not there; whoever asks for a domain is told
        return False


_MOST_ROUTES = 16  # rows whose content is shown at a time


class AskedShown(AskedRows):
    """Rows to be shown."""

    market: ShownMarket = ShownMarket()


class AskedTheta(AskedRows):
    """Rows to be checked, and how."""

    check: ThetaOptions = ThetaOptions()


class AskedRowContents(AskedRows):
    """Rows to be looked at."""

    rows: Annotated[tuple[int, ...], Field(max_length=_MOST_ROUTES)]


def router(site: Site) -> APIRouter:
    """The routes below ``/api/threshold``."""
    routes, desk = APIRouter(prefix="/api/threshold"), site.desk

    async def origin(asked: AskedRows) -> Origin:
        return await run_in_threadpool(origin_of, asked, site.places)

    @routes.get("/choices")
    async def all_choices() -> Response:
        runs = await run_in_threadpool(site.places.openable)
        uploads = tuple((each.id, each.name) for each in site.places.uploads.all())
        return await desk.ask(choices, runs, uploads, keep=False)

    @routes.post("/rows")
    async def some_rows(asked: AskedShown, who: WhoAsks) -> Response:
        return await desk.ask(rows_shown, await origin(asked), asked.market, who=who)

    @routes.post("/check")
    async def check(asked: AskedTheta, who: WhoAsks) -> Response:
        return await desk.ask(checked, await origin(asked), asked.check, who=who)

    @routes.post("/policy")
    async def taken(asked: AskedRows, who: WhoAsks) -> Response:
        return await desk.ask(policy, await origin(asked), who=who)

    @routes.post("/contents")
    async def looked_at(asked: AskedRowContents, who: WhoAsks) -> Response:
        return await desk.ask(contents, await origin(asked), asked.rows, who=who)

    return routes
