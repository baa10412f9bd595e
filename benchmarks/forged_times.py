"""What forged times gain and cost, believed and against an intake log: ``python benchmarks/forged_times.py``.

In each domain the first provider copies everybody's units, as they are and under noise, and dates the copies before all
originals (`backdate`). Paid by the recommended mechanism for coverage, no checks. Printed: the mean of its gain, and of
the largest part of an honest share that another loses, over the seeds; behind each mean the worst.
"""

from __future__ import annotations

import sys

import numpy as np

from datamarket_gym import ProviderMarket, Utility, mechanism
from datamarket_gym.judge.guarantees.paid import paid_by
from datamarket_gym.judge.metrics import harm_of
from datamarket_gym.judge.redteam.clock import BELIEVED, LOGGED, under
from datamarket_gym.judge.redteam.own_market import spread
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.attacks.knowledge import apply_knowing

DOMAINS = ("synthetic", "agnews", "imdb", "stl10", "cifar10")
NOISE = (0.0, 0.3, 1.0)  # in spreads of a feature
SEEDS = 5


def played(market: ProviderMarket, sigma: float) -> dict[str, tuple[float, float]]:
    """Gain and the victim's loss under each clock."""
    ours, utility = mechanism("recommended"), market.utility_oracle(Utility.paying())
    cheat = market.state.providers[0]
    honest = paid_by(ours, market.honest, utility)
    attack = ATTACKS.create(f"backdate(victim=all, sigma={sigma!r})")
    found = {}
    for clock in (BELIEVED, LOGGED):
        profile = apply_knowing(attack, cheat, under(clock, market.state), 1.0)
        attacked = paid_by(ours, profile, utility)
        harm = harm_of(honest.payments, attacked.payments, profile, cheat)
        found[clock] = (attacked.total(cheat) / honest.total(cheat), harm.victim_loss)
    return found


def shown(trials: list[dict[str, tuple[float, float]]], clock: str) -> str:
    """Both as a table has them."""
    known = np.array([trial[clock] for trial in trials])
    (gain, loss), (most, worst) = known.mean(axis=0), known.max(axis=0)
    return f"{gain:.2f} ({most:.2f}) | {loss:.1%} ({worst:.1%})"


def main() -> None:
    """Print the table."""
    domains = sys.argv[1:] or DOMAINS
    print("| domain | noise | gain, column | victim's loss | gain, log | victim's loss |")
    print("|---|---|---|---|---|---|")
    for domain in domains:
        markets = [ProviderMarket.from_task(domain, seed) for seed in range(SEEDS)]
        for noise in NOISE:
            trials = [played(market, noise * spread(market.state)) for market in markets]
            cells = " | ".join(shown(trials, clock) for clock in (BELIEVED, LOGGED))
            print(f"| {domain} | {noise:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
