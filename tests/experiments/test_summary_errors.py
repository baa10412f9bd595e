"""Rows over seeds: a mean of ratios is not the ratio of means, and each has its own error."""

import math

import numpy as np
import pytest

from datamarket_gym.experiments.summary import summarise

HONEST = [1.0, 2.0, 4.0, 0.001]
ATTACKED = [1.5, 2.5, 4.0, 0.9]


def summary(honest=HONEST, attacked=ATTACKED, near=(False, False, False, True)):
    rows = [
        {
            "experiment": "X", "mechanism": "m", "seed": seed, "gain": a / h, "honest_payment": h,
            "attacked_payment": a, "near_zero": n,
        }
        for seed, (h, a, n) in enumerate(zip(honest, attacked, near, strict=True))
    ]  # fmt: skip
    return {row["metric"]: row for row in summarise(rows)}


def test_a_gain_is_the_mean_over_seeds_in_which_it_means_something():
    found = summary()
    clear = [1.5, 1.25, 1.0]
    assert found["gain"]["value"] == pytest.approx(np.mean(clear))
    assert found["gain"]["se"] == pytest.approx(np.std(clear, ddof=1) / math.sqrt(3))
    assert found["gain_every_seed"]["value"] == pytest.approx(np.mean([*clear, 900.0]))
    assert (found["gain"]["seeds"], found["gain"]["left_out"]) == (3, [3])
    assert found["gain_every_seed"]["seeds"] == 4
    assert "left_out" not in found["gain_every_seed"]
    worst = found["gain_worst_seed"]
    assert (worst["value"], worst["se"], worst["seeds"]) == (1.5, None, 3)


def test_a_ratio_of_means_has_the_jackknifes_error():
    found = summary()["gain_ratio_of_means"]
    assert found["value"] == pytest.approx(sum(ATTACKED) / sum(HONEST))
    without = np.array(
        [sum(ATTACKED[:i] + ATTACKED[i + 1 :]) / sum(HONEST[:i] + HONEST[i + 1 :]) for i in range(4)]
    )
    assert found["se"] == pytest.approx(math.sqrt(3 / 4 * ((without - without.mean()) ** 2).sum()))


def test_with_equal_honest_payments_the_jackknife_is_the_error_of_the_mean():
    found = summary(honest=[2.0] * 4, near=[False] * 4)
    for column in ("value", "se"):
        assert found["gain_ratio_of_means"][column] == pytest.approx(found["gain"][column])


def test_there_is_no_error_of_one_seed_nor_where_a_sum_without_one_is_zero():
    assert summary([1.0], [2.0], [False])["gain_ratio_of_means"]["se"] is None
    assert summary([1.0], [2.0], [False])["gain"]["se"] is None
    assert summary([1.0, 1.0, -1.0], [1.0, 1.0, 1.0], [False] * 3)["gain_ratio_of_means"]["se"] is None
