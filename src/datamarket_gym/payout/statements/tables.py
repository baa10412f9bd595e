"""The tables that a run left, read once and laid out so that what concerns one payee is a slice of them.

Each file is held against the manifest before a byte of it is believed.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
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
from datamarket_gym.payout.input_files import FILE as QUARANTINE
from datamarket_gym.payout.input_files import BadRow, read_quarantine
from datamarket_gym.payout.manifest import KNOWN, NEEDS, read_manifest, require_as_written
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
        """Number of units in the cluster of each."""
        return self.end - self.start

    @cached_property
    def start(self) -> Codes:
        """Row at which the cluster of each begins."""
        return np.searchsorted(self.cluster, self.cluster)

    @cached_property
    def end(self) -> Codes:
        """Row after the last of the cluster of each."""
        return np.searchsorted(self.cluster, self.cluster, side="right")

    def name(self, row: int) -> str:
        """Return the name of one unit."""
        return str(self.unit[int(row)].as_py())


@dataclass(frozen=True, eq=False)
class UnitMatches:
    """Every match between units from both of its ends: ``mine[i]`` matches ``other[i]``, by their rows."""

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
    matches: UnitMatches
    leaks: dict[str, list[TableRow]]  # units that were set aside as validation rows, by payee
    links: list[TableRow]  # matches between identities, which make them one payee
    claims: dict[
        str, list[TableRow]
    ]  # claims that identities are one payee, without effect, by each of them
    unusable: dict[str, list[BadRow]]  # rows that could not be used, by payee
    acquired: dict[str, list[TableRow]]  # units that earlier runs have acquired, by payee
    needs: Needs | None = None  # who covers which validation rows, where that is what is paid for

    @classmethod
    def read(cls, folder: Path) -> RunTables:
        """Read a finished run; a file that is missing, changed or of an older version is refused."""
        manifest = read_manifest(folder)
        outputs = manifest["outputs"]
        payments, clusters, evidence, leaks = (
            _read_table(folder, name, manifest) for name in _COLUMNS if name != KNOWN
        )
        units = PlayedUnits(
            clusters["unit"],
            _index_in(clusters["identity"], payments["identity"]),
            *(clusters[name].to_numpy() for name in ("cluster", "share", "came", "moment", "by_lot")),
            *(clusters[name].to_numpy() for name in _LOGGED if name in clusters.column_names),
        )
        by_kind = {
            kind: evidence.filter(pc.equal(evidence["kind"], kind))
            for kind in ("unit", "identity", "claim")
        }
        acquired = _read_table(folder, KNOWN, manifest).to_pylist() if manifest.get("prior") else []
        bad = read_quarantine(require_as_written(folder, outputs, QUARANTINE))
        # An older version wrote no needs; where something else is paid for the file has no rows.
        needs = Needs.read(require_as_written(folder, outputs, NEEDS)) if NEEDS in outputs else None
        return cls(
            folder,
            manifest,
            payments.to_pylist(),
            units,
            _from_both_ends(by_kind["unit"], units.unit),
            _group_rows(leaks.to_pylist()),
            by_kind["identity"].to_pylist(),
            _claims(by_kind["claim"].to_pylist()),
            _group((row.identity, row) for row in bad),
            _group_rows(acquired),
            needs if needs is not None and len(needs) else None,
        )  # fmt: skip

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
        return _group(
            (row["paid_together_with"] or row["identity"], row["identity"]) for row in self.payments
        )

    @cached_property
    def links_by_payee(self) -> dict[str, list[TableRow]]:
        """The matches that make several names one payee, by its first name."""
        first = {name: payee for payee, names in self.together.items() for name in names}
        return _group((first[row["left"]], row) for row in self.links)

    def units_of(self, code: int) -> Codes:
        """Return the rows of a payee's units."""
        return _slice(self._units_by_owner, code)

    def matches_of(self, code: int) -> Codes:
        """Return the matches that begin at a unit of the payee's."""
        return _slice(self._matches_by_owner, code)

    def owners(self, row: int) -> list[int]:
        """Return who is paid for the cluster that a unit is in, the most senior first."""
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
        return _sort_by(self.units.owner, len(self.names))

    @cached_property
    def _matches_by_owner(self) -> tuple[Codes, Codes]:
        return _sort_by(self.units.owner[self.matches.mine], len(self.names))

    @property
    def spot_checks(self) -> dict[str, Any]:
        """What the spot checks of an earlier draft came to; empty where the run settles none."""
        return self.manifest["settles"] or {}

    @cached_property
    def drawn(self) -> dict[str, list[str]]:
        """Units that passed a spot check of the draft that the run settles, by payee."""
        return _group((row["payee"], row["unit"]) for row in self.spot_checks.get("draws", ()))

    @cached_property
    def false_units(self) -> dict[str, list[str]]:
        """Units that a spot check found not to be genuine, by identity."""
        return _group((row["identity"], row["unit"]) for row in self.spot_checks.get("found", ()))


def _read_table(folder: Path, name: str, manifest: dict[str, Any]) -> pa.Table:
    """Read a table whose bytes are those that the manifest names."""
    path, output = folder / name, manifest.get("outputs", {}).get(name, {})
    content = path.read_bytes() if path.is_file() else None
    if content is None or hashlib.sha256(content).hexdigest() != output.get("sha256"):
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


def _index_in(names: pa.ChunkedArray, among: pa.ChunkedArray) -> Codes:
    """Return the row of each name among others; all of them are there."""
    rows: Codes = pc.index_in(names, value_set=among.combine_chunks()).to_numpy().astype(np.int64)
    return rows


def _from_both_ends(evidence: pa.Table, units: pa.ChunkedArray) -> UnitMatches:
    ends = pa.chunked_array([*evidence["left"].chunks, *evidence["right"].chunks], pa.string())
    left, right = np.split(_index_in(ends, units), 2)
    reason = evidence["reason"].combine_chunks().dictionary_encode()
    codes, score = reason.indices.to_numpy().astype(np.int64), evidence["score"].to_numpy()
    return UnitMatches(
        np.concatenate([left, right]),
        np.concatenate([right, left]),
        np.tile(score, 2),
        np.tile(codes, 2),
        reason.dictionary.to_pylist(),
    )


def _claims(rows: list[TableRow]) -> dict[str, list[TableRow]]:
    """Collect the rows of each claim into one, and list it under every identity that it is about."""
    claims: dict[int, TableRow] = {}
    for row in rows:
        new = {"reason": row["reason"], "value": row["value"], "identities": [row["left"]]}
        claims.setdefault(row["claim"], new)["identities"].append(row["right"])
    return _group((name, claim) for claim in claims.values() for name in claim["identities"])


def _group_rows(rows: list[TableRow]) -> dict[str, list[TableRow]]:
    return _group((row["identity"], row) for row in rows)


def _group(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return dict(groups)


def _sort_by(codes: Codes, n: int) -> tuple[Codes, Codes]:
    order = np.argsort(codes, kind="stable")
    return order, np.searchsorted(codes[order], np.arange(n + 1))


def _slice(grouped: tuple[Codes, Codes], code: int) -> Codes:
    order, bounds = grouped
    return order[bounds[code] : bounds[code + 1]]
