"""Standard errors of payments: shares of one score add, scores of different clusters do not."""

import numpy as np
import pytest

from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility

SAMPLED = {"estimator": "permutation", "samples": 16}


@pytest.fixture(scope="module")
def copied(market):
    """A submission in which provider_0's units are there twice, and the validation rows."""
    profile = create("attack", "exact_dup_2x_sybils").apply(0, market.state)
    return profile.submission, market.utility_oracle(Utility("knn"))


def by_hand(paid, share_of):
    """sqrt(sum over clusters of (share x error of the score)^2), one identity at a time."""
    n_clusters = len(paid.scores.values)
    return [
        np.sqrt(
            sum((share_of(name, c) * paid.scores.standard_errors[c]) ** 2 for c in range(n_clusters))
        )
        for name in paid.identities
    ]


@pytest.mark.parametrize("rule", ["count_raw", "equal_submitted"])
def test_an_identitys_error_takes_clusters_as_independent_and_units_of_one_as_one(copied, rule):
    submission, oracle = copied
    paid = get_mechanism(
        "quotient_shapley/cosine@0.6", granularity="unit", allocation=rule, **SAMPLED
    ).pay(submission, oracle)
    label = paid.clustering.label

    def share(name, cluster):
        inside = submission.identity[label == cluster]
        if rule == "count_raw":
            return (inside == name).mean()
        return (name in inside) / len(np.unique(inside))

    pairs = set(zip(label.tolist(), submission.identity.tolist(), strict=True))
    assert len(np.unique(label)) < len(pairs) < len(label)  # shared clusters, and several units in one
    assert (paid.scores.standard_errors > 0).all()
    assert paid.standard_errors == pytest.approx(by_hand(paid, share), rel=1e-12)


def test_normalised_scores_carry_normalised_errors(copied):
    submission, oracle = copied
    raw = get_mechanism("beta_shapley", **SAMPLED).pay(submission, oracle)
    scaled = get_mechanism("beta_shapley", normalize=True, **SAMPLED).pay(submission, oracle)
    factor = scaled.grand_value / raw.scores.values.sum()
    assert abs(factor - 1) > 0.01
    assert scaled.scores.raw_total == pytest.approx(raw.scores.values.sum())
    assert raw.scores.raw_total is None
    assert scaled.scores.values == pytest.approx(factor * raw.scores.values)
    assert scaled.scores.standard_errors == pytest.approx(factor * raw.scores.standard_errors)
    assert scaled.standard_errors == pytest.approx(factor * raw.standard_errors)


def test_what_several_names_get_together_is_the_sum_of_what_each_gets(copied):
    submission, oracle = copied
    paid = get_mechanism("shapley").pay(submission, oracle)
    one, two, *_ = paid.identities.tolist()
    assert paid.total([one, two]) == paid.as_dict()[one] + paid.as_dict()[two]
