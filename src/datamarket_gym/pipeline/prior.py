"""A later period: what evidence ties to units of earlier ones, and what is left to play.

A unit that evidence ties to an old one, itself or through other new units, belongs to the old one's owner and earns
nothing now: it was bought. The others play given what was bought, v(S) = U(P + S) - U(P), as if those had not been
submitted, with the ties they had. Old units are senior to all new ones, whatever times say: they were there before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.core.errors import ParameterError, SubmissionError
from datamarket_gym.evidence.graph import LAYERS, Clusters, Edges, EvidenceGraph, clusters_by
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.compare import compared
from datamarket_gym.units.prior import PriorArt, joined
from datamarket_gym.units.submission import Submission, Text

if TYPE_CHECKING:
    from datamarket_gym.pipeline.mechanism import Mechanism
    from datamarket_gym.pipeline.payments import Payments


@dataclass(frozen=True, eq=False)
class Known:
    """New units that were bought before: row ``unit[i]`` is tied to the row ``old[i]`` of the prior art.

    ``through[i]`` is the new unit by which it is tied, or -1 where it is tied to the old one itself; ``score`` and
    ``reason`` are those of that tie.
    """

    unit: Codes
    old: Codes
    through: Codes
    score: Values
    reason: Text

    def __len__(self) -> int:
        return len(self.unit)

    @staticmethod
    def none() -> Known:
        """Nothing was bought before."""
        empty = np.empty(0, dtype=np.int64)
        return Known(empty, empty, empty, np.empty(0), np.empty(0, dtype=np.str_))

    def others(self, n: int) -> Codes:
        """The rows of n that are new."""
        return np.setdiff1d(np.arange(n), self.unit)

    def among(self, rows: Codes) -> Known:
        """The same units by their rows in a submission of which these were ``rows``."""
        through = np.where(self.through < 0, -1, rows[self.through])
        return replace(self, unit=rows[self.unit], through=through)


def prior_of(payments: Payments) -> PriorArt:
    """What a paid submission is to later periods: its units under their clusters' owners, and those trained on.

    Known units are no part of it: they were, before.
    """
    submission, canonical = payments.clusters.submission, payments.canonical
    if submission is None:
        raise SubmissionError("these payments do not say which submission they divide")
    if (canonical.unit < 0).any() or canonical.weight is not None:
        raise SubmissionError(
            "rows that were made (centroids) are no units that somebody can submit again; pay by another representative"
        )
    # Of each cluster the first row that was trained on, and the first who has a claim on it.
    first = np.unique(canonical.cluster, return_index=True)[1]
    claim = np.unique(canonical.claim_row, return_index=True)[1]
    owner = submission.identity[canonical.claim_unit[claim[first]]][payments.clusters.label]
    owner = owner.astype(object)
    owner[canonical.unit] = submission.identity[canonical.claim_unit[claim]]
    units = submission.take(np.arange(len(submission)), {"identity": owner.astype(np.str_)})
    return PriorArt(units, canonical.unit)


def tie_given(
    mechanism: Mechanism,
    submission: Submission,
    utility: UtilityOracle,
    known: Edges | None = None,
) -> Edges:
    """Ties of new units to old ones and to one another: rows below ``len(utility.prior)`` are old, those after new.

    ``known`` are ties between new units from elsewhere, by their rows among these. What evidence compares is as in
    `tie`; old units are not tied to one another again.
    """
    prior = given_art(utility)
    if LAYERS.create(mechanism.evidence).needs_oracle:
        raise ParameterError(
            "evidence",
            mechanism.evidence,
            "it asks an oracle, and nobody told it of earlier periods; choose evidence that looks at units",
        )
    n = len(prior)
    seen = compared(joined(prior, submission), utility)[0]
    beside = None if known is None else replace(known, left=known.left + n, right=known.right + n)
    # Unit by unit, whatever plays: that one unit of an identity was bought says nothing of its others.
    found = EvidenceGraph.build(
        seen,
        mechanism.evidence,
        granularity="unit",
        seed=mechanism.seed,
        known=beside,
        lot=mechanism.lot,
        settled=n,
    )
    return found.edges


def given_art(utility: UtilityOracle) -> PriorArt:
    """The prior art of a utility; an error where there is none."""
    if utility.prior is None:
        raise ParameterError(
            "utility", repr(utility), "it has no prior art; make it by utility.given(...)"
        )
    return utility.prior


@dataclass(frozen=True, eq=False)
class NewPeriod:
    """What was bought before, and what plays: the rows of the submission, the units there, their clusters."""

    known: Known
    rows: Codes
    submission: Submission
    clusters: Clusters


def new_period(
    edges: Edges, submission: Submission, old: int, granularity: str, lot: str = ""
) -> NewPeriod:
    """Divide a submission by ties of which the first ``old`` rows are of earlier periods."""
    known = _known(edges, old, len(submission))
    rows = known.others(len(submission))
    if not len(rows):
        raise SubmissionError(
            "every unit is tied to one that was bought before, so nothing is left to pay for: was this period, or this "
            "file, paid already?"
        )
    place = np.full(old + len(submission), -1)
    place[old + rows] = np.arange(len(rows))
    among = edges.where((place[edges.left] >= 0) & (place[edges.right] >= 0))
    among = replace(among, left=place[among.left], right=place[among.right])
    playing = submission if not len(known) else submission.take(rows)
    return NewPeriod(known, rows, playing, clusters_by(playing, among, granularity, lot))


def _known(edges: Edges, old: int, new: int) -> Known:
    """The new units from which ties lead to an old one, and the first step on the shortest way there."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    touched = np.unique(np.concatenate([edges.left, edges.right]))
    start = touched[touched < old]
    if not len(start):
        return Known.none()
    root = old + new  # tied to every old unit: whoever is reached from it is reached from one of these
    left = np.concatenate([edges.left, np.full(len(start), root)])
    right = np.concatenate([edges.right, start])
    graph = coo_array((np.ones(len(left), dtype=np.int8), (left, right)), shape=(root + 1, root + 1))
    order, before = breadth_first_order(graph.tocsr(), root, directed=False)
    reached = order[(order >= old) & (order < root)]
    owned = np.arange(root + 1)
    for row in reached.tolist():  # from near to far: the one before is known when its turn comes
        owned[row] = owned[before[row]]
    row = np.sort(reached)
    step = before[row]
    found = _strongest(edges, row, step)
    return Known(
        row - old,
        owned[row],
        np.where(step < old, -1, step - old).astype(np.int64),
        edges.score[found],
        edges.reason[found],
    )


def _strongest(edges: Edges, row: Codes, step: Codes) -> Codes:
    """The strongest of the edges between each row and the one before it."""
    size = int(max(edges.left.max(), edges.right.max())) + 1
    pair = np.minimum(edges.left, edges.right) * size + np.maximum(edges.left, edges.right)
    order = np.lexsort((-edges.score, pair))
    wanted = np.minimum(row, step) * size + np.maximum(row, step)
    found: Codes = order[np.searchsorted(pair[order], wanted)]
    return found
