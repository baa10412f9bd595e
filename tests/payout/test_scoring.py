"""Scores, their groups of validation rows, and the intervals made from them."""

import numpy as np
import pytest
from payout_files import DIMENSIONS, spec, units, validation, write

from datamarket_gym.evidence.graph import Edges, clusters_by
from datamarket_gym.mechanism import Payments, allocate, represent_clusters, score_clusters
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.money import (
    half_width,
    standard_errors,
    validation_groups,
)
from datamarket_gym.payout.results import in_cents
from datamarket_gym.utilities.coverage import Coverage
from datamarket_gym.utilities.oracle import UtilityOracle


def scored(folder, held, chosen=None):
    chosen = chosen or spec()
    places = write(folder, units(), held)
    inputs = read_inputs(places, chosen)
    mechanism = chosen.mechanism("exact_hash")
    submission, utility = inputs.submission, inputs.utility_oracle(chosen)
    clusters = clusters_by(submission, Edges.none(), "unit")
    canonical = represent_clusters(clusters, mechanism.representative)
    dealt = validation_groups(utility.features, utility.label, chosen.seed)
    found = score_clusters(canonical, utility, groups=dealt)
    shares = allocate(clusters, canonical, found, mechanism.allocation)
    paid = Payments(submission.identities, clusters, canonical, found, shares)
    return (
        inputs,
        found,
        in_cents(paid, inputs, chosen, np.arange(len(inputs.identities)), {}, frozenset()),
    )


@pytest.mark.parametrize("learner", ["coverage", "knn"])
def test_groups_are_the_scores_on_their_own_validation_rows(learner, tmp_path, monkeypatch):
    chosen = spec(learner=learner)
    inputs, found, _ = scored(tmp_path, validation(), chosen)
    whole = (found.by_group * found.group_size[:, None]).sum(axis=0) / found.group_size.sum()
    assert np.allclose(whole, found.values, atol=1e-14)
    # one group against the same mechanism on those rows alone (three classes in all, so chance is 1/3)
    utility = inputs.utility_oracle(chosen)
    # and the level of strangers is that of all rows
    level = Coverage().baseline_similarity(utility.features)
    monkeypatch.setattr(Coverage, "baseline_similarity", lambda self, rows: level)
    group = validation_groups(utility.features, utility.label, 0)
    rows = group == 0
    clusters = clusters_by(inputs.submission, Edges.none(), "unit")
    mechanism = chosen.mechanism("exact_hash")
    canonical = represent_clusters(clusters, mechanism.representative)
    alone = UtilityOracle(utility.features[rows], utility.label[rows], chosen.utility)
    alone.classes = utility.classes
    assert np.allclose(score_clusters(canonical, alone).values, found.by_group[0], atol=1e-12)


def test_groups_are_dealt_by_content():
    held = validation()
    group = validation_groups(held["features"], held["label"], 0)
    order = np.random.default_rng(0).permutation(len(group))
    assert (validation_groups(held["features"][order], held["label"][order], 0) == group[order]).all()
    assert np.ptp(np.bincount(group)) <= 1


@pytest.mark.parametrize("learner", ["coverage", "knn"])
def test_standard_errors_match_the_spread_over_fresh_validation_rows(learner, tmp_path):
    draws, errors = [], []
    for seed in range(40):
        held = validation(60, seed=100 + seed)
        _, found, priced = scored(tmp_path / str(seed), held, spec(learner=learner))
        draws.append([float(e) for e in priced.division.exact])
        errors.append(standard_errors(priced.payer, found))
    spread, said = np.std(draws, axis=0, ddof=1), np.mean(errors, axis=0)
    assert (np.abs(np.log(said / spread)) < np.log(1.6)).all()
    width = half_width(20)
    truth = np.mean(draws, axis=0)
    inside = np.abs(np.array(draws) - truth) <= width * np.array(errors)
    assert inside.mean() > 0.88


def test_sampled_scores_have_intervals_too(tmp_path):
    held = validation()
    _, found, priced = scored(tmp_path, held, spec(learner="ridge"))
    assert len(found.by_group) == 0
    assert found.standard_errors.any()
    assert (standard_errors(priced.payer, found) > 0).all()
    assert held["features"].shape[1] == DIMENSIONS
