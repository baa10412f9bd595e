"""What cheats gain in money under the two policies for scores below zero.

For each attack: the attacker's mean share of the pot over some synthetic markets, attacked over honest.
``zero``: negative cluster scores count as nothing. ``carry, paid``: what is paid now, every name by itself.
``carry, entitled``: payments and carried balances together; it is also what is paid where linkage knows the
attacker's names.

Usage: python benchmarks/payout_policies.py --seeds 20
"""

from __future__ import annotations

import argparse

import numpy as np

from datamarket_gym.core.registry import create
from datamarket_gym.learners.oracle import Utility
from datamarket_gym.pipeline import Payments, floored, mechanism
from datamarket_gym.units import SubmittedProfile
from datamarket_gym.world.market import ProviderMarket
from datamarket_gym.world.tasks import Synthetic

ATTACKS = (
    "sybil_split_k@3",
    "sybil_split_k@30",
    "exact_dup_2x_sybils",
    "copycat",
    "junk_padding",
    "junk_padding(ratio=3.0, identities=3)",
    "label_noise@0.3",
)


def shares(paid: Payments, profile: SubmittedProfile, provider: str) -> np.ndarray:
    """The provider's share of the pot by policy."""
    mine = np.isin(paid.identities, profile.identities_of(provider))
    weights = (floored(paid).totals, np.maximum(paid.totals, 0.0), paid.totals)
    return np.array([weight[mine].sum() / weight.sum() for weight in weights])


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    chosen = parser.parse_args()
    rule = mechanism("recommended")
    before, after = [], {attack: [] for attack in ATTACKS}
    for seed in range(chosen.seeds):
        market = ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=40), seed)
        utility = market.utility_oracle(Utility("knn", "chance"))
        provider = market.state.providers[0]
        before.append(shares(rule.pay(market.honest.submission, utility), market.honest, provider))
        for attack, found in after.items():
            profile = create("attack", attack).apply(0, market.state)
            found.append(shares(rule.pay(profile.submission, utility), profile, provider))
    print("| attack | zero | carry, paid | carry, entitled |\n|---|---|---|---|")
    for attack, found in after.items():
        gain = np.mean(found, axis=0) / np.mean(before, axis=0)
        print(f"| {attack} | " + " | ".join(f"{g:.2f}" for g in gain) + " |")


if __name__ == "__main__":
    main()
