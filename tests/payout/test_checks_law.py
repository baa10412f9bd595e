"""The law of draws: a key of three texts, and draws over several drafts that are distributed by the last amounts."""

import itertools

import numpy as np
import pytest

from datamarket_gym.payout.checks.draw import draw_key, draw_units
from datamarket_gym.payout.checks.plan import CheckedPayee, CheckPlan, EarlierChecks

PLAN = CheckPlan(checks=3, power=0.8)


def payee(amounts):
    """The units above zero of a payee; a unit is called as its place."""
    earns = [i for i, amount in enumerate(amounts) if amount > 0]
    worth = np.array(amounts, dtype=float)[earns]
    return CheckedPayee(
        "a", 100, [str(i) for i in earns], ["a"] * len(earns), np.array(earns), worth, float(worth.sum())
    )


def places(number, amounts, standing=None):
    found = draw_units(
        draw_key("manifest", "plan", f"beacon {number}"), PLAN, [payee(amounts)], standing
    )
    return [draw.row for part in reversed(found) for draw in part]


def standing_of(amounts, drawn):
    old = payee(amounts)
    share = dict(zip(old.units, old.share.tolist(), strict=True))
    return EarlierChecks({"a": [str(place) for place in drawn]}, {"a": share})


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_each_of_the_three_texts_decides_the_key(changed):
    texts = ["manifest", "plan", "beacon"]
    other = [text + "!" if i == changed else text for i, text in enumerate(texts)]
    assert draw_key(*texts) != draw_key(*other)


@pytest.mark.parametrize(
    "drafts",
    [
        [(6, 2, 1, 1, 0), (1, 1, 1, 1, 6), (3, 0, 3, 3, 1)],
        [(1, 1, 1, 1, 1), (0, 0, 5, 1, 1), (5, 5, 0, 1, 1)],
    ],
)
def test_after_any_number_of_drafts_draws_are_distributed_by_the_last_amounts(drafts):
    """One by one and in pairs: two draws of a payee are independent, or many checks would count for few."""
    times, last = 3000, np.array(drafts[-1], dtype=float)
    chance = last / last.sum()
    counts, pairs = np.zeros(5), np.zeros((5, 5))
    for number in range(times):
        drawn = places(f"{number} first", drafts[0])
        for draft, (before, now) in enumerate(itertools.pairwise(drafts)):
            drawn = places(f"{number} {draft}", now, standing_of(before, drawn))
        assert len(drawn) == PLAN.checks
        np.add.at(counts, drawn, 1)
        for one in range(PLAN.checks):
            for two in range(PLAN.checks):
                pairs[drawn[one], drawn[two]] += one != two
    assert (np.abs(counts - 3 * times * chance) <= 4.5 * np.sqrt(3 * times * chance)).all()
    both = 6 * times * np.outer(chance, chance)
    assert (np.abs(pairs - both) <= 5 * np.sqrt(2 * both)).all()


def test_a_draw_that_does_not_stand_falls_on_each_unit_that_gained_by_what_it_gained():
    """Whether an old draw stands and where a new one falls are two chances, not one."""
    counts = np.zeros(4)
    for number in range(4000):
        np.add.at(counts, places(number, (0, 2, 1, 1), standing_of((1, 0, 0, 0), [0, 0, 0])), 1)
    chance = np.array([0, 0.5, 0.25, 0.25])
    assert (np.abs(counts - 12000 * chance) <= 4.5 * np.sqrt(12000 * chance)).all()
