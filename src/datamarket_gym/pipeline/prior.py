"""A later period: which units were bought before, and what is left to play.

A unit that evidence ties to an old one, by itself and not through other new units, belongs to the old one's owner and
earns nothing now: it was bought. The others play given what was bought, v(S) = U(P + S) - U(P), with the ties that they
have among themselves.

Theorem (what was bought has no say). Given the evidence, submitting units that were bought before changes neither what
plays nor its ties and scores: whether u is known depends on u and on old units alone, and known units are taken out
before anything else is asked. Were units also known through other new units, early noisy copies of old units would draw
honest new ones into old trees; and a copy of a copy gains nothing that a farther copy would not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.core.errors import NothingNewError, ParameterError, SubmissionError
from datamarket_gym.core.screen import Shown
from datamarket_gym.evidence.graph import LAYERS, EvidenceGraph
from datamarket_gym.evidence.lineage import Lineage
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.threshold import compared, compared_rows
from datamarket_gym.units.prior import PriorArt, joined, require_same_columns
from datamarket_gym.units.submission import Submission, Text

if TYPE_CHECKING:
    from datamarket_gym.pipeline.mechanism import Mechanism
    from datamarket_gym.pipeline.payments import Payments


@dataclass(frozen=True, eq=False)
class Known(Shown):
    """New units that were bought before: row ``unit[i]`` is tied to the row ``old[i]`` of the prior art, and why."""

    unit: Codes
    old: Codes
    score: Values
    reason: Text

    def __len__(self) -> int:
        return len(self.unit)

    @staticmethod
    def none() -> Known:
        """Nothing was bought before."""
        empty = np.empty(0, dtype=np.int64)
        return Known(empty, empty, np.empty(0), np.empty(0, dtype=np.str_))

    def where(self, chosen: NDArray[np.bool_] | Codes) -> Known:
        """Some of them (a mask or places), in that order."""
        return Known(self.unit[chosen], self.old[chosen], self.score[chosen], self.reason[chosen])

    def others(self, n: int) -> Codes:
        """The rows of n that are new; an error where there are none."""
        rows = np.setdiff1d(np.arange(n), self.unit)
        if not len(rows):
            raise NothingNewError(
                "every unit is tied to one that was bought before, so nothing is left to pay for: was this period, or "
                "this file, paid already?"
            )
        return rows

    def among(self, rows: Codes) -> Known:
        """The same units by their rows in a submission of which these were ``rows``."""
        return replace(self, unit=rows[self.unit])


def prior_of(payments: Payments) -> PriorArt:
    """What a paid submission is to later periods: its units under their clusters' owners, and those trained on.

    Known units are no part of it: they were, before. Units that were set aside as validation rows are, under whoever
    submitted them, to be recognised: a copy of one that is changed until it is no such row any more is worth the most.
    """
    submission, canonical = payments.clustering.submission, payments.canonical
    if submission is None:
        raise SubmissionError("these payments do not say which submission they divide")
    if (canonical.unit < 0).any() or canonical.weight is not None:
        raise SubmissionError(
            "rows that were made (centroids) are no units that somebody can submit again; pay by another representative"
        )
    # Of each cluster the first row that was trained on, and the first who has a claim on it.
    first = np.unique(canonical.cluster, return_index=True)[1]
    claim = np.unique(canonical.claim_row, return_index=True)[1]
    owner = submission.identity[canonical.claim_unit[claim[first]]][payments.clustering.label]
    owner = owner.astype(object)
    owner[canonical.unit] = submission.identity[canonical.claim_unit[claim]]
    units = submission.take(np.arange(len(submission)), {"identity": owner.astype(np.str_)})
    aside = payments.leaks.units
    return PriorArt(units if aside is None else Submission.concat([units, aside]), canonical.unit)


def find_acquired_units(mechanism: Mechanism, submission: Submission, utility: UtilityOracle) -> Known:
    """Find the units that the mechanism's evidence matches with previously acquired ones, each by its strongest match.

    What evidence compares is as in `match_units`. Unit by unit, whatever plays: that one unit of an identity was
    acquired says nothing of its others. Evidence that matches people (``linkage``) or everything (``pool``) says
    nothing of what was acquired: who sold in June sells other units in July.
    """
    prior, layer = utility.prior, LAYERS.create(mechanism.evidence)
    if prior is None or not layer.same_content:
        return Known.none()
    if layer.needs_oracle:
        raise ParameterError(
            "evidence",
            str(layer),
            "it asks an oracle, and nobody told it of earlier periods; choose evidence that looks at units",
        )
    n = len(prior)
    if isinstance(layer, Lineage):
        require_same_columns([prior.units, submission])
        old, new = prior.units, compared(submission, utility)[0]
        edges = layer.ties_to(old, new, compared_rows(old, utility))
    else:
        seen = compared(joined(prior, submission), utility)[0]
        edges = EvidenceGraph.build(
            seen, mechanism.evidence, seed=mechanism.seed, lot=mechanism.lot, settled=n
        ).edges
    tied, unit = np.minimum(edges.left, edges.right), np.maximum(edges.left, edges.right) - n
    order = np.lexsort((tied, -edges.score, unit))
    first = order[np.unique(unit[order], return_index=True)[1]]
    return Known(unit[first], tied[first], edges.score[first], edges.reason[first])
