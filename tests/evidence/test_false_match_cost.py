"""The false-match cost of lineage: what the mechanism itself would move, and the rule that picks a threshold by it."""

import numpy as np
import pytest

from datamarket_gym import Submission, Utility, UtilityOracle, get_mechanism
from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.evidence import false_match_cost as module
from datamarket_gym.evidence.false_match_cost import DEALS, GRID, LIMIT, PROVIDERS, false_match_cost
from datamarket_gym.evidence.leak_check import LabelledVectors, stranger_level
from datamarket_gym.evidence.threshold import (
    FEWEST,
    LEAST,
    choose_threshold,
    honest_vectors,
)
from datamarket_gym.execution.arrays import directions, highest_cosines
from datamarket_gym.utilities.knn import NearestNeighbourGame

RNG = np.random.default_rng(11)
LABEL = np.arange(300) % 3
VECTORS = RNG.normal(size=(300, 10)) + 2.5 * np.eye(3, 10)[LABEL]
KNN = Utility("knn@5", "chance")


def shares(submission, oracle, theta):
    paid = get_mechanism(f"recommended/lineage@{theta}").pay(submission, oracle)
    floored = paid.totals.clip(0.0)
    return floored / floored.sum()


@pytest.mark.parametrize("theta", [0.9, 0.8, 0.7])
def test_the_price_of_a_deal_is_what_the_mechanism_moves(theta):
    rows, n = RNG.permutation(300), 240
    units, held = rows[:n], rows[n:]
    submission = Submission(
        id=[f"u{i:03}" for i in range(n)], identity=[f"p{i % PROVIDERS}" for i in range(n)],
        features=VECTORS[units], label=LABEL[units], time=np.arange(float(n)),
    )  # fmt: skip
    oracle = UtilityOracle(VECTORS[held], LABEL[held], KNN)
    moved = np.abs(shares(submission, oracle, theta) - shares(submission, oracle, "none")).sum() / 2
    found = module._Deal(VECTORS, LABEL, rows, n).cost(theta)
    assert found == pytest.approx(moved, abs=1e-9)
    assert found > 0


def test_the_threshold_is_the_lowest_that_is_cheap_with_all_above_it():
    found = false_match_cost(VECTORS, LABEL)
    upper = np.array(found.costs) + 3 * np.array(found.errors)
    assert found.thetas == GRID[: len(upper)].tolist()
    assert found.theta == found.thetas[-2]
    assert (upper[:-1] <= LIMIT).all()
    assert upper[-1] > LIMIT
    assert found.at(found.theta) == found.costs[-2]
    assert (found.rows, found.units) == (300, 240)


def test_the_price_is_a_mean_over_deals_of_rows_drawn_by_content_alone():
    found = false_match_cost(VECTORS, LABEL)
    chosen = keyed_generator("honest price")
    deals = [module._Deal(VECTORS, LABEL, chosen.permutation(300), 240) for _ in range(DEALS)]
    drawn = [deal.cost(found.theta) for deal in deals]
    assert found.at(found.theta) == pytest.approx(np.mean(drawn), abs=1e-6)
    assert np.std(drawn) > 0


def test_three_standard_errors_over_the_deals_count(monkeypatch):
    """Half of the deals cost x, half nothing: mean x / 2, standard error x / (2 sqrt(19)), their bound 0.844 x."""
    made = iter(range(DEALS))

    class Half:
        def __init__(self, *_):
            self.dear = next(made) % 2

        def cost(self, theta):
            return self.dear * (0.0118 if theta >= 0.8 else 0.0119)

    monkeypatch.setattr(module, "_Deal", Half)
    found = false_match_cost(VECTORS, LABEL)
    assert found.thetas[0] == 1.0
    assert found.theta == 0.8
    assert found.costs[-1] == pytest.approx(0.0119 / 2)
    assert found.errors[-1] == pytest.approx(0.0119 / 2 / np.sqrt(19), abs=1e-6)


def test_a_dip_below_a_dear_threshold_is_not_taken(monkeypatch):
    def priced(self, theta):
        return 0.02 if theta == 0.8 else 0.0

    monkeypatch.setattr(module._Deal, "cost", priced)
    assert false_match_cost(VECTORS, LABEL).theta == 0.81


def test_where_ties_are_rare_the_grid_ends_at_one_half():
    rng = np.random.default_rng(0)
    label = np.arange(200) % 2
    found = false_match_cost(rng.normal(size=(200, 400)) + 8 * np.eye(2, 400)[label], label)
    assert found.theta == GRID[-1] == 0.5


def test_where_nobody_earns_anything_no_threshold_is_taken():
    apart = np.eye(300)  # nobody covers anybody
    found = choose_threshold(LabelledVectors(apart, np.zeros(300, dtype=int)), apart)
    assert (found.theta, found.evidence, found.cost.theta) == (None, "lineage@none", None)
    assert "at every threshold" in found.why


def test_below_a_hundred_rows_near_copies_alone_are_tied():
    few = choose_threshold(LabelledVectors(VECTORS[: LEAST - 1], LABEL[: LEAST - 1]), VECTORS)
    assert few.cost is None
    assert few.theta == few.lowest >= few.near_copies
    assert "99 different validation rows are too few" in few.why
    twice = np.r_[np.arange(LEAST - 1), 0]  # the same row again is no other row
    again = choose_threshold(LabelledVectors(VECTORS[twice], LABEL[twice]), VECTORS)
    assert (again.cost, again.theta) == (None, few.theta)
    assert choose_threshold(LabelledVectors(VECTORS[:LEAST], LABEL[:LEAST]), None).cost is not None
    copies = np.r_[VECTORS, VECTORS]  # copies are no crowd, more different units are
    assert choose_threshold(LabelledVectors(VECTORS[:50], LABEL[:50]), copies).theta == (
        choose_threshold(LabelledVectors(VECTORS[:50], LABEL[:50]), VECTORS).theta
    )


def test_below_twenty_rows_nothing_is_asked():
    few = choose_threshold(LabelledVectors(VECTORS[: FEWEST - 1], LABEL[: FEWEST - 1]), VECTORS)
    assert (few.theta, few.evidence) == (None, "lineage@none")
    assert choose_threshold(LabelledVectors(VECTORS[:FEWEST], LABEL[:FEWEST]), VECTORS).theta is not None


@pytest.mark.parametrize("dims", [6, 24])
def test_the_law_of_a_few_foresees_the_nearest_of_many(dims):
    """Fitted on 200 directions, held against the nearest of 4,000: which share is as near as the level says?"""
    rng = np.random.default_rng(dims)
    many, asked = (directions(rng.normal(size=(4000, dims))) for _ in range(2))
    near = highest_cosines(asked, many)
    fitted = [directions(rng.normal(size=(200, dims))) for _ in range(10)]
    for share in (0.5, 0.1, 0.02):
        levels = [stranger_level(few, share, times=20) for few in fitted]
        assert share / 2 < float((near >= np.mean(levels)).mean()) < 2 * share


def test_identical_rows_and_their_order_decide_nothing():
    first = choose_threshold(LabelledVectors(VECTORS, LABEL), None)
    rows = RNG.permutation(np.r_[np.arange(300), np.arange(50)])
    assert choose_threshold(LabelledVectors(VECTORS[rows], LABEL[rows]), None) == first


def test_closed_forms_of_many_validation_rows_are_those_of_each():
    agrees = RNG.integers(0, 2, (6, 40)).astype(float)
    game = NearestNeighbourGame.from_weights(np.full(40, 1 / 40), 5)
    assert game.values(agrees, 0.3).tolist() == [game.values(row, 0.3).tolist() for row in agrees]


def test_few_rows_that_share_directions_tie_identical_units_alone():
    """A table of one column: all units are parallel, and none is a copy for that."""
    one = np.arange(1.0, LEAST)[:, None]
    found = choose_threshold(LabelledVectors(one, np.arange(LEAST - 1) % 2), one + 0.5)
    assert (found.theta, found.evidence) == (None, "lineage@none")


@pytest.mark.parametrize("theta", [0.95, 0.9, 0.8])
def test_without_labels_the_price_of_a_deal_is_what_the_mechanism_moves_under_coverage(theta):
    rows, n = RNG.permutation(300), 240
    units, held = rows[:n], rows[n:]
    submission = Submission(
        id=[f"u{i:03}" for i in range(n)], identity=[f"p{i % PROVIDERS}" for i in range(n)],
        features=VECTORS[units], time=np.arange(float(n)),
    )  # fmt: skip
    oracle = UtilityOracle(VECTORS[held], None, Utility("coverage(quantile=0.9, similarity=cosine)"))
    moved = np.abs(shares(submission, oracle, theta) - shares(submission, oracle, "none")).sum() / 2
    found = module._Deal(VECTORS, np.zeros(300, dtype=int), rows, n).cost(theta)
    assert found == pytest.approx(moved, abs=1e-9)
    assert found > 0


@pytest.mark.parametrize(
    "label", [None, np.full(300, "x"), np.zeros(300), VECTORS[:, 0], np.full(300, "")]
)
def test_what_tells_no_classes_apart_is_measured_as_if_there_were_no_labels(label):
    found = choose_threshold(LabelledVectors(VECTORS, label), None)
    assert LabelledVectors(VECTORS, label) == LabelledVectors(VECTORS)
    assert found == choose_threshold(LabelledVectors(VECTORS), None)
    assert found.cost.theta is not None
    assert found.evidence == f"lineage@{found.theta:g}"
    assert found != choose_threshold(LabelledVectors(VECTORS, LABEL), None)


def test_numbers_to_be_predicted_are_no_classes_however_they_are_written():
    """Integers look like classes, and classes may be in floating point: what the learner needs decides."""
    oracle = UtilityOracle(VECTORS, LABEL, KNN)
    submission = Submission(id=["a", "b"], identity=["a", "b"], features=VECTORS[:2], label=LABEL[:2])
    assert honest_vectors(submission, oracle) == LabelledVectors(VECTORS, LABEL)
    oracle.learner = type("Predicting", (type(oracle.learner),), {"target": "number"})()
    assert honest_vectors(submission, oracle) == LabelledVectors(VECTORS)
    floats = UtilityOracle(VECTORS, LABEL / 2, KNN)
    assert honest_vectors(submission, floats) == LabelledVectors(VECTORS, (LABEL / 2).astype(str))
    assert honest_vectors(submission, UtilityOracle(VECTORS, LABEL / 2, Utility("coverage"))) == (
        LabelledVectors(VECTORS)
    )
