"""The manifest of a run: what went in, what was done, and the hash of every file that came out.

`Contents` tells whether two runs were submitted the same units, whatever the format of their files: of the hashes of
all units' features (in single precision) it keeps the least `LEAST` and the number of different ones. Of two runs with
n and m different units the least hashes of both are a sample of their union; if a part J of it is in both,
J (n + m) / (1 + J) units are (Broder 1997).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from datamarket_gym import __version__
from datamarket_gym.display import Screen
from datamarket_gym.errors import DataMarketError, UnknownNameError
from datamarket_gym.execution.arrays import Features, in_blocks
from datamarket_gym.execution.files import read_json, sha256
from datamarket_gym.registry import fault

if TYPE_CHECKING:
    from datamarket_gym.payout.checks.plan import SettledDraft
    from datamarket_gym.payout.overrides import Override
    from datamarket_gym.payout.settings import PayoutSpec


class Check(NamedTuple):
    """Hold what was checked, if it is good, and a word on it."""

    what: str
    good: bool
    detail: str

    def __repr__(self) -> str:
        return Screen.of_fields("Check", self._asdict()).text()

    def _repr_html_(self) -> str:
        return Screen.of_fields("Check", self._asdict()).html()


class Note(Check):
    """A check that did not fail, and could not be made."""


LEAST = 256
_HEX = 16  # characters of a hash: 64 bits


class Contents(BaseModel):
    """Hold how many different units there are, and the least of their hashes."""

    model_config = ConfigDict(frozen=True)

    distinct: int = 0
    least: tuple[str, ...] = ()

    @classmethod
    def of(cls, features: Features) -> Contents:
        """Hash the features of units, in any order."""
        hashes: list[bytes] = []
        size = 4 * features.shape[1]
        for _, block in in_blocks(features):
            with np.errstate(over="ignore"):
                raw = (np.ascontiguousarray(block, dtype="<f4") + np.float32(0)).data.cast("B")
            rows = (raw[at : at + size] for at in range(0, len(raw), size))
            hashes.append(b"".join(hashlib.sha256(row).digest()[: _HEX // 2] for row in rows))
        digests = np.unique(np.frombuffer(b"".join(hashes), dtype=">u8").astype(np.uint64))
        least = tuple(f"{each:0{_HEX}x}" for each in digests[:LEAST].tolist())
        return cls(distinct=len(digests), least=least)

    def shared(self, other: Contents) -> float:
        """Estimate how many of the different units are in both."""
        ours, theirs = set(self.least), set(other.least)
        if max(self.distinct, other.distinct) <= LEAST:
            return float(len(ours & theirs))
        sample = sorted(ours | theirs)[:LEAST]
        part = sum(each in ours and each in theirs for each in sample) / len(sample)
        return part * (self.distinct + other.distinct) / (1 + part)


NAME = "manifest.json"
FORMAT = 1
_STAGES = ("represented", "scores", "amounts")
RECORDS = ("leaks", "matches", *_STAGES, *(f"without_evidence_{stage}" for stage in _STAGES))
"""What the pipeline's stages returned, with the run's evidence and without any."""
OWNED = "records/owned_units.npz"
"""What the run has acquired, for runs of later periods."""
KNOWN = "acquired.parquet"
"""Units that match what earlier runs had acquired, where a run names some."""
NEAREST = "records/nearest.npz"
"""The nearest earlier unit of each, for runs of the same units and some more."""
NEEDS = "needs.npz"
"""The covered validation rows of each unit, where these are paid for; else it holds none."""
UNITS = "units.csv"
"""What each submitted unit earns, and why it earns nothing."""
_TABLES = ("canonical", "clusters", "evidence", "leaks", "payments")
OUTPUTS = (
    *("audit.json", NEEDS, "payments.csv", UNITS, "quarantine.csv", OWNED, NEAREST),
    *("report.html", "threshold.json", "warnings.json"),
    *(f"{name}.parquet" for name in _TABLES),
    *(f"records/{name}.npz" for name in RECORDS),
)
"""Files that follow from the inputs; the ledger, which has the time, is not among them."""


def outputs_of(acquired: Sequence[Any]) -> tuple[str, ...]:
    """Return the outputs of a run that names earlier ones, or none."""
    return (*OUTPUTS, KNOWN, "records/acquired.npz") if acquired else OUTPUTS


def run_id(
    spec: PayoutSpec,
    files: dict[str, Any],
    overrides: list[Override],
    opening: dict[str, int],
    settles: SettledDraft | None = None,
    made_by: str = __version__,
    acquired: Sequence[dict[str, str]] = (),
) -> str:
    """Hash all that decides a run's results."""
    parts = [
        FORMAT,
        made_by,
        spec.model_dump(mode="json"),
        {
            role: [f["sha256"], f["bytes"], *([f["sheet"]] if "sheet" in f else [])]
            for role, f in files.items()
        },
        [o.model_dump(mode="json") for o in overrides],
        sorted(opening.items()),
        *([] if settles is None else [settles.model_dump(mode="json")]),
        *([{"acquired": [[each["run"], each["owned"]] for each in acquired]}] if acquired else []),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def submitted_hash(manifest: dict[str, Any]) -> str:
    """Hash what was submitted, whatever it was valued by."""
    ours = (
        "validation", "reference", "edges", "overrides", "images", "quarantine", "intake", "scores", "utility",
    )  # fmt: skip
    parts = sorted(
        (role, f["sha256"], *([f["sheet"]] if "sheet" in f else []))
        for role, f in manifest["inputs"].items()
        if not role.startswith(ours)
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def spec_of(manifest: dict[str, Any]) -> PayoutSpec:
    """Read the settings of a finished run."""
    from datamarket_gym.payout.settings import checked_spec

    try:
        return checked_spec(manifest["spec"])
    except UnknownNameError as error:
        if "utility" not in manifest["inputs"]:
            raise
        raise DataMarketError(
            f"{error}. The run is paid by a function of the operator's own: name the file that registers it before the "
            "command, as in datamarket --load my_utility.py verify RUN"
        ) from error


class FileRecord(BaseModel):
    """Hold the hash and length of a file."""

    sha256: str
    bytes: int


class InputRecord(FileRecord):
    """Hold what an input was called, too."""

    name: str


class IntervalRecord(BaseModel):
    """Hold how intervals of payments were computed."""

    level: float = Field(gt=0, lt=1)
    groups: int


class SpecRecord(BaseModel):
    """Hold those settings that are read without building all of them."""

    period: str | None = None
    beacon: str | None = None
    checks: int = Field(0, ge=0, lt=2**31)
    acquired_discount: bool = False
    columns: dict[str, Any] = {}


class ManifestShape(BaseModel):
    """Hold what every manifest has, as far as it is read again; what has a default is checked where it is there."""

    model_config = ConfigDict(strict=True)

    run: str
    spec: SpecRecord
    inputs: dict[str, InputRecord]
    mechanism: dict[str, Any]
    utility: dict[str, str] = {}
    paid_for: dict[str, str] = {}
    labelled: bool = True
    interval: IntervalRecord = IntervalRecord(level=0.95, groups=0)
    evidence: dict[str, str]
    overrides: list[dict[str, Any]]
    opening_balances: dict[str, int]
    standing_overrides: list[dict[str, Any]]
    settles: dict[str, Any] | None
    versions: dict[str, str]
    seed: int
    amount: int
    currency: str
    paid: int = 0
    balances: int = 0
    identities: int
    units: int
    removed: int = 0
    leaked: int
    quarantined: int = 0
    known: int = 0
    clusters: int
    ties: int = 0
    scores: str = ""
    contents: Contents
    outputs: dict[str, FileRecord]
    acquired: list[dict[str, str]] = []


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a finished run."""
    if not (folder / NAME).is_file():
        raise DataMarketError(
            f"{str(folder)!r} holds no finished payout run; run pay, or check the path"
        )
    manifest = read_json(folder / NAME)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataMarketError(f"{str(folder / NAME)!r} is no manifest of this version")
    try:
        ManifestShape.model_validate(manifest)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        wrong = f"has no {where!r}" if first["type"] == "missing" else f"{where!r}: {first['msg']}"
        raise DataMarketError(
            f"{str(folder / NAME)!r} is damaged, or of another version ({wrong}); restore it from a copy, or pay again "
            "into another folder"
        ) from error
    return manifest


def require_as_written(folder: Path, outputs: dict[str, Any], name: str) -> Path:
    """Return the path of an output of a finished run; refuse one that is missing or changed."""
    path = folder / name
    if name not in outputs or not path.is_file() or sha256(path) != outputs[name]["sha256"]:
        raise DataMarketError(
            f"{str(path)!r} is missing or not as the run left it; run verify, or pay into another folder"
        )
    return path


def settled_by(manifest: dict[str, Any]) -> SettledDraft | None:
    """Read what a run settles; None for one without an earlier draft."""
    from datamarket_gym.payout.checks.plan import SettledDraft

    draft = manifest.get("settles")
    try:
        return None if draft is None else SettledDraft.model_validate(draft)
    except ValidationError as error:
        raise fault(error, "manifest.json: settles.") from error
