"""The scoring stage: what each cluster is worth, and how that varies over the validation rows.

Scores are those of the mechanism (`Mechanism.pay`), for given clusters. k-NN semivalues are exact for the
validation rows at hand, but those are a sample: the scores on each of a few groups of validation rows
tell how much another sample would have changed them. Groups are dealt by content.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.content import keyed_generator, unit_keys
from datamarket_gym.core.registry import create
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.learners.oracle import UtilityOracle, require_learnable
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.represent import CanonicalUnits
from datamarket_gym.pipeline.score import QuotientGame
from datamarket_gym.pipeline.share import Allocator, Provenance, Shares
from datamarket_gym.units.submission import Submission

GROUPS = 20


@dataclass(frozen=True, eq=False)
class Scores:
    """Per cluster: score, standard error of sampling, and the scores on groups of validation rows."""

    values: Values  # (K,)
    sampling_error: Values  # (K,)
    by_group: Values  # (G, K); G = 0 where the learner has no closed form
    group_size: Codes  # (G,)
    grand_value: float
    method: str


def canonical_units(mechanism: Mechanism, submission: Submission, clusters: Clusters) -> CanonicalUnits:
    """The rows that stand for the clusters."""
    found: CanonicalUnits = create("representative", mechanism.representative).canonical(
        submission, clusters
    )
    return found


def score(
    mechanism: Mechanism, canonical: CanonicalUnits, utility: UtilityOracle, groups: bool = True
) -> Scores:
    """Scores of all clusters, and of all on each group of validation rows where that is cheap."""
    require_learnable(canonical.label, utility.label)
    game = QuotientGame(canonical, utility)
    estimate = mechanism.valuator.fit(game)
    dealt = validation_groups(utility.features, utility.label, mechanism.seed)  # contiguous, in a run
    by_group = game.closed_form_by_group(mechanism.valuator.semivalue, dealt) if groups else None
    if by_group is None:
        by_group, dealt = np.empty((0, game.n_players)), np.empty(0, dtype=np.int64)
    return Scores(
        estimate.values[game.player],
        estimate.standard_errors[game.player],
        by_group[:, game.player],
        np.bincount(dealt),
        game.grand_value(),
        estimate.method,
    )


def shares_of(
    mechanism: Mechanism,
    submission: Submission,
    clusters: Clusters,
    canonical: CanonicalUnits,
    values: Values,
) -> tuple[Shares, Values]:
    """Who has which share of which cluster, and the amounts, on the grid on which sums are exact."""
    provenance = Provenance(submission, clusters, canonical)
    return Allocator(mechanism.allocation).allocate(values, provenance)


def validation_groups(features: Features, label: np.ndarray, seed: int) -> Codes:
    """A group number per validation row, dealt by content so that the order of rows does not matter."""
    order = np.argsort(unit_keys(features, label), kind="stable")
    count = min(GROUPS, len(order))
    dealt = keyed_generator(seed, "validation groups").permutation(len(order)) % count
    group = np.empty(len(order), dtype=np.int64)
    group[order] = dealt
    return group
