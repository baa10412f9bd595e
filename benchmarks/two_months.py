"""What attackers gain where distinct units are counted, and in a second month, paid as new or with a discount.

Usage: python benchmarks/two_months.py [count] [months] [--markets 3] [--tasks synthetic,agnews,stl10]

Gains are ratios of attacked to honest payment (1 = no gain), once in amounts and once as shares of a pot of fixed size.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator

import numpy as np

from datamarket_gym import (
    GroundTruth,
    ProviderMarket,
    Submission,
    Utility,
    acquired_from,
    create,
    get_mechanism,
)
from datamarket_gym.analysis.metrics import pot_shares, provider_totals
from datamarket_gym.analysis.redteam.attack_grid import feature_scale
from datamarket_gym.analysis.spot_checks import CheckedAttack
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.experiments.kinds.periods import Theft, TwoPeriods, continuing, divided

ATTACKS = {
    "split into 3 names": "sybil_split_k@3",
    "2 exact copies of each unit": "exact_dup_2x_sybils",
    "2 near copies, noise 0.3": "near_duplicate_2x_sybils@{0.3}",
    "2 near copies, noise 1": "near_duplicate_2x_sybils@{1}",
    "as much junk": "junk_padding",
    "10 times as much junk": "junk_padding(ratio=10.0)",
    "3 times as many generated units": "synthetic_laundering(ratio=3.0)",
    "copies of others, noise 0.3": "copycat(sigma={0.3})",
    "copies of others, noise 1": "copycat(sigma={1})",
}
THEFTS = (
    Theft(called="others' old units again", noise=[0.0]),
    Theft(called="edited, noise 0.3", noise=[0.3]),
    Theft(called="edited, noise 1", noise=[1.0]),
    Theft(called="turned just below theta", how="turn"),
    Theft(called="midpoints of two", how="midpoint"),
    Theft(called="its own old units again", of="own"),
    Theft(called="its own, edited, noise 1", of="own", noise=[1.0]),
    Theft(called="as many edited copies of its own new ones, noise 1", of="new", noise=[1.0], last=True),
)
MIXES = "10 mixes of 4 for each old unit"
MODES = {"as new": False, "discount": True}
PAYS = get_mechanism("recommended")


def markets(task: str, count: int) -> Iterator[ProviderMarket]:
    for seed in range(5000, 5000 + count):
        yield ProviderMarket.from_task(task, seed=seed)


def mean(values: list[float], digits: int = 2) -> str:
    """Write the mean, and the worst in brackets."""
    return f"{np.mean(values):.{digits}f} ({np.max(values):.{digits}f})"


def count_attacks(task: str, count: int) -> Iterator[str]:
    """Yield a line for each attack: gains under count and under the recommended coverage."""
    gains: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for market in markets(task, count):
        scale = feature_scale(market.state)
        for learner in ("count", "recommended"):
            oracle = market.utility_oracle(Utility.paying(learner))
            honest = PAYS.pay(market.honest.submission, oracle)
            who = market.state.provider(0)
            for name, attack in ATTACKS.items():
                head, brace, rest = attack.partition("{")
                noise, _, end = rest.partition("}")
                written = f"{head}{float(noise) * scale:.6g}{end}" if brace else attack
                profile = create("attack", written).apply(0, market.state)
                paid = PAYS.pay(profile.submission, oracle)
                pay = honest.total([who])
                now = paid.total(profile.identities_of(who))
                shares = [
                    pot_shares(each)[who] for each in (provider_totals(paid, profile), honest.as_dict())
                ]
                checked = CheckedAttack(PAYS, profile, market.honest, oracle, who, pay, paid)
                net = checked.expected(Checks(3)).pay
                gains.setdefault((name, learner), []).append(
                    (now / pay, shares[0] / shares[1], net / pay)
                )
    for name in ATTACKS:
        cells = [
            mean([row[i] for row in gains[name, learner]])
            for learner in ("count", "recommended")
            for i in range(3)
        ]
        yield f"| {task} | {name} | {' | '.join(cells)} |"


def with_mixes(periods: TwoPeriods, seed: int) -> SubmittedProfile:
    """Return the second month with ten mixes of four old units of a class for each old unit, sold last."""
    old, new, rng = periods.old, periods.honest.submission, np.random.default_rng(seed)
    rows = np.repeat(np.arange(len(old)), 10)
    same = [np.flatnonzero(old.label == label) for label in old.label]
    parts = [rng.dirichlet(np.ones(4)) @ old.features[rng.choice(same[row], 4)] for row in rows]
    ids, name = np.array([f"mix {i}" for i in range(len(rows))]), np.full(len(rows), periods.attacker)
    last = new.times.max() + 1.0 + np.arange(len(rows))
    mixes = Submission(ids, name, np.array(parts), old.label[rows], time=last)
    truth, together = periods.honest.truth, Submission.concat([new, mixes])
    made = np.r_[truth.owner, old.identity[rows]], np.r_[truth.source, old.id[rows]]
    owners = GroundTruth(together.id, *made, truth.controller)
    return SubmittedProfile(together, owners, periods.attacker, MIXES)


def second_month(task: str, count: int) -> Iterator[str]:
    """Yield a line for each theft: the gain in the second month by what new units are paid for."""
    gains: dict[tuple[str, str], list[tuple[float, float]]] = {}
    nothing: dict[str, list[float]] = {}
    for market in markets(task, count):
        oracle = market.utility_oracle(Utility.paying())
        periods = continuing(market, 0)
        acquired = acquired_from(PAYS.pay(periods.old, oracle))
        for mode, discount in MODES.items():
            utility = oracle.given(acquired, discount=discount)
            honest = PAYS.pay(periods.honest.submission, utility)
            nothing.setdefault(mode, []).append(
                float((honest.totals < 0.1 * honest.totals.mean()).mean())
            )
            theta = None if honest.threshold is None else honest.threshold.theta
            cosine = 1.0 if theta is None else theta - 0.005
            profiles = [
                periods.after(theft, theft.noise[0], cosine)
                for theft in THEFTS
                if theta is not None or not theft.evades
            ]
            for profile in (*profiles, with_mixes(periods, market.seed)):
                paid = PAYS.pay(profile.submission, utility)
                who = periods.attacker
                now = paid.total(profile.identities_of(who)) / honest.total([who])
                share = (
                    pot_shares(provider_totals(paid, profile))[who] / pot_shares(honest.as_dict())[who]
                )
                gains.setdefault((profile.attack, mode), []).append((now, share))
    for attack in (*(theft.called for theft in THEFTS), MIXES):
        if (attack, "as new") in gains:
            cells = [mean([row[i] for row in gains[attack, mode]]) for mode in MODES for i in range(2)]
            yield f"| {task} | {attack} | {' | '.join(cells)} |"
    shares = [f"{np.mean(nothing[mode]):.0%}" for mode in MODES]
    yield f"| {task} | honest sellers paid less than a tenth of the mean | {shares[0]} | | {shares[1]} | |"


def waiting(task: str, count: int) -> Iterator[str]:
    """Yield a line for each seller's plan: what it takes of two equal pots, and in amounts."""
    taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for market in markets(task, count):
        oracle = market.utility_oracle(Utility.paying())
        units, who = market.honest.submission, market.state.provider(0)
        own, base = units.identity == who, continuing(market, 0)
        early = np.isin(units.id, base.old.id)
        for plan, mine in {
            "all in the first": own,
            "half in each": early,
            "all in the second": ~own,
        }.items():
            periods = divided(market, who, np.where(own, mine, early))
            first = PAYS.pay(periods.old, oracle)
            for mode, discount in MODES.items():
                second = PAYS.pay(
                    periods.honest.submission, oracle.given(acquired_from(first), discount=discount)
                )
                both = [each for each in (first, second) if who in each.as_dict()]
                pots = sum(pot_shares(each.as_dict())[who] for each in both)
                taken.setdefault((plan, mode), []).append(
                    (pots, sum(each.total([who]) for each in both))
                )
    for plan in ("all in the first", "half in each", "all in the second"):
        cells = []
        for mode in MODES:
            pots, amounts = zip(*taken[plan, mode], strict=True)
            first = [amount for _, amount in taken["all in the first", mode]]
            cells += [mean(list(pots)), mean([a / b for a, b in zip(amounts, first, strict=True)])]
        yield f"| {task} | {plan} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["count", "months"])
    parser.add_argument("--markets", type=int, default=3)
    parser.add_argument("--tasks", default="synthetic,agnews,stl10")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    tasks = chosen.tasks.split(",")
    print(f"{chosen.markets} markets of each domain; mean (worst).")
    columns = "amounts | pot | expected with 3 checks"
    if "count" in chosen.parts:
        print(f"\n| domain | attack | count: {columns} | recommended: {columns} |\n|{'---|' * 8}")
        print(
            *(line for task in tasks for line in count_attacks(task, chosen.markets)),
            sep="\n",
            flush=True,
        )
    if "months" in chosen.parts:
        head = "as new: amounts | as new: pot | discount: amounts | discount: pot"
        print(f"\n| domain | in the second month | {head} |\n|{'---|' * 6}")
        print(
            *(line for task in tasks for line in second_month(task, chosen.markets)),
            sep="\n",
            flush=True,
        )
        head = "as new: of two pots | as new: amounts | discount: of two pots | discount: amounts"
        print(f"\n| domain | one seller's units | {head} |\n|{'---|' * 6}")
        print(*(line for task in tasks for line in waiting(task, chosen.markets)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
