"""``datamarket theta`` and the admissibility check on embeddings without labels, and with numbers for labels."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.evidence.admissible_interval import predict_theta
from datamarket_gym.market.datasets import Embeddings

RNG = np.random.default_rng(2)
LABEL = np.arange(240) % 3
VECTORS = RNG.normal(size=(240, 12)) + 2.0 * np.eye(3, 12)[LABEL]


def asked(tmp_path, **arrays):
    np.savez(tmp_path / "e.npz", embeddings=VECTORS, **arrays)
    words = [
        "theta",
        str(tmp_path / "e.npz"),
        "--providers",
        "4",
        "--per-provider",
        "20",
        "--trials",
        "3",
    ]
    found = CliRunner().invoke(app, [*words, "--json", str(tmp_path / "t.json")])
    assert found.exit_code == 0, found.output
    return " ".join(found.output.split()), json.loads((tmp_path / "t.json").read_text())


def test_the_command_recommends_a_threshold_without_labels(tmp_path):
    text, kept = asked(tmp_path)
    assert f"`recommended` takes theta {kept['recommended']['theta']:g}" in text
    assert "of honest pay, at most 1% being allowed" in text
    assert "cosine of any two honest units, p90" in text
    classes, named = asked(tmp_path, labels=LABEL)
    assert "cosine of honest units of one class, p90" in classes
    assert (
        named["pairwise_floor"] > kept["pairwise_floor"]
    )  # units of one class are more alike than any two
    assert named["recommended"]["cost"] != kept["recommended"]["cost"]
    numbers, measured = asked(tmp_path, labels=VECTORS[:, 0])
    assert "cosine of any two honest units, p90" in numbers
    for key in ("recommended", "pairwise_floor", "chaining_floors", "near_duplicate_p10"):
        assert measured[key] == kept[key]


def test_floors_without_classes_are_those_of_one():
    one = predict_theta(VECTORS, np.zeros(240), per_provider=20, trials=3)
    for label in (None, VECTORS[:, 0], np.full(240, "")):
        found = predict_theta(Embeddings(VECTORS, label), per_provider=20, trials=3)
        assert found.lonely_classes == 0
        assert (found.pairwise_floor, found.chaining_floors) == (one.pairwise_floor, one.chaining_floors)
        assert found.near_duplicate_p10 == one.near_duplicate_p10
    assert found.pairwise_floor == pytest.approx(np.quantile(_cosines(), 0.9), abs=0.02)


def _cosines():
    unit = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    return (unit @ unit.T)[np.triu_indices(240, 1)]
