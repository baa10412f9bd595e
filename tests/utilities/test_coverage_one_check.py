"""One look at all similarities serves values, values on groups of validation rows and the value of all players."""

import numpy as np
import pytest

from datamarket_gym import Submission
from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.evidence.graph import Edges, clusters_by
from datamarket_gym.games.semivalues import SEMIVALUES
from datamarket_gym.mechanism.pipeline import get_mechanism
from datamarket_gym.mechanism.quotient_game import score_clusters
from datamarket_gym.mechanism.representatives import represent_clusters
from datamarket_gym.utilities.coverage import CoverageScorer
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

N, ROWS = 40, 21


def market(labels):
    rng = np.random.default_rng(7)
    features, held = rng.normal(size=(N + 6, 4)), rng.normal(size=(ROWS, 4))
    features[5:8] = features[0]
    label = rng.integers(0, 3, N + 6)
    label[5:8] = label[0]
    held_label = rng.integers(0, 4, ROWS) if labels else None  # a class that nobody has
    units = Submission(
        id=[f"u{i}" for i in range(N + 6)],
        identity=[f"p{i % 9}" for i in range(N + 6)],
        features=features,
        label=label if labels else None,
    )
    return units, UtilityOracle(held, held_label, Utility("coverage", "none"))


def oracle_of(units, oracle, given):
    return oracle.given(AcquiredData(units.take(np.arange(N, N + 6)), np.arange(6))) if given else oracle


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("law", ["shapley", "banzhaf"])
def test_what_was_kept_is_what_a_fresh_look_finds(law, given, labels):
    units, oracle = market(labels)
    units, oracle = units.take(np.arange(N)), oracle_of(units, oracle, given)
    player, semivalue = np.arange(N) % 17, SEMIVALUES.create(law)
    everybody = np.ones((2, 17), dtype=bool)

    def scorer():
        return oracle.scorer(units.features, units.label, None, player, 17)

    kept, group = scorer(), np.arange(ROWS) % 5
    by_group = kept.closed_form_by_group(semivalue, 0.25, group)
    alone, all_there = scorer().closed_form(semivalue, 0.25), scorer().utility(everybody)
    np.testing.assert_allclose(kept.closed_form(semivalue, 0.25), alone, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(kept.utility(everybody), all_there, rtol=1e-12)
    assert all_there[0] > 0.1
    np.testing.assert_allclose(
        np.bincount(group) @ by_group / ROWS, alone, atol=1e-12 if law == "shapley" else 1e-9
    )
    other = SEMIVALUES.create("loo")  # another law is worked out anew
    assert (kept.closed_form(other, 0.25) == scorer().closed_form(other, 0.25)).all()
    some = everybody & (np.arange(17) < 9)
    assert (kept.utility(some) == scorer().utility(some)).all()


@pytest.mark.parametrize("groups", [True, False])
def test_scoring_looks_at_similarities_once(monkeypatch, groups):
    looks, answers = [], CoverageScorer.answers

    def counted(self, work):
        looks.append(1)
        return answers(self, work)

    monkeypatch.setattr(CoverageScorer, "answers", counted)
    units, oracle = market(labels=False)
    pays = get_mechanism("recommended", evidence="none")
    clusters = clusters_by(units, Edges.none(), "unit", pays.tie_breaker)
    group = np.arange(ROWS) % 4 if groups else None
    found = score_clusters(represent_clusters(clusters, pays.representative), oracle, groups=group)
    assert len(looks) == 1
    assert found.values.sum() == pytest.approx(found.grand_value)
    assert len(found.by_group) == (4 if groups else 0)
