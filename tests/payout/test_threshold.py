"""Similarity is used where the false-match cost and the crowd admit a threshold, and not otherwise."""

import math

import numpy as np
import pytest
from payout_files import payments, run, units
from payout_files import validation as few_dimensions

from datamarket_gym.evidence.threshold import density_floor
from datamarket_gym.execution.arrays import highest_cosines
from datamarket_gym.execution.files import read_json

DIMENSIONS = 64


def many_dimensions(n, seed):
    """Unit vectors of two classes that are far apart, as sentence embeddings are."""
    rng = np.random.default_rng(seed)
    label = np.arange(n) % 2
    vectors = rng.normal(size=(n, DIMENSIONS)) + 2.0 * np.eye(2, DIMENSIONS)[label]
    return {"label": label, "features": vectors / np.linalg.norm(vectors, axis=1, keepdims=True)}


def market(noise=0.01):
    rng = np.random.default_rng(3)
    columns = many_dimensions(80, 4)
    n = len(columns["label"])
    stolen = columns["features"][:10] + rng.normal(0, noise, (10, DIMENSIONS))
    return {
        "id": [f"u{i}" for i in range(n + 10)],
        "identity": [*(f"seller {i % 4}" for i in range(n)), *["attacker"] * 10],
        "label": np.concatenate([columns["label"], columns["label"][:10]]),
        "time": np.arange(n + 10.0),
        "features": np.vstack([columns["features"], stolen]),
    }


@pytest.fixture(scope="module")
def held():
    return many_dimensions(200, 5)


def test_noisy_copies_are_worth_nothing_at_an_admissible_threshold(held, tmp_path):
    found = run(tmp_path, market(), held, theta="auto")
    threshold = read_json(found / "threshold.json")
    assert (
        threshold["theta"]
        == math.ceil(100 * max(threshold["cost"]["theta"], threshold["density"])) / 100
    )
    assert threshold["evidence"] == f"lineage@{threshold['theta']}"
    paid = payments(found)["attacker"]
    assert float(paid["payment"]) == 0.0
    assert float(paid["without_evidence"]) > 0.0


def test_a_threshold_that_costs_the_honest_too_much_falls_back_and_says_so(held, tmp_path):
    found = run(tmp_path, market(), held, theta="0.3")
    threshold = read_json(found / "threshold.json")
    assert threshold["evidence"] == "lineage@none"
    assert f"theta 0.3 is below {threshold['cost']['theta']:.3f}" in threshold["why"]
    assert "Only identical units are matched" in (found / "report.html").read_text(encoding="utf-8")
    assert float(payments(found)["attacker"]["payment"]) > 0.0


def test_a_threshold_above_the_lowest_is_used_as_asked(held, tmp_path):
    found = run(tmp_path, market(), held, theta="0.9")
    assert read_json(found / "threshold.json")["evidence"] == "lineage@0.9"
    assert float(payments(found)["attacker"]["payment"]) == 0.0


def test_where_honest_units_are_alike_the_threshold_is_high(held, tmp_path):
    alike = read_json(run(tmp_path / "a", units(), few_dimensions(120), theta="auto") / "threshold.json")
    apart = read_json(run(tmp_path / "b", market(), held, theta="auto") / "threshold.json")
    assert apart["theta"] < 0.8 < 0.95 < alike["theta"]


def test_too_few_validation_rows_to_check(held, tmp_path):
    some = {name: column[:12] for name, column in held.items()}
    found = run(tmp_path, market(), some, theta="auto")
    assert "too few" in read_json(found / "threshold.json")["why"]


def test_copies_in_the_submission_cannot_switch_similarity_off(held, tmp_path):
    columns = market()
    copies = 200
    more = {
        "id": [f"flood {i}" for i in range(copies)],
        "identity": ["flooder"] * copies,
        "label": np.resize(columns["label"][:20], copies),
        "time": 500.0 + np.arange(copies),
        "features": np.resize(columns["features"][:20], (copies, DIMENSIONS)),
    }
    flooded = {
        n: np.concatenate([c, more[n]]) if isinstance(c, np.ndarray) else c + more[n]
        for n, c in columns.items()
    }
    calm, loud = (
        run(tmp_path / "calm", columns, held, theta="auto"),
        run(tmp_path / "loud", flooded, held, theta="auto"),
    )
    assert read_json(calm / "threshold.json")["theta"] == read_json(loud / "threshold.json")["theta"]


def test_crowding_is_exact_and_blind_to_order():
    rng = np.random.default_rng(0)
    some, many = rng.normal(size=(40, 5)), rng.normal(size=(300, 5))
    directions = some / np.linalg.norm(some, axis=1, keepdims=True)
    others = many / np.linalg.norm(many, axis=1, keepdims=True)
    assert np.allclose(
        highest_cosines(directions, many), (directions @ others.T).max(axis=1), atol=1e-12
    )
    a, b = rng.permutation(40), rng.permutation(300)
    more = np.vstack([many, some[:1]])
    floor, shuffled, higher = (
        density_floor(highest_cosines(*each))
        for each in ((directions, many), (directions[a], many[b]), (directions, more))
    )
    assert floor == shuffled <= higher


def test_a_crowd_lifts_the_threshold_and_what_lies_below_is_refused(held, tmp_path):
    columns = market()
    # the submission holds near-twins of many validation rows: honest units that are close to strangers
    close = held["features"][:40] + np.random.default_rng(1).normal(0, 0.012, (40, DIMENSIONS))
    more = {
        "id": [f"crowd {i}" for i in range(40)], "identity": ["crowd"] * 40, "label": held["label"][:40],
        "time": np.arange(40.0), "features": close,
    }  # fmt: skip
    crowd = {
        n: np.concatenate([c, more[n]]) if isinstance(c, np.ndarray) else c + more[n]
        for n, c in columns.items()
    }
    found = run(tmp_path, crowd, held, theta="auto", leak_check="off")
    threshold = read_json(found / "threshold.json")
    assert threshold["density"] > threshold["cost"]["theta"]
    assert 0 <= threshold["theta"] - threshold["density"] < 0.01
    assert "have a submitted unit at" in threshold["why"]
    theta = str(threshold["cost"]["theta"])
    below = run(tmp_path / "below", crowd, held, theta=theta, leak_check="off")
    assert read_json(below / "threshold.json")["evidence"] == "lineage@none"
