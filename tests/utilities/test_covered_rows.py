"""Which validation rows players cover: parts that sum to values, and everything else as a plain loop finds it."""

import numpy as np
import pytest

from datamarket_gym import Submission
from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.data.inputs import unlabelled
from datamarket_gym.games.semivalues import SEMIVALUES
from datamarket_gym.utilities.coverage import WELL, Coverage, covered_rows
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

MOST = 3


def market(seed, n=24, rows=15, classes=3, dimensions=5):
    """Units of which some are equal, two to a player now and then, and validation rows."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, dimensions))
    features[5:8] = features[0]
    label, held_label = rng.integers(0, classes, n), rng.integers(0, classes, rows)
    label[5:8] = label[0]
    player = np.unique(np.where(rng.random(n) < 0.2, 3, np.arange(n)), return_inverse=True)[1]
    return features, label, player, rng.normal(size=(rows, dimensions)), held_label


def by_loop(learner, features, label, player, held, held_label, baseline):
    """g of each row and player (of several units the largest), and the Shapley parts, one pair after the other."""

    def directions(x):
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    c = learner.baseline_similarity(held)
    g = np.zeros((len(held), player.max() + 1))
    for z in range(len(held)):
        for u in range(len(features)):
            if learner.labels and label[u] != held_label[z]:
                continue
            near = directions(held)[z] @ directions(features)[u]
            g[z, player[u]] = max(g[z, player[u]], min((near - c) / (1 - c), 1.0))
    g = np.where(g > baseline[:, None], g, 0.0)
    parts = np.zeros_like(g)
    for z, row in enumerate(g):
        levels = np.append(np.sort(row[row > 0])[::-1], baseline[z])
        for j in np.flatnonzero(row > 0):
            parts[z, j] = sum(
                (levels[i - 1] - levels[i]) / i for i in range(1, len(levels)) if levels[i - 1] <= row[j]
            )
    return g, parts / len(held)


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_parts_are_as_a_loop_finds_them_and_sum_to_the_values(seed, given, labels):
    features, label, player, held, held_label = market(seed)
    learner = Coverage(quantile=0.3, labels=labels)
    oracle = UtilityOracle(held, held_label, Utility("coverage"), learner=learner)
    baseline = np.zeros(len(held))
    if given:
        old = market(seed + 100, n=6)
        units = Submission(
            id=[f"o{i}" for i in range(6)], identity=["old"] * 6, features=old[0], label=old[1]
        )
        oracle = oracle.given(AcquiredData(units, np.arange(6)))
        baseline = by_loop(learner, old[0], old[1], np.zeros(6, int), held, held_label, baseline)[0].max(
            axis=1
        )
    n = player.max() + 1
    scorer = oracle.scorer(features, label, None, player, n)
    shapley = SEMIVALUES.create("shapley")
    group = np.arange(n) % 3
    found = covered_rows(scorer, shapley, MOST, np.arange(n), group, 4)
    g, parts = by_loop(learner, features, label, player, held, held_label, baseline)

    exact = scorer.closed_form(shapley, oracle.empty_value)
    np.testing.assert_allclose(found.value, exact, rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(parts.sum(axis=0), exact, atol=1e-12)
    np.testing.assert_allclose(found.covered, np.maximum(g.max(axis=1), baseline), atol=1e-12)
    np.testing.assert_allclose(found.baseline, baseline, atol=1e-12)
    np.testing.assert_allclose(parts.sum(axis=1) * len(held), found.covered - found.baseline, atol=1e-12)
    assert (found.players == (g > 0).sum(axis=1)).all()
    assert (found.well == ((g >= WELL) & (g > 0)).sum(axis=1)).all()
    top = (np.abs(g - g.max(axis=1, keepdims=True)) < 1e-12) & (g > 0)
    for counts, who in ((found.counts, np.arange(n)), (found.groups, group)):
        for count, covers in zip(counts, (g > 0, (g >= WELL) & (g > 0), top), strict=True):
            assert count.tolist() == [covers[:, who == k].any(axis=1).sum() for k in range(len(count))]
    for z in range(len(held)):
        assert found.nearest[z] == -1 if not top[z].any() else top[z, found.nearest[z]]
    for j in range(n):
        largest = np.sort(parts[:, j])[::-1][:MOST]
        kept = found.row[j] >= 0
        assert kept.sum() == min(MOST, (parts[:, j] > 0).sum())
        np.testing.assert_allclose(found.part[j], largest, atol=1e-12)
        for z, degree, part, place in zip(
            found.row[j][kept],
            found.degree[j][kept],
            found.part[j][kept],
            found.place[j][kept],
            strict=True,
        ):
            assert degree == pytest.approx(g[z, j], abs=1e-12)
            assert part == pytest.approx(parts[z, j], abs=1e-12)
            assert place == 1 + (g[z] > g[z, j] + 1e-12).sum()


def test_any_semivalue_s_parts_sum_to_its_values():
    features, label, player, held, held_label = market(9)
    oracle = UtilityOracle(held, held_label, Utility("coverage"))
    n = player.max() + 1
    scorer = oracle.scorer(features, label, None, player, n)
    for name in ("banzhaf", "beta", "loo"):
        semivalue = SEMIVALUES.create(name)
        found = covered_rows(scorer, semivalue, len(held), np.arange(n), np.zeros(n, int), 1)
        np.testing.assert_allclose(
            found.value, scorer.closed_form(semivalue, 0.0), rtol=1e-12, atol=1e-15
        )
        np.testing.assert_allclose(found.part.sum(axis=1), found.value, atol=1e-12)


def test_half_way_is_well_and_of_equal_parts_the_first_rows_are_kept():
    oracle = UtilityOracle(
        np.eye(4), None, Utility("coverage")
    )  # strangers have nothing in common: c is 0
    scorer = oracle.scorer(np.ones((1, 4)), unlabelled(1), None, np.zeros(1, int), 1)
    found = covered_rows(
        scorer, SEMIVALUES.create("shapley"), MOST, np.zeros(1, int), np.zeros(1, int), 1
    )
    assert found.covered.tolist() == [WELL] * 4
    assert found.well.tolist() == [1] * 4
    assert (found.counts[1].tolist(), found.groups[1].tolist()) == ([4], [4])
    assert found.row.tolist() == [[0, 1, 2]]
