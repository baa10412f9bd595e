"""The inputs of a run: looked for where they were or where somebody says, in the folders on show alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from datamarket_gym.core.specs import Document
from datamarket_gym.payout.book.place import run_of
from datamarket_gym.payout.book.run_record import RunRecord
from datamarket_gym.payout.kept import places_of
from datamarket_gym.payout.manifest import read_manifest, spec_of
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.stages import Places
from datamarket_gym.units.readers.databases import is_query
from datamarket_gym.units.readers.files import file_and_member
from datamarket_gym.web.places import NamedPlaces

_WHERE = Field(default="", max_length=4000)


class MovedInputs(Document):
    """Where inputs are now, if they were moved; empty: where they were."""

    submissions: str = _WHERE
    validation: str = _WHERE
    reference: str = _WHERE

    def path(self, role: str) -> Path | None:
        """Where one of them is now; None: where it was."""
        said = getattr(self, role)
        return Path(said) if said else None


def inputs_on_show(shown: NamedPlaces, folder: Path, moved: MovedInputs | None = None) -> Places:
    """Where the inputs of a run are; refused where one lies in no folder that the explorer may show."""
    record, moved, spec = run_of(folder), moved or MovedInputs(), spec_of(read_manifest(folder))
    places = places_of(
        folder, moved.path("submissions"), moved.path("validation"), moved.path("reference"), record
    )
    for path in _paths(places, spec):
        shown.inside(path)
    for earlier in places.prior:
        shown.require_run(earlier)
    require_log_on_show(shown, record)
    return places


def require_log_on_show(shown: NamedPlaces, record: RunRecord) -> None:
    """Refuse a run whose times are from an intake log that lies elsewhere, or on a server that was not named."""
    log = record.places.get("intake")
    if log is not None:
        shown.require_book(log)


def _paths(places: Places, spec: PayoutSpec) -> Iterator[Path]:
    yield from (value for value in vars(places).values() if isinstance(value, Path))
    yield from places.prior
    for said in (*vars(spec.files).values(), spec.linkage.edges):
        if said and not is_query(said):  # the answer to a query is kept in the run's folder
            yield file_and_member(said)[0]
