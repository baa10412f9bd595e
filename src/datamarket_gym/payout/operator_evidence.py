"""What the operator knows beyond the content: ties between units, and which identities are one payee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datamarket_gym.display import listed
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import Edges, components
from datamarket_gym.evidence.layers.linkage import (
    Pair,
    agreeing,
    confirmations,
    read_pairs,
    splink_pairs,
)
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.payout.inputs import Inputs
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.overrides import Override, overridden
from datamarket_gym.payout.settings import PayoutSpec

_SHOWN = 5


@dataclass(frozen=True)
class PayeeClaim:
    """What identities (numbers) share or say without confirming it to one another: listed, and it ties nobody."""

    reason: str  # such as "same iban"
    value: str  # what they share; blank where it is likeness, or somebody's word
    identities: tuple[int, ...]
    score: float = 1.0

    def words(self, names: Sequence[str]) -> str:
        """The claim in a sentence; ``names`` are those of all identities."""
        shown = listed((f"“{visible(names[i], 32)}”" for i in self.identities), _SHOWN)
        value = f" = “{visible(self.value)}”" if self.value else ""
        return f"A claim that ties nobody ({self.reason}{value}), because not all confirm it: {shown}."


@dataclass(frozen=True, eq=False)
class Payees:
    """The payee of each identity (tied identities are one payee), why, and claims that tied nobody."""

    group: Codes
    edges: Edges
    claims: list[PayeeClaim]

    @property
    def claimed(self) -> Edges:
        """The claims as pairs, each with the first identity of its claim."""
        pairs = [(c, other) for c in self.claims for other in c.identities[1:]]
        return Edges(
            np.array([c.identities[0] for c, _ in pairs], dtype=np.int64),
            np.array([other for _, other in pairs], dtype=np.int64),
            np.array([c.score for c, _ in pairs], dtype=np.float64),
            np.array([c.reason for c, _ in pairs], dtype=np.str_),
        )

    def claims_of(self, code: int) -> list[PayeeClaim]:
        """The claims that an identity is part of."""
        return [claim for claim in self.claims if code in claim.identities]


def operator_matches(
    ids: Sequence[str], absent: frozenset[str], spec: PayoutSpec, edge_table: Path | None
) -> Edges:
    """Read the matches between units that the operator supplies; they stand as they are, whatever the clock says.

    Those of ``absent`` units are left out.
    """
    if edge_table is None or spec.linkage.between != "units":
        return Edges.none()
    return _supplied(edge_table, ids, spec, "unit", absent)


def payees(
    inputs: Inputs, spec: PayoutSpec, edge_table: Path | None, overrides: Sequence[Override]
) -> Payees:
    """Who is paid as one: identities that confirm one another, by the operator's table or by override.

    Keys and likeness (splink) are of columns that submitters fill in. A cheat who writes down a victim's account
    number, or is like a victim in name and address, would be netted with the victim, so alone they are claims.
    """
    rule, names = spec.linkage, inputs.identities
    found, claims = [Edges.none()], _shared(inputs, rule.keys)
    if rule.confirm is not None:
        both, alone = confirmations(names, inputs.owner, inputs.links[rule.confirm])
        found.append(both)
        claims += [PayeeClaim("the first alone says so", "", pair) for pair in alone]
    if rule.fuzzy:
        pairs = splink_pairs(names, _first_values(inputs, rule.fuzzy), rule.probability)
        place = {name: i for i, name in enumerate(names)}
        claims += [PayeeClaim("splink", "", (place[a], place[b]), p) for a, b, p in pairs]
    if edge_table is not None and rule.between == "identities":
        found.append(_supplied(edge_table, names, spec, "identity"))
    edges = overridden(Edges.concat(found).once(), overrides, names, "identities")
    group = components(np.arange(len(names)), edges)
    return Payees(group, edges, [c for c in claims if len(set(group[list(c.identities)].tolist())) > 1])


def _shared(inputs: Inputs, keys: Sequence[str]) -> list[PayeeClaim]:
    """A claim for each value of a key that several identities give."""
    claims = []
    for key in keys:
        codes, values = agreeing(key, inputs.links, inputs.submission.times)
        holders: dict[int, set[int]] = {}
        for code, owner in zip(codes.tolist(), inputs.owner.tolist(), strict=True):
            holders.setdefault(code, set()).add(owner)
        claims += [
            PayeeClaim(f"same {key}", values[code], tuple(sorted(held)))
            for code, held in sorted(holders.items(), key=lambda item: min(item[1]))
            if code >= 0 and len(held) > 1
        ]
    return claims


def _first_values(inputs: Inputs, columns: Sequence[str]) -> dict[str, list[str | None]]:
    """One record per identity: the first value that one of its units gives for each column."""
    out: dict[str, list[str | None]] = {name: [None] * len(inputs.identities) for name in columns}
    for name in columns:
        for code, value in sorted(
            (int(c), v) for c, v in zip(inputs.owner, inputs.links[name], strict=True) if v is not None
        ):
            out[name][code] = out[name][code] or value
    return out


def _supplied(
    path: Path, names: Sequence[str], spec: PayoutSpec, what: str, aside: frozenset[str] = frozenset()
) -> Edges:
    return _pairs(read_pairs(path), names, spec, what, f"supplied by {path.name}", aside)


def _pairs(
    pairs: Sequence[Pair], names: Sequence[str], spec: PayoutSpec, what: str, reason: str,
    aside: frozenset[str] = frozenset(),
) -> Edges:  # fmt: skip
    place = {name: i for i, name in enumerate(names)}
    pairs = [(a, b, p) for a, b, p in pairs if not {a, b} & aside]
    for name in (n for a, b, _ in pairs for n in (a, b)):
        if name not in place:
            raise DataMarketError(
                f"the edge table names {name!r}, which is no {what}; correct it, or say with "
                "--edges-between what it ties"
            )
    kept = [(place[a], place[b], p) for a, b, p in pairs if p >= spec.linkage.probability and a != b]
    left, right, score = zip(*kept, strict=True) if kept else ((), (), ())
    return Edges.of(
        np.array(left, dtype=np.int64),
        np.array(right, dtype=np.int64),
        reason,
        np.array(score, dtype=np.float64),
    )
