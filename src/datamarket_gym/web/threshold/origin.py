"""Where the rows come from that a threshold is looked at on: a task, a table that was uploaded, or a payout run.

An address holds a short text (``cifar10``, ``run:june:validation``, ``upload:ID``); what a worker is given holds the
paths, each of them within a folder that was named.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.specs import Document
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.spec import Columns
from datamarket_gym.web.payday.run_inputs import inputs_on_show
from datamarket_gym.web.places import NamedPlaces
from datamarket_gym.world.data import DOMAINS

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
