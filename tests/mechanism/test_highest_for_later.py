"""What a run keeps of its units for later periods: the same, to the bit, as looking at all units again."""

import importlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.data.submission import Submission
from datamarket_gym.evidence.threshold import highest_for_later, measure_threshold
from datamarket_gym.execution import arrays as highest
from datamarket_gym.mechanism.pipeline import get_mechanism
from datamarket_gym.utilities import coverage
from datamarket_gym.utilities.oracle import Utility, UtilityOracle
from datamarket_gym.utilities.similarity import StandardisedSimilarity


def units(rng, n, scale, name="u"):
    label = rng.integers(0, 3, n)
    features = (rng.normal(size=(n, 6)) + np.eye(6)[label] * 2.0) * scale
    return Submission(np.char.add(name, np.arange(n).astype(str)), np.full(n, "a"), features, label)


def market(seed, spread, learner="coverage", rows=120):
    """A utility, two earlier periods and a new one; columns of one spread, or of very unequal ones."""
    rng = np.random.default_rng(seed)
    scale = np.array([1.0, 1, 1, 1, 1, spread])
    held = units(rng, rows, scale)
    utility = UtilityOracle(held.features, held.label, Utility(learner))
    return utility, [units(rng, n, scale, f"{n}.") for n in (70, 40)], units(rng, 30, scale)


def together(periods, utility=None):
    """Previously acquired data of several periods, every second unit trained on."""
    parts = [(each, np.arange(0, len(each), 2)) for each in periods]
    art = AcquiredData.concat(
        {str(i): AcquiredData(each, stands) for i, (each, stands) in enumerate(parts)}
    )
    if utility is None:
        return art
    known = [highest_for_later(each, stands, utility) for each, stands in parts]
    return replace(art, highest={k: np.max([one[k] for one in known], axis=0) for k in known[0]})


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    spread=st.sampled_from([1.0, 1000.0]),
    block=st.sampled_from([1, 7, 512]),
)
def test_what_is_taken_over_is_what_would_be_worked_out(seed, spread, block):
    utility, periods, new = market(seed, spread)
    plain = utility.given(together(periods))
    before = highest._BLOCK
    highest._BLOCK = block
    try:
        given_known = utility.given(together(periods, utility))
    finally:
        highest._BLOCK = before
    assert len(given_known.acquired.highest) == 2
    assert measure_threshold(new, given_known) == measure_threshold(new, plain)
    assert given_known.empty_value == plain.empty_value
    copies = Submission.concat([new, periods[0].take(np.arange(4), {"id": np.array(list("wxyz"))})])
    for evidence in ("lineage@auto", "none"):
        way = get_mechanism("recommended", evidence=evidence)
        paid, wanted = way.pay(copies, given_known), way.pay(copies, plain)
        assert paid.scores.values.tobytes() == wanted.scores.values.tobytes()
        assert paid.acquired.unit.tolist() == wanted.acquired.unit.tolist()
        assert paid.acquired.score.tobytes() == wanted.acquired.score.tobytes()


@pytest.mark.parametrize("spread", [1.0, 1000.0])
def test_nothing_is_compared_with_old_units_where_it_is_known(monkeypatch, spread):
    utility, periods, new = market(1, spread)
    art = together(periods, utility)

    def looked(*args, **more):
        raise AssertionError("they were looked at again")

    monkeypatch.setattr(coverage.Coverage, "highest", looked)
    settle = importlib.import_module("datamarket_gym.evidence.threshold")
    asked = settle.highest_cosines

    def only_new(crowd, others):
        assert len(others) == len(new)
        return asked(crowd, others)

    monkeypatch.setattr(settle, "highest_cosines", only_new)
    get_mechanism("recommended").pay(new, utility.given(art))
    with pytest.raises(AssertionError):
        get_mechanism("recommended").pay(new, utility.given(together(periods)))


def test_other_validation_rows_and_other_learners_take_nothing_over():
    utility, periods, new = market(2, 1.0)
    art = together(periods, utility)
    renamed = UtilityOracle(utility.features, (utility.label + 1) % 3, utility.utility)
    fewer = UtilityOracle(utility.features[1:], utility.label[1:], utility.utility)
    lower = UtilityOracle(utility.features, utility.label, Utility("coverage@0.4"))
    for other in (renamed, fewer, lower):
        assert other.validation_digest not in art.highest
        taken, plain = other.given(art), other.given(together(periods))
        assert measure_threshold(new, taken) == measure_threshold(new, plain)
        paid, wanted = (get_mechanism("recommended").pay(new, each) for each in (taken, plain))
        assert paid.scores.values.tobytes() == wanted.scores.values.tobytes()
    assert utility.validation_digest in art.highest


def test_a_learner_without_such_numbers_keeps_none_of_its_own():
    utility, periods, _ = market(3, 1.0, "knn@5")
    assert utility.validation_digest not in highest_for_later(periods[0], np.arange(9), utility)
    few = market(4, 1.0, rows=60)[0]  # too few for a price: crowding is not asked
    assert set(highest_for_later(periods[0], np.arange(9), few)) == {few.validation_digest}


def test_the_direction_of_a_row_is_the_same_alone_and_among_others():
    rng = np.random.default_rng(0)
    held, rows = rng.normal(size=(50, 40)), rng.normal(size=(30, 40))
    together_ = StandardisedSimilarity().directions(rows, held)
    for i in range(30):
        assert (
            StandardisedSimilarity().directions(rows[i : i + 1], held).tolist()[0]
            == together_[i].tolist()
        )
