"""Groups of a payday that a few ties hold together: by a list of the operator's or an override, never by lineage.

Each unit descends from one earlier unit at most, so that no unit joins two trees (docs/lineage.md). Ties from elsewhere
can, and one wrong pair in a list makes one group of two large ones, which one of them owns.
"""

from __future__ import annotations

import numpy as np

from datamarket_gym.core.screen import counted
from datamarket_gym.evidence.chaining import FEW, Chain, chain_words, cuts
from datamarket_gym.evidence.graph import components
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.overrides import DESCENT
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.warnings import StandingWarning


def chains_of(results: Results) -> list[Chain]:
    """Large parts of groups that ties from elsewhere hold together, the thinnest first."""
    clusters = results.payments.clustering
    everyone = np.arange(len(clusters.label))
    tree = components(everyone, clusters.edges.where(np.isin(clusters.edges.reason, DESCENT)))
    return cuts(clusters, tree, np.bincount(tree)[tree].astype(np.float64), everyone)


def named_unit(results: Results, unit: int) -> str:
    """A unit and whose it is."""
    inputs = results.inputs
    return f"“{visible(inputs.ids[unit])}” of “{visible(inputs.identities[inputs.owner[unit]])}”"


def chained(results: Results) -> StandingWarning | None:
    """Groups of which two large parts are held together by a few units."""
    thin = [chain for chain in chains_of(results) if chain.thin]
    if not thin:
        return None
    number = results.payments.scores.number
    return StandingWarning.of(
        "chained",
        f"{counted(len({chain.cluster for chain in thin}), 'group is', 'groups are')} held together by a few ties",
        f"Two large parts of it are tied through {FEW} units or fewer, by a list or an override and not by likeness, "
        "and the earliest unit of all owns both. Look at these ties: one wrong pair is enough. Take it out of the list "
        "or the override, and pay again.",
        [
            f"group {number[chain.cluster]}: {chain_words(chain, lambda unit: named_unit(results, unit))}"
            for chain in thin
        ],
    )
