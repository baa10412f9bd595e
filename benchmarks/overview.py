"""The README's table: what each class of attacks gains under four mechanisms.

    python benchmarks/overview.py --task digits --seeds 10 --out benchmarks/overview-digits.json

Every seed draws a market, provider 0 plays every variant of every class, and `best response` searches for more. A gain
is attacked / honest payment, 1 = no gain; of the variants of a class the one with the largest mean over seeds counts.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from datamarket_gym import ProviderMarket, Utility, create, get_mechanism
from datamarket_gym.analysis.metrics import clearly_paid
from datamarket_gym.analysis.redteam import Target, best_response
from datamarket_gym.analysis.spot_checks import CheckedAttack
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.errors import DataMarketError

CHECKS = Checks(3, 0.8)
MECHANISMS = {  # title: mechanism, utility, U(empty), spot checks
    "Shapley over identities, U(empty) = 0": ("shapley", "logistic", "none", None),
    "Shapley over identities": ("shapley", "logistic", "chance", None),
    "quotient, cosine 0.99": ("quotient_shapley/cosine@0.99", "logistic", "chance", None),
    "recommended": ("recommended", "recommended", "none", None),
    "recommended, 3 spot checks": ("recommended", "recommended", "none", CHECKS),
}
CLASSES = {  # {x} is x times the typical standard deviation of a feature
    "splits into 2 to 4 identities": ["sybil_split_k@2", "sybil_split_k@3", "sybil_split_k@4"],
    "exact copies, 2 more identities": ["exact_dup_2x_sybils"],
    "near copies, 2 more identities": ["near_duplicate_2x_sybils@{0.1}", "near_duplicate_2x_sybils@{0.6}"],
    "copies of others' units": [
        "copycat", "copycat(sigma={0.6})",
        "composite(split=1, copy=0.0, steal=1.0, steal_sigma={0.6}, victims=15)",
        "composite(split=1, copy=0.0, steal=1.0, steal_sigma={1}, victims=15)",
    ],
    "generated units": [
        "synthetic_laundering", "synthetic_laundering(ratio=3.0)", "synthetic_laundering(ratio=3.0, how=mix)",
    ],
    "random units": ["junk_padding", "junk_padding(ratio=3.0)"],
    "withholding units": ["strategic_curation@0.5", "strategic_curation@0.75", "strategic_curation@0.9"],
}  # fmt: skip
BEST = "best response (search)"


def spread(market: ProviderMarket) -> float:
    """The typical standard deviation of a feature."""
    return float(np.sqrt(market.honest.submission.features.var(axis=0).mean()))


def filled(attack: str, scale: float) -> str:
    """An attack with its noise in the units of a market."""
    for number in ("0.1", "0.6", "1"):
        attack = attack.replace("{" + number + "}", f"{float(number) * scale:.4g}")
    return attack


def play(task: str, seed: int, trials: int) -> list[dict[str, object]]:
    """All gains in the market of one seed."""
    market = ProviderMarket.from_task(task, seed)
    state, scale, rows = market.state, spread(market), []
    for title, (name, learner, empty, checks) in MECHANISMS.items():
        m, oracle = get_mechanism(name).seeded(seed), market.utility_oracle(Utility(learner, empty))
        honest = m.pay(state.honest.submission, oracle, state.honest.truth)
        own = honest.total(["provider_0"])
        if not clearly_paid(own, honest.grand_value, len(state.providers)):
            raise DataMarketError(f"seed {seed}: provider_0 is hardly paid by {title}")
        for group, attacks in CLASSES.items():
            for attack in attacks:
                profile = create("attack", filled(attack, scale)).apply(0, state)
                paid = m.pay(profile.submission, oracle, profile.truth)
                total = paid.total(profile.identities_of("provider_0"))
                if checks is not None:
                    played = CheckedAttack(m, profile, state.honest, oracle, "provider_0", own, paid)
                    total = played.expected(checks).pay
                rows.append(
                    {
                        "mechanism": title,
                        "class": group,
                        "attack": attack,
                        "seed": seed,
                        "gain": total / own,
                    }
                )
        if trials and title != next(iter(MECHANISMS)):
            found = best_response(Target(state, m, oracle, 0, checks), trials=trials, seed=seed)
            rows.append(
                {
                    "mechanism": title,
                    "class": BEST,
                    "attack": BEST,
                    "seed": seed,
                    "gain": found.expected_gain,
                }
            )
    return rows


def main() -> None:
    """Play all seeds and write the rows."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--task", default="digits(n_providers=6, per_provider=50)")
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--trials", type=int, default=30)
    options.add_argument(
        "--searched", type=int, default=5, help="in how many markets best responses are searched"
    )
    options.add_argument("--out", type=Path, required=True)
    given = options.parse_args()
    rows, seed, left_out, started = [], 0, [], time.monotonic()
    while (played := len({row["seed"] for row in rows})) < given.seeds:
        try:
            rows += play(given.task, seed, given.trials if played < given.searched else 0)
        except DataMarketError as error:
            left_out.append(str(error))
        print(f"seed {seed}, {time.monotonic() - started:.0f} s", flush=True)
        seed += 1
    given.out.write_text(
        json.dumps(
            {"task": given.task, "trials": given.trials, "left_out": left_out, "rows": rows}, indent=0
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
