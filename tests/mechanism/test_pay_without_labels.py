"""A market without labels is the same market with one, and coverage without labels does not look at any."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym import ProviderMarket, Submission, Utility, UtilityOracle, create, get_mechanism
from datamarket_gym.analysis.metrics import provider_totals
from datamarket_gym.analysis.redteam import market_state
from datamarket_gym.errors import CollapsedMarketWarning, LeakedRowsWarning, SubmissionError

COVERAGE = (
    "coverage",
    "coverage@0.9",
    "coverage@0.99",
    "coverage(quantile=0.9, similarity=standardised)",
)
MARKET = ProviderMarket.from_task("synthetic(n_providers=4, per_provider=15, validation=150)", seed=4)
HONEST = MARKET.honest.submission
# With copies, near ones too, so that evidence has something to tie.
COPIED = create("attack", "near_duplicate_2x_sybils@0.01").apply(1, MARKET.state).submission
HELD, HELD_LABEL = MARKET.dataset.validation_features, MARKET.dataset.validation_label


def labelled(submission, label):
    return replace(submission, label=None if label is None else np.full(len(submission), label))


@pytest.mark.parametrize("coverage", COVERAGE)
@pytest.mark.parametrize("evidence", ["", "/none", "/exact_hash", "/lineage@0.9"])
@pytest.mark.parametrize("label", ["x", 7, 0.5])
def test_one_label_pays_as_none_to_the_byte(coverage, evidence, label):
    m, utility = get_mechanism(f"recommended{evidence}"), Utility(coverage)
    bare = m.pay(labelled(COPIED, None), UtilityOracle(HELD, None, utility))
    oracle = UtilityOracle(HELD, np.full(len(HELD), label), utility)
    one = m.pay(labelled(COPIED, label), oracle)
    assert bare.totals.tobytes() == one.totals.tobytes()
    assert bare.grand_value == one.grand_value > 0
    assert bare.threshold == one.threshold
    if not evidence:
        assert bare.threshold.cost is not None  # it was measured, not given up
        assert bare.threshold.theta is not None


@pytest.mark.parametrize("coverage", ["coverage", "coverage@0.9"])
@pytest.mark.parametrize("evidence", ["none", "exact_hash", "lineage@0.9"])
def test_no_labels_pay_as_labels_that_do_not_count_to_the_bit(coverage, evidence):
    """Distinct units come in the order of their features alone, so that no sum depends on labels."""
    m = get_mechanism(f"recommended/{evidence}")
    quantile = create("learner", coverage).quantile
    blind = Utility(f"coverage(quantile={quantile}, labels=False)")
    ours = m.pay(labelled(COPIED, None), UtilityOracle(HELD, None, Utility(coverage)))
    theirs = m.pay(COPIED, UtilityOracle(HELD, HELD_LABEL, blind))
    assert ours.totals.tobytes() == theirs.totals.tobytes()
    assert ours.grand_value == theirs.grand_value
    counted = m.pay(COPIED, UtilityOracle(HELD, HELD_LABEL, Utility(coverage)))
    assert np.abs(counted.totals - ours.totals).max() > 1e-3  # where they count, they do


def test_labels_on_one_side_do_not_count():
    m, utility = get_mechanism("recommended/lineage@0.9"), Utility("coverage@0.9")
    bare = m.pay(labelled(HONEST, None), UtilityOracle(HELD, None, utility))
    of_units = m.pay(HONEST, UtilityOracle(HELD, None, utility))
    of_rows = m.pay(labelled(HONEST, None), UtilityOracle(HELD, HELD_LABEL, utility))
    assert bare.totals.tobytes() == of_units.totals.tobytes() == of_rows.totals.tobytes()


def test_a_threshold_is_measured_on_rows_without_labels():
    """The validation rows' classes are looked at where they have some, whether or not units do."""
    m, utility = get_mechanism("recommended"), Utility("coverage@0.9")
    bare = m.pay(labelled(HONEST, None), UtilityOracle(HELD, None, utility)).threshold
    classes = m.pay(labelled(HONEST, None), UtilityOracle(HELD, HELD_LABEL, utility)).threshold
    assert str(bare.evidence).startswith("lineage@0.")
    assert bare.cost.costs != classes.cost.costs
    assert "moves" in bare.why


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(COVERAGE[:3]),
    st.sampled_from(
        ["sybil_split_k@2", "sybil_split_k(k=4, how=block)", "exact_dup_2x_sybils@1.0", "own_source"]
    ),
    st.sampled_from(["", "/lineage@0.8"]),
)
def test_splits_and_exact_copies_gain_exactly_nothing(seed, coverage, attack, evidence):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(24, 4)).round(
        int(rng.integers(0, 3))
    )  # some units are equal, some are zeros
    who = np.repeat([f"p{i}" for i in range(4)], 6)
    submission = Submission(
        id=[f"u{i}" for i in range(24)], identity=who, features=features, time=rng.permutation(24).astype(float),
        source=[f"u{i}" for i in range(24)],
    )  # fmt: skip
    held = rng.normal(size=(40, 4))
    state = market_state(submission, held, np.full(40, ""), 1)
    oracle = UtilityOracle(held, None, Utility(coverage))
    m = get_mechanism(f"recommended{evidence}")
    before = provider_totals(m.pay(submission, oracle), state.honest)
    profile = create("attack", attack).apply(1, state)
    after = provider_totals(m.pay(profile.submission, oracle), profile)
    assert after == before


def test_where_labels_are_needed_the_error_names_what_needs_none():
    with pytest.raises(SubmissionError, match=r"needs them .* needs none: .*coverage"):
        UtilityOracle(HELD, None, Utility("knn"))
    with pytest.raises(SubmissionError, match=r"the submitted units have no labels.*coverage"):
        get_mechanism("recommended").pay(
            labelled(HONEST, None), UtilityOracle(HELD, HELD_LABEL, Utility("knn"))
        )


def test_submitted_validation_rows_are_set_aside_and_collapse_is_told_without_labels():
    stuffed = create("attack", "leak_stuffing").apply(0, MARKET.state).submission
    oracle = UtilityOracle(HELD, None, Utility("coverage@0.9"))
    with pytest.warns(LeakedRowsWarning):
        paid = get_mechanism("recommended").pay(labelled(stuffed, None), oracle)
    assert len(paid.leaks) == len(MARKET.state.leaked_features)
    with pytest.warns(CollapsedMarketWarning, match="play as one"):
        get_mechanism("recommended/cosine@0.1").pay(labelled(HONEST, None), oracle)
