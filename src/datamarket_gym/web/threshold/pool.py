"""The rows of an origin in memory: what evidence compares of them, whose they are, and what they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Codes
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.progress import Progress
from datamarket_gym.evidence.threshold.admissibility import Admissibility
from datamarket_gym.evidence.threshold.choice import Threshold
from datamarket_gym.payout.checks.contents import UnitContent
from datamarket_gym.payout.spec import payout_spec
from datamarket_gym.payout.theta import ThetaCheck, domain_task, recommended, table_rows
from datamarket_gym.units.readers.tables import Table
from datamarket_gym.web.threshold.origin import Origin
from datamarket_gym.world.data import Embeddings, find, load_corpus
from datamarket_gym.world.tasks.synthetic import Synthetic

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
    from datamarket_gym.web.threshold.run_rows import pool_of_run

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
    from datamarket_gym.units.readers.arrays import ENDINGS
    from datamarket_gym.units.readers.files import ending

    if ending(origin.file) in ENDINGS:
        return None
    table = Table.open(origin.file)
    wanted = origin.content or origin.columns.text or ("text" if "text" in table.names else "")
    if not wanted:
        return None
    column = table.read([table.require("content", wanted)])[0][wanted]
    return [text or "" for text in column.optional()]
