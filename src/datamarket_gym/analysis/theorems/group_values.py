"""Values on top of quotient units: faithful groups (FGSV) and priorities (PASV).

FGSV: P_G = sum over G of phi_k. Once the Shapley values of quotient units are fixed, dividing a group into others
leaves the total unchanged, so shell companies gain nothing. Every unit belongs to one group; sums are exact.

PASV (Lee et al. 2026) values a game under a precedence and weights. Players join in a random order that respects the
precedence; an order pi has probability proportional to product over j of 1 / (w(pi_1) + ... + w(pi_j)). Equal weights
make all linear extensions equally likely (Faigle and Kern); without precedence it is the weighted Shapley value (Kalai
and Samet). This is how we read PASV from its two special cases. The probability depends on the prefixes of an order
only, so one pass over the sets closed under parents is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np

from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Shown
from datamarket_gym.errors import ParameterError
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.execution.arrays import Values
from datamarket_gym.games.game import Game
from datamarket_gym.games.sampling import ask
from datamarket_gym.games.semivalues import Estimate
from datamarket_gym.mechanism.allocation import exact_amounts

MAX_IDEALS = 1 << 16
"""Sets closed under parents that are gone through at most."""


def group_values(scores: Values, groups: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """Add up the Shapley values of quotient units by group; every unit must be in exactly one."""
    counts = np.zeros(len(scores), dtype=int)
    for name, members in groups.items():
        for member in members:
            if not 0 <= member < len(scores):
                raise ParameterError(
                    f"group {name!r}", member, f"units are numbered 0 to {len(scores) - 1}"
                )
            counts[member] += 1
    if (counts != 1).any():
        unit = int((counts != 1).argmax())
        where = "in two groups" if counts[unit] else "in no group"
        raise ParameterError("groups", unit, f"this unit is {where}; put each unit into one")
    amounts = exact_amounts(np.asarray(scores, float), np.arange(len(scores)), np.ones(len(scores)))
    return {name: float(amounts[list(members)].sum()) for name, members in groups.items()}


@dataclass(frozen=True, eq=False)
class Precedence(Shown):
    """A directed acyclic graph on players 0..n-1: ``parents[i]`` must join before i does."""

    parents: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        n = len(self.parents)
        for child, above in enumerate(self.parents):
            for parent in above:
                if not 0 <= parent < n:
                    says = f"dangling: players are 0 to {n - 1}"
                    raise ParameterError("lineage", f"{child} <- {parent}", says)
        try:
            TopologicalSorter(dict(enumerate(self.parents))).prepare()
        except CycleError as error:
            path = " <- ".join(map(str, reversed(error.args[1])))
            raise ParameterError("lineage", path, "a cycle: nothing can descend from itself") from error


def cluster_precedence(
    submission: Submission, clusters: Clusters, lineage: Mapping[str, Sequence[str]]
) -> Precedence:
    """Build the precedence between clusters from the lineage of units: ``{child id: [parent ids]}``.

    Lineage inside a cluster vanishes. A unit that nobody submitted, or a cycle between clusters, is refused.
    """
    cluster = {str(name): int(label) for name, label in zip(submission.id, clusters.label, strict=True)}
    parents: list[set[int]] = [set() for _ in range(clusters.n_clusters)]
    for child, above in lineage.items():
        for name in (child, *above):
            if name not in cluster:
                says = "dangling: no submitted unit has this id; drop it or submit the unit"
                raise ParameterError("lineage", name, says)
        parents[cluster[child]] |= {cluster[name] for name in above} - {cluster[child]}
    return Precedence(tuple(tuple(sorted(above)) for above in parents))


def priority_values(game: Game, precedence: Precedence, weights: Values | None = None) -> Estimate:
    """Compute the exact PASV of every player, of larger weight those who tend to join later.

    Raises
    ------
    ParameterError
        If more than `MAX_IDEALS` sets of players are closed under parents, or weights are not positive.
    """
    n, before = game.n_players, game.asked
    if len(precedence.parents) != n:
        raise ParameterError("lineage", f"{len(precedence.parents)} players", f"the game has {n}")
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if weights.shape != (n,) or not (np.isfinite(weights) & (weights > 0)).all():
        raise ParameterError("weights", weights.tolist(), f"give {n} positive finite weights")
    needed = [sum(1 << parent for parent in set(above)) for above in precedence.parents]
    ideals, layer, steps = [0], [0], []
    for _ in range(n):  # steps from sets of a size to those one larger, as bit sets
        steps.append(
            [
                (s, i, s | 1 << i)
                for s in layer
                for i in range(n)
                if not s >> i & 1 and not needed[i] & ~s
            ]
        )
        layer = sorted({after for _, _, after in steps[-1]})
        ideals += layer
        if len(ideals) > MAX_IDEALS:
            says = f"more than {MAX_IDEALS:,} sets of players can come first; take fewer players, or more precedence"
            raise ParameterError("lineage", f"{n} players", says)
    members = np.array([[s >> i & 1 for i in range(n)] for s in ideals], dtype=bool).reshape(-1, n)
    worth = dict(zip(ideals, ask(game, members).tolist(), strict=True))
    scale = dict(zip(ideals, (members @ weights).tolist(), strict=True))
    onward = [{ideals[-1]: 1.0}]  # the weight of all ways to complete a set, up to a factor of its size
    for layer_steps in reversed(steps):
        ways: dict[int, float] = defaultdict(float)
        for s, _, after in layer_steps:
            ways[s] += onward[0][after] / scale[after]
        largest = max(ways.values())
        onward.insert(0, {s: weight / largest for s, weight in ways.items()})
    values, reached = np.zeros(n), {0: 1.0}  # the probability that a set comes first
    for layer_steps, ahead in zip(steps, onward[1:], strict=True):
        total: dict[int, float] = defaultdict(float)
        for s, _, after in layer_steps:
            total[s] += ahead[after] / scale[after]
        arrived: dict[int, float] = defaultdict(float)
        for s, i, after in layer_steps:
            chance = reached[s] * ahead[after] / scale[after] / total[s]
            values[i] += chance * (worth[after] - worth[s])
            arrived[after] += chance
        reached = arrived
    return Estimate(values, np.zeros(n), game.asked - before, "pasv exact", samples=0)
