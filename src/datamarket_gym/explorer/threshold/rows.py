"""Where the rows come from that a threshold is looked at on: a task, a table that was uploaded, or a payout run.

An address holds a short text (``cifar10``, ``run:june:validation``, ``upload:ID``); what a worker is given holds the
paths, each of them within a folder that was named.

The rows of an origin in memory: what evidence compares of them, whose they are, and what they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from datamarket_gym.data.readers.tables import Table
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.evidence.admissible_interval import Admissibility
from datamarket_gym.evidence.threshold import Threshold
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.files import NamedPlaces
from datamarket_gym.explorer.payout.runs import inputs_on_show
from datamarket_gym.market.datasets import DOMAINS, Embeddings, find, load_corpus
from datamarket_gym.market.tasks.synthetic import Synthetic
from datamarket_gym.payout.checks.review_page import UnitContent
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.settings import Columns, payout_spec
from datamarket_gym.payout.threshold import ThetaCheck, domain_task, recommended, table_rows
from datamarket_gym.registry import Document

SYNTHETIC = "synthetic"
Part = Literal["validation", "reference", "submissions"]
PARTS: tuple[Part, ...] = ("validation", "reference", "submissions")


class NamedColumns(Document):
    """The columns of an uploaded table, named as for ``datamarket theta``; those left out are found by their names."""

    identity: str | None = None
    label: str | None = None
    features: str | None = None
    embedding: str | None = None
    text: str | None = None

    def roles(self) -> Columns:
        """The same as settings of a payday."""
        return Columns(**self.model_dump(exclude_none=True))


class AskedRows(Document):
    """What a page asks for."""

    source: str = Field(default=SYNTHETIC, max_length=500)
    columns: NamedColumns = NamedColumns()
    content: str = Field(default="", max_length=200)  # the column of texts to show, of a table


class Origin(Document):
    """What a worker reads rows from."""

    kind: Literal["synthetic", "domain", "run", "table"]
    name: str = ""  # of a domain
    part: Part = "validation"  # of a run
    path: Path | None = None  # a run's folder, or a table
    columns: Columns = Columns()
    content: str = ""
    stamp: int = 0  # of a run: when it was finished, so that another in its place is read anew

    @property
    def file(self) -> Path:
        """The folder or the table."""
        assert self.path is not None  # runs and tables have one
        return self.path


def origin_of(asked: AskedRows, places: NamedPlaces) -> Origin:
    """Where to read, if it may be read."""
    source = asked.source
    if source == SYNTHETIC:
        return Origin(kind="synthetic")
    if source in DOMAINS:
        return Origin(kind="domain", name=source)
    kind, _, rest = source.partition(":")
    if kind == "upload":
        columns = asked.columns.roles()
        return Origin(
            kind="table", path=places.uploads.path(rest), columns=columns, content=asked.content
        )
    if kind == "run":
        name, _, part = rest.rpartition(":")
        for known in PARTS:
            if part == known:
                return _of_run(places.run(name), known, places)
        raise ParameterError("source", source, f"name a part of the run: {', '.join(PARTS)}")
    raise ParameterError(
        "source",
        source,
        f"choose {SYNTHETIC}, {', '.join(DOMAINS)}, run:NAME:PART or upload:ID",
    )


def _of_run(folder: Path, part: Part, places: NamedPlaces) -> Origin:
    """The rows of a run, whose files must all lie where the explorer may look."""
    inputs_on_show(places, folder)
    return Origin(kind="run", part=part, path=folder, stamp=(folder / MANIFEST).stat().st_mtime_ns)


Contents = Callable[[Codes], Sequence[Any]]
"""The raw content of some rows."""


@dataclass(frozen=True, eq=False)
class RowPool:
    """Rows that are measured and shown: names, vectors, classes and owners, and what each holds.

    ``own`` is how honest providers come by them, ``kind`` what a row is to look at: text, image or numbers.
    """

    title: str
    rows: Embeddings
    own: str
    policy: Callable[[], Threshold]
    kind: str = "numbers"
    contents: Contents | None = None
    names: Sequence[str] | None = None
    classes: Sequence[str] = ()  # names of classes that are numbers
    domain: str = ""
    taken: str = ""  # the evidence that a run has used

    def check(self, asked: ThetaCheck, progress: Progress) -> Admissibility:
        """The check for components."""
        if self.domain:
            return asked.of_domain(self.domain, progress)
        return asked.of(self.rows, self.own, progress)

    def labels(self) -> list[str] | None:
        """The class of each row, by name; None where there are none."""
        label = self.rows.label
        if label is None:
            return None
        if self.classes:
            return [self.classes[int(code)] for code in label.tolist()]
        before = "class " if label.dtype.kind in "iu" else ""
        return [f"{before}{each}" for each in label.tolist()]

    def shown(self, places: Sequence[int]) -> list[UnitContent]:
        """What some rows hold."""
        rows = np.asarray(places, dtype=np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self.rows.vectors)):
            raise DataMarketError(f"there are {len(self.rows.vectors)} rows; name those from 0 on")
        held = [None] * len(rows) if self.contents is None else list(self.contents(rows))
        labels = self.labels()
        return [
            UnitContent(
                "" if labels is None else labels[row],
                self.rows.vectors[row],
                held[i] if self.kind == "text" else None,
                held[i] if self.kind == "image" else None,
            )
            for i, row in enumerate(rows.tolist())
        ]


@lru_cache(maxsize=2)
def pool_of(origin: Origin) -> RowPool:
    """Remembered: a page asks several times about the same rows."""
    match origin.kind:
        case "synthetic":
            return _synthetic()
        case "domain":
            return _domain(origin.name)
        case "table":
            return _table(origin)
    from datamarket_gym.explorer.threshold.routes import pool_of_run

    return pool_of_run(origin)


def _synthetic() -> RowPool:
    task = Synthetic()
    data = task.draw(0).dataset
    rows = Embeddings(data.features, data.label)
    return RowPool("The synthetic market", rows, task.partition, lambda: recommended(rows))


def _domain(name: str) -> RowPool:
    task = domain_task(name)
    domain, rows = task.domain, task.pool()
    there = find(domain.file) is not None  # what is not there is not downloaded for a page
    return RowPool(
        domain.title,
        rows,
        task.dealt_by,
        lambda: recommended(rows),
        domain.kind if there else "numbers",
        (lambda places: _corpus(name)[places]) if there else None,
        classes=domain.classes,
        domain=name,
    )


def _corpus(name: str) -> Any:
    corpus = load_corpus(name)
    return corpus.content[np.flatnonzero(corpus.train)]


def _table(origin: Origin) -> RowPool:
    # Nothing is paid here; but the settings of a payday say an amount.
    given = {
        f"columns.{role}": name for role, name in origin.columns.model_dump(exclude_unset=True).items()
    }
    found = table_rows(origin.file, payout_spec(None, {"amount": "1", **given}))
    rows = found.training()
    place = np.arange(len(found.vectors)) if found.train is None else np.flatnonzero(found.train)
    texts = _texts(origin)
    return RowPool(
        "The table that was uploaded",
        rows,
        "iid",
        lambda: recommended(found),
        "numbers" if texts is None else "text",
        None if texts is None else lambda places: [texts[i] for i in place[places].tolist()],
        names=[f"row {i}" for i in place.tolist()],
    )


def _texts(origin: Origin) -> list[str] | None:
    """The texts to be looked at: of the column that was named, or else of the column ``text``."""
    from datamarket_gym.data.readers.arrays import ENDINGS
    from datamarket_gym.data.readers.tables import ending

    if ending(origin.file) in ENDINGS:
        return None
    table = Table.open(origin.file)
    wanted = origin.content or origin.columns.text or ("text" if "text" in table.names else "")
    if not wanted:
        return None
    column = table.read([table.require("content", wanted)])[0][wanted]
    return [text or "" for text in column.optional()]
