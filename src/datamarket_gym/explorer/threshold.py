"""The page of thresholds: how similar rows are, which theta they allow, and what merges at it.

An address names rows by a short text (``cifar10``, ``run:june:validation``, ``upload:ID``); a worker is given paths,
each of them within a folder that was named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import Field

from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.data.inputs import are_numbers, is_labelled
from datamarket_gym.data.readers.arrays import ENDINGS
from datamarket_gym.data.readers.tables import Table, ending
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.evidence.admissible_interval import (
    IDENTITIES,
    forest_of,
    honest_market,
)
from datamarket_gym.evidence.false_match_cost import LIMIT
from datamarket_gym.evidence.leak_check import nearest_others
from datamarket_gym.evidence.threshold import (
    Threshold,
    choose_threshold,
    honest_vectors,
    measure_threshold,
    with_compared_vectors,
)
from datamarket_gym.execution.arrays import Codes, Values, directions, in_order
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.files import NamedPlaces
from datamarket_gym.explorer.payout.runs import OpenableRuns, require_openable_inputs
from datamarket_gym.explorer.routes import Find, Routes, Site
from datamarket_gym.market.datasets import DOMAINS, Embeddings, find, load_corpus
from datamarket_gym.market.tasks.synthetic import Synthetic
from datamarket_gym.payout.checks.review_page import UnitContent, render_content, unit_images
from datamarket_gym.payout.input_files import image_bytes, image_tree
from datamarket_gym.payout.inputs import Inputs, read_inputs
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, spec_of
from datamarket_gym.payout.settings import Columns, PayoutSpec, payout_spec
from datamarket_gym.payout.stored_inputs import Places, places_of
from datamarket_gym.payout.threshold import (
    ThetaCheck,
    describe_threshold,
    domain_task,
    recommended,
    table_rows,
)
from datamarket_gym.registry import Document, components, describe

SYNTHETIC = "synthetic"
SHOWN = 2000
"""Rows of which a page is told what merges."""
DEFAULT = ThetaCheck()
_UNITS = 20_000  # units of a run that are looked at
_BIN = 0.01  # width of a bin of similarities
_LONGEST, _SIDE = 4000, 224  # characters of a text, pixels of a picture
_CONTENTS = 16  # rows whose content is shown at a time
Part = Literal["validation", "reference", "submissions"]
PARTS: dict[Part, str] = {
    "validation": "validation rows",
    "reference": "reference rows",
    "submissions": "submitted units",
}
Role = Literal["identity", "label", "features", "embedding", "text"]


class RowsRequest(Document):
    """Name rows; columns of an uploaded table as for ``datamarket theta``, those left out are found by name."""

    source: str = Field(default=SYNTHETIC, max_length=500)
    columns: dict[Role, str] = Field(default_factory=dict)
    content: str = Field(default="", max_length=200)  # the column of texts to show, of a table


class SimulatedMarket(Document):
    """Say how a simulated market is drawn; bounded, as a page must not ask for hours."""

    partition: str = Field(default=DEFAULT.partition, max_length=100)
    providers: int = Field(default=DEFAULT.providers, ge=2, le=100)
    per_provider: int = Field(default=DEFAULT.per_provider, ge=1, le=2000)
    seed: int = Field(default=DEFAULT.seed, ge=0, le=2**31)


class ShownMarket(SimulatedMarket):
    """Choose the rows that are shown: a sample of all, or the first of the simulated markets."""

    shown: Literal["sample", "market"] = "sample"


class ThetaOptions(SimulatedMarket):
    """Hold the options of ``datamarket theta``."""

    trials: int = Field(default=DEFAULT.trials, ge=1, le=300)
    variants: str = Field(default=DEFAULT.variants, max_length=200)
    sample: int = Field(default=DEFAULT.sample, ge=1, le=20_000)
    cutoff: float = Field(default=DEFAULT.cutoff, gt=0, lt=1)


class Origin(Document):
    """Say what a worker reads rows from."""

    kind: Literal["synthetic", "domain", "run", "table"]
    name: str = ""  # of a domain
    part: Part = "validation"  # of a run
    path: Path = Path()  # a run's folder, or a table
    columns: Columns = Columns()
    content: str = ""
    stamp: int = 0  # of a run: when it was finished, so that another in its place is read anew


def origin_of(request: RowsRequest, places: NamedPlaces) -> Origin:
    """Find what a page asks for; refuse what the explorer may not read."""
    source = request.source
    if source == SYNTHETIC:
        return Origin(kind="synthetic")
    if source in DOMAINS:
        return Origin(kind="domain", name=source)
    kind, _, rest = source.partition(":")
    if kind == "upload":
        columns = Columns(**request.columns)
        path = places.uploads.get(rest).path
        return Origin(kind="table", path=path, columns=columns, content=request.content)
    if kind == "run":
        name, _, wanted = rest.rpartition(":")
        for part in PARTS:
            if part == wanted:
                folder = places.run(name)
                require_openable_inputs(places, folder)
                stamp = (folder / MANIFEST).stat().st_mtime_ns
                return Origin(kind="run", part=part, path=folder, stamp=stamp)
        raise ParameterError("source", source, f"name a part of the run: {', '.join(PARTS)}")
    remedy = f"choose {SYNTHETIC}, {', '.join(DOMAINS)}, run:NAME:PART or upload:ID"
    raise ParameterError("source", source, remedy)


Rows = Annotated[Origin, Find(lambda site, request: origin_of(request, site.places), RowsRequest)]
WantedRows = Annotated[tuple[int, ...], Field(max_length=_CONTENTS)]
MARKET, OPTIONS = ShownMarket(), ThetaOptions()
Contents = Callable[[Codes], Sequence[str | bytes | None]]
"""The texts or images of some rows."""


@dataclass(frozen=True, eq=False)
class RowPool:
    """Hold rows that are measured and shown: vectors, classes and owners, and what each row holds.

    ``own`` is how honest providers come by them; rows without ``contents`` are shown as numbers.
    """

    title: str
    rows: Embeddings
    own: str
    policy: Callable[[], Threshold]
    contents: Contents | None = None
    names: Sequence[str] | None = None
    classes: Sequence[str] = ()  # names of classes that are numbers
    domain: str = ""
    evidence: str = ""  # that a run has used

    def labels(self) -> list[str] | None:
        """Name the class of each row; None where there are none."""
        label = self.rows.label
        if label is None:
            return None
        if self.classes:
            return [self.classes[int(code)] for code in label.tolist()]
        before = "class " if label.dtype.kind in "iu" else ""
        return [f"{before}{name}" for name in label.tolist()]

    def unit_contents(self, places: Sequence[int]) -> list[UnitContent]:
        """Read what some rows hold."""
        rows = np.asarray(places, dtype=np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self.rows.vectors)):
            raise DataMarketError(f"there are {len(self.rows.vectors)} rows; name those from 0 on")
        contents = [None] * len(rows) if self.contents is None else self.contents(rows)
        labels = self.labels()
        return [
            UnitContent(
                "" if labels is None else labels[row],
                self.rows.vectors[row],
                text=content if isinstance(content, str) else None,
                image=content if isinstance(content, bytes) else None,
            )
            for row, content in zip(rows.tolist(), contents, strict=True)
        ]


@lru_cache(maxsize=2)
def pool_of(origin: Origin) -> RowPool:
    """Read rows; a page asks several times about the same."""
    match origin.kind:
        case "synthetic":
            task = Synthetic()
            data = task.draw(0).dataset
            rows = Embeddings(data.features, data.label)
            return RowPool("The synthetic market", rows, task.partition, lambda: recommended(rows))
        case "domain":
            return _domain(origin.name)
        case "table":
            return _table(origin)
    return _run(origin)


def _domain(name: str) -> RowPool:
    task = domain_task(name)
    domain, rows = task.domain, task.pool()

    def contents(places: Codes) -> Any:
        corpus = load_corpus(name)
        return corpus.content[np.flatnonzero(corpus.train)][places]

    there = find(domain.file) is not None  # what is not there is not downloaded for a page
    return RowPool(
        domain.title,
        rows,
        task.dealt_by,
        lambda: recommended(rows),
        contents if there else None,
        classes=domain.classes,
        domain=name,
    )


def _table(origin: Origin) -> RowPool:
    columns = {f"columns.{k}": v for k, v in origin.columns.model_dump(exclude_unset=True).items()}
    # Nothing is paid here; but the settings of a payout run say an amount.
    table = table_rows(origin.path, payout_spec({"amount": "1", **columns}))
    place = np.arange(len(table.vectors)) if table.train is None else np.flatnonzero(table.train)
    texts = _texts(origin)
    return RowPool(
        "The table that was uploaded",
        table.training(),
        "iid",
        lambda: recommended(table),
        None if texts is None else lambda places: [texts[i] for i in place[places].tolist()],
        names=[f"row {i}" for i in place.tolist()],
    )


def _texts(origin: Origin) -> list[str] | None:
    """Read the texts of the column that was named, or else of the column ``text``."""
    if ending(origin.path) in ENDINGS:
        return None
    table = Table.open(origin.path)
    wanted = origin.content or origin.columns.text or ("text" if "text" in table.names else "")
    if not wanted:
        return None
    column = table.read([table.require("content", wanted)])[0][wanted]
    return [text or "" for text in column.optional()]


def _run(origin: Origin) -> RowPool:
    """Read the validation rows, the reference rows or the units of a run, as its evidence compares them."""
    folder = origin.path
    manifest = read_manifest(folder)
    spec, places = spec_of(manifest), places_of(folder)
    inputs = read_inputs(places, spec)
    if origin.part == "reference" and inputs.reference is None:
        raise DataMarketError("this run has no reference rows; look at its validation rows")
    pool = _units if origin.part == "submissions" else partial(_operator_rows, part=origin.part)
    return replace(pool(inputs, spec, places), evidence=str(manifest["evidence"]["used"]))


def _units(inputs: Inputs, spec: PayoutSpec, places: Places) -> RowPool:
    utility, submission = inputs.utility_oracle(spec), inputs.submission
    some = np.sort(keyed_generator("rows of a run").permutation(len(submission))[:_UNITS])
    names = [inputs.ids[i] for i in some.tolist()]
    texts = submission.metadata.get("text")

    def images(rows: Codes) -> list[bytes]:
        by_row = unit_images(spec, names, places.submissions, rows.tolist())
        return [by_row[row] for row in rows.tolist()]

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
        texts[some].__getitem__ if texts is not None else images if is_image else None,
        names,
    )


def _operator_rows(inputs: Inputs, spec: PayoutSpec, places: Places, *, part: Part) -> RowPool:
    """Validation rows stand in the order of the utility, reference rows in that of their file."""
    assert part != "submissions"
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
        chosen = order[rows].tolist()
        if path.is_dir():
            names = image_tree(path, identities=False).names
            return image_bytes(path, [names[i] for i in chosen])
        column = Table.open(path).read([str(spec.columns.image)])[0][str(spec.columns.image)].named()
        return image_bytes(Path(str(folder)), [column[i] for i in chosen])

    is_image = path.is_dir() or bool(spec.columns.image and folder)
    ordered = None if texts is None else np.array(texts, dtype=object)[order]
    return RowPool(
        f"The {part} rows of the run",
        Embeddings(honest.vectors, honest.classes if is_labelled(honest.classes) else None),
        "iid",
        partial(choose_threshold, honest, None, measured_on=part),
        ordered.__getitem__ if ordered is not None else images if is_image else None,
        [f"{part} row {i}" for i in order.tolist()],
    )


def rows_shown(origin: Rows, market: ShownMarket = MARKET, *, progress: Progress) -> dict[str, Any]:
    """Describe some rows, whose they are, and the forest of their similarities: what merges at every theta."""
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
        **{name: getattr(forest, name).tolist() for name in ("left", "right", "score")},
        "owner": owner,
        "owners": owners,
        "label": label,
        "labels": classes,
        "evidence": pool.evidence,
        "nearest": histogram(nearest),
    }


def check_theta(origin: Rows, check: ThetaOptions = OPTIONS, *, progress: Progress) -> dict[str, Any]:
    """Run the check for components, with the similarities that it looked at."""
    pool = _read(origin, progress)
    settings, label = ThetaCheck(**check.model_dump()), pool.rows.label
    if pool.domain:
        admissible = settings.of_domain(pool.domain, progress)
    else:
        admissible = settings.of(pool.rows, pool.own, progress)
    return admissible.as_dict() | {
        "alike": histogram(admissible.alike),
        "copies": histogram(admissible.copies),
        "classes": label is not None and not are_numbers(label) and len(np.unique(label)) > 1,
    }


def policy(origin: Rows, *, progress: Progress) -> dict[str, Any]:
    """Resolve the threshold of `recommended`: its value, why, and the false-match cost by theta."""
    pool = _read(origin, progress)
    progress.stage("measuring the false-match cost")
    threshold = pool.policy()
    words = describe_threshold(threshold)
    if origin.kind == "run" and origin.part == "submissions":
        words = f"{threshold.why[:1].upper()}{threshold.why[1:]}."
    return threshold.model_dump(mode="json") | {"words": words, "limit": LIMIT}


def contents(origin: Rows, rows: WantedRows, *, progress: Progress) -> dict[str, Any]:
    """Show what some rows hold: a text, a picture, or numbers."""
    pool = _read(origin, progress)
    return {
        "contents": [
            {"row": row, "name": f"row {row}" if pool.names is None else pool.names[row]}
            | render_content(content, _LONGEST, _SIDE)
            for row, content in zip(rows, pool.unit_contents(rows), strict=True)
        ]
    }


def histogram(similarities: Values) -> dict[str, Any]:
    """Compute shares of similarities in bins of a hundredth, from the first bin that holds any."""
    edges = np.round(np.arange(-100, 101) / 100, 2)
    counts = np.histogram(np.clip(similarities, -1.0, 1.0), bins=edges)[0]
    used = np.flatnonzero(counts)
    if not len(used):
        return {"start": 0.0, "step": _BIN, "shares": [], "count": 0}
    return {
        "start": float(edges[used[0]]),
        "step": _BIN,
        "shares": (counts[used[0] : used[-1] + 1] / counts.sum()).round(6).tolist(),
        "count": int(counts.sum()),
    }


def _read(origin: Origin, progress: Progress) -> RowPool:
    progress.stage("reading the rows")
    return pool_of(origin)


def _chosen(pool: RowPool, market: ShownMarket) -> tuple[Codes, list[int] | None, list[str]]:
    """Return the places of the rows that are shown, the number of each row's owner, and the owners' names."""
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
    order = keyed_generator(market.seed, "rows shown").permutation(len(pointed))
    places = np.sort(pointed[order[:SHOWN]])
    if rows.identity is None:
        return places, None, []
    names, code = np.unique([str(each) for each in rows.identity[places].tolist()], return_inverse=True)
    return places, code.tolist(), names.tolist()


def _classes(pool: RowPool, places: Codes) -> tuple[list[int] | None, Sequence[str]]:
    """Return the number of each row's class, and their names; numbers are no classes."""
    labels = pool.labels()
    if labels is None or pool.rows.label is None or are_numbers(pool.rows.label):
        return None, []
    names, code = np.unique([labels[place] for place in places.tolist()], return_inverse=True)
    return (code.tolist(), names.tolist()) if len(names) > 1 else (None, [])


UploadNames = Annotated[
    tuple[tuple[str, str], ...],
    Find(lambda site, _: tuple((upload.id, upload.name) for upload in site.places.uploads.all()), {}),
]
_WITH_VALUES = {"dominant_class": "dominant_class@0.75", "dirichlet": "dirichlet@0.5"}
_VARIANTS = (
    "near_duplicate_2x_sybils@0.02", "near_duplicate_2x_sybils@0.05", "exact_dup_2x_sybils", "synthetic_laundering",
    "text_variants", "image_variants",
)  # fmt: skip
"""Those that make copies of one's own units; others can be typed."""


def choices(runs: OpenableRuns, uploads: UploadNames, *, progress: Progress) -> dict[str, Any]:
    """List the rows that can be looked at, and the options of the check; runs and uploads by their ids."""
    there = {name: _is_there(domain.embeddings_file) for name, domain in DOMAINS.items()}
    tasks = {SYNTHETIC: "the synthetic market"} | {
        name: f"{DOMAINS[name].title} ({DOMAINS[name].kind}s)" for name, here in there.items() if here
    }
    parts = {f"run:{run}:{p}": f"{run}: {PARTS[p]}" for run, folder in runs for p in _parts(folder)}
    tables = {f"upload:{key}": name for key, name in uploads}
    groups = (("Tasks", tasks), ("Payout runs", parts), ("Uploaded tables", tables))
    return {
        "sources": [
            {"value": value, "label": label, "group": group}
            for group, sources in groups
            for value, label in sources.items()
        ],
        "missing": [DOMAINS[name].title for name, here in there.items() if not here],
        "partitions": [
            {"value": _WITH_VALUES.get(name, name), "label": describe("partition", name).summary}
            for name in components("partition")
        ],
        "variants": [
            {"value": name, "label": describe("attack", name).summary}
            for name in _VARIANTS
            if name.partition("@")[0] in components("attack")
        ],
        "defaults": ThetaOptions().model_dump(),
        "most": SHOWN,
    }


def _parts(folder: Path) -> list[Part]:
    try:
        inputs = read_manifest(folder)["inputs"]
    except DataMarketError:
        return []
    return [part for part in PARTS if part in inputs]


def _is_there(name: str) -> bool:
    try:
        return find(name) is not None
    except DataMarketError:  # the folder that was named is not there: reading a domain says so
        return False


def router(site: Site) -> APIRouter:
    """Build the routes below ``/api/threshold``."""
    routes = Routes("/api/threshold", site)
    routes.answer("GET", "/choices", choices)
    routes.answer("POST", "/rows", rows_shown, cache=True)
    routes.answer("POST", "/check", check_theta, cache=True)
    routes.answer("POST", "/policy", policy, cache=True)
    routes.answer("POST", "/contents", contents, cache=True)
    return routes
