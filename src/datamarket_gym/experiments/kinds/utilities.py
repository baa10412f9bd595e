"""Utilities with labels, without, and of imported scores: kinds ``utilities`` and ``valuation`` (S13).

``utilities``: what attacks gain under every utility, in one and the same market. ``played`` says which mechanisms pay
by which utilities, under which attacks. An attack that needs labels is left out where there are none, and so is one
that takes a whole class away where accuracy is paid for. Of data without labels their owner may know the classes all
the same: with ``sees_classes`` the attack is made on the labelled market, and the labels are taken away afterwards.

``valuation``: how utilities agree when all are honest, and what a model loses without the units they value.
Values of single units are Shapley values where every unit is a player: in closed form, or by permutations that are
truncated (``sampled``). The test is the usual one (Ghorbani and Zou 2019, Data Shapley): remove the best units, keep
the best alone, or remove the worst, and train logistic regression on what is left; accuracy is on rows of the domain
that are neither units nor validation rows.

A utility without labels (``coverage(labels=False)``) sees the market as if nothing had ever been labelled: units,
validation rows and what attackers see of them have no labels, so that evidence has no classes either. Imported scores
are computed on the units that are paid for: as they were submitted (``reported``), or on the units that represent the
others (``canonical``). They are gradient products of a logistic model that is fitted here. With W the weights of a
multinomial logistic regression on standardised features x (and a constant), p the class probabilities and y the label
as a unit vector, the gradient of a row's loss is (p - y) x', so

    grad_u . grad_z = ((p_u - y_u) . (p_z - y_z)) (x_u . x_z + 1).

``path``: summed over the first `STEPS` steps of gradient descent from W = 0, each times its step size (TracIn: Pruthi
et al. 2020, Estimating Training Data Influence by Tracing Gradient Descent), over the number of units: all units'
scores of a row then sum, to first order, to what training took off the row's loss. Few steps, because a fit of
hundreds of features to hundreds of units that goes on raises the loss of other rows again. ``end``: at the end of a
long fit alone, TracIn with one checkpoint. There the gradients of all units cancel but for the penalty, so that the
scores of a row sum to next to nothing. Rows are put in content order first, so that names and order change no score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.special import softmax
from scipy.stats import spearmanr

from datamarket_gym.analysis.metrics import Metrics, pot_shares
from datamarket_gym.analysis.redteam.attack_grid import feature_scale
from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.data.inputs import without_labels
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import DataMarketError, LeakedRowsWarning, require_choice
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.execution.arrays import Features, Values
from datamarket_gym.experiments.cells import Cell, Row, attacks_of, kind, labels_of, utility_for
from datamarket_gym.experiments.kinds.spot_checks import family, is_learnable, scale_noise
from datamarket_gym.experiments.spec import TaskEntry, UtilityEntry
from datamarket_gym.market.attacks import Attack
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks.base import TASKS
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.pipeline import Mechanism, get_mechanism
from datamarket_gym.registry import Document
from datamarket_gym.utilities import ImportedScores, ScoreTable
from datamarket_gym.utilities.base import LEARNERS
from datamarket_gym.utilities.coverage import Coverage
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

Along = Literal["end", "path"]
STEPS, TO_THE_END = 10, 200
PENALTY = 1e-3
"""Of half the squared weights, beside the mean loss."""


def gradient_products(
    features: Features,
    label: NDArray[Any],
    validation_features: Features,
    validation_label: NDArray[Any],
    along: Along = "path",
) -> Values:
    """Return scores (units, validation rows): how far learning from a unit lowers a row's loss.

    Gradient descent on the mean loss and the penalty takes the step that the largest curvature allows.
    """
    require_choice("along", along, ("end", "path"))
    classes = np.unique(np.concatenate([label, validation_label]))
    code, validation_code = np.searchsorted(classes, label), np.searchsorted(classes, validation_label)
    order = np.lexsort((*features.T[::-1], code))
    x, z = _standardised(features[order], validation_features)
    y, y_validation = np.eye(len(classes))[code[order]], np.eye(len(classes))[validation_code]
    smaller = x @ x.T if len(x) < x.shape[1] else x.T @ x
    curvature = 0.5 * float(np.linalg.eigvalsh(smaller)[-1]) / len(x)  # of the softmax at most 1/2
    step, steps = 1.0 / (curvature + PENALTY), STEPS if along == "path" else TO_THE_END
    weights, total = np.zeros((x.shape[1], len(classes))), np.zeros((len(x), len(z)))
    for at in range(steps):
        errors = softmax(x @ weights, axis=1) - y
        if along == "path" or at == steps - 1:
            total += errors @ (softmax(z @ weights, axis=1) - y_validation).T
        weights -= step * (x.T @ errors / len(errors) + PENALTY * weights)
    scores = np.empty((len(features), len(validation_features)))
    scores[order] = step / len(x) * total * (x @ z.T)
    return scores


def _standardised(units: Features, rows: Features) -> tuple[Features, Features]:
    """Standardise both by the units, with a constant; a feature that never varies becomes zero."""
    mean, scale = units.mean(axis=0), units.std(axis=0)
    scale = np.where(scale > 0.0, scale, np.inf)
    x, z = ((each - mean) / scale for each in (units, rows))
    return np.c_[x, np.ones(len(x))], np.c_[z, np.ones(len(z))]


SCORES = "scores"


class ScoresEntry(Document):
    """Imported scores: what results call them, along what part of the fit, and on which units they are computed."""

    called: str = SCORES
    along: Along = "path"
    of: Literal["canonical", "reported"] = "canonical"


@dataclass(eq=False)
class MarketUtility:
    """A utility in one market, labelled or not: one oracle, or imported scores, computed anew on what is submitted."""

    name: str
    empty: str
    market: ProviderMarket
    fixed: UtilityOracle | None = None
    scores: ScoresEntry | None = None

    @property
    def labels(self) -> Row:
        return {"learner": self.name, "empty": self.empty}

    def oracle(self, submission: Submission) -> UtilityOracle:
        """Return what values units of this submission; of imported scores, those computed on it as it stands."""
        return self.fixed or self._scored(submission.features, submission.label)

    def pay(self, m: Mechanism, submission: Submission) -> Payments:
        with suppress_market_warnings(LeakedRowsWarning):  # an attack causes it
            paid = m.pay(submission, self.oracle(submission))
            if self.scores is None or not m.matches or self.scores.of == "reported":
                return paid
            # What evidence matches does not depend on scores.
            return m.pay(submission, self._scored(paid.canonical.features, paid.canonical.label))

    def _scored(self, features: Features, label: NDArray[Any]) -> UtilityOracle:
        assert self.scores is not None
        data = self.market.dataset
        scores = gradient_products(
            features, label, data.validation_features, data.validation_label, self.scores.along
        )
        learner = ImportedScores(ScoreTable(features, label, scores, data.validation_features))
        return self.market.utility_oracle(Utility(SCORES, self.empty), learner)


def utilities_in(cell: Cell, scores: list[ScoresEntry]) -> Iterator[MarketUtility]:
    """Yield the experiment's utilities in its market, and of imported scores each kind."""
    unlabelled = cell.market.without_labels()
    for entry in cell.spec.utilities:
        if entry.learner == SCORES:
            for scored in scores:
                yield MarketUtility(scored.called, entry.empty, cell.market, scores=scored)
        else:
            market = unlabelled if needs_no_labels(entry) else cell.market
            yield MarketUtility(entry.learner, entry.empty, market, cell.oracle(entry, market))


def needs_no_labels(entry: UtilityEntry) -> bool:
    """Tell if a utility is coverage to which labels do not count."""
    learner = LEARNERS.create(entry.learner)
    return isinstance(learner, Coverage) and not learner.labels


METRICS = (
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
def utilities_cell(cell: Cell) -> Iterator[Row]:
    options = UtilitiesOptions(**cell.spec.options)
    for utility in utilities_in(cell, options.scores):
        markets = {sees: _AttackedMarket(cell, utility, sees) for sees in (False, True)}
        at = {"task": cell.task.label, **utility.labels, **cell.task.axes}
        for entry in options.played:
            if utility.name in entry.learners:
                for row in markets[entry.sees_classes].rows(entry):
                    yield {**at, **row}


@dataclass(eq=False)
class _AttackedMarket:
    """One market under one utility: attacked markets are made once for all mechanisms."""

    cell: Cell
    utility: MarketUtility
    sees_classes: bool
    _attacked: dict[str, SubmittedProfile | None] = field(default_factory=dict)

    def rows(self, entry: PlayedEntry) -> Iterator[Row]:
        honest = self.utility.market.honest
        sees = {"attacker": "sees_classes"} if self.sees_classes else {}
        for name in entry.mechanisms:
            m, axes = self.cell.pipeline(name)
            before = self.utility.pay(m, honest.submission)
            for label, attack, profile in self._profiles(entry, m):
                report = Metrics.evaluate(self.utility.pay(m, profile.submission), profile, before)
                metrics = report.as_row()
                changed = float(metrics["attacked_payment"] != metrics["honest_payment"])
                at = {"attack": label, "family": family(attack), **labels_of(m), **axes, **sees}
                yield {**at, **{key: metrics[key] for key in METRICS}, "changed": changed}

    def _profiles(
        self, entry: PlayedEntry, m: Mechanism
    ) -> Iterator[tuple[str, Attack, SubmittedProfile]]:
        scale = feature_scale(self.utility.market.state)
        for label, attack in attacks_of(scale_noise(self.cell.spec, scale)):
            listed = any(fnmatch(label, pattern) for pattern in entry.attacks)
            if not (listed and self.cell.selects(label, m)):
                continue
            if label not in self._attacked:
                self._attacked[label] = self._profile(attack)
            profile = self._attacked[label]
            if profile is not None:
                yield label, attack, profile

    def _profile(self, attack: Attack) -> SubmittedProfile | None:
        """Return the attacked market; None without labels that it needs, or where too few are left to learn from."""
        market = self.utility.market
        labelled = market.honest.submission.labelled
        if attack.needs_labels and not labelled:
            return None
        seen = self.cell.market if self.sees_classes else market
        profile = attack.apply(self.cell.spec.provider, seen.state)
        if not labelled:
            profile = replace(profile, submission=without_labels(profile.submission))
        return profile if is_learnable(profile, self.utility.oracle(market.honest.submission)) else None


TRAINED = "logistic"
"""The model that is trained on the units that are left."""
NAMES, UNITS = "shapley", "units"
"""The players behind providers' shares: identities, exactly, or units, whose values are summed."""
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

    labels: Row
    units: Values
    shares: dict[str, Values]
    reliability: float


@kind("valuation", ValuationOptions)
def valuation_cell(cell: Cell) -> Iterator[Row]:
    options = ValuationOptions(**cell.spec.options)
    valued = [_valued(each, options, cell.seed) for each in utilities_in(cell, options.scores)]
    at = {"task": cell.task.label, "attack": "honest", **cell.task.axes}
    reliability = [{**each.labels, "reliability": each.reliability} for each in valued]
    for row in (*reliability, *_agreement(valued), *_test(cell, options, valued)):
        yield {**at, **row}


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
    errors, variance = (paid.scores.standard_errors**2).mean(), paid.scores.values.var()
    reliability = float(1.0 - errors / variance) if variance > 0.0 else float("nan")
    return Valued(utility.labels, units, shares, reliability)


def _unit_mechanism(learner: str, options: ValuationOptions) -> Mechanism:
    """Return the mechanism in which every unit is a player of its own: all are honest."""
    plain = get_mechanism("recommended", evidence="none", leak_check="off")
    if learner not in options.sampled.learners:
        return plain
    estimator = f"permutation(truncation={options.sampled.truncation!r})"
    return plain.model_copy(update={"estimator": estimator, "samples": options.sampled.orders})


def _agreement(valued: list[Valued]) -> Iterator[Row]:
    for one, other in combinations(valued, 2):
        at = {**one.labels, "beside": other.labels["learner"]}
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
    """Return Spearman's rank correlation; NaN where one side has equal values alone."""
    if np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return float("nan")
    return float(spearmanr(one, other).statistic)


def _test(cell: Cell, options: ValuationOptions, valued: list[Valued]) -> Iterator[Row]:
    market, submission = cell.market, cell.market.honest.submission
    trained = _Trained(submission, *fresh_rows(cell.task, market, options.test_rows), cell.engine)
    n, rng = len(submission), keyed_generator(market.seed, "orders of removal")
    chance = [rng.permutation(n) for _ in range(options.random_orders)]
    best_first = [_best_first(one.units, rng) for one in valued]
    at_random = {
        (how, part): float(np.mean(trained.accuracy([left(order, how, part) for order in chance])))
        for how in HOW
        for part in options.parts
    }
    (whole,) = trained.accuracy([np.arange(n)])
    yield {"learner": "all units", "accuracy": whole}
    for (how, part), accuracy in at_random.items():
        yield {"learner": RANDOM, "how": how, "part": part, "accuracy": accuracy}
    for one, order in zip(valued, best_first, strict=True):
        for how in HOW:
            coalitions = [left(order, how, part) for part in options.parts]
            leads = []
            for part, accuracy in zip(options.parts, trained.accuracy(coalitions), strict=True):
                ahead = accuracy - at_random[how, part]
                leads.append(-ahead if how == "remove_best" else ahead)
                yield {**one.labels, "how": how, "part": part, "accuracy": accuracy}
            yield {**one.labels, "how": how, "lead": float(np.mean(leads))}


def _best_first(values: Values, rng: np.random.Generator) -> Any:
    """Return units from the best down; those of equal value in random order."""
    mixed = rng.permutation(len(values))
    return mixed[np.argsort(-values[mixed], kind="stable")]


def left(best_first: Any, how: str, part: float) -> Any:
    """Return the units that are left when a part of them, from the best or the worst, is removed, or kept alone."""
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

    def accuracy(self, subsets: list[Any]) -> list[float]:
        coalitions = np.zeros((len(subsets), self._n), dtype=bool)
        for row, units in enumerate(subsets):
            coalitions[row, units] = True
        return [float(value) for value in self._scorer.utility(coalitions)]


def fresh_rows(task: TaskEntry, market: ProviderMarket, n: int) -> tuple[Features, Any]:
    """Return at most n rows of the domain that no provider owns and that are no validation rows.

    Those of the pool that were dealt to no provider; a task whose pool is dealt out is drawn again with more
    validation rows, of which it must give the same first.
    """
    data = market.dataset
    undealt = np.setdiff1d(np.arange(len(data.label)), np.concatenate(market.provider_partition))
    if len(undealt):
        chosen = keyed_generator(market.seed, "test rows").permutation(undealt)[:n]
        return data.features[chosen], data.label[chosen]
    wider: Any = TASKS.create(task.task)
    more = replace(wider, validation=wider.validation + n).draw(market.seed).dataset
    rows = len(data.validation_label)
    features, label = more.validation_features, more.validation_label
    if not np.array_equal(features[:rows], data.validation_features):
        raise DataMarketError(
            f"{task.task}: with more validation rows it draws others, so none are left to test on; "
            "leave rows of its pool undealt"
        )
    return features[rows:], label[rows:]
