"""The strongest attacks that were found on coverage without labels, regressions, scores from elsewhere and statements.

Provider 0 adds units to its own, after everybody else, or changes its own, under the recommended mechanism with theta
settled by itself. Printed: its share of the pot over its honest share, nobody looking -> in expectation where 3 units
of each payee are checked by checks of power 0.8 (the defaults of a payday); ratio of means over markets. In brackets,
where units may be worth less than nothing: nobody looking, and every unit below zero counted as nothing
(``--negative zero``). Who adds knows what the line says: its own units, everybody's, or a quarter of the buyer's needs.

Usage: python benchmarks/utilities_attacked.py [--seeds N] [--out FILE]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from datamarket_gym import (
    ProviderMarket,
    ScoreTable,
    Submission,
    SubmittedProfile,
    Utility,
    UtilityOracle,
    mechanism,
    register,
)
from datamarket_gym.core.arrays import Features, directions
from datamarket_gym.core.files import write_text
from datamarket_gym.judge.checked import CheckedAttack
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.learners.coverage.covered_rows import covered_rows
from datamarket_gym.pipeline.payment_tables import unit_amounts
from datamarket_gym.semivalues import Shapley
from datamarket_gym.world.attacks.attack import Attack, Block, Own
from scores_attacked import gradient_scores
from scores_attacked import oracle as scores_oracle

OURS, THIEF, LOOKS = mechanism("recommended"), "provider_0", Checks(3, 0.8)
TIMES = 3  # units that are added for each own one
LEVELS = ("coverage@0.5", "coverage@0.9")
Pay = tuple[float, float, float, float, float]
"""Shares of the pot: honest, attacked, attacked where units are checked; honest and attacked, none below zero."""


@register("attack", "made_up")
@dataclass(frozen=True, eq=False)
class MadeUp(Attack):
    """Own units, or those of them that are kept, with other labels or not, and made-up ones beside them."""

    features: Features | None = None
    number: Any = None
    kept: Any = None
    relabelled: Any = None

    def blocks(self, own: Own) -> list[Block]:
        """What is kept, and what is made up."""
        kept = own.rows if self.kept is None else own.rows[self.kept]
        found = [Block(0, kept, label=self.relabelled)]
        if self.features is not None:
            rows = np.resize(own.rows, len(self.features))
            found.append(
                Block(0, rows, self.features, self.number, copy=True, owner=own.name, derived=False)
            )
        return found


def share(paid: Any, names: list[str]) -> float:
    """Part of the pot: nobody is paid below zero."""
    return float(max(paid.total(names), 0.0) / np.maximum(paid.totals, 0.0).sum())


def zeroed(paid: Any) -> float:
    """The thief's part of the pot where no unit counts below zero."""
    amounts = unit_amounts(paid)
    kept = np.maximum(amounts.amount, 0.0)
    return float(kept[paid.identities[amounts.identity] == THIEF].sum() / kept.sum())


def gain(
    market: ProviderMarket,
    oracle: UtilityOracle,
    profile: SubmittedProfile,
    after: UtilityOracle | None = None,
) -> Pay:
    """What the thief gets of the pot, under its own name; ``after``: what the attacked market is paid by."""
    honest = OURS.pay(market.honest.submission, oracle)
    paid = OURS.pay(profile.submission, after or oracle)
    due = honest.total([THIEF])
    attack = CheckedAttack(OURS, profile, market.honest, after or oracle, THIEF, due, paid)
    checked = attack.expected(LOOKS).share
    return share(honest, [THIEF]), share(paid, [THIEF]), checked, zeroed(honest), zeroed(paid)


def turned(rows: Features, towards: Features, cosine: float) -> Features:
    """Rows turned towards others until so much of a cosine with themselves is left."""
    one = directions(rows)
    across = directions(towards - (towards * one).sum(axis=1, keepdims=True) * one)
    return cosine * one + np.sqrt(1 - cosine**2) * across


def coverage_attacks(market: ProviderMarket, theta: float) -> Iterator[tuple[str, Features]]:
    """Units that are made up for needs without labels."""
    state, units = market.state, market.honest.submission
    x, leaked = directions(units.features), directions(state.leaked_features)
    own = np.flatnonzero(units.identity == THIEF)
    others = np.flatnonzero(units.identity != THIEF)
    rng, n = state.rng("utilities attacked", THIEF), TIMES * len(own)
    noise = rng.normal(size=(n, x.shape[1])) * x[own].std(axis=0)
    yield "noise with the mean and spread of own units", x[own].mean(axis=0) + noise
    yield "near the mean of all units, half the noise", x.mean(axis=0) + noise / 2
    a, b = rng.choice(own, (2, n))
    yield "mixtures of two own units", x[a] + x[b] + 1e-6 * noise
    a, b = rng.choice(len(x), (2, n))
    yield "mixtures of two of anybody's", x[a] + x[b] + 1e-6 * noise
    a = rng.choice(others, n)
    mean = np.broadcast_to(x.mean(axis=0), (n, x.shape[1]))
    yield (
        "others' units, turned just below theta",
        turned(x[a], rng.normal(size=(n, x.shape[1])), theta - 0.01),
    )
    yield "the same, turned towards the mean", turned(x[a], mean, theta - 0.01)
    middle = KMeans(20, n_init=1, random_state=0).fit(leaked).cluster_centers_
    yield "20 centroids of leaked needs", middle
    a, b = rng.integers(len(leaked), size=(2, n))
    yield "mixtures of two leaked needs", leaked[a] + leaked[b] + 1e-6 * noise


def coverage_table(seeds: int) -> list[str]:
    """Attacks on coverage without labels."""
    found: dict[str, dict[str, list[Pay]]] = {}
    for domain in ("agnews", "stl10"):
        for seed in range(seeds):
            market = ProviderMarket.from_task(f"without_labels(of={domain})", seed=seed)
            for level in (*LEVELS, "coverage@0.99"):
                oracle = market.utility_oracle(Utility.paying(level))
                settled = OURS.pay(market.honest.submission, oracle).threshold
                theta = 1.0 if settled is None or settled.theta is None else float(settled.theta)
                for name, made in coverage_attacks(market, theta):
                    paid = gain(market, oracle, MadeUp(made).apply(THIEF, market.state))
                    found.setdefault(name, {}).setdefault(f"{domain}, {level}", []).append(paid)
    return table("without labels, three units added for each own one", found)


def number_attacks(market: ProviderMarket, oracle: UtilityOracle) -> Iterator[tuple[str, MadeUp]]:
    """Units with numbers."""
    units = market.honest.submission
    x, y = units.features, units.label
    own, others = np.flatnonzero(units.identity == THIEF), np.flatnonzero(units.identity != THIEF)
    rng, n, spread = market.state.rng("utilities attacked", THIEF), TIMES * len(own), x.std(axis=0)
    yield "all others' units, another number", MadeUp(x[others], y[others] + 1e-6)
    for noise in (0.01, 0.1, 0.5):
        made = x[others] + noise * spread * rng.normal(size=x[others].shape)
        yield f"all others' units, noise {noise:g}", MadeUp(made, y[others])
    made = rng.normal(x[own].mean(axis=0), x[own].std(axis=0), (n, x.shape[1]))
    yield (
        "noise, numbers by a model of own units",
        MadeUp(made, Ridge().fit(x[own], y[own]).predict(made)),
    )
    yield "noise, numbers by a model of all units", MadeUp(made, Ridge().fit(x, y).predict(made))
    yield "noise, the median number", MadeUp(made, np.full(n, np.median(y)))
    tiny = x.mean(axis=0) + 1e-6 * spread * rng.normal(size=(n, x.shape[1]))
    middle = KNeighborsRegressor(10).fit(x, y).predict(x.mean(axis=0)[None])
    yield "crowd in the middle, number of its neighbours", MadeUp(tiny, np.repeat(middle, n))
    near = KNeighborsRegressor(5).fit(x[others], y[others]).predict(x[own])
    yield "own units, numbers of others' neighbours", MadeUp(relabelled=near)
    ends = np.where(y[own] > np.median(y), oracle.label.max(), oracle.label.min())
    yield "own units, numbers at the ends of the range", MadeUp(relabelled=ends)
    leaked = UtilityOracle(
        market.state.leaked_features, market.state.leaked_label, Utility("knn_regression")
    )
    for name, known in (("known", oracle), ("by a quarter of the rows", leaked)):
        paid = OURS.pay(units, known)
        worth = np.zeros(len(units))
        worth[paid.canonical.unit] = paid.scores.values[paid.canonical.cluster]
        yield f"own units below zero left out ({name})", MadeUp(kept=worth[own] > 0)


def raw_diabetes(seed: int) -> ProviderMarket:
    """The diabetes market in the units that were measured: columns of like spreads, far from zero."""
    market = ProviderMarket.from_task("diabetes", seed, "knn_regression")
    data, scaled = market.dataset, load_diabetes(scaled=True).data * np.sqrt(442)
    raw = load_diabetes(scaled=False).data
    place = {row.tobytes(): i for i, row in enumerate(scaled)}

    def measured(rows: Features) -> Features:
        return raw[[place[row.tobytes()] for row in np.ascontiguousarray(rows)]]

    held = measured(data.validation_features)
    return ProviderMarket(
        replace(data, features=measured(data.features), validation_features=held),
        market.provider_partition, "knn_regression", seed=seed,
    )  # fmt: skip


def number_table(seeds: int) -> list[str]:
    """Attacks on k-NN regression."""
    drawn: dict[str, Callable[[int], ProviderMarket]] = {
        "diabetes": lambda seed: ProviderMarket.from_task("diabetes", seed, "knn_regression"),
        "diabetes, as measured": raw_diabetes,
        "synthetic_regression": lambda seed: ProviderMarket.from_task(
            "synthetic_regression(n_providers=5)", seed, "knn_regression"
        ),
    }
    found: dict[str, dict[str, list[Pay]]] = {}
    for task, draw in drawn.items():
        for seed in range(2 * seeds):
            market = draw(seed)
            oracle = market.utility_oracle()
            for name, attack in number_attacks(market, oracle):
                paid = gain(market, oracle, attack.apply(THIEF, market.state))
                found.setdefault(name, {}).setdefault(task, []).append(paid)
    return table("numbers, k-NN regression", found, zero=True)


def score_table(seeds: int) -> list[str]:
    """What an audit assumes of units that nobody has scored, and what the tool says of them."""
    found: dict[str, dict[str, list[Pay]]] = {}
    for seed in range(seeds):
        market = ProviderMarket.from_task("agnews", seed)
        units, held = market.honest.submission, market.dataset.validation_features
        rate, own = gradient_scores(market), np.flatnonzero(units.identity == THIEF)
        scores = rate(units.features, units.label)
        known = scores_oracle(market, ScoreTable(units.features, units.label, scores, held))
        some = rate(units.features, units.label)[:, : len(held) // 4].mean(axis=1)[own]
        attacks = {
            "units made to score high (the model known)": tuned(market, rate),
            "own units below zero left out (known)": MadeUp(kept=scores[own].mean(axis=1) > 0),
            "own units below zero left out (by a quarter of the rows)": MadeUp(kept=some > 0),
        }
        for name, attack in attacks.items():
            profile = attack.apply(THIEF, market.state)
            made = profile.submission
            anew = ScoreTable(made.features, made.label, rate(made.features, made.label), held)
            cells = found.setdefault(name, {})
            for head, value in (
                ("as an audit assumes", known),
                ("scored anew", scores_oracle(market, anew)),
            ):
                cells.setdefault(head, []).append(gain(market, known, profile, value))
    return table("scores from elsewhere, AG News, gradient products", found, zero=True)


def tuned(market: ProviderMarket, rate: Callable[[Features, Any], Features]) -> MadeUp:
    """Of many mixtures of two units under any label those that the model scores highest on a quarter of the rows."""
    units, state = market.honest.submission, market.state
    rng, x = state.rng("tuned", THIEF), directions(units.features)
    a, b = rng.choice(len(x), (2, 3000))
    made, label = x[a] + x[b], rng.choice(units.label, 3000)
    best = np.argsort(-rate(made, label)[:, : len(market.dataset.validation_label) // 4].mean(axis=1))
    own = int((units.identity == THIEF).sum())
    return MadeUp(made[best[:own]], label[best[:own]])


def statement_table(seeds: int) -> list[str]:
    """What a payee gains next month by what it is told: which 50 of 200 units of its own it hands in."""
    heads = [f"{domain}, {level}" for domain in ("agnews", "stl10") for level in LEVELS]
    lines = [f"| chosen by, {2 * seeds} pairs of months | {' | '.join(heads)} |", "|---" * 5 + "|"]
    cells: dict[str, list[str]] = {}
    for domain in ("agnews", "stl10"):
        for level in LEVELS:
            found: dict[str, list[float]] = {}
            for seed in range(2 * seeds):
                for name, value in next_month(domain, level, seed):
                    found.setdefault(name, []).append(value)
            blind = np.mean(found.pop("chance"))
            for name, values in found.items():
                cells.setdefault(name, []).append(f"{np.mean(values) / blind:.2f}")
    return [*lines, *(f"| {name} | {' | '.join(row)} |" for name, row in cells.items())]


def next_month(domain: str, level: str, seed: int) -> Iterator[tuple[str, float]]:
    """The share of next month's pot by each way to choose; needs stay, everybody's units are new."""
    first, then, more = (
        ProviderMarket.from_task(f"without_labels(of={domain})", s)
        for s in (seed, seed + 100, seed + 200)
    )
    oracle = first.utility_oracle(Utility.paying(level))
    units = first.honest.submission
    told = counts(units, oracle)
    own = np.flatnonzero(units.identity == THIEF)
    pool = more.honest.submission.features
    alike = directions(pool) @ directions(units.features[own]).T
    near = np.exp(alike / 0.1)
    near /= near.sum(axis=1, keepdims=True)
    rivals = then.honest.submission
    rivals = rivals.take(rivals.identity != THIEF)
    rng = first.state.rng("statements", THIEF)

    def paid(picked: Any) -> float:
        mine = Submission(
            id=np.array([f"mine-{i}" for i in picked]),
            identity=np.full(len(picked), THIEF),
            features=pool[picked],
            time=np.arange(len(picked)) + rivals.times.max() + 1,
        )
        return share(OURS.pay(Submission.concat([rivals, mine]), oracle), [THIEF])

    for _ in range(4):
        yield "chance", paid(rng.permutation(len(pool))[: len(own)])
    best = np.argsort(-told["pay"][own])[:3]
    covers = np.maximum(directions(pool) @ directions(oracle.features).T - oracle.learner.strangers(oracle.features), 0)  # type: ignore[attr-defined]  # fmt: skip
    chosen = {
        "its three best units (one statement)": alike[:, best].max(axis=1),
        "needs covered by each unit (a name for each)": near @ told["rows"][own],
        "needs covered closely by each (a name for each)": near @ told["well"][own],
        "needs to which it comes nearest (a name for each)": near @ told["nearest"][own],
        "pay of each unit (a name for each)": near @ told["pay"][own],
        "the needs themselves": covers.sum(axis=1),
    }
    for name, value in chosen.items():
        yield name, paid(np.argsort(-value, kind="stable")[: len(own)])


def counts(units: Submission, oracle: UtilityOracle) -> dict[str, Features]:
    """What statements could say of every unit: its pay, and how many needs it covers, how."""
    paid = OURS.pay(units, oracle)
    canonical, player = paid.canonical, paid.scores.number[paid.canonical.cluster]
    n = canonical.n_clusters
    scorer = oracle.scorer(canonical.features, canonical.label, None, player, n)
    rows = covered_rows(scorer, Shapley(), 1, np.arange(n), np.zeros(n, np.int64), 1)  # type: ignore[arg-type]
    told = {
        "pay": rows.value,
        "rows": rows.counts.rows,
        "well": rows.counts.well,
        "nearest": rows.counts.nearest,
    }
    out = {}
    for name, values in told.items():
        out[name] = np.zeros(len(units))
        out[name][canonical.unit] = values[player]
    return out


def table(what: str, found: dict[str, dict[str, list[Pay]]], *, zero: bool = False) -> list[str]:
    """A line for each attack: the ratio of means, nobody looking -> checked, and where none counts below zero."""
    heads = list(next(iter(found.values())))
    lines = [f"| {what} | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name, cells in found.items():
        means = [np.mean(cells[head], axis=0) for head in heads]
        row = [
            f"{m[1] / m[0]:.2f} → {m[2] / m[0]:.2f}" + (f" ({m[4] / m[3]:.2f})" if zero else "")
            for m in means
        ]
        lines.append(f"| {name} | {' | '.join(row)} |")
    return lines


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seeds", type=int, default=2, help="markets of a domain; twice as many of numbers"
    )
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = (coverage_table, number_table, score_table, statement_table)
    text = "\n\n".join("\n".join(made(asked.seeds)) for made in tables) + "\n"
    print(text, end="")
    if asked.out is not None:
        write_text(asked.out, text)


if __name__ == "__main__":
    main()
