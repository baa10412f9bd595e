"""S13, gains: what attacks gain under every utility, in one and the same market.

``played`` says which mechanisms pay by which utilities, under which attacks. An attack that needs labels is not played
where there are none, nor one that takes a whole class away where accuracy is paid for. Of data without labels their
owner may know the classes all the same: with ``sees_classes`` the attack is made on the labelled market, and the labels
are taken away afterwards.

S13, valuation: how utilities agree when everybody is honest, and what a model loses without the units they value.

Values of single units are Shapley values where every unit plays: in closed form, or by orders of joining that are
truncated (``sampled``). The test is the usual one (Ghorbani and Zou 2019, Data Shapley): remove the best units, keep
the best alone, or remove the worst, and train logistic regression on what is left; accuracy is on rows of the domain
that are neither units nor validation rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from itertools import combinations
from typing import Any

import numpy as np
from pydantic import Field

from datamarket_gym.analysis.metrics import Metrics, pot_shares
from datamarket_gym.analysis.redteam.attack_grid import spread
from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.data.inputs import without_labels
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import DataMarketError, SubmissionError, UnknownNameError
from datamarket_gym.execution.arrays import Features, Values
from datamarket_gym.experiments.cells import (
    Row,
    attacks_of,
    kind,
    labels_of,
    market_of,
    selected,
    utility_for,
)
from datamarket_gym.experiments.kinds.spot_checks import family, in_spreads
from datamarket_gym.experiments.spec import ExperimentSpec, TaskEntry, UtilityEntry
from datamarket_gym.experiments.utilities import MarketUtility, ScoresEntry, utilities_in
from datamarket_gym.market.attacks import Attack
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks.base import TASKS
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.pipeline import Mechanism, get_mechanism
from datamarket_gym.registry import Document
from datamarket_gym.utilities.labels import require_learnable
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

_KEPT = (
    "honest_payment", "attacked_payment", "gain", "gain_additive", "victim_loss", "theft", "utility",
    "near_zero",
)  # fmt: skip


class PlayedEntry(Document):
    """Which of the experiment's mechanisms pay by these utilities, under which attacks (patterns of their names)."""

    learners: list[str] = Field(min_length=1)
    mechanisms: list[str] = Field(min_length=1)
    attacks: list[str] = Field(default=["*"], min_length=1)
    sees_classes: bool = False


class UtilitiesOptions(Document):
    """What is played, and which imported scores there are."""

    played: list[PlayedEntry] = Field(min_length=1)
    scores: list[ScoresEntry] = Field(default=[ScoresEntry()], min_length=1)


@kind("utilities", UtilitiesOptions)
def utilities_cell(
    spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]
) -> list[Row]:
    """Every attack under every utility and each of the mechanisms that pay by it."""
    options = UtilitiesOptions(**spec.options)
    market = market_of(task, seed)
    rows: list[Row] = []
    for utility in utilities_in(spec, options.scores, market, engine):
        stands = {sees: _Stand(spec, utility, market, seed, sees) for sees in (False, True)}
        at = {
            "experiment": spec.name, "task": task.label, "learner": utility.name,
            "empty": utility.empty, "seed": seed, **task.axes,
        }  # fmt: skip
        for entry in options.played:
            if utility.name in entry.learners:
                rows += [{**at, **row} for row in stands[entry.sees_classes].rows(entry)]
    return rows


@dataclass(eq=False)
class _Stand:
    """One market under one utility: attacked markets are made once for all mechanisms."""

    spec: ExperimentSpec
    utility: MarketUtility
    labelled: ProviderMarket
    seed: int
    sees_classes: bool
    _attacked: dict[str, SubmittedProfile | None] = field(default_factory=dict)

    def rows(self, entry: PlayedEntry) -> Iterator[Row]:
        """Every attack of the entry under each of its mechanisms."""
        known = {
            m.name: (m.seeded(self.seed), axes)
            for each in self.spec.mechanisms
            for m, axes in each.pipelines("utilities")
        }
        honest = self.utility.market.honest
        for name in entry.mechanisms:
            if name not in known:
                raise UnknownNameError("mechanism of this experiment", name, known)
            m, axes = known[name]
            before = self.utility.pay(m, honest.submission)
            for label, attack, profile in self._profiles(entry, m):
                now = self.utility.pay(m, profile.submission)
                sees = {"attacker": "sees_classes"} if self.sees_classes else {}
                at = {"attack": label, "family": family(attack), **labels_of(m), **axes, **sees}
                yield {**at, **_measured(before, now, profile)}

    def _profiles(
        self, entry: PlayedEntry, m: Mechanism
    ) -> Iterator[tuple[str, Attack, SubmittedProfile]]:
        state = self.utility.market.state
        for label, attack in attacks_of(in_spreads(self.spec, spread(state))):
            asked = any(fnmatch(label, pattern) for pattern in entry.attacks)
            if not (asked and selected(self.spec.only, label, m.name)):
                continue
            if label not in self._attacked:
                self._attacked[label] = self._profile(attack)
            profile = self._attacked[label]
            if profile is not None:
                yield label, attack, profile

    def _profile(self, attack: Attack) -> SubmittedProfile | None:
        """The attacked market; None where there are no labels that it needs, or too few are left to learn from."""
        market = self.utility.market
        if attack.needs_labels and not market.honest.submission.labelled:
            return None
        seen = self.labelled if self.sees_classes else market
        profile = attack.apply(self.spec.provider, seen.state)
        if not market.honest.submission.labelled:
            profile = replace(profile, submission=without_labels(profile.submission))
        try:
            require_learnable(profile.submission.label, self.utility.oracle(market.honest.submission))
        except SubmissionError:
            return None
        return profile


def _measured(before: Payments, now: Payments, profile: SubmittedProfile) -> Row:
    """The metrics of an attack, and whether the pay is another number at all, to the last bit."""
    report = Metrics.evaluate(now, profile, before).as_row()
    changed = float(report["attacked_payment"] != report["honest_payment"])
    return {**{name: report[name] for name in _KEPT}, "changed": changed}


TRAINED = "logistic"
"""The model that is trained on the units that are left."""
NAMES, UNITS = "shapley", "units"
"""Who plays for providers' shares: names, exactly, or units, whose values are summed."""
RANDOM = "random"
HOW = ("remove_best", "keep_best", "remove_worst")


class SampledEntry(Document):
    """Learners without a closed form: how many orders of joining, and within what of v(all) an order ends."""

    learners: list[str]
    orders: int = Field(ge=4)
    truncation: float = Field(ge=0.0)


class ValuationOptions(Document):
    """The parts of the units that are removed or kept, and how many test rows and random orders there are."""

    parts: list[float] = Field(default=[0.1, 0.2, 0.3, 0.4, 0.5], min_length=1)
    test_rows: int = Field(default=1000, ge=1)
    random_orders: int = Field(default=20, ge=1)
    sampled: SampledEntry
    scores: list[ScoresEntry] = Field(default=[ScoresEntry()], min_length=1)


@dataclass(frozen=True, eq=False)
class Valued:
    """What a utility says of an honest market: a value for each unit, and providers' shares by who plays."""

    learner: str
    empty: str
    units: Values
    shares: dict[str, Values]
    reliability: float

    @property
    def labels(self) -> Row:
        """What tables tell utilities apart by."""
        return {"learner": self.learner, "empty": self.empty}


@kind("valuation", ValuationOptions)
def valuation_cell(
    spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]
) -> list[Row]:
    """How the utilities agree, and the test of their values, on one draw of the market."""
    options = ValuationOptions(**spec.options)
    market = market_of(task, seed)
    valued = [
        _valued(utility, options, seed) for utility in utilities_in(spec, options.scores, market, engine)
    ]
    at = {"experiment": spec.name, "task": task.label, "seed": seed, "attack": "honest", **task.axes}
    found = [*_reliability(valued), *_agreement(valued), *_test(options, task, market, valued, engine)]
    return [{**at, **row} for row in found]


def _valued(utility: MarketUtility, options: ValuationOptions, seed: int) -> Valued:
    submission = utility.market.honest.submission
    m = _unit_mechanism(utility.name, options).seeded(seed)
    paid = utility.pay(m, submission)
    units = paid.scores.values[paid.clustering.label]
    names = utility.pay(get_mechanism(NAMES), submission)
    sums = {name: float(units[submission.identity == name].sum()) for name in names.as_dict()}
    shares = {
        who: np.array(list(pot_shares(totals).values()))
        for who, totals in ((NAMES, names.as_dict()), (UNITS, sums))
    }
    errors, spread = (paid.scores.standard_errors**2).mean(), paid.scores.values.var()
    reliability = float(1.0 - errors / spread) if spread > 0.0 else float("nan")
    return Valued(utility.name, utility.empty, units, shares, reliability)


def _unit_mechanism(learner: str, options: ValuationOptions) -> Mechanism:
    """Every unit plays, and nothing ties them: all are honest."""
    plain = get_mechanism("recommended", evidence="none", leak_check="off")
    if learner not in options.sampled.learners:
        return plain
    estimator = f"permutation(truncation={options.sampled.truncation!r})"
    return plain.model_copy(update={"estimator": estimator, "samples": options.sampled.orders})


def _reliability(valued: list[Valued]) -> Iterator[Row]:
    """Which part of the variance of unit values is not sampling error."""
    for one in valued:
        yield {**one.labels, "reliability": one.reliability}


def _agreement(valued: list[Valued]) -> Iterator[Row]:
    """Every pair: rank correlation of units' values and of providers' shares, and the shares' L1 distance."""
    for one, other in combinations(valued, 2):
        at = {**one.labels, "beside": other.learner}
        yield {**at, "unit_agreement": rank_correlation(one.units, other.units)}
        for who in (NAMES, UNITS):
            ours, theirs = one.shares[who], other.shares[who]
            yield {
                **at,
                "mechanism": who,
                "share_agreement": rank_correlation(ours, theirs),
                "share_l1": float(np.abs(ours - theirs).sum()),
            }


def rank_correlation(one: Values, other: Values) -> float:
    """Spearman's; NaN where one side puts all on a level."""
    from scipy.stats import spearmanr

    if np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return float("nan")
    return float(spearmanr(one, other).statistic)


def _test(
    options: ValuationOptions,
    task: TaskEntry,
    market: ProviderMarket,
    valued: list[Valued],
    engine: dict[str, Any],
) -> Iterator[Row]:
    submission = market.honest.submission
    trained = _Trained(submission, *fresh_rows(task, market, options.test_rows), engine)
    n, rng = len(submission), keyed_generator(market.seed, "orders of removal")
    chance = [rng.permutation(n) for _ in range(options.random_orders)]
    best_first = {one.learner: _best_first(one.units, rng) for one in valued}
    at_random = {
        (how, part): float(np.mean(trained.accuracy([left(order, how, part) for order in chance])))
        for how in HOW
        for part in options.parts
    }
    (whole,) = trained.accuracy([np.arange(n)])
    yield {"learner": "all units", "accuracy": whole}
    for (how, part), accuracy in at_random.items():
        yield {"learner": RANDOM, "how": how, "part": part, "accuracy": accuracy}
    for one in valued:
        for how in HOW:
            kept = [left(best_first[one.learner], how, part) for part in options.parts]
            leads = []
            for part, accuracy in zip(options.parts, trained.accuracy(kept), strict=True):
                ahead = accuracy - at_random[how, part]
                leads.append(-ahead if how == "remove_best" else ahead)
                yield {**one.labels, "how": how, "part": part, "accuracy": accuracy}
            yield {**one.labels, "how": how, "lead": float(np.mean(leads))}


def _best_first(values: Values, rng: np.random.Generator) -> Any:
    """Units from the best down; those of equal value in random order."""
    mixed = rng.permutation(len(values))
    return mixed[np.argsort(-values[mixed], kind="stable")]


def left(best_first: Any, how: str, part: float) -> Any:
    """The units that are left when a part of them, from the best or the worst, is removed, or kept alone."""
    n = max(1, round(part * len(best_first)))
    if how == "keep_best":
        return best_first[:n]
    return best_first[n:] if how == "remove_best" else best_first[: len(best_first) - n]


class _Trained:
    """Accuracy on test rows of the model trained on some of the units."""

    def __init__(self, units: Submission, test: Features, label: Any, engine: dict[str, Any]) -> None:
        learner = utility_for(UtilityEntry(learner=TRAINED), engine)
        oracle = UtilityOracle(test, label, Utility(TRAINED), learner=learner)
        self._n = len(units)
        self._scorer = oracle.scorer(units.features, units.label, None, np.arange(self._n), self._n)

    def accuracy(self, kept: list[Any]) -> list[float]:
        """Of each set of units."""
        coalitions = np.zeros((len(kept), self._n), dtype=bool)
        for row, units in enumerate(kept):
            coalitions[row, units] = True
        return [float(value) for value in self._scorer.utility(coalitions)]


def fresh_rows(task: TaskEntry, market: ProviderMarket, n: int) -> tuple[Features, Any]:
    """At most n rows of the domain that no provider owns and that are no validation rows.

    Those of the pool that were dealt to nobody; a task whose pool is dealt out is drawn again with more
    validation rows, of which it must give the same first.
    """
    data = market.dataset
    undealt = np.setdiff1d(np.arange(len(data.label)), np.concatenate(market.provider_partition))
    if len(undealt):
        chosen = keyed_generator(market.seed, "test rows").permutation(undealt)[:n]
        return data.features[chosen], data.label[chosen]
    wanted: Any = TASKS.create(task.task)
    more = replace(wanted, validation=wanted.validation + n).draw(market.seed).dataset
    held = len(data.validation_label)
    features, label = more.validation_features, more.validation_label
    if not np.array_equal(features[:held], data.validation_features):
        raise DataMarketError(
            f"{task.task}: with more validation rows it draws others, so none are left to test on; "
            "leave rows of its pool undealt"
        )
    return features[held:], label[held:]
