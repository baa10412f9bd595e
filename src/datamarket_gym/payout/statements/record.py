"""The payment of a payee taken apart: what it submitted, which units matched, and what came of it.

`RunTables` holds the tables of a finished run, each compared with the hash in the manifest before it is used, and laid
out so that the rows of one payee are a slice. `explain_payee` makes an `Explanation` of them; text, JSON and pages are
views of it. Amounts are in minor units. Which validation rows a payee's units cover is left out unless it is asked
for: it shows where the secret rows lie, and what units could be made to fit them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError, RunError
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.payout.input_files import FILE as QUARANTINE
from datamarket_gym.payout.input_files import BadRow, read_quarantine
from datamarket_gym.payout.manifest import KNOWN, NEEDS, UNITS, read_manifest, require_as_written
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import drawn_under, run_called
from datamarket_gym.payout.unit_payments import LEAKED, UnitPayment, UnitRows
from datamarket_gym.payout.validation_coverage import Needs

TableRow = dict[str, Any]

_COLUMNS = {
    "payments.parquet": (
        "identity", "payment", "low", "high", "entitled", "balance", "without_evidence", "score", "score_error",
        "units", "paid_together_with",
    ),
    "clusters.parquet": ("unit", "identity", "cluster", "share", "came", "moment", "drawn"),
    "evidence.parquet": ("kind", "left", "right", "reason", "score", "claim", "value"),
    "leaks.parquet": ("unit", "identity", "validation_row", "by", "likeness"),
    KNOWN: ("unit", "identity", "run", "period", "old_unit", "old_owner", "reason", "score"),
}  # fmt: skip
_LOGGED = ("received", "entry", "exported")  # of units whose times are from the intake log


@dataclass(frozen=True, eq=False)
class PlayedUnits:
    """The units that played, in order of clusters and, within one, of seniority; ``owner`` numbers identities."""

    unit: pa.ChunkedArray
    owner: Codes
    cluster: Codes
    share: Values
    came: Codes
    moment: Codes
    drawn: np.ndarray
    received: Values | None = None  # seconds since 1970, where times are from the intake log
    entry: Codes | None = None  # of that log
    exported: np.ndarray | None = None  # whether the time is that of the operator's own export

    @cached_property
    def start(self) -> Codes:
        """Row at which the cluster of each begins."""
        return np.searchsorted(self.cluster, self.cluster)

    @cached_property
    def end(self) -> Codes:
        """Row after the last of the cluster of each."""
        return np.searchsorted(self.cluster, self.cluster, side="right")

    @cached_property
    def size(self) -> Codes:
        """Number of units in the cluster of each."""
        return self.end - self.start

    def name(self, row: int) -> str:
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
    """The tables of a run, by payee. A payee is an identity as the run knows it."""

    manifest: dict[str, Any]
    payments: list[TableRow]
    units: PlayedUnits
    matches: UnitMatches
    leaks: dict[str, list[TableRow]]  # units that were set aside as validation rows, by payee
    links: list[TableRow]  # matches between identities, which make them one payee
    claims: dict[str, list[TableRow]]  # that identities are one payee, without effect; by each of them
    unusable: dict[str, list[BadRow]]  # rows that could not be used, by payee
    acquired: dict[str, list[TableRow]]  # units that earlier runs have acquired, by payee
    unit_rows: UnitRows  # what each unit earns
    needs: Needs | None = None  # who covers which validation rows, where that is what is paid for

    @classmethod
    def read(cls, folder: Path) -> RunTables:
        """Read a finished run; a file that is missing, changed or of an older version is refused."""
        manifest = read_manifest(folder)
        outputs = manifest["outputs"]
        payments, clusters, evidence, leaks = (
            _read_table(folder, name, outputs) for name in _COLUMNS if name != KNOWN
        )
        units = PlayedUnits(
            clusters["unit"],
            _index_in(clusters["identity"], payments["identity"]),
            *(clusters[name].to_numpy() for name in ("cluster", "share", "came", "moment", "drawn")),
            *(clusters[name].to_numpy() for name in _LOGGED if name in clusters.column_names),
        )
        matches, links, claims = (
            evidence.filter(pc.equal(evidence["kind"], kind)) for kind in ("unit", "identity", "claim")
        )
        acquired = _read_table(folder, KNOWN, outputs).to_pylist() if manifest.get("acquired") else []
        bad = read_quarantine(require_as_written(folder, outputs, QUARANTINE))
        needs = Needs.read(require_as_written(folder, outputs, NEEDS))
        earning = UnitRows(require_as_written(folder, outputs, UNITS))
        return cls(
            manifest,
            payments.to_pylist(),
            units,
            _from_both_ends(matches, units.unit),
            _group((row["identity"], row) for row in leaks.to_pylist()),
            links.to_pylist(),
            _claims(claims.to_pylist()),
            _group((row.identity, row) for row in bad),
            _group((row["identity"], row) for row in acquired),
            earning,
            needs if len(needs) else None,
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

    @cached_property
    def units_of(self) -> list[Codes]:
        """The rows of each payee's units."""
        return _split_by(self.units.owner, len(self.names))

    @cached_property
    def matches_of(self) -> list[Codes]:
        """The matches that begin at a unit of each payee."""
        return _split_by(self.units.owner[self.matches.mine], len(self.names))

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
    def checked(self) -> dict[str, dict[str, list[str]]]:
        """Units of the draft that the run settles: ``draws`` by payee, and those ``found`` false by identity."""
        settles = self.manifest["settles"] or {"draws": [], "found": []}
        keys = {"draws": "payee", "found": "identity"}
        return {of: _group((row[key], row["unit"]) for row in settles[of]) for of, key in keys.items()}


def _read_table(folder: Path, name: str, outputs: dict[str, Any]) -> pa.Table:
    try:
        path = require_as_written(folder, outputs, name)
    except DataMarketError as error:
        raise RunError(str(error)) from error
    file = pq.ParquetFile(path)
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


def _group(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return dict(groups)


def _split_by(codes: Codes, n: int) -> list[Codes]:
    """Return the places of each code, those of 0 first."""
    bounds = np.cumsum(np.bincount(codes, minlength=n))[:-1]
    return np.split(np.argsort(codes, kind="stable"), bounds)


_BEST = 5  # units whose covered rows are listed


@dataclass(frozen=True)
class CoveredNeed:
    """A validation row that a unit covers."""

    row: int  # in its file, counted from 0
    degree: float  # how near the unit comes to it: 0 as strangers do, 1 the same
    place: int  # 1: no other unit comes nearer
    units: int  # how many cover it, this one included
    share: float  # of what is paid for the row
    part: float  # of the unit's score


@dataclass(frozen=True)
class CoveringUnit:
    """A unit that counts for the payee, and how many validation rows it covers.

    ``needs`` are the rows that bring it most, where they are asked for; their parts and ``rest``, which the other rows
    bring, sum to ``score``.
    """

    unit: str
    score: float
    degree: float  # how near it comes to the row that brings it most
    rows: int
    well: int
    nearest: int
    needs: list[CoveredNeed] = field(default_factory=list)
    rest: float = 0.0


@dataclass(frozen=True)
class NeedsCovered:
    """How many of the validation rows all units of a payee cover, and its best units."""

    of: int  # validation rows
    rows: int
    well: int
    nearest: int  # for how many no unit of another comes nearer
    units: list[CoveringUnit]


def needs_covered(tables: RunTables, name: str, mine: Codes, with_rows: bool) -> NeedsCovered | None:
    """Return what the units ``mine`` of a payee, those that count for it, cover; None if coverage is not paid for."""
    needs, units = tables.needs, tables.units
    if needs is None:
        return None
    score = needs.value[units.cluster[mine]] * units.share[mine]
    best = np.lexsort((units.came[mine], -score))[:_BEST]
    at = tables.by_name[name]
    return NeedsCovered(
        of=len(needs),
        rows=int(needs.of_identity[at]),
        well=int(needs.of_identity_well[at]),
        nearest=int(needs.of_identity_nearest[at]),
        units=[
            _covering_unit(tables, needs, int(mine[i]), with_rows) for i in best.tolist() if score[i] > 0
        ],
    )


def _covering_unit(tables: RunTables, needs: Needs, unit: int, with_rows: bool) -> CoveringUnit:
    cluster, share = int(tables.units.cluster[unit]), float(tables.units.share[unit])
    score, covered = float(needs.value[cluster]) * share, []
    for i in np.flatnonzero(needs.row[cluster] >= 0).tolist() if with_rows else ():
        row, part = int(needs.row[cluster, i]), float(needs.part[cluster, i]) * share
        covered.append(
            CoveredNeed(
                row=row,
                degree=float(needs.degree[cluster, i]),
                place=int(needs.place[cluster, i]),
                units=int(needs.units[row]),
                share=float(part * len(needs) / (needs.covered[row] - needs.before[row])),
                part=part,
            )
        )
    return CoveringUnit(
        unit=tables.units.name(unit),
        score=score,
        degree=float(needs.degree[cluster, 0]),
        rows=int(needs.rows[cluster]),
        well=int(needs.rows_well[cluster]),
        nearest=int(needs.rows_nearest[cluster]),
        needs=covered,
        rest=score - sum(need.part for need in covered),
    )


MOST_MATCHES, MOST_NAMES, EXAMPLES, MOST_UNITS = 1000, 20, 3, 20


@dataclass(frozen=True)
class Receipts:
    """Units that the operator received together: when, and in which entry of the intake log."""

    at: str
    entry: int
    units: int = 1

    @property
    def words(self) -> str:
        return f"received {self.at}, entry {self.entry:,}"


@dataclass(frozen=True)
class OwnMatch:
    """A unit of the payee's that was taken for the same as another, and who is paid for the two."""

    unit: str
    other: str
    of: str  # whose the other is
    reasons: list[str]
    score: float  # the lowest, of several reasons
    earlier: Literal["unit", "other", "neither"]
    drawn: bool  # they have the same time, and the first was drawn at random
    units_in_cluster: int
    paid_to: list[str]  # the first names of those who are paid for all that are in the cluster
    paid_names: int  # how many these are
    received: Receipts | None = None  # where times are from the intake log
    other_received: Receipts | None = None
    shared_words: str = ""  # where words matched them


@dataclass(frozen=True)
class MatchedPayee:
    """Whose units matched some of the payee's, how many, why, and a few of the pairs."""

    name: str
    units: int  # of the payee's own
    pairs: int
    for_others: int  # of these: that count for others
    for_them: int  # of those: that count for this one
    reasons: dict[str, int]  # how many of these, by reason
    examples: list[OwnMatch]


@dataclass(frozen=True)
class CountedFor:
    """How many of the payee's units count for others, who came earlier with the same."""

    names: list[str]
    units: int


@dataclass(frozen=True)
class SpotChecks:
    """How many units of each payee are checked, and what came of it, where the run settles an earlier draft."""

    required: int
    outcome: Literal["open", "failed", "not checked", "passed"]
    drawn: list[str]  # its units that were checked, if it passed
    false_units: list[str]  # its units that are not genuine, as a check found; they are not in the game


@dataclass(frozen=True)
class Explanation(Shown):
    """The payment of one payee of a run, taken apart."""

    identity: str
    run: str
    currency: str
    amount: int  # what the run divides
    paid: int
    low: int
    high: int
    level: float  # of the interval
    groups: int  # of validation rows that the interval is of; 1 or none if it is of sampling alone
    entitled: int
    balance: int
    opening: int  # that an earlier run had carried
    divided: str  # what the amount is divided by, in words for payees
    units: int
    leaked: list[TableRow]
    earlier_runs: list[str]  # earlier runs that the run builds on, as people know them
    discounted: bool  # whether what is new is paid for what it adds to these
    acquired: list[TableRow]  # units that these have acquired
    unusable: list[TableRow]  # rows that were set aside because they cannot be used
    counted: int  # units that it is paid for
    shared: int  # of these: whose pay it shares with others, who sent the same at the same time
    repeated: int  # that repeat own ones
    for_others: int  # that count for others
    indirect: int  # of these: matched with another's unit only through further units
    counted_for: list[CountedFor]
    counted_for_in_all: int
    matches: list[OwnMatch]
    matches_in_all: int
    matched_payees: list[MatchedPayee]
    matched_payees_in_all: int
    together: list[str]  # other names of the same payee
    linked: list[TableRow]
    claims: list[TableRow]
    drawn: int  # clusters in which it was drawn at random who of several names was first
    drawn_under: str
    checks: SpotChecks
    without_any_evidence: int
    without_its_evidence: int | None = None  # scored anew, where it was asked for
    received: list[Receipts] = field(default_factory=list)  # where times are from the intake log
    needs: NeedsCovered | None = None  # where coverage is what is paid for
    unit_payments: list[UnitPayment] = field(default_factory=list)  # the best paid first
    earning: int = 0  # how many units earn something


def explain_payee(
    tables: RunTables,
    name: str,
    most_matches: int = MOST_MATCHES,
    with_rows: bool = False,
    most_units: int = MOST_UNITS,
) -> Explanation:
    """Build the record of one payee; so many of its matches and units are listed, and all are counted.

    ``with_rows``: also list which validation rows its units cover, not only how many. Which units equal validation
    rows stands in ``leaked`` alone.
    """
    code, manifest = tables.number[name], tables.manifest
    row, units = tables.payments[code], tables.units
    money = Currency(manifest["currency"])
    mine = tables.units_of[code]
    start = units.start[mine]
    counts = units.share[mine] > 0
    owned = np.unique(start[counts])
    elsewhere = ~counts & ~np.isin(start, owned)
    pairs = _pairs(tables, code, frozenset(mine[elsewhere].tolist()))
    apart = [pair for pair in pairs if not pair.own]
    directly = {pair.mine for pair in apart}
    matched, matched_in_all = _matched_payees(tables, apart)
    unit_payments = [row for row in tables.unit_rows.of(name) if row.unit and row.reason != LEAKED]
    counted_for = _counted_for(tables, mine[elsewhere])
    payee = row["paid_together_with"] or name
    return Explanation(
        identity=name,
        run=manifest["run"],
        currency=manifest["currency"],
        amount=manifest["amount"],
        paid=money.signed(row["payment"]),
        **{name: money.signed(row[name]) for name in ("low", "high", "entitled", "balance")},
        level=manifest["interval"]["level"],
        groups=manifest["interval"]["groups"],
        opening=manifest["opening_balances"].get(name, 0),
        divided=manifest["paid_for"]["plain"],
        units=row["units"],
        leaked=[
            {"unit": r["unit"], "row": r["validation_row"], "by": r["by"], "likeness": r["likeness"]}
            for r in tables.leaks.get(name, ())
        ],
        earlier_runs=[run_called(run["period"], run["run"]) for run in manifest.get("acquired", ())],
        discounted=manifest["spec"].get("acquired_discount", False),
        acquired=[_without_identity(row) for row in tables.acquired.get(name, ())],
        unusable=[_without_identity(asdict(row)) for row in tables.unusable.get(name, ())],
        counted=int(counts.sum()),
        shared=sum(len(tables.owners(i)) > 1 for i in mine[counts & (units.size[mine] > 1)].tolist()),
        repeated=int((~counts & ~elsewhere).sum()),
        for_others=int(elsewhere.sum()),
        indirect=sum(unit not in directly for unit in mine[elsewhere].tolist()),
        counted_for=counted_for[:MOST_NAMES],
        counted_for_in_all=len(counted_for),
        matches=[_own_match(tables, pair) for pair in pairs[:most_matches]],
        matches_in_all=len(pairs),
        matched_payees=matched,
        matched_payees_in_all=matched_in_all,
        together=[other for other in tables.together[payee] if other != name],
        linked=[
            {key: r[key] for key in ("left", "right", "reason", "score")}
            for r in tables.links_by_payee.get(payee, ())
        ],
        claims=tables.claims.get(name, []),
        drawn=len(np.unique(start[units.drawn[mine]])),
        drawn_under=drawn_under(manifest["spec"]["beacon"]),
        checks=_checks(tables, name, payee),
        without_any_evidence=money.signed(row["without_evidence"]),
        received=_received(tables, mine),
        needs=needs_covered(tables, name, mine[counts], with_rows),
        unit_payments=unit_payments[:most_units],
        earning=sum(row.amount != 0 for row in unit_payments),
    )


def _without_identity(row: TableRow) -> TableRow:
    return {key: value for key, value in row.items() if key != "identity"}


def _received(tables: RunTables, mine: Codes) -> list[Receipts]:
    """Return when units were received, entry by entry; nothing where times are not from the intake log."""
    units = tables.units
    if units.entry is None or units.received is None or units.exported is None:
        return []
    receipts = []
    for entry in np.unique(units.entry[mine]).tolist():
        rows = mine[units.entry[mine] == entry]
        times = [datetime.fromtimestamp(float(seconds), UTC) for seconds in units.received[rows]]
        ends = dict.fromkeys((min(times), max(times)))
        at = " to ".join(f"{t:%Y-%m-%d %H:%M:%S}.{t.microsecond // 1000:03d}" for t in ends) + " UTC"
        at += " by the operator's own export" if units.exported[rows[0]] else ""
        receipts.append(Receipts(at, entry, len(rows)))
    return receipts


def _counted_for(tables: RunTables, elsewhere: Codes) -> list[CountedFor]:
    """Return who is paid for units that count for others, those with most units first."""
    starts, count = np.unique(tables.units.start[elsewhere], return_counts=True)
    units: Counter[tuple[int, ...]] = Counter()
    for start, n in zip(starts.tolist(), count.tolist(), strict=True):
        units[tuple(tables.owners(start))] += n
    rows = (CountedFor([tables.names[code] for code in owners], n) for owners, n in units.items())
    return sorted(rows, key=lambda row: (-row.units, row.names))


def _checks(tables: RunTables, name: str, payee: str) -> SpotChecks:
    """Return what the manifest says of spot checks; not who reviewed, nor what others were asked."""
    required, settles = tables.manifest["spec"].get("checks", 0), tables.manifest["settles"] or {}
    false = tables.checked["found"].get(name, [])
    if name in settles.get("forfeited", ()):
        return SpotChecks(required, "failed", [], false)
    if name in settles.get("carried", ()):
        return SpotChecks(required, "not checked", [], false)
    drawn = list(dict.fromkeys(tables.checked["draws"].get(payee, ())))
    return SpotChecks(required, "passed" if drawn else "open", drawn, false)


class _Pair(NamedTuple):
    """A unit of a payee and another that it matches, by their rows."""

    mine: int
    other: int
    score: float  # the lowest of its matches
    reasons: list[str]
    own: bool  # whether the other is the payee's, too
    lost: bool  # whether its unit counts for others


def _pairs(tables: RunTables, code: int, elsewhere: frozenset[int]) -> list[_Pair]:
    """Return the pairs with a unit of one payee, those first that matter most.

    That is: with others before its own, of units that count for others (``elsewhere``) before those that do not, most
    alike first.
    """
    matches, units, places = tables.matches, tables.units, defaultdict[tuple[int, int], list[int]](list)
    of = tables.matches_of[code]
    ends = zip(matches.mine[of].tolist(), matches.other[of].tolist(), strict=True)
    for at, pair in zip(of.tolist(), ends, strict=True):
        places[pair].append(at)
    pairs = [
        _Pair(
            mine,
            other,
            float(matches.score[at].min()),
            list(dict.fromkeys(matches.reasons[code] for code in matches.reason[at].tolist())),
            bool(units.owner[other] == code),
            mine in elsewhere,
        )
        for (mine, other), at in places.items()
        if units.owner[other] != code or mine < other  # a pair of its own units once
    ]
    came = units.came
    return sorted(
        pairs, key=lambda p: (p.own, not p.lost, -p.score, came[p.mine], p.mine, came[p.other])
    )


def _own_match(tables: RunTables, pair: _Pair) -> OwnMatch:
    units, (mine, other) = tables.units, pair[:2]
    one, two = int(units.came[mine]), int(units.came[other])
    owners, names = tables.owners(mine), (units.name(mine), units.name(other))
    shared = tables.unit_rows.shared_words
    received, other_received = (
        next(iter(_received(tables, np.array([at]))), None) for at in (mine, other)
    )
    return OwnMatch(
        *names,
        of=tables.names[units.owner[other]],
        reasons=pair.reasons,
        score=pair.score,
        earlier="neither" if one == two else "unit" if one < two else "other",
        drawn=bool(units.moment[mine] == units.moment[other] and one != two),
        units_in_cluster=int(units.size[mine]),
        paid_to=[tables.names[code] for code in owners[:EXAMPLES]],
        paid_names=len(owners),
        received=received,
        other_received=other_received,
        shared_words=shared.get(names) or shared.get(names[::-1], ""),
    )


def _matched_payees(tables: RunTables, pairs: list[_Pair]) -> tuple[list[MatchedPayee], int]:
    """Return whose units these pairs are with, and how many payees that are in all.

    First come those to whom most of the payee's units count, then those with most matched units.
    """
    groups = _group((tables.names[tables.units.owner[pair.other]], pair) for pair in pairs)
    units = {name: {pair.mine for pair in group} for name, group in groups.items()}
    lost = {name: {pair.mine for pair in group if pair.lost} for name, group in groups.items()}
    order = sorted(groups, key=lambda name: (-len(lost[name]), -len(units[name]), name))
    return [
        MatchedPayee(
            name,
            len(units[name]),
            len(groups[name]),
            len(lost[name]),
            sum(tables.number[name] in tables.owners(unit) for unit in lost[name]),
            _reasons(groups[name]),
            [_own_match(tables, pair) for pair in groups[name][:EXAMPLES]],
        )
        for name in order[:MOST_NAMES]
    ], len(order)


def _reasons(pairs: Iterable[_Pair]) -> dict[str, int]:
    """Count the units of each reason, the most frequent first."""
    units = sorted({(reason, pair.mine) for pair in pairs for reason in pair.reasons})
    return dict(Counter(reason for reason, _ in units).most_common())
