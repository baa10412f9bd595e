"""Who came from whom, between quotient units: lineage checked, and turned into a partial order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import ParameterError
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.units.submission import Submission


@dataclass(frozen=True, eq=False)
class Precedence:
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
