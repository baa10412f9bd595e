"""What the operator knows beyond the content: ties between units, and which identities are one payee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datamarket_gym.core.arrays import Codes
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.evidence.graph import Edges, components, star
from datamarket_gym.evidence.layers.linkage import Pair, agreeing, read_pairs, splink_pairs
from datamarket_gym.payout.inputs import Inputs
from datamarket_gym.payout.overrides import Override, overridden
from datamarket_gym.payout.spec import PayoutSpec


@dataclass(frozen=True, eq=False)
class Payees:
    """The payee of each identity (identities that linkage ties are one payee), and why."""

    group: Codes
    edges: Edges
    common: list[tuple[str, str, int]]  # (key, value, identities): too common to count


def known_ties(inputs: Inputs, spec: PayoutSpec, edge_table: Path | None) -> Edges:
    """Ties between units that come with the run: trusted sources, a supplied table."""
    found = [Edges.none()]
    if inputs.source is not None:
        place = {name: i for i, name in enumerate(inputs.ids)}
        pairs = [
            (i, place[s])
            for i, s in enumerate(inputs.source)
            if s is not None and s in place and place[s] != i
        ]
        derived = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        found.append(Edges.of(derived[:, 1], derived[:, 0], "trusted source"))
    if edge_table is not None and spec.linkage.between == "units":
        found.append(_supplied(edge_table, inputs.ids, spec, "unit", inputs.aside))
    return Edges.concat(found)


def payees(
    inputs: Inputs, spec: PayoutSpec, edge_table: Path | None, overrides: Sequence[Override]
) -> Payees:
    """Who is paid as one: identities tied by keys, by splink, by a supplied table or by override."""
    found, common = [Edges.none()], []
    for key in spec.linkage.keys:
        codes, frequent = agreeing(
            key, inputs.links, inputs.submission.times, inputs.owner, spec.linkage.most
        )
        common += [(key, value, count) for value, count in frequent]
        found.append(_between_identities(codes, inputs.owner, f"same {key}"))
    if spec.linkage.fuzzy:
        pairs = splink_pairs(
            inputs.identities, _first_values(inputs, spec.linkage.fuzzy), spec.linkage.probability
        )
        found.append(_pairs(pairs, inputs.identities, spec, "identity", "splink"))
    if edge_table is not None and spec.linkage.between == "identities":
        found.append(_supplied(edge_table, inputs.identities, spec, "identity"))
    edges = overridden(Edges.concat(found).once(), overrides, inputs.identities, "identities")
    return Payees(components(np.arange(len(inputs.identities)), edges), edges, common)


def _between_identities(codes: Codes, owner: Codes, reason: str) -> Edges:
    known = codes >= 0
    pairs = np.unique(np.stack([codes[known], owner[known]]), axis=1)
    if not pairs.shape[1]:
        return Edges.none()
    tied = star(pairs[0], reason)
    return Edges(pairs[1][tied.left], pairs[1][tied.right], tied.score, tied.reason)


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
