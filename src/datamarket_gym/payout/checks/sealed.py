"""The sealed list of planted fakes, ``checks/planted.json``: which of the drawn units the operator made up, and how.

Its hash (`seal`) is published with the draw, so that it cannot be changed once outcomes are known. Whoever checks
is not given it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import RunError
from datamarket_gym.core.files import read_json, sha256, write_json

FOLDER = "checks"
FILE = "planted.json"
_FORMAT = 1


@dataclass(frozen=True)
class PlantedFake:
    """A false unit under a made-up payee: how it was made and of which units, and all that is shown of it."""

    payee: str
    unit: str
    row: int  # the count of the run's units goes on with the fakes
    amount: float
    share: float
    how: str
    of: list[str]
    label: str
    features: list[float]
    vector: list[float]  # what similarity compares
    text: str | None = None
    image: str | None = None  # an image file in base64
    looks: int = 1  # how many times it was drawn


@dataclass(frozen=True)
class SealedPlants:
    """All fakes of a run, and what they were made from: nothing but this, the run's inputs and the nonce."""

    run: str
    beacon: str
    asked: int
    nonce: str
    fakes: list[PlantedFake]


def read_plants(run: Path) -> SealedPlants | None:
    """The fakes of a run; None where none were planted."""
    path = run / FOLDER / FILE
    if not path.exists():
        return None
    data: Any = read_json(path)
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise RunError(f"{str(path)!r} is no list of planted fakes of this version; restore it")
    try:
        fakes = [PlantedFake(**fake) for fake in data["fakes"]]
        return SealedPlants(data["run"], data["beacon"], data["asked"], data["nonce"], fakes)
    except (KeyError, TypeError) as error:
        raise RunError(f"{str(path)!r} is damaged ({error}); restore it from a copy") from error


def write_plants(run: Path, plants: SealedPlants) -> None:
    """Write the list, once; its folder is made where missing."""
    write_json(run / FOLDER / FILE, {"format": _FORMAT, **asdict(plants)}, sort=False)


def seal(run: Path) -> str | None:
    """The sha256 of the list, to be published with the draw; None where nothing was planted."""
    path = run / FOLDER / FILE
    return sha256(path) if path.exists() else None


def require_sealed(run: Path, published: str | None) -> None:
    """Refuse a list that is not the one whose hash was published."""
    if seal(run) != published:
        raise RunError(
            f"{str(run / FOLDER / FILE)!r} is missing or not the one that was sealed when the checks were drawn; "
            "restore it from a copy"
        )
