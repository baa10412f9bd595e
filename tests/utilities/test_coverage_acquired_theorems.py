"""The theorems of docs/theory/periods.md: a later period, above the floor of what was acquired before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.data.submission import Submission
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

NEVER_LESS = ["shapley", "beta(alpha=4, beta=1)", "beta(alpha=0.5, beta=0.5)"]  # n h_n never falls
OTHERS = ["banzhaf", "beta(alpha=2, beta=2)", "loo"]
LEARNERS = ["coverage@0.5", "coverage(quantile=0.5, labels=False)"]
ROUNDING = 1e-12
seeds = st.integers(0, 10**6)


class Units:
    """Rows with labels, of which parts can be taken and put together."""

    def __init__(self, features, label):
        self.features, self.label = features, label

    def __len__(self):
        return len(self.label)

    def __getitem__(self, rows):
        return Units(self.features[rows], self.label[rows])

    def __add__(self, other):
        both = zip((self.features, self.label), (other.features, other.label), strict=True)
        return Units(*(np.concatenate(pair) for pair in both))

    def rows(self, player=None, n=None):
        player = np.arange(len(self)) if player is None else player
        return TrainingRows(self.features, self.label, player, n or len(self), 2)

    def submission(self, names, identity):
        return Submission(
            id=[f"{names}{i}" for i in range(len(self))],
            identity=identity,
            features=self.features,
            label=self.label,
            time=np.arange(len(self), dtype=float),
        )


def drawn(seed, n=30, n_old=12):
    """New units, old units and validation rows in a few tight groups, so that many cover the same rows."""
    rng = np.random.default_rng(seed)
    centres, noise = rng.normal(size=(6, 4)), rng.uniform(0.05, 0.6)

    def some(k, spread):
        group = rng.integers(6, size=k)
        return Units(centres[group] + spread * rng.normal(size=(k, 4)), group % 2)

    return some(n, noise), some(n_old, noise), some(20, 0.3), rng


def amounts(new, old, held, learner="coverage@0.5", law="shapley"):
    """What each new unit earns given the old ones, if there are any."""
    learner, validation = create("learner", learner), ValidationRows(held.features, held.label)
    if not len(new):
        return np.empty(0)
    if len(old):
        background = old.rows(np.zeros(len(old), dtype=int), 1)
        scorer = learner.scorer_given(new.rows(), background, validation)
    else:
        scorer = learner.scorer(new.rows(), validation)
    return scorer.closed_form(create("semivalue", law), 0.0)


def covered(units, held, learner="coverage@0.5"):
    rows = units.rows(np.zeros(len(units), dtype=int), 1)
    scorer = create("learner", learner).scorer(rows, ValidationRows(held.features, held.label))
    return scorer.utility(np.ones((1, 1), dtype=bool))[0]


def share(part, whole):
    return part / whole if whole > 0 else 0.0


@pytest.mark.parametrize("law", NEVER_LESS)
@pytest.mark.parametrize("learner", LEARNERS)
@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_withholding_never_pays(learner, law, seed):
    new, old, held, rng = drawn(seed)
    mine = np.arange(30) < 12
    keep = ~mine | (rng.random(30) < 0.6)
    honest = amounts(new, old, held, learner, law)
    after = amounts(new[keep], old, held, learner, law)
    before, now = honest[mine].sum(), after[mine[keep]].sum()
    assert now <= before + ROUNDING
    assert share(now, after.sum()) <= share(before, honest.sum()) + 1e-9
    assert (after[~mine[keep]] >= honest[~mine] - ROUNDING).all()


@pytest.mark.parametrize("law", [*NEVER_LESS, *OTHERS])
@pytest.mark.parametrize("learner", LEARNERS)
@given(seed=seeds)
@settings(max_examples=8, deadline=None)
def test_adding_never_raises_what_genuine_units_earn(learner, law, seed):
    new, old, held, rng = drawn(seed)
    everything = new + old
    source = rng.integers(len(everything), size=15)
    copies = everything[source]
    noise = rng.choice([0.0, 0.1, 1.0], size=(15, 1)) * rng.normal(size=copies.features.shape)
    added = Units(copies.features + noise, copies.label)
    honest = amounts(new, old, held, learner, law)
    after = amounts(new + added, old, held, learner, law)
    assert (after[:30] <= honest + ROUNDING).all()
    assert (after >= 0).all()


@pytest.mark.parametrize("law", [*NEVER_LESS, *OTHERS])
@given(seed=seeds)
@settings(max_examples=8, deadline=None)
def test_the_more_is_there_the_less_is_earned(law, seed):
    new, old, held, _ = drawn(seed)
    none, some, more = (amounts(new, old[:k], held, law=law) for k in (0, 5, 12))
    assert (some <= none + ROUNDING).all()
    assert (more <= some + ROUNDING).all()
    assert more.sum() < none.sum()


@pytest.mark.parametrize("law", [*NEVER_LESS, *OTHERS])
@given(seed=seeds)
@settings(max_examples=8, deadline=None)
def test_who_covers_nothing_better_earns_exactly_nothing_and_takes_nothing(law, seed):
    new, old, held, rng = drawn(seed)
    away = Units(old.features + rng.normal(size=old.features.shape), old.label)
    alone = np.concatenate([amounts(away[[i]], old, held, law=law) for i in range(len(away))])
    useless = away[alone == 0.0]
    found = amounts(new + useless, old, held, law=law)
    assert (found[30:] == 0.0).all()
    np.testing.assert_allclose(found[:30], amounts(new, old, held, law=law), rtol=0, atol=ROUNDING)
    again = amounts(new + old, old, held, law=law)
    assert (again[30:] == 0.0).all()


@given(seed=seeds)
@settings(max_examples=20, deadline=None)
def test_a_copy_earns_at_most_what_it_covers_better_than_what_is_there(seed):
    new, old, held, rng = drawn(seed)
    copies = Units(old.features + 0.3 * rng.normal(size=old.features.shape), old.label)
    found = amounts(new + copies, old, held)
    for i in range(len(copies)):
        better = covered(old + copies[[i]], held) - covered(old, held)
        assert found[30 + i] <= better + ROUNDING


@given(seed=seeds)
@settings(max_examples=20, deadline=None)
def test_what_is_covered_is_paid_for_once(seed):
    """Over the periods together the Shapley amounts sum to what all units cover."""
    new, old, held, _ = drawn(seed)
    periods = [old, new[:10], new[10:]]
    paid, there = 0.0, old[:0]
    for period in periods:
        paid += amounts(period, there, held).sum()
        there = there + period
    assert paid == pytest.approx(covered(there, held), abs=1e-12)


def over_two_periods(mine, others, held, law="shapley"):
    """What a provider earns in both, given its units and the others' of each."""
    first = amounts(mine[0] + others[0], mine[0][:0], held, law=law)
    then = amounts(mine[1] + others[1], mine[0] + others[0], held, law=law)
    return first[: len(mine[0])].sum() + then[: len(mine[1])].sum()


@given(seed=seeds)
@settings(max_examples=40, deadline=None)
def test_waiting_never_pays(seed):
    new, old, held, rng = drawn(seed)
    mine, others = (new[:8], new[8:14]), (new[14:], old)
    waits = rng.random(8) < 0.5
    later = (mine[0][~waits], mine[0][waits] + mine[1])
    assert over_two_periods(later, others, held) <= over_two_periods(mine, others, held) + ROUNDING


def test_waiting_pays_where_a_crowd_is_paid_more_than_one():
    """Two alike units of one provider, and nobody else near: 2 h_2 > h_1."""
    units = Units(np.array([[1.0, 0.1], [1.0, 0.1], [0.1, 1.0]]), np.zeros(3, dtype=int))
    held = Units(np.array([[1.0, 0.1], [0.1, 1.0]]), np.zeros(2, dtype=int))
    nobody, others = units[:0], (units[2:], units[:0])
    now, later = (units[:1], units[1:2]), (nobody, units[:2])
    law = "beta(alpha=4, beta=1)"
    assert over_two_periods(later, others, held, law) > over_two_periods(now, others, held, law) + 0.1
    assert over_two_periods(later, others, held) == over_two_periods(now, others, held)


@pytest.mark.parametrize("law", ["shapley", "beta(alpha=4, beta=1)"])
@given(seed=seeds)
@settings(max_examples=8, deadline=None)
def test_splitting_is_worth_exactly_nothing(law, seed):
    new, old, held, rng = drawn(seed)
    acquired = AcquiredData(old.submission("old", np.full(12, "them")), np.arange(12))
    utility = UtilityOracle(held.features, held.label, Utility.paying()).given(acquired)
    owner = np.array([f"p{i}" for i in rng.integers(3, size=30)])
    names = np.array([f"q{i}" for i in rng.integers(5, size=30)])
    split = np.where(owner == "p0", names, owner)
    pays = get_mechanism("recommended/lineage@none", leak_check="off", semivalue=law)
    honest, attacked = (pays.pay(new.submission("u", who), utility) for who in (owner, split))
    part = set(honest.identities.tolist()) & {"p0"}
    assert attacked.total(sorted(set(split[owner == "p0"]))) == honest.total(sorted(part))
    assert attacked.totals.sum() == honest.totals.sum()
