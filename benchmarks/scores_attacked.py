"""What copies gain where scores from elsewhere are paid for: an additive game shares nothing among those with the same.

The scores are gradient products of a softmax regression that is trained on the honest units: s(u, z) is the product of
the gradients of the losses at u and at z, (p_u - y_u) . (p_z - y_z) times x_u . x_z. One provider attacks; noise is in
spreads of a feature. What an attacker adds is scored as the known unit most like it (what `ScoreTable` assumes), or by
the same model anew (``rescored``). A gain is pay over honest pay, in amounts, mean over markets and in brackets the
worst; tied is the part of the added units that evidence ties to another.

Usage: python benchmarks/scores_attacked.py [--tasks TASK ...] [--seeds N] [--out FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from datamarket_gym import (
    ImportedScores,
    ProviderMarket,
    ScoreTable,
    SubmittedProfile,
    Utility,
    UtilityOracle,
    create,
    mechanism,
)
from datamarket_gym.core.files import write_text
from datamarket_gym.evidence.collapse import told_once
from datamarket_gym.judge.checked import CheckedAttack
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.judge.metrics import provider_totals

TASKS = ("synthetic(n_providers=8, per_provider=40)", "agnews")
NOISE = (0.01, 0.1, 0.3, 1.0)
NONE, OURS = mechanism("recommended/none"), mechanism("recommended")
HEADS = (
    "no evidence", "recommended", "with 3 checks", "rescored, recommended", "coverage, recommended", "tied",
)  # fmt: skip


def gradient_scores(
    market: ProviderMarket,
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Scores of any units on the validation rows, by a model that is trained on the honest ones."""
    units, data = market.honest.submission, market.dataset
    model = LogisticRegression(max_iter=1000).fit(units.features, units.label)

    def wrong(features: np.ndarray, label: np.ndarray) -> np.ndarray:
        return model.predict_proba(features) - (label[:, None] == model.classes_)

    held = wrong(data.validation_features, data.validation_label)

    def scores(features: np.ndarray, label: np.ndarray) -> np.ndarray:
        return (wrong(features, label) @ held.T) * (features @ data.validation_features.T)

    return scores


def oracle(market: ProviderMarket, table: ScoreTable) -> UtilityOracle:
    """Paid by these scores."""
    data = market.dataset
    return UtilityOracle(
        data.validation_features, data.validation_label, Utility("scores"), learner=ImportedScores(table)
    )


def attacks(market: ProviderMarket) -> Iterator[tuple[str, SubmittedProfile]]:
    """What one provider tries: a split, exact copies, and copies under noise, all units under two more names each."""
    spread = float(market.honest.submission.features.std(axis=0).mean())
    yield "split into 3 names", create("attack", "sybil_split_k@3").apply(0, market.state)
    exact = create("attack", {"name": "exact_dup_2x_sybils", "fraction": 1.0})
    yield "exact copies x2", exact.apply(0, market.state)
    for noise in NOISE:
        written = {"name": "near_duplicate_2x_sybils", "sigma": noise * spread, "fraction": 1.0}
        yield f"copies x2, noise {noise:g}", create("attack", written).apply(0, market.state)


def gains(market: ProviderMarket) -> Iterator[tuple[str, list[float]]]:
    """Each attack, and its numbers under the heads."""
    data, honest, rate = market.dataset, market.honest, gradient_scores(market)
    units = honest.submission
    scores = rate(units.features, units.label)
    known = ScoreTable(units.features, units.label, scores, data.validation_features)
    cover = market.utility_oracle(Utility.paying("coverage"))
    for name, attacked in attacks(market):
        made = attacked.submission
        anew = ScoreTable(
            made.features, made.label, rate(made.features, made.label), data.validation_features
        )
        row, thief = [], str(attacked.attacker)
        for payer, value, after in (
            (NONE, oracle(market, known), None),
            (OURS, oracle(market, known), None),
            (OURS, oracle(market, known), oracle(market, anew)),
            (OURS, cover, None),
        ):
            before = provider_totals(payer.pay(units, value), honest)[thief]
            paid = payer.pay(made, after or value)
            row.append(provider_totals(paid, attacked)[thief] / before)
            if payer is OURS and after is None and len(row) == 2:
                checked = CheckedAttack(payer, attacked, honest, value, thief, before)
                row.append(checked.expected(Checks(3, 0.8)).pay / before)
                added = ~np.isin(made.id, units.id)
                sizes = np.bincount(paid.clustering.label)
                tied = float((sizes[paid.clustering.label[added]] > 1).mean()) if added.any() else np.nan
        yield name, [*row, tied]


def main() -> None:
    """Print a table for each task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    lines: list[str] = []
    for task in asked.tasks:
        found: dict[str, list[list[float]]] = {}
        for seed in range(asked.seeds):
            with told_once():
                for name, row in gains(ProviderMarket.from_task(task, seed=seed)):
                    found.setdefault(name, []).append(row)
        lines += [f"{task}, {asked.seeds} markets", ""]
        lines += [f"| attack | {' | '.join(HEADS)} |", f"|---|{'---:|' * len(HEADS)}"]
        for name, rows in found.items():
            mean, worst = np.mean(rows, axis=0), np.max(rows, axis=0)
            cells = [f"{m:.3f} ({w:.3f})" for m, w in zip(mean[:-1], worst[:-1], strict=True)]
            share = "" if np.isnan(mean[-1]) else f"{mean[-1]:.0%}"
            lines.append(f"| {name} | {' | '.join([*cells, share])} |")
        lines.append("")
    text = "\n".join(lines).rstrip() + "\n"
    print(text, end="")
    if asked.out is not None:
        write_text(asked.out, text)


if __name__ == "__main__":
    main()
