"""Who was first beyond the clock: where a lot decided and under what it was drawn, and which sources counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.core.arrays import Codes
from datamarket_gym.payout.names import visible

if TYPE_CHECKING:  # the words alone are asked for where nothing else of the pipeline is
    from datamarket_gym.payout.results import Results


def drawn_clusters(results: Results) -> Codes:
    """The clusters that one identity owns because of a lot: another's unit in it carries the same time."""
    from datamarket_gym.evidence.order import seniority_ranks

    submission, clusters = results.inputs.submission, results.payments.clustering
    rank, label, owner = seniority_ranks(submission, clusters.lot), clusters.label, results.inputs.owner
    by_rank = np.lexsort((rank, label))
    first = by_rank[np.searchsorted(label[by_rank], label)]  # of the cluster that each unit is in
    as_early = submission.times == submission.times[first]
    return np.unique(label[as_early & (rank > rank[first]) & (owner != owner[first])])


def drawn_under(results: Results) -> str:
    """What lots are drawn under, in words."""
    return under(results.spec.beacon)


def under(beacon: str | None) -> str:
    """The same by the beacon that was announced, if one was."""
    return f"the beacon “{visible(beacon)}”" if beacon else "a digest of the validation rows"


def source_words(results: Results) -> str:
    """How many of the units that name a source descend from it."""
    named = results.inputs.derived
    counted = int((results.payments.clustering.edges.reason == "trusted source").sum())
    if counted == named:
        return f"all {named:,} units that name another as their source descend from it"
    return (
        f"{counted:,} of {named:,} units that name another as their source descend from it; the others name one that "
        "is not among the units, or that did not come earlier"
    )
