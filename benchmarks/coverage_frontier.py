"""How c is chosen in the coverage game: fairness against junk, by quantile; prints Markdown tables.

Coverage counts similarities above c, a quantile of those between validation rows. For each quantile, on the five
domains and on three tables of scikit-learn (raw columns, by each similarity), without ties and without checks:

- L1: distance of the providers' shares to their shares by exact Shapley values of logistic regression over chance;
- junk: what provider 0 gains by labelled noise, three times its own units (ratio of means over markets);
- kept: accuracy of logistic regression on the 30 % best-paid units. Pay is by one half of the validation rows here,
  accuracy is on the other half, and both again the other way round;
- c itself.

Beside them k-NN over chance (tables: on standardised columns), coverage without labels, and 30 % of the units drawn at
random. Then all of it side by side, by the similarity that `auto` takes, and the rule: the highest quantile whose L1
is nowhere further above the lowest of the same domain or table than MARGIN.

Usage: python benchmarks/coverage_frontier.py [--seeds N] [--first SEED] [--only NAME ...] [--jobs N] [--out FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import numpy as np

from datamarket_gym import (
    Payments,
    ProviderMarket,
    SubmittedProfile,
    Utility,
    UtilityOracle,
    create,
    mechanism,
)
from datamarket_gym.core.files import write_text
from datamarket_gym.core.registry import written
from datamarket_gym.learners.coverage import Coverage
from datamarket_gym.learners.similarity import chosen
from datamarket_gym.pipeline.payment_tables import unit_amounts
from datamarket_gym.world.tasks.base import Dataset

QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
MARGIN = 0.03  # of L1, which is between 0 and 2; set after a first run on the markets of seeds 0 to 5
DOMAINS = ("agnews", "imdb", "stl10", "cifar10", "synthetic")
TABLES = {"digits": (6, 60), "breast_cancer": (8, 25), "wine": (6, 10)}  # providers, units of each
DEALT = "dominant_class@0.75"  # tables, as the synthetic task deals
JUNK = "junk_padding(ratio=3.0)"
KEPT = 0.3
PAYS = mechanism("recommended/lineage@none", leak_check="off")


def table(name: str, seed: int, *, standardised: bool = False) -> ProviderMarket:
    """A table of scikit-learn: a third of its rows validates, the others are dealt to providers."""
    from sklearn import datasets

    features, label = getattr(datasets, f"load_{name}")(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(label))
    pool, held = order[len(order) // 3 :], order[: len(order) // 3]
    dealt = create("partition", DEALT).deal(label[pool], *TABLES[name], rng)
    if standardised:
        spread = features[held].std(axis=0)
        features = (features - features[held].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    data = Dataset(name, features[pool], label[pool], features[held], label[held])
    return ProviderMarket(data, dealt, seed=seed)


def drawn(domain: str, seed: int) -> ProviderMarket:
    """A market of a domain or of a table, columns as they are."""
    return ProviderMarket.from_task(domain, seed) if domain in DOMAINS else table(domain, seed)


def similarities(domain: str, seed: int) -> list[str]:
    """Those to try; the first is what `auto` takes."""
    taken = written(chosen(drawn(domain, seed).dataset.validation_features))
    others = [] if domain in DOMAINS else [s for s in ("standardised", "cosine") if s != taken]
    return [taken, *others]


def shares(paid: Payments) -> np.ndarray:
    """Of what all are paid together."""
    return paid.totals / paid.totals.sum()


def halves(market: ProviderMarket) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Validation rows to pay by, and those to test on; then the other way round."""
    order = np.random.default_rng(market.seed).permutation(len(market.dataset.validation_label))
    half = len(order) // 2
    yield order[:half], order[half:]
    yield order[half:], order[:half]


def oracle_of(market: ProviderMarket, rows: np.ndarray, utility: Utility) -> UtilityOracle:
    """The utility on some of the validation rows."""
    data = market.dataset
    return UtilityOracle(data.validation_features[rows], data.validation_label[rows], utility)


def accuracy(market: ProviderMarket, units: np.ndarray, test: np.ndarray) -> float:
    """Of logistic regression on some submitted units."""
    given = market.honest.submission
    oracle = oracle_of(market, test, Utility("logistic"))
    alone = np.zeros(len(units), dtype=np.int64)
    scorer = oracle.scorer(given.features[units], given.label[units], None, alone, 1)
    return float(scorer.utility(np.ones((1, 1), dtype=bool))[0])


def kept(market: ProviderMarket, utility: Utility | None) -> float:
    """Accuracy on the best-paid units, or on as many at random."""
    found, n = [], len(market.honest.submission)
    for pay_by, test in halves(market):
        pay = np.random.default_rng([market.seed, len(found)]).random(n)
        if utility is not None:
            paid = unit_amounts(PAYS.pay(market.honest.submission, oracle_of(market, pay_by, utility)))
            pay = np.bincount(paid.row, weights=paid.amount, minlength=n)
        order = np.argsort(-pay, kind="stable")
        found.append(accuracy(market, order[: round(KEPT * n)], test))
    return float(np.mean(found))


@dataclass(frozen=True)
class Trial:
    """One way to pay in one market."""

    distance: float  # L1, to the shares by logistic Shapley
    honest: float  # what provider 0 is paid, honest
    padded: float  # and with junk
    accuracy: float  # of logistic regression on the best-paid units
    strangers: float  # c


def trial(market: ProviderMarket, junk: SubmittedProfile, learner: str, fair: np.ndarray) -> Trial:
    """Pay the market, honest and padded, and train on the units that were paid best."""
    utility = Utility.paying(learner)
    oracle = market.utility_oracle(utility)
    honest, padded = (PAYS.pay(given, oracle) for given in (market.honest.submission, junk.submission))
    covers = oracle.learner
    return Trial(
        float(np.abs(shares(honest) - fair).sum()),
        honest.total(["provider_0"]),
        padded.total(junk.identities_of("provider_0")),
        kept(market, utility),
        covers.strangers(oracle.features) if isinstance(covers, Coverage) else float("nan"),
    )


@dataclass(frozen=True)
class Way:
    """A way to pay, over all markets."""

    name: str
    trials: tuple[Trial, ...]

    @property
    def L1(self) -> float:
        """Mean distance."""
        return float(np.mean([t.distance for t in self.trials]))

    @property
    def junk(self) -> float:
        """Ratio of means."""
        return float(np.mean([t.padded for t in self.trials]) / np.mean([t.honest for t in self.trials]))

    @property
    def kept(self) -> float:
        """Mean accuracy."""
        return float(np.mean([t.accuracy for t in self.trials]))

    @property
    def line(self) -> str:
        """A line of the table, with the standard error of L1."""
        far = [t.distance for t in self.trials]
        error = np.std(far, ddof=1) / np.sqrt(len(far)) if len(far) > 1 else float("nan")
        c = float(np.mean([t.strangers for t in self.trials]))
        level = "" if np.isnan(c) else f"{c:.2f}"
        return f"| {self.name} | {self.L1:.3f} ± {error:.3f} | {self.junk:.2f} | {self.kept:.3f} | {level} |"


NEAREST, UNLABELLED = "k-NN over chance", "coverage@0.5, no labels"


def measured(domain: str, seeds: range) -> list[Way]:
    """Every way to pay on the markets of a domain; coverage by the similarity of `auto` comes first."""
    learners = {NEAREST: "knn@5", UNLABELLED: "coverage(quantile=0.5, labels=False)"}
    for similarity in similarities(domain, seeds[0]):
        for q in QUANTILES:
            name = f"coverage@{q:g}" + ("" if domain in DOMAINS else f", {similarity}")
            learners[name] = f"coverage(quantile={q}, similarity={similarity})"
    trials: dict[str, list[Trial]] = {name: [] for name in learners}
    for seed in seeds:
        market = drawn(domain, seed)
        scaled = market if domain in DOMAINS else table(domain, seed, standardised=True)
        by_logistic = market.utility_oracle(Utility("logistic", "chance"))
        fair = shares(mechanism("shapley").pay(market.honest.submission, by_logistic))
        junk = {id(m): create("attack", JUNK).apply(0, m.state) for m in (market, scaled)}
        for name, learner in learners.items():
            played = scaled if name == NEAREST else market
            trials[name].append(trial(played, junk[id(played)], learner, fair))
    return [Way(name, tuple(found)) for name, found in trials.items()]


def shown(domain: str, ways: list[Way], by_chance: float, seeds: range) -> Iterator[str]:
    """The table of one domain."""
    market = drawn(domain, seeds[0])
    yield (
        f"{domain}: {len(seeds)} markets of {len(market.state.providers)} providers, "
        f"{len(market.honest.submission)} units, {len(market.dataset.validation_label)} validation rows"
    )
    yield from ("", "| paid by | L1 | junk | kept | c |", "|---|---|---|---|---|")
    yield from (way.line for way in ways)
    yield from (f"| (30 % at random) | | | {by_chance:.3f} | |", "")


def together(found: dict[str, list[Way]], by_chance: list[float]) -> Iterator[str]:
    """L1, junk and kept side by side, and the quantile that follows."""
    names = [NEAREST, *(f"coverage@{q:g}" for q in QUANTILES), UNLABELLED]
    columns = [[ways[0], *ways[2 : 2 + len(QUANTILES)], ways[1]] for ways in found.values()]
    for what, form in (("L1", ".3f"), ("junk", ".2f"), ("kept", ".3f")):
        yield from (f"| {what} | {' | '.join(found)} |", "|---|" + "---|" * len(found))
        for name, line in zip(names, zip(*columns, strict=True), strict=True):
            yield f"| {name} | " + " | ".join(f"{getattr(way, what):{form}}" for way in line) + " |"
        if what == "kept":
            yield "| (30 % at random) | " + " | ".join(f"{value:.3f}" for value in by_chance) + " |"
        yield ""
    yield from (
        "| everywhere | mean L1 | L1 above the lowest, at most | junk, at most |",
        "|---|---|---|---|",
    )
    within = []
    for i, q in enumerate(QUANTILES, 1):
        here = [column[i] for column in columns]
        above = max(column[i].L1 - min(w.L1 for w in column[1:-1]) for column in columns)
        mean, worst = np.mean([way.L1 for way in here]), max(way.junk for way in here)
        yield f"| coverage@{q:g} | {mean:.3f} | {above:.3f} | {worst:.2f} |"
        within += [q] if above <= MARGIN else []
    yield from (
        "",
        f"The highest quantile that is nowhere more than {MARGIN:g} above: {max(within, default='none')}.",
    )


def at_random_too(domain: str, seeds: range) -> tuple[list[Way], float]:
    """All ways to pay, and the accuracy on units drawn at random."""
    return measured(domain, seeds), float(np.mean([kept(drawn(domain, seed), None) for seed in seeds]))


def main() -> None:
    """Print the tables, and write them to a file where one is named."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--seeds", type=int, default=8, help="markets each")
    asked.add_argument("--first", type=int, default=0, help="the first seed")
    asked.add_argument("--only", nargs="*", default=[], help="some domains or tables alone")
    asked.add_argument("--jobs", type=int, default=1, help="domains and tables measured at once")
    asked.add_argument("--out", type=Path, help="a file for what is printed")
    given = asked.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    lines, by_chance = [], []
    found: dict[str, list[Way]] = {}
    names = given.only or (*DOMAINS, *TABLES)
    with ProcessPoolExecutor(given.jobs) as pool:
        for domain, (ways, chance) in zip(
            names, pool.map(at_random_too, names, repeat(seeds)), strict=True
        ):
            found[domain] = ways
            by_chance.append(chance)
            lines += shown(domain, ways, chance, seeds)
            print(f"{domain} is measured", flush=True)
    lines += together(found, by_chance)
    print("\n".join(lines))
    if given.out:
        write_text(given.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
