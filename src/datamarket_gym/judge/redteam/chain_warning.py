"""What an audit says of units that chain large groups together."""

from __future__ import annotations

from datamarket_gym.evidence.chaining import FEW, chain_words, find_chains
from datamarket_gym.evidence.lineage import Lineage
from datamarket_gym.evidence.pairs import MOST_PAIRS
from datamarket_gym.judge.guarantees.paid import Paid
from datamarket_gym.pipeline.mechanism import Mechanism

_MOST = 3  # in a sentence


def chained_words(settled: Mechanism, honest: Paid) -> list[str]:
    """What few units chain together under likeness; lineage joins no two groups, and other evidence is certain."""
    layer = settled.evidence
    if isinstance(layer, Lineage) or not layer.by_similarity:
        return []
    submission = honest.profile.submission
    found = find_chains(honest.payments.clustering)

    def named(unit: int) -> str:
        return f"{submission.id[unit]} of {submission.identity[unit]}"

    if found and found[0].ties is None:  # a few hundred near copies of one unit are enough for that
        return [
            f"{settled.evidence} ties more than {MOST_PAIRS:,} pairs, so it was not counted how few units chain large "
            f"parts of clusters: look at {chain_words(found[0], named)}. lineage@auto chains nothing"
        ]
    thin = [chain for chain in found if chain.thin]
    if not thin:
        return []
    words = "; ".join(chain_words(chain, named) for chain in thin[:_MOST])
    more = f"; and {len(thin) - _MOST:,} more" if len(thin) > _MOST else ""
    head = f"{settled.evidence} chains large parts of clusters through {FEW} units or fewer"
    return [f"{head}: {words}{more}. lineage@auto ties a unit to one earlier unit alone"]
