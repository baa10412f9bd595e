"""The inputs of a run: looked for where they were or where somebody says, in the folders on show alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from datamarket_gym.core.specs import Document
from datamarket_gym.payout.book.place import run_of
from datamarket_gym.payout.book.receipts import is_address
from datamarket_gym.payout.book.run_record import RunRecord
from datamarket_gym.payout.kept import places_of
from datamarket_gym.payout.manifest import read_manifest, spec_of
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.stages import Places
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


def inputs_on_show(shown: NamedPlaces, folder: Path, moved: MovedInputs) -> Places:
    """Where the inputs of a run are; refused where one lies in no folder that the explorer may show."""
    record = run_of(folder)
    places = places_of(
        folder, moved.path("submissions"), moved.path("validation"), moved.path("reference"), record
    )
    for path in _paths(places, spec_of(read_manifest(folder))):
        shown.inside(path)
    require_log_on_show(shown, record)
    return places


def require_log_on_show(shown: NamedPlaces, record: RunRecord) -> None:
    """Refuse a run whose times are from an intake log that lies elsewhere; one on a server is as the run names it."""
    log = record.places.get("intake")
    if log is not None and not is_address(log):
        shown.inside(Path(log))


def _paths(places: Places, spec: PayoutSpec) -> Iterator[Path]:
    yield from (value for value in vars(places).values() if isinstance(value, Path))
    yield from places.prior
    for said in (*vars(spec.files).values(), spec.linkage.edges):
        if said and "://" not in said:
            yield Path(said.partition("#")[0])
