"""Other values on top of quotient units: faithful groups (FGSV) and priorities (PASV).

FGSV: P_G = sum over G of phi_k. Once the quotient units and their Shapley values are fixed, a group's
payment is the sum of its units' values, so dividing a group into others leaves the total unchanged:
shell companies gain nothing. The composition is specific to Shapley, and assumes every quotient unit
to belong to one group; a cluster of several owners needs an allocation rule first. Sums are made on a
grid on which they are exact, so the invariance holds to the last bit.

PASV (Lee et al. 2026) values a game under a given precedence and weights. Players join in a random
order that respects the precedence graph. An order pi has probability proportional to product over j
of 1 / (w(pi_1) + ... + w(pi_j)): equal weights make all linear extensions equally likely (the
precedence Shapley value of Faigle and Kern), no precedence makes it the weighted Shapley value (Kalai
and Samet), in which a player of larger weight tends to join later and shares unanimity games in
proportion to weights. This is how we read PASV from its two special cases.

The probability of an order depends on its prefixes only, so with f and g the total weight of the
orders of a prefix set and of its completions, one pass over the sets closed under parents is exact.
Where they are too many, independent chains of adjacent swaps (Metropolis) sample orders; standard
errors are those between chains, and vouch for nothing if the chains are too short to mix.

The precedence between quotient units comes from their lineage, checked and turned into a partial order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.errors import ParameterError, require_count
from datamarket_gym.core.screen import Shown
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.games.game import Game
from datamarket_gym.games.semivalue import Estimate, Semivalue
from datamarket_gym.judge.guarantees.splits import size_law
from datamarket_gym.pipeline.share import exact_amounts
from datamarket_gym.semivalues.laws import Shapley
from datamarket_gym.semivalues.sampling import ask
from datamarket_gym.units.submission import Submission


def group_values(
    scores: Values, groups: Mapping[str, Sequence[int]], semivalue: Semivalue | None = None
) -> dict[str, float]:
    """The FGSV payment of each group of quotient units, given the units' Shapley values.

    ``semivalue`` is what the scores are: anything but Shapley is refused. Every unit must be in
    exactly one group.
    """
    scores = np.asarray(scores, dtype=np.float64)
    law = size_law(semivalue or Shapley(), len(scores))
    if not np.allclose(law, 1.0 / len(scores), rtol=1e-9, atol=0.0):
        raise ParameterError(
            "semivalue",
            type(semivalue).__name__,
            "faithful groups are defined for Shapley values; score the units by shapley",
        )
    group = _codes(len(scores), groups)
    amounts = exact_amounts(scores, np.arange(len(scores)), np.ones(len(scores)))
    totals = np.zeros(len(groups))
    np.add.at(totals, group, amounts)
    return dict(zip(groups, totals.tolist(), strict=True))


def _codes(n: int, groups: Mapping[str, Sequence[int]]) -> np.ndarray:
    group = np.full(n, -1)
    for code, (name, members) in enumerate(groups.items()):
        for member in members:
            if not 0 <= member < n:
                raise ParameterError(f"group {name!r}", member, f"units are numbered 0 to {n - 1}")
            if group[member] >= 0:
                raise ParameterError(
                    f"group {name!r}", member, "this unit is in two groups; put each into one"
                )
            group[member] = code
    if (group < 0).any():
        raise ParameterError(
            "groups", int((group < 0).argmax()), "this unit is in no group; put each unit into one"
        )
    return group


@dataclass(frozen=True, eq=False)
class Precedence(Shown):
    """A directed acyclic graph on players 0..n-1: ``parents[i]`` must join before i does."""

    parents: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        n = len(self.parents)
        for child, above in enumerate(self.parents):
            for parent in above:
                if not 0 <= parent < n:
                    raise ParameterError(
                        "lineage", f"{child} <- {parent}", f"dangling: players are 0 to {n - 1}"
                    )
        cycle = _cycle(self.parents)
        if cycle:
            path = " <- ".join(map(str, cycle))
            raise ParameterError("lineage", path, "a cycle: nothing can descend from itself")

    @property
    def n_players(self) -> int:
        """How many players there are."""
        return len(self.parents)

    @cached_property
    def needed(self) -> NDArray[np.uint64]:
        """For each player the bit set of its parents; for up to 63 players."""
        sets = [sum(1 << parent for parent in set(above)) for above in self.parents]
        return np.array(sets, dtype=np.uint64)

    @cached_property
    def edge(self) -> NDArray[np.bool_]:
        """``edge[i, j]``: i is a parent of j."""
        matrix = np.zeros((self.n_players, self.n_players), dtype=bool)
        for child, above in enumerate(self.parents):
            matrix[list(above), child] = True
        return matrix


def cluster_precedence(
    submission: Submission, clusters: Clusters, lineage: Mapping[str, Sequence[str]]
) -> Precedence:
    """Precedence between clusters from the lineage of units: ``{child id: [parent ids]}``.

    Lineage inside a cluster vanishes: the cluster is one strategic unit. Lineage that names a unit
    nobody submitted, or that runs in a circle between clusters, is refused.
    """
    row = {str(name): i for i, name in enumerate(submission.id)}
    parents: list[set[int]] = [set() for _ in range(clusters.n_clusters)]
    for child, above in lineage.items():
        for name in (child, *above):
            if name not in row:
                raise ParameterError(
                    "lineage",
                    name,
                    "dangling: no submitted unit has this id; drop it or submit the unit",
                )
        mine = int(clusters.label[row[child]])
        parents[mine] |= {int(clusters.label[row[p]]) for p in above} - {mine}
    return Precedence(tuple(tuple(sorted(above)) for above in parents))


def _cycle(parents: Sequence[Sequence[int]]) -> list[int]:
    """Some cycle, as a walk from child to parent, or nothing."""
    state = [0] * len(parents)  # 0 new, 1 on the path, 2 done
    for start in range(len(parents)):
        if state[start]:
            continue
        path, todo = [start], [iter(parents[start])]
        state[start] = 1
        while path:
            parent = next(todo[-1], None)
            if parent is None:
                state[path.pop()] = 2
                todo.pop()
            elif state[parent] == 1:
                return [*path[path.index(parent) :], parent]
            elif state[parent] == 0:
                state[parent] = 1
                path.append(parent)
                todo.append(iter(parents[parent]))
    return []


MAX_IDEALS = 1 << 16
_CHAINS = 32


def priority_values(
    game: Game,
    precedence: Precedence,
    weights: Values | None = None,
    *,
    max_ideals: int = MAX_IDEALS,
    samples: int = 64,
    seed: int = 0,
) -> Estimate:
    """PASV of every player: exact while at most ``max_ideals`` prefix sets exist, else sampled.

    ``samples`` orders are then taken from each of 32 chains, n^2 swaps apart.
    """
    n = game.n_players
    if precedence.n_players != n:
        raise ParameterError("lineage", f"{precedence.n_players} players", f"the game has {n}")
    weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if weights.shape != (n,) or not (np.isfinite(weights) & (weights > 0)).all():
        raise ParameterError("weights", weights.tolist(), f"give {n} positive finite weights")
    require_count("samples", samples)
    layers = _ideals(precedence, max_ideals)
    if layers is not None:
        return _exact(game, precedence, weights, layers)
    return _sampled(game, precedence, weights, samples, seed)


def _ideals(precedence: Precedence, limit: int) -> list[NDArray[np.uint64]] | None:
    """The sets closed under parents as bit sets, by size; None if there are more than ``limit``."""
    n = precedence.n_players
    if n > 63:
        return None
    layers, total = [np.zeros(1, dtype=np.uint64)], 1
    for _ in range(n):
        found = [_addable(layers[-1], i, precedence)[1] for i in range(n)]
        layers.append(np.unique(np.concatenate(found)))
        total += len(layers[-1])
        if total > limit:
            return None
    return layers


def _addable(
    sets: NDArray[np.uint64], player: int, precedence: Precedence
) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Which sets can be joined by the player next, and the sets after that."""
    bit, needed = np.uint64(1 << player), precedence.needed[player]
    where = np.flatnonzero(((sets & bit) == 0) & ((sets & needed) == needed))
    return where, sets[where] | bit


def _exact(
    game: Game, precedence: Precedence, weights: Values, layers: list[NDArray[np.uint64]]
) -> Estimate:
    n, before = game.n_players, game.asked
    members = [(s[:, None] >> np.arange(n, dtype=np.uint64)) & np.uint64(1) == 1 for s in layers]
    worth = [ask(game, m) for m in members]
    scale = [m @ weights for m in members]
    steps = [[(*_addable(layers[size], i, precedence), i) for i in range(n)] for size in range(n)]
    forward, backward = [np.ones(1)], [np.ones(1)]
    for size in range(n):
        total = np.zeros(len(layers[size + 1]))
        for where, after, _ in steps[size]:
            np.add.at(total, np.searchsorted(layers[size + 1], after), forward[size][where])
        total /= scale[size + 1]
        forward.append(total / total.max())  # only ratios within a size matter
    for size in reversed(range(n)):
        total = np.zeros(len(layers[size]))
        onward = backward[0] / scale[size + 1]
        for where, after, _ in steps[size]:
            np.add.at(total, where, onward[np.searchsorted(layers[size + 1], after)])
        backward.insert(0, total / total.max())
    values = np.zeros(n)
    for size in range(n):
        onward = backward[size + 1] / scale[size + 1]
        flows = []
        for where, after, i in steps[size]:
            at = np.searchsorted(layers[size + 1], after)
            flow = forward[size][where] * onward[at]
            flows.append((i, flow, worth[size + 1][at] - worth[size][where]))
        mass = sum(float(flow.sum()) for _, flow, _ in flows)
        for i, flow, marginal in flows:
            values[i] += float((flow * marginal).sum()) / mass
    return Estimate(values, np.zeros(n), game.asked - before, "pasv exact", samples=0)


def _sampled(game: Game, precedence: Precedence, weights: Values, samples: int, seed: int) -> Estimate:
    n, before = game.n_players, game.asked
    rng = keyed_generator(seed, "pasv", n)
    order = np.tile(_any_order(precedence), (_CHAINS, 1))
    _swap(order, precedence, weights, 4 * n * n, rng)
    means = np.zeros((_CHAINS, n))
    for _ in range(samples):
        _swap(order, precedence, weights, n * n, rng)
        rank = np.argsort(order, axis=1)
        prefixes = rank[:, None, :] < np.arange(1, n + 1)[:, None]
        worth = ask(game, prefixes.reshape(-1, n)).reshape(_CHAINS, n)
        marginals = np.diff(worth, axis=1, prepend=0.0)
        found = np.empty_like(marginals)
        np.put_along_axis(found, order, marginals, axis=1)
        means += found / samples
    errors = means.std(axis=0, ddof=1) / np.sqrt(_CHAINS)
    return Estimate(means.mean(axis=0), errors, game.asked - before, "pasv chains")


def _any_order(precedence: Precedence) -> NDArray[np.int64]:
    """Some linear extension: parents first."""
    left = [set(above) for above in precedence.parents]
    order: list[int] = []
    todo = set(range(len(left)))
    while todo:
        ready = sorted(i for i in todo if not left[i] & todo)
        order += ready
        todo -= set(ready)
    return np.array(order)


def _swap(
    order: NDArray[np.int64],
    precedence: Precedence,
    weights: Values,
    steps: int,
    rng: np.random.Generator,
) -> None:
    """Adjacent swaps in all chains at once, in place; lazy, so that the chain is not periodic."""
    chains, n = order.shape
    if n < 2:
        return
    rows = np.arange(chains)
    prefix = np.cumsum(weights[order], axis=1)
    for _ in range(steps):
        at = rng.integers(0, n - 1, size=chains)
        first, second = order[rows, at], order[rows, at + 1]
        here = prefix[rows, at]
        swapped = here - weights[first] + weights[second]
        # of two neighbours in a linear extension, only a parent and its child cannot be swapped
        allowed = ~precedence.edge[first, second] & (rng.random(chains) < 0.5)
        taken = allowed & (rng.random(chains) * swapped < here)
        order[rows[taken], at[taken]] = second[taken]
        order[rows[taken], at[taken] + 1] = first[taken]
        prefix[rows[taken], at[taken]] = swapped[taken]
