"""The three theorems of docs/theory/coverage.md on random markets, where they end, and that k-NN has only the first."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.data.submission import Submission
from datamarket_gym.games import Beta
from datamarket_gym.games.semivalues import Semivalue
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.coverage import decisive_probabilities
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

NEVER_LESS = ["shapley", "beta(alpha=4, beta=1)", "beta(alpha=0.5, beta=0.5)"]  # n h_n never falls
OTHERS = ["banzhaf", "beta(alpha=2, beta=2)", "loo"]  # n h_n falls somewhere
SIMILARITIES = ["cosine", "standardised", "whitened", "combined"]
LEARNERS = [
    "coverage@0.9",
    "coverage(quantile=0.5, labels=False)",
    *[f"coverage(quantile=0.5, similarity={name})" for name in SIMILARITIES],
    "coverage(quantile=0.9, similarity=combined, cap=0.5)",
]
COUNTED = "coverage(quantile=0.9, similarity=combined, cap=0.1, saturation=3)"
HELD = 100  # enough to whiten by
ROUNDING = 1e-12  # amounts are of the order of one, and lie on a grid finer than this
MINE = "provider_0"
seeds = st.integers(0, 10**6)
pytestmark = pytest.mark.filterwarnings("ignore::datamarket_gym.errors.CollapsedMarketWarning")


@dataclass(frozen=True)
class Market:
    """Units in tight groups, so that many cover the same validation rows, and when they came."""

    features: np.ndarray
    label: np.ndarray
    owner: np.ndarray
    held: np.ndarray
    held_label: np.ndarray

    @classmethod
    def drawn(cls, seed, n=40, providers=4, d=4, classes=2, held=HELD):
        rng = np.random.default_rng(seed)
        centres = rng.normal(size=(6, d))
        group, held_group = rng.integers(6, size=n), rng.integers(6, size=held)
        noise = rng.uniform(0.05, 0.6)
        return cls(
            centres[group] + noise * rng.normal(size=(n, d)),
            np.where(rng.random(n) < 0.9, group % classes, rng.integers(classes, size=n)),
            np.array([f"provider_{i}" for i in rng.integers(providers, size=n)]),
            centres[held_group] + 0.3 * rng.normal(size=(held, d)),
            held_group % classes,
        )

    def kept(self, rows):
        return replace(
            self, features=self.features[rows], label=self.label[rows], owner=self.owner[rows]
        )

    def with_units(self, features, label):
        """Provider 0 adds units, after all others."""
        return replace(
            self,
            features=np.concatenate([self.features, features]),
            label=np.concatenate([self.label, label]),
            owner=np.concatenate([self.owner, np.full(len(label), MINE)]),
        )

    def additions(self, seed):
        """What an attacker might add: copies, noisy copies of anybody's units, mixtures, junk, relabelled units."""
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 30))
        a, b = rng.integers(len(self.label), size=(2, n))
        part = rng.choice([0.0, 0.3, 0.5], size=(n, 1))
        noise = rng.choice([0.0, 0.1, 1.0], size=(n, 1)) * rng.normal(size=(n, self.features.shape[1]))
        mixed = (1 - part) * self.features[a] + part * self.features[b] + noise
        return mixed, np.where(rng.random(n) < 0.7, self.label[a], rng.integers(2, size=n))

    def mine(self):
        return self.owner == MINE

    def amounts(self, learner, law):
        """What each unit earns where all units are players: the scorer's own answer."""
        n, classes = len(self.label), int(max(self.label.max(), self.held_label.max())) + 1
        rows = TrainingRows(self.features, self.label, np.arange(n), n, classes)
        scorer = create("learner", learner).scorer(rows, ValidationRows(self.held, self.held_label))
        return scorer.closed_form(create("semivalue", law), 0.0)

    def submission(self, owner=None, time=None):
        n = len(self.label)
        return Submission(
            id=np.array([f"u{i}" for i in range(n)]),
            identity=self.owner if owner is None else owner,
            features=self.features,
            label=self.label,
            time=np.arange(n, dtype=float) if time is None else time,
        )

    def paid(self, owner=None, time=None, evidence="lineage@none", learner="coverage", **changes):
        pays = get_mechanism(f"recommended/{evidence}", leak_check="off", **changes)
        oracle = UtilityOracle(self.held, self.held_label, Utility.paying(learner))
        return pays.pay(self.submission(owner, time), oracle)


def share(part, whole):
    return part / whole if whole > 0 else 0.0


def random_part(market, seed):
    """All units but some of provider 0's (at least one)."""
    rng = np.random.default_rng(seed)
    mine = np.flatnonzero(market.mine())
    held_back = rng.permutation(mine)[: int(rng.integers(1, len(mine) + 1))]
    return np.setdiff1d(np.arange(len(market.label)), held_back)


# ---- splitting is worth exactly nothing


@pytest.mark.parametrize("law", [*NEVER_LESS, *OTHERS])
@pytest.mark.parametrize("evidence", ["lineage@none", "lineage@0.97"])
@given(seed=seeds, learner=st.sampled_from([*LEARNERS, COUNTED]))
@settings(max_examples=8, deadline=None)
def test_splitting_is_worth_exactly_nothing(evidence, law, seed, learner):
    market, rng = Market.drawn(seed), np.random.default_rng(seed + 1)
    time = rng.integers(8, size=len(market.label)).astype(float)  # with ties in time
    names = np.array([f"name_{i}" for i in rng.integers(9, size=len(market.label))])
    split = np.where(market.mine(), names, market.owner)
    honest = market.paid(time=time, evidence=evidence, learner=learner, semivalue=law)
    attacked = market.paid(split, time, evidence=evidence, learner=learner, semivalue=law)
    assert attacked.total(sorted(set(names))) == honest.total([MINE])
    others = [name for name in honest.identities.tolist() if name != MINE]
    assert [attacked.total([name]) for name in others] == [honest.total([name]) for name in others]
    assert attacked.totals.sum() == honest.totals.sum()  # so shares of a pot are the same, too


def test_splitting_pays_where_names_are_players():
    """The theorem needs units as players: two names of one provider are two players."""
    market = Market.drawn(3)
    split = np.where(market.mine() & (np.arange(40) % 2 == 0), "other_name", market.owner)
    oracle = UtilityOracle(market.held, market.held_label, Utility.paying("coverage"))
    honest, attacked = (
        get_mechanism("shapley").pay(market.submission(owner), oracle) for owner in (market.owner, split)
    )
    assert attacked.total([MINE, "other_name"]) > 1.2 * honest.total([MINE])


# ---- withholding never pays


@pytest.mark.parametrize(
    ("learner", "law"), [*itertools.product(LEARNERS, NEVER_LESS), (COUNTED, "shapley")]
)
@given(seed=seeds)
@settings(max_examples=6, deadline=None)
def test_withholding_never_pays(learner, law, seed):
    market = Market.drawn(seed, providers=3)
    rows = random_part(market, seed)
    honest, after = market.amounts(learner, law), market.kept(rows).amounts(learner, law)
    mine, still = market.mine(), market.kept(rows).mine()
    assert after[still].sum() <= honest[mine].sum() + ROUNDING
    assert share(after[still].sum(), after.sum()) <= share(honest[mine].sum(), honest.sum()) + ROUNDING
    assert (after[~still] >= honest[~mine] - ROUNDING).all()  # the others never lose by it


@given(seed=seeds)
@settings(max_examples=15, deadline=None)
def test_withholding_never_pays_by_the_mechanism(seed):
    market = Market.drawn(seed)
    honest, after = market.paid(), market.kept(random_part(market, seed)).paid()
    before, now = honest.total([MINE]), after.total([MINE])
    assert now <= before + ROUNDING
    assert share(now, after.totals.sum()) <= share(before, honest.totals.sum()) + ROUNDING


@pytest.mark.parametrize("law", OTHERS)
def test_withholding_pays_where_many_are_paid_less_than_few(law):
    """Three alike of one provider, and nobody else near: two of them earn more than three."""
    alone = Market(
        np.array([[1.0, 0.1], [1.0, 0.11], [1.0, 0.12], [0.1, 1.0]]),
        np.zeros(4, dtype=int),
        np.array([MINE, MINE, MINE, "provider_1"]),
        np.array([[1.0, 0.1], [0.1, 1.0]]),
        np.zeros(2, dtype=int),
    )
    keep = 1 if law == "loo" else 2
    rows = np.r_[0:keep, 3]
    honest, after = alone.amounts("coverage", law), alone.kept(rows).amounts("coverage", law)
    assert after[:keep].sum() > honest[:3].sum() + 0.01
    assert after[:keep].sum() / after.sum() > honest[:3].sum() / honest.sum() + 0.01


# ---- adding never raises what one's genuine units earn


@pytest.mark.parametrize(
    ("learner", "law"),
    [*itertools.product(LEARNERS, [*NEVER_LESS, *OTHERS]), (COUNTED, "shapley")],
)
@given(seed=seeds)
@settings(max_examples=5, deadline=None)
def test_adding_never_raises_what_genuine_units_earn(learner, law, seed):
    market = Market.drawn(seed)
    attacked = market.with_units(*market.additions(seed))
    honest, after = market.amounts(learner, law), attacked.amounts(learner, law)
    kept = after[: len(honest)]
    assert (kept <= honest + ROUNDING).all()  # of anybody's units, under any of these laws
    if law in NEVER_LESS:
        mine = market.mine()
        before = share(honest[mine].sum(), honest.sum())
        assert share(kept[mine].sum(), after.sum()) <= before + ROUNDING


@pytest.mark.parametrize("law", OTHERS)
def test_adding_raises_shares_where_many_are_paid_less_than_few(law):
    """One more where strangers are: together they get less, so a lonely genuine unit gets a larger share."""
    market = Market(
        np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.1]]),
        np.zeros(3, dtype=int),
        np.array([MINE, "provider_1", "provider_2"]),
        np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        np.zeros(2, dtype=int),
    )
    if law == "loo":  # of two strangers neither is missed: one must be alone at first
        market = market.kept(np.arange(2))
    attacked = market.with_units(np.array([[0.0, 1.0, 0.2]]), np.array([0]))
    honest, after = market.amounts("coverage", law), attacked.amounts("coverage", law)
    assert after[0] == pytest.approx(honest[0])
    assert after[0] / after.sum() > honest[0] / honest.sum() + 0.01


@pytest.mark.parametrize("evidence", ["lineage@none", "lineage@0.9"])
@given(seed=seeds)
@settings(max_examples=12, deadline=None)
def test_late_additions_never_raise_genuine_pay_by_the_mechanism(evidence, seed):
    """What comes later ties nothing that was there (docs/lineage.md), so ties need not be given."""
    market = Market.drawn(seed)
    attacked = market.with_units(*market.additions(seed))
    names = np.where(np.arange(len(attacked.label)) < len(market.label), attacked.owner, "additions")
    honest, after = market.paid(evidence=evidence), attacked.paid(names, evidence=evidence)
    before, now = honest.total([MINE]), after.total([MINE])
    assert now <= before + ROUNDING
    assert share(now, after.totals.sum()) <= share(before, honest.totals.sum()) + ROUNDING


@pytest.mark.parametrize("law", NEVER_LESS)
@given(seed=seeds)
@settings(max_examples=12, deadline=None)
def test_whatever_is_held_back_and_added_genuine_units_earn_no_more(law, seed):
    """The corollary: a changed unit is one held back and one added."""
    market = Market.drawn(seed)
    kept = market.kept(random_part(market, seed))
    attacked = kept.with_units(*market.additions(seed))
    honest, after = (m.amounts("coverage", law) for m in (market, attacked))
    before, now = honest[market.mine()].sum(), after[: len(kept.label)][kept.mine()].sum()
    assert now <= before + ROUNDING
    assert share(now, after.sum()) <= share(before, honest.sum()) + ROUNDING


@dataclass(frozen=True)
class OneOther(Semivalue):
    """What a player adds to exactly one other: the more players, the less likely a given one is met."""

    def size_weights(self, n_players):
        return (np.arange(n_players) == min(1, n_players - 1)).astype(float)


def test_a_law_that_counts_players_pays_for_units_that_cover_nothing():
    """Two alike, and one more that is like nothing: the first two then meet less often."""
    market = Market(
        np.array([[1.0, 0.0], [1.0, 0.1]]),
        np.zeros(2, dtype=int),
        np.array([MINE, "provider_1"]),
        np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]),
        np.zeros(3, dtype=int),
    )
    padded = market.with_units(np.array([[-1.0, -1.0]]), np.array([0]))
    law = OneOther()
    assert padded.amounts("coverage", law)[0] > market.amounts("coverage", law)[0] + 0.1
    for known in (*NEVER_LESS, *OTHERS):
        honest, after = (m.amounts("coverage", known)[:2] for m in (market, padded))
        np.testing.assert_allclose(after, honest, rtol=0, atol=ROUNDING)


@given(seed=seeds, law=st.sampled_from([*NEVER_LESS, *OTHERS]), learner=st.sampled_from(LEARNERS))
@settings(max_examples=20, deadline=None)
def test_no_amount_is_negative(seed, law, learner):
    """So the positive amounts of a payee are all of its amounts: kappa = 1."""
    assert (Market.drawn(seed).amounts(learner, law) >= 0).all()


# ---- which semivalues


@given(st.floats(0.05, 8.0), st.floats(0.05, 8.0))
@settings(max_examples=60, deadline=None)
def test_which_beta_shapley_values_never_pay_many_less_than_few(alpha, beta):
    """n h_n never falls if and only if beta <= 1 and beta <= alpha."""
    n = 400
    crowd = np.arange(1, n + 1) * decisive_probabilities(Beta(alpha, beta).size_weights(n))
    never_falls = bool((np.diff(crowd) >= -1e-9 * crowd[1:]).all())
    clear = min(abs(beta - 1), abs(beta - alpha)) > 0.02
    # For beta above 1 it falls from n = (alpha - 1) / (beta - 1) + 2 on, which must be among the first 400.
    seen = beta <= 1 or (alpha - 1) / (beta - 1) + 3 < n
    if clear and seen:
        assert never_falls == (beta <= 1 and beta <= alpha)


# ---- what the theorems do not say


def test_withholding_may_untie():
    """Ties are given in the theorems: a link of a chain held back frees the unit that descended from it."""
    angle = np.array([0.0, 0.3, 0.6, 2.0])
    market = Market(
        np.stack([np.cos(angle), np.sin(angle)], axis=1),
        np.zeros(4, dtype=int),
        np.array([MINE, MINE, MINE, "provider_1"]),
        np.array([[np.cos(0.6), np.sin(0.6)], [np.cos(2.0), np.sin(2.0)]]),
        np.zeros(2, dtype=int),
    )
    chain = market.paid(evidence="lineage@0.9")
    assert chain.clustering.n_clusters == 2
    freed = market.kept(np.array([0, 2, 3])).paid(evidence="lineage@0.9")
    assert freed.total([MINE]) > chain.total([MINE]) + 0.01
    given_ties = market.paid(), market.kept(np.array([0, 2, 3])).paid()
    assert given_ties[1].total([MINE]) <= given_ties[0].total([MINE])


def test_squatting_raises_genuine_pay():
    """An early unit captures a later one of somebody else: one competitor of the genuine units fewer."""
    market = Market(
        np.array([[1.0, 0.0], [1.0, 0.5]]),
        np.zeros(2, dtype=int),
        np.array([MINE, "provider_1"]),
        np.array([[1.0, 0.3], [-1.0, 1.0]]),
        np.zeros(2, dtype=int),
    )
    squat = market.with_units(np.array([[1.0, 1.0]]), np.array([0]))
    names = np.array([MINE, "provider_1", "additions"])
    honest = market.paid(evidence="lineage@0.92")
    assert honest.clustering.n_clusters == 2
    late, early = (
        squat.paid(names, np.array([1.0, 2.0, when]), evidence="lineage@0.92") for when in (3.0, 0.0)
    )
    assert late.total([MINE]) <= honest.total([MINE])
    assert early.total([MINE]) > honest.total([MINE]) + 0.01


# ---- k-NN accuracy has only the first: these tests can fail


def knn_markets():
    return [Market.drawn(seed, held=20) for seed in range(20)]


def test_splitting_is_worth_nothing_by_knn_too():
    for market in knn_markets():
        half = np.where(market.mine() & (np.arange(40) % 2 == 0), "other_name", market.owner)
        honest, split = (market.paid(owner, learner="knn@3") for owner in (None, half))
        assert split.total([MINE, "other_name"]) == honest.total([MINE])


def test_withholding_pays_by_knn():
    gained = 0
    for market in knn_markets():
        honest = market.paid(learner="knn@3")
        worst = market.mine() & (market.amounts("knn@3", "shapley") < 0)
        after = market.kept(np.flatnonzero(~worst)).paid(learner="knn@3")
        before, now = (share(p.total([MINE]), p.totals.sum()) for p in (honest, after))
        gained += after.total([MINE]) > honest.total([MINE]) + 0.001 and now > before + 0.001
        assert market.kept(np.flatnonzero(~worst)).paid().total([MINE]) <= market.paid().total([MINE])
    assert gained >= 5


def test_adding_raises_what_genuine_units_earn_by_knn():
    """Bad units beside the others' bring their accuracy down, and the genuine units are needed more."""
    gained = 0
    for seed, market in enumerate(knn_markets()):
        attacked = market.with_units(*market.additions(seed))
        names = np.where(np.arange(len(attacked.label)) < len(market.label), attacked.owner, "additions")
        honest, after = market.paid(learner="knn@3"), attacked.paid(names, learner="knn@3")
        gained += after.total([MINE]) > honest.total([MINE]) + 0.001
    assert gained >= 3
