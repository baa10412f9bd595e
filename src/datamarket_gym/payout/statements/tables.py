"""The tables that a run left, read once and laid out so that what concerns one payee is a slice of them.

Each file is held against the manifest before a byte of it is believed. Nothing here is heavy to import: a question
about one payee is answered within a second, the start of the process included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from datamarket_gym.errors import RunError
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.payout.manifest import KNOWN, NEEDS, read_manifest, require_as_written
from datamarket_gym.payout.quarantine import FILE as QUARANTINE
from datamarket_gym.payout.quarantine import BadRow, read_quarantine
from datamarket_gym.payout.validation_coverage import Needs

TableRow = dict[str, Any]

_COLUMNS = {
    "payments.parquet": (
        "identity", "payment", "low", "high", "entitled", "balance", "without_evidence", "score", "score_error",
        "units", "paid_together_with",
    ),
    "clusters.parquet": ("unit", "identity", "cluster", "share", "came", "moment", "by_lot"),
    "evidence.parquet": ("kind", "left", "right", "reason", "score", "claim", "value"),
    "leaks.parquet": ("unit", "identity", "validation_row", "by", "likeness"),
    KNOWN: ("unit", "identity", "run", "period", "old_unit", "old_owner", "reason", "score"),
}  # fmt: skip
_LOGGED = ("received", "entry")  # of units whose times are from the intake log


@dataclass(frozen=True, eq=False)
class PlayedUnits:
    """The units that played, in order of clusters and, within one, of seniority; ``owner`` numbers identities."""

    unit: pa.ChunkedArray
    owner: Codes
    cluster: Codes
    share: Values
    came: Codes
    moment: Codes
    by_lot: np.ndarray
    received: Values | None = None  # seconds since 1970, where times are from the intake log
    entry: Codes | None = None  # of that log

    @cached_property
    def size(self) -> Codes:
        """How many units are in the cluster of each."""
        return self.end - self.start

    @cached_property
    def start(self) -> Codes:
        """Where the cluster of each begins."""
        return np.searchsorted(self.cluster, self.cluster)

    @cached_property
    def end(self) -> Codes:
        """Where it ends."""
        return np.searchsorted(self.cluster, self.cluster, side="right")

    def name(self, row: int) -> str:
        """The name of one unit."""
        return str(self.unit[int(row)].as_py())


@dataclass(frozen=True, eq=False)
class UnitMatches:
    """Every tie between units from both of its ends: ``mine[i]`` is tied to ``other[i]``, by their rows."""

    mine: Codes
    other: Codes
    score: Values
    reason: Codes
    reasons: list[str]


@dataclass(frozen=True, eq=False)
class RunTables:
    """What a run left, by payee. A payee is an identity as the run knows it."""

    folder: Path
    manifest: dict[str, Any]
    payments: list[TableRow]
    units: PlayedUnits
    ties: UnitMatches
    leaks: list[TableRow]
    links: list[TableRow]  # between identities: ties, and claims that tie nobody
    bad: list[BadRow]  # rows that could not be used
    known: list[TableRow]  # units that earlier runs have bought
    needs: Needs | None = None  # who covers which validation rows, where that is what is paid for

    @classmethod
    def read(cls, folder: Path) -> RunTables:
        """Read a finished run; a file that is missing, changed or of an older version is refused."""
        manifest = read_manifest(folder)
        payments, clusters, evidence, leaks = (
            _checked(folder, name, manifest) for name in _COLUMNS if name != KNOWN
        )
        given = manifest.get("prior")
        place = payments["identity"]
        units = PlayedUnits(
            clusters["unit"],
            _places(clusters["identity"], place),
            *(clusters[name].to_numpy() for name in ("cluster", "share", "came", "moment", "by_lot")),
            *(clusters[name].to_numpy() for name in _LOGGED if name in clusters.column_names),
        )
        of_units = pc.equal(evidence["kind"], "unit")
        return cls(
            folder,
            manifest,
            payments.to_pylist(),
            units,
            _from_both_ends(evidence.filter(of_units), units.unit),
            leaks.to_pylist(),
            evidence.filter(pc.invert(of_units)).to_pylist(),
            read_quarantine(require_as_written(folder, manifest["outputs"], QUARANTINE)),
            _checked(folder, KNOWN, manifest).to_pylist() if given else [],
            _needs(folder, manifest["outputs"]),
        )

    @cached_property
    def names(self) -> list[str]:
        """All payees, in the order of the payments."""
        return [row["identity"] for row in self.payments]

    @cached_property
    def number(self) -> dict[str, int]:
        """The place of each payee among them."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def by_name(self) -> dict[str, int]:
        """The place of each payee in the order of names."""
        return {name: i for i, name in enumerate(sorted(self.names))}

    @cached_property
    def together(self) -> dict[str, list[str]]:
        """All names of each payee that has several, by the first of them."""
        found: dict[str, list[str]] = {}
        for row in self.payments:
            found.setdefault(row["paid_together_with"] or row["identity"], []).append(row["identity"])
        return found

    def units_of(self, code: int) -> Codes:
        """The rows of a payee's units."""
        return _slice(self._units_by_owner, code)

    def ties_of(self, code: int) -> Codes:
        """The ties that begin at a unit of the payee's."""
        return _slice(self._ties_by_owner, code)

    def leaks_of(self, name: str) -> list[TableRow]:
        """Units of the payee that were set aside as validation rows."""
        return self._leaks_by_name.get(name, [])

    def known_of(self, name: str) -> list[TableRow]:
        """Units of the payee that earlier runs have bought."""
        return self._known_by_name.get(name, [])

    def bad_of(self, name: str) -> list[BadRow]:
        """Rows of the payee that could not be used."""
        return self._bad_by_name.get(name, [])

    @cached_property
    def _bad_by_name(self) -> dict[str, list[BadRow]]:
        found: dict[str, list[BadRow]] = {}
        for row in self.bad:
            found.setdefault(row.identity, []).append(row)
        return found

    def links_of(self, payee: str) -> list[TableRow]:
        """The ties that make several names the one payee whose first name this is."""
        return self._links_by_payee.get(payee, [])

    def claims_of(self, name: str) -> list[TableRow]:
        """What is claimed of the payee and others, and ties nobody."""
        return [self._claims[i] for i in self._claims_by_name.get(name, [])]

    def drawn_of(self, payee: str) -> list[str]:
        """Units of a payee that passed a spot check of the draft that the run settles."""
        return list(dict.fromkeys(row["unit"] for row in self._drawn_by_payee.get(payee, [])))

    def found_of(self, name: str) -> list[str]:
        """Units of one name that a spot check found not to be genuine."""
        return [row["unit"] for row in self._found_by_name.get(name, [])]

    @cached_property
    def forfeited(self) -> frozenset[str]:
        """The names of those who failed a spot check."""
        return frozenset(self._settles.get("forfeited", ()))

    @cached_property
    def not_checked(self) -> frozenset[str]:
        """The names of those who are too small to be checked, and are not paid."""
        return frozenset(self._settles.get("carried", ()))

    def owners(self, row: int) -> list[int]:
        """Who is paid for the cluster that a unit is in, the most senior first."""
        units = self.units
        start, end = int(units.start[row]), int(units.end[row])
        if start not in self._owners:
            paid = units.owner[start:end][units.share[start:end] > 0]
            self._owners[start] = list(dict.fromkeys(paid.tolist()))
        return self._owners[start]

    @cached_property
    def _owners(self) -> dict[int, list[int]]:
        return {}

    @cached_property
    def _units_by_owner(self) -> tuple[Codes, Codes]:
        return _grouped(self.units.owner, len(self.names))

    @cached_property
    def _ties_by_owner(self) -> tuple[Codes, Codes]:
        return _grouped(self.units.owner[self.ties.mine], len(self.names))

    @property
    def _settles(self) -> dict[str, Any]:
        return self.manifest["settles"] or {}

    @cached_property
    def _drawn_by_payee(self) -> dict[str, list[TableRow]]:
        return _by(self._settles.get("draws", ()), lambda row: row["payee"])

    @cached_property
    def _found_by_name(self) -> dict[str, list[TableRow]]:
        return _by(self._settles.get("found", ()), lambda row: row["identity"])

    @cached_property
    def _leaks_by_name(self) -> dict[str, list[TableRow]]:
        return _by(self.leaks, lambda row: row["identity"])

    @cached_property
    def _known_by_name(self) -> dict[str, list[TableRow]]:
        return _by(self.known, lambda row: row["identity"])

    @cached_property
    def _links_by_payee(self) -> dict[str, list[TableRow]]:
        first = {name: payee for payee, names in self.together.items() for name in names}
        ties = [row for row in self.links if row["kind"] == "identity"]
        return _by(ties, lambda row: first[row["left"]])

    @cached_property
    def _claims(self) -> list[TableRow]:
        found: dict[int, TableRow] = {}
        for row in self.links:
            if row["kind"] == "claim":
                begun = {"reason": row["reason"], "value": row["value"], "identities": [row["left"]]}
                found.setdefault(row["claim"], begun)["identities"].append(row["right"])
        return list(found.values())

    @cached_property
    def _claims_by_name(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for i, claim in enumerate(self._claims):
            for name in claim["identities"]:
                found.setdefault(name, []).append(i)
        return found


def _needs(folder: Path, outputs: dict[str, Any]) -> Needs | None:
    """Who covers which validation rows; None where something else is paid for, or a version before made the run."""
    if NEEDS not in outputs:
        return None
    found = Needs.read(require_as_written(folder, outputs, NEEDS))
    return found if len(found) else None


def _checked(folder: Path, name: str, manifest: dict[str, Any]) -> pa.Table:
    """A table whose bytes are those that the manifest names."""
    path, said = folder / name, manifest.get("outputs", {}).get(name, {})
    content = path.read_bytes() if path.is_file() else None
    if content is None or hashlib.sha256(content).hexdigest() != said.get("sha256"):
        raise RunError(
            f"{str(path)!r} is missing or not as the run left it; run: datamarket verify {folder}, or pay into "
            "another folder"
        )
    file = pq.ParquetFile(pa.BufferReader(content))
    if missing := [column for column in _COLUMNS[name] if column not in file.schema_arrow.names]:
        raise RunError(
            f"{str(path)!r} has no column {missing[0]!r}: an older version made this run, and did not keep what "
            "explanations need; pay again into another folder"
        )
    logged = [c for c in _LOGGED if name == "clusters.parquet" and c in file.schema_arrow.names]
    return file.read(columns=[*_COLUMNS[name], *logged], use_threads=False)


def _places(names: pa.ChunkedArray, among: pa.ChunkedArray) -> Codes:
    """The row of each name among others; all of them are there."""
    found: Codes = pc.index_in(names, value_set=among.combine_chunks()).to_numpy().astype(np.int64)
    return found


def _from_both_ends(evidence: pa.Table, units: pa.ChunkedArray) -> UnitMatches:
    ends = pa.chunked_array([*evidence["left"].chunks, *evidence["right"].chunks], pa.string())
    left, right = np.split(_places(ends, units), 2)
    reason = evidence["reason"].combine_chunks().dictionary_encode()
    codes, score = reason.indices.to_numpy().astype(np.int64), evidence["score"].to_numpy()
    return UnitMatches(
        np.concatenate([left, right]),
        np.concatenate([right, left]),
        np.tile(score, 2),
        np.tile(codes, 2),
        reason.dictionary.to_pylist(),
    )


def _grouped(codes: Codes, n: int) -> tuple[Codes, Codes]:
    order = np.argsort(codes, kind="stable")
    return order, np.searchsorted(codes[order], np.arange(n + 1))


def _slice(grouped: tuple[Codes, Codes], code: int) -> Codes:
    order, bounds = grouped
    return order[bounds[code] : bounds[code + 1]]


def _by(rows: Iterable[TableRow], key: Any) -> dict[str, list[TableRow]]:
    found: dict[str, list[TableRow]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found
