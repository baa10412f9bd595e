"""Overrides: splits and joins that an operator signs off, listed in the report and the ledger.

A TOML file::

    [[split]]                      # these units are not copies: split them from all others
    units = ["u17", "u18"]
    reason = "two photographs of one building, rights checked"
    by = "R. Okafor"
    date = 2026-05-31

    [[join]]                       # these are the same person
    identities = ["anna", "anna.m"]
    reason = "same bank account, confirmed by phone"
    by = "R. Okafor"
    date = 2026-05-31

``units`` splits or joins units (evidence), ``identities`` splits or joins payees (linkage). A split cuts every match
between the listed ones and all others, and between the listed ones themselves. Of matches by descent it cuts those by
which a listed unit descends from another, and not those of units that descend from it: its copies stay its copies, or
their submitter would be paid for being caught.

Besides overrides an operator may know matches between units, and which identities are one payee.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from datamarket_gym.display import listed
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import Edges, components, star
from datamarket_gym.evidence.layers.linkage import agreeing, confirmations, read_pairs, splink_pairs
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.payout.names import visible

if TYPE_CHECKING:
    from datamarket_gym.payout.inputs import Inputs
    from datamarket_gym.payout.settings import PayoutSpec


DESCENT = ("exact_hash", "lineage", "words", "trusted source", "same metadata")
"""The reasons of `evidence.lineage`, whose matches have a direction."""


class Override(BaseModel):
    """A split or join, signed off: by whom, when and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Literal["split", "join"]
    units: list[str] = []
    identities: list[str] = []
    reason: str = Field(min_length=1)
    by: str = Field(min_length=1)
    date: datetime.date
    dispute: int | None = None  # by whose outcome it stands in every run, until it is revoked

    @model_validator(mode="after")
    def _one_kind(self) -> Override:
        if bool(self.units) == bool(self.identities):
            raise ValueError("name either units or identities")
        if self.action == "join" and len(set(self.units or self.identities)) < 2:
            raise ValueError("a join needs two different names")
        return self

    def without(self, units: frozenset[str]) -> Override:
        """Leave out units that are not scored."""
        return self.model_copy(update={"units": [name for name in self.units if name not in units]})


def read_overrides(path: Path | None) -> list[Override]:
    """Read the overrides of a file, splits first."""
    if path is None:
        return []
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataMarketError(f"{str(path)!r} is not a readable TOML file: {error}") from error
    if unknown := sorted(set(data) - {"split", "join"}):
        raise DataMarketError(f"{str(path)!r} holds [[{unknown[0]}]]; write [[split]] or [[join]]")
    overrides = []
    for action in ("split", "join"):
        entries = data.get(action, [])
        for number, entry in enumerate(entries if isinstance(entries, list) else [entries], 1):
            where = f"{str(path)!r}, {action} {number}"
            if not isinstance(entry, dict):
                raise DataMarketError(f"{where}: it is not a table; write [[{action}]]")
            if "dispute" in entry:
                raise DataMarketError(
                    f"{where}: dispute: what disputes decide stands in the ledger; leave it out"
                )
            try:
                overrides.append(Override.model_validate({"action": action, **entry}))
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(map(str, first["loc"])) or "entry"
                raise DataMarketError(
                    f"{where}: {field}: {first['msg']}; give units or identities, a reason, by whom, and the date"
                ) from error
    return overrides


def select_overrides(
    overrides: Iterable[Override], units: Collection[str], identities: Collection[str]
) -> tuple[list[Override], list[str]]:
    """Select overrides as far as a run has the units and identities they name, with a line on each that is left out.

    A split keeps those that are there; a join needs two of them.
    """
    there = {"units": frozenset(units), "identities": frozenset(identities)}
    selected, messages = [], []
    for each in overrides:
        kind = "units" if each.units else "identities"
        names: list[str] = getattr(each, kind)
        present = [name for name in names if name in there[kind]]
        if missing := [visible(name) for name in names if name not in there[kind]]:
            messages.append(
                f"dispute {each.dispute}: the {each.action} of {kind} leaves out {listed(missing, 3)}, not in this run"
            )
        if len(present) >= (2 if each.action == "join" else 1):
            selected.append(each.model_copy(update={kind: present}))
    return selected, messages


def overridden(
    edges: Edges, overrides: Sequence[Override], ids: Sequence[str], kind: str, rank: Codes | None = None
) -> Edges:
    """Apply the overrides of a kind (``units`` or ``identities``) to edges: first splits, then joins.

    ``rank`` is the seniority of units: of two that are matched by descent the later descends from the earlier.
    """
    place = {name: i for i, name in enumerate(ids)}
    for each in (o for o in overrides if o.action == "split"):
        apart = _places(getattr(each, kind), place, kind)
        descent = np.isin(edges.reason, DESCENT if rank is not None else ())
        other = _without(edges.where(~descent), apart, len(ids))
        edges = edges.where(descent)
        if rank is not None and len(edges):
            edges = _undescended(edges, apart, rank, ids, standing=each.dispute is not None)
        edges = Edges.concat([edges, other])
    joined = [edges]
    for each in (o for o in overrides if o.action == "join"):
        rows = _places(getattr(each, kind), place, kind)
        if len(rows):
            joined.append(Edges.of(np.repeat(rows[:1], len(rows) - 1), rows[1:], "override"))
    return Edges.concat(joined)


def _undescended(edges: Edges, apart: Codes, rank: Codes, ids: Sequence[str], standing: bool) -> Edges:
    """Cut the matches of the listed units with what they descend from; twins descend from each other.

    A split of this run that separates nothing is a mistake; a ``standing`` one may meet runs without the unit that its
    own was taken for a copy of.
    """
    later, earlier = rank[edges.left] >= rank[edges.right], rank[edges.left] <= rank[edges.right]
    cut = (later & np.isin(edges.left, apart)) | (earlier & np.isin(edges.right, apart))
    freed = np.isin(apart, np.concatenate([edges.left[cut], edges.right[cut]]))
    for unit in apart[~freed].tolist():
        below = np.concatenate([edges.right[edges.left == unit], edges.left[edges.right == unit]])
        if len(below) and not standing:
            raise DataMarketError(
                f"an override splits {ids[unit]!r}, which descends from no other unit, so nothing would be split; "
                f"name what descends from it instead, such as {ids[below[0]]!r}"
            )
    return edges.where(~cut)


def _without(edges: Edges, apart: Codes, n: int) -> Edges:
    """Cut the edges of some nodes.

    Certain matches come as stars around one of the group, so the others are matched anew if it leaves.
    """
    cut = np.isin(edges.left, apart) | np.isin(edges.right, apart)
    rest = [edges.where(~cut)]
    for reason in np.unique(edges.reason[cut & (edges.score >= 1.0)]):
        same = edges.where((edges.reason == reason) & (edges.score >= 1.0))
        group = components(np.arange(n), same)
        left = np.setdiff1d(np.flatnonzero(np.isin(group, group[apart])), apart)
        matches = star(group[left], str(reason))
        rest.append(Edges(left[matches.left], left[matches.right], matches.score, matches.reason))
    return Edges.concat(rest)


def _places(names: Sequence[str], place: dict[str, int], kind: str) -> Codes:
    if unknown := [name for name in names if name not in place]:
        raise DataMarketError(
            f"an override names {unknown[0]!r}, which is not among the {kind}; correct the file"
        )
    return np.array([place[name] for name in dict.fromkeys(names)], dtype=np.int64)


_SHOWN = 5


@dataclass(frozen=True)
class PayeeClaim:
    """A claim that identities (numbers) are one payee, which not all confirm: listed, and without effect."""

    reason: str  # such as "same iban"
    value: str  # what they share; blank where it is likeness, or the word of one
    identities: tuple[int, ...]
    score: float = 1.0

    def words(self, names: Sequence[str]) -> str:
        """Say the claim in a sentence; ``names`` are those of all identities."""
        shown = listed((f"“{visible(names[i], 32)}”" for i in self.identities), _SHOWN)
        value = f" = “{visible(self.value)}”" if self.value else ""
        return f"A claim without effect ({self.reason}{value}), because not all confirm it: {shown}."


@dataclass(frozen=True, eq=False)
class Payees:
    """The payee of each identity (matched identities are one payee), why, and claims without effect."""

    group: Codes
    edges: Edges
    claims: list[PayeeClaim]

    @property
    def claimed(self) -> Edges:
        """The claims as pairs, each with the first identity of its claim."""
        stars = [
            Edges.of(np.full(len(others), first), np.array(others), claim.reason, claim.score)
            for claim in self.claims
            for first, *others in [claim.identities]
        ]
        return Edges.concat([Edges.none(), *stars])


def operator_matches(
    ids: Sequence[str], absent: frozenset[str], spec: PayoutSpec, edge_table: Path | None
) -> Edges:
    """Read the matches between units that the operator supplies; they stand as they are, whatever the clock says.

    Those of ``absent`` units are left out.
    """
    if edge_table is None or spec.linkage.between != "units":
        return Edges.none()
    return _edge_table(edge_table, ids, spec, "unit", absent)


def payees(
    inputs: Inputs, spec: PayoutSpec, edge_table: Path | None, overrides: Sequence[Override]
) -> Payees:
    """Group identities that are paid as one: by mutual confirmation, the operator's table or an override.

    Keys and likeness (splink) are of columns that submitters fill in. An attacker who writes down a victim's account
    number, or is like a victim in name and address, would be netted with the victim, so alone they are claims.
    """
    rule, names = spec.linkage, inputs.identities
    links, claims = [Edges.none()], _shared(inputs, rule.keys)
    if rule.confirm is not None:
        both, alone = confirmations(names, inputs.owner, inputs.links[rule.confirm])
        links.append(both)
        claims += [PayeeClaim("the first alone says so", "", pair) for pair in alone]
    if rule.fuzzy:
        pairs = splink_pairs(names, _first_values(inputs, rule.fuzzy), rule.probability)
        place = {name: i for i, name in enumerate(names)}
        claims += [PayeeClaim("splink", "", (place[a], place[b]), p) for a, b, p in pairs]
    if edge_table is not None and rule.between == "identities":
        links.append(_edge_table(edge_table, names, spec, "identity"))
    edges = overridden(Edges.concat(links).once(), overrides, names, "identities")
    group = components(np.arange(len(names)), edges)
    return Payees(group, edges, [c for c in claims if len(set(group[list(c.identities)].tolist())) > 1])


def _shared(inputs: Inputs, keys: Sequence[str]) -> list[PayeeClaim]:
    """Make a claim of each value of a key that several identities give."""
    claims = []
    for key in keys:
        codes, values = agreeing(key, inputs.links, inputs.submission.times)
        owners: dict[int, set[int]] = {}
        for code, owner in zip(codes.tolist(), inputs.owner.tolist(), strict=True):
            owners.setdefault(code, set()).add(owner)
        claims += [
            PayeeClaim(f"same {key}", values[code], tuple(sorted(group)))
            for code, group in sorted(owners.items(), key=lambda item: min(item[1]))
            if code >= 0 and len(group) > 1
        ]
    return claims


def _first_values(inputs: Inputs, columns: Sequence[str]) -> dict[str, list[str | None]]:
    """Take for each identity and column the least value that its units give."""
    values: dict[str, list[str | None]] = {}
    for name in columns:
        pairs = zip(inputs.owner.tolist(), inputs.links[name], strict=True)
        first = dict(sorted(((code, value) for code, value in pairs if value), reverse=True))
        values[name] = [first.get(code) for code in range(len(inputs.identities))]
    return values


def _edge_table(
    path: Path, names: Sequence[str], spec: PayoutSpec, what: str, aside: frozenset[str] = frozenset()
) -> Edges:
    """Read the matches of the operator's table, those of names set aside left out."""
    place = {name: i for i, name in enumerate(names)}
    pairs = [(a, b, p) for a, b, p in read_pairs(path) if not {a, b} & aside]
    for name in (n for a, b, _ in pairs for n in (a, b)):
        if name not in place:
            raise DataMarketError(
                f"the edge table names {name!r}, which is no {what}; correct it, or say with "
                "--edges-between what it matches"
            )
    rows = [(place[a], place[b], p) for a, b, p in pairs if p >= spec.linkage.probability and a != b]
    left, right, score = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return Edges.of(left.astype(np.int64), right.astype(np.int64), f"supplied by {path.name}", score)
