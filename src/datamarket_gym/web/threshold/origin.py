"""Where the rows come from that a threshold is looked at on: a task, a table that was uploaded, or a payout run.

An address holds a short text (``cifar10``, ``run:june:validation``, ``upload:ID``); what a worker is given holds the
paths, each of them within a folder that was named.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.specs import Document
from datamarket_gym.payout.kept import places_of
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, spec_of
from datamarket_gym.payout.scored import scores_file
from datamarket_gym.payout.spec import Columns, PayoutSpec
from datamarket_gym.payout.stages import Places
from datamarket_gym.units.arrays import file_and_member
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
    spec, found = spec_of(read_manifest(folder)), places_of(folder)
    for path in run_files(found, spec):
        places.inside(path)
    return Origin(kind="run", part=part, path=folder, stamp=(folder / MANIFEST).stat().st_mtime_ns)


def run_files(found: Places, spec: PayoutSpec) -> Iterator[Path]:
    """The files that the rows of a run are read from."""
    yield from (found.submissions, found.validation)
    if found.reference is not None:
        yield found.reference
    if (scores := scores_file(spec, found.scores)) is not None:
        yield scores
    for role, text in spec.files.model_dump(exclude_none=True).items():
        if role != "scores":
            yield file_and_member(text)[0]
