"""Submissions, and the bundles of their results: three files that are checked before anything in them is believed.

``results.json`` holds the rows, ``manifest.json`` what was submitted and how it was run, and ``SHA256SUMS`` the hashes
of both (``sha256sum -c`` reads it). A bundle is a stranger's folder: only plain files of bounded size under these names
are opened, nothing is followed, unpacked or run, and every text and number has a type and a range.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from datamarket_gym.analysis.metrics import ROUNDING
from datamarket_gym.benchmark.baselines.program import Baseline
from datamarket_gym.benchmark.suite import named, suite
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.mechanism.pipeline import MECHANISMS, Mechanism, as_mechanism
from datamarket_gym.registry import Document, fault

LONGEST_NAME = 60
LONGEST_TEXT = 4000


_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # isprintable(), yet invisible


def _readable(text: str) -> str:
    """Return text; raise where something in it cannot be seen: control characters, fillers, marks of direction."""
    if text != text.strip() or not text.isprintable() or not _BLANK.isdisjoint(text):
        raise ValueError("use characters that can be seen, and no spaces around them")
    return text


Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_readable)]
Line = Annotated[str, Field(max_length=200), AfterValidator(_readable)]
Spec = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_readable)]


class BenchmarkEntry(Document):
    """A submission as it stands in a manifest; of a program the command is kept, for people to read."""

    track: Literal["mechanism", "attack"] = "mechanism"
    name: Name
    authors: Line = ""
    spec: Spec = ""
    command: Spec = ""
    checks: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _one_thing(self) -> BenchmarkEntry:
        """Require one thing: a spec, or the command of a program, which is no attack and cannot be checked."""
        if bool(self.spec) == bool(self.command):
            raise ValueError("name a spec or a command, and not both")
        if self.command and (self.track == "attack" or self.checks):
            raise ValueError("a program is a mechanism without checks; leave them out")
        return self

    @classmethod
    def of_spec(cls, spec: str, *, checks: int = 0, name: str = "", authors: str = "") -> BenchmarkEntry:
        payer = as_mechanism(MECHANISMS.create(spec))
        if checks and not isinstance(payer, Mechanism):
            raise ParameterError(
                "--checks", checks, f"{payer.name} does not say what each unit earns; leave checks out"
            )
        if checks > suite().most_checks:
            raise ParameterError("--checks", checks, f"choose at most {suite().most_checks}")
        if isinstance(payer, OwnMechanism) and payer.asks_oracle:
            raise ParameterError("mechanism", spec, "it asks for the ground truth; no market knows that")
        return _validated(
            name=name or _short(named(payer.name, checks)), authors=authors, spec=spec, checks=checks
        )

    @classmethod
    def of_command(cls, command: str, *, name: str = "", authors: str = "") -> BenchmarkEntry:
        MECHANISMS.create({"name": "program", "command": command})  # refuses what cannot be called
        return _validated(name=name or _short(command), authors=authors, command=command)

    @classmethod
    def of_attack(cls, spec: str, *, name: str = "", authors: str = "") -> BenchmarkEntry:
        """Make the entry of an attack; its noise may be in standard deviations of a feature, as ``{0.5}``."""
        return _validated(track="attack", name=name or _short(spec), authors=authors, spec=spec)

    def mechanism(self) -> Mechanism | OwnMechanism:
        if not self.command:
            return as_mechanism(MECHANISMS.create(self.spec))
        program = MECHANISMS.create({"name": "program", "command": self.command})
        return as_mechanism(program, self.name)

    @property
    def versions(self) -> dict[str, str]:
        """Return the version of the library that pays, where one does; raise where it is not installed."""
        payer = None if self.track == "attack" or self.command else MECHANISMS.create(self.spec)
        return {payer.package: payer.version} if isinstance(payer, Baseline) else {}

    @property
    def what(self) -> str:
        return self.command or self.spec


def _validated(**fields: Any) -> BenchmarkEntry:
    try:
        return BenchmarkEntry(**fields)
    except ValidationError as error:
        raise fault(error, "submission: ") from error


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 3] + "..."


MANIFEST, RESULTS, SUMS = "manifest.json", "results.json", "SHA256SUMS"
_LARGEST = {MANIFEST: 100_000, RESULTS: 2_000_000, SUMS: 1_000}

Amount = Annotated[float, Field(ge=0.0, le=1e12, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=ROUNDING, le=1e12, allow_inf_nan=False)]
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class BundleError(DataMarketError):
    """A bundle that is not believed, with the reason."""


class _ResultRow(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    task: Name
    draw: Annotated[int, Field(ge=0, le=1_000_000)]
    honest_pay: Amount
    pay: Amount
    pot: Positive
    paid: Amount
    providers: Annotated[int, Field(ge=2, le=1000)]
    worth: Positive
    fairness_loss: Annotated[float, Field(ge=0.0, le=1.0 + 1e-9, allow_inf_nan=False)]
    seconds: Amount
    evaluations: Annotated[int, Field(ge=0, le=10**15)] | None
    best_attack: Spec


class MechanismRow(_ResultRow):
    """One attack on one market under a submitted mechanism."""

    attack: Name

    @property
    def against(self) -> str:
        return self.attack


class AttackRow(_ResultRow):
    """A submitted attack on one market under one of the suite's mechanisms."""

    opponent: Name

    @property
    def against(self) -> str:
        return self.opponent


class _Results(Document):
    columns: Annotated[list[Line], Field(max_length=30)]
    rows: list[list[str | int | float | None]]


Rows = list[MechanismRow] | list[AttackRow]
_ROWS: dict[str, TypeAdapter[Any]] = {
    "mechanism": TypeAdapter(list[MechanismRow]),
    "attack": TypeAdapter(list[AttackRow]),
}


class BundleManifest(Document):
    """What was submitted, on which suite and draws, with which code, on which machine and when."""

    bundle: Literal[1] = 1
    digest: Hash
    suite: Name
    suite_hash: Hash
    quick: bool
    seeds: Literal["public", "private"]
    commitment: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    entry: BenchmarkEntry
    files: dict[Line, Hash]
    versions: dict[Line, Line]
    plug_points: dict[Line, Hash]
    machine: Line
    jobs: Annotated[int, Field(ge=1)]
    finished: Line
    wall_seconds: Amount | None
    warned: dict[Line, Annotated[int, Field(ge=0)]]


@dataclass(frozen=True, eq=False)
class Bundle:
    """A bundle whose files are what its hashes say and whose every value is of its type; scores are not in it."""

    folder: str
    id: str
    manifest: BundleManifest
    rows: Rows

    @property
    def entry(self) -> BenchmarkEntry:
        return self.manifest.entry


def results_text(rows: list[dict[str, Any]]) -> str:
    """Write rows as JSON, one a line, under the names of their columns; numbers to ten digits."""
    columns = list(rows[0])
    values = [[row[name] for name in columns] for row in rows]
    rounded = [[float(f"{x:.10g}") if isinstance(x, float) else x for x in line] for line in values]
    lines = [json.dumps(line, allow_nan=False) for line in rounded]
    return f'{{"columns": {json.dumps(columns)}, "rows": [\n' + ",\n".join(lines) + "\n]}\n"


def sums_text(results: bytes, manifest: bytes) -> str:
    """Return the hashes of both files, as sha256sum writes them."""
    files = ((RESULTS, results), (MANIFEST, manifest))
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files)


def read_bundle(folder: Path) -> Bundle:
    """Return the bundle in a folder; `BundleError` says why it is not believed."""
    if folder.is_symlink() or not folder.is_dir():
        raise BundleError("it is not a folder")
    try:
        names = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise BundleError("it is a folder that cannot be read") from error
    if missing := {*_LARGEST} - names:
        raise BundleError(f"{', '.join(sorted(missing))} is missing; has the submission ended?")
    if more := names - {*_LARGEST}:
        raise BundleError(f"it holds {len(more)} files that are of no bundle")
    data = {name: _read(folder / name, limit) for name, limit in _LARGEST.items()}
    if data[SUMS] != sums_text(data[RESULTS], data[MANIFEST]).encode():
        raise BundleError(f"files are not those of {SUMS}")
    manifest = _valid(BundleManifest.model_validate_json, data[MANIFEST], MANIFEST)
    results = _valid(_Results.model_validate_json, data[RESULTS], RESULTS)
    if wrong := next((row for row in results.rows if len(row) != len(results.columns)), None):
        raise BundleError(f"{RESULTS}: a row of {len(wrong)} values has {len(results.columns)} columns")
    named = [dict(zip(results.columns, row, strict=True)) for row in results.rows]
    rows = _valid(_ROWS[manifest.entry.track].validate_python, named, RESULTS)
    return Bundle(folder.name, hashlib.sha256(data[SUMS]).hexdigest(), manifest, rows)


def _read(path: Path, limit: int) -> bytes:
    """Read a plain file of bounded size."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        file = os.open(path, flags)
    except OSError as error:
        raise BundleError(f"{path.name} is not a plain file that can be read") from error
    if not stat.S_ISREG(os.fstat(file).st_mode):  # before a stream is made of it: a folder makes none
        os.close(file)
        raise BundleError(f"{path.name} is not a plain file")
    with os.fdopen(file, "rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise BundleError(f"{path.name} is larger than {limit:,} bytes")
    return data


T = TypeVar("T")


def _valid(validate: Callable[[Any], T], data: Any, name: str) -> T:
    try:
        return validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        raise BundleError(f"{name}, {where or 'the whole'}: {first['msg'][:120]}") from error
