"""A draft merges copies, a tool scores what is left of them, and the month is paid by that (docs/attributions.md)."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from payout_files import cents, rows, run, warned

WIDE = np.r_[
    np.ones(23), 500.0
]  # a column of a table, not of an encoder: evidence compares standardised ones
HONEST = list(range(60))


def month(scale):
    """Units of four sellers and of an attacker, half of them exact copies and half nearly, and validation rows."""
    rng = np.random.default_rng(3)
    centre = rng.normal(size=(3, 24))
    label = rng.integers(3, size=60)
    features = centre[label] + rng.normal(size=(60, 24))
    stolen = np.arange(0, 60, 5)
    copies = features[stolen] + 0.02 * rng.normal(size=(12, 24)) * (np.arange(12) < 6)[:, None]
    submitted = {
        "id": [f"u{i}" for i in range(72)],
        "identity": [*(f"seller {i % 4}" for i in range(60)), *["attacker"] * 12],
        "label": np.r_[label, label[stolen]],
        "time": np.arange(72.0),
        "features": np.vstack([features, copies]) * scale,
    }
    wanted = rng.integers(3, size=40)
    return submitted, {"label": wanted, "features": (centre[wanted] + rng.normal(size=(40, 24))) * scale}


def merged(folder):
    return pq.read_table(folder / "canonical.parquet").sort_by("unit")


def tool(training, held, path):
    """Scores that depend, as those of real tools do, on everything that a model was trained on."""
    features, label = np.array(training["features"].to_pylist()), training["label"].to_numpy()
    likeness = np.tanh(features[:, :23] @ held["features"][:, :23].T / 24)
    alike = np.where(label[:, None] == held["label"][None], likeness, 0)
    taught = np.bincount(label)[label][:, None]  # what many teach, each of them teaches less
    lines = ["unit,row,score"]
    for unit, scores in zip(training["unit"].to_pylist(), (alike / taught).tolist(), strict=True):
        lines += [f"{unit},{row},{score!r}" for row, score in enumerate(scores)]
    path.write_text("\n".join(lines) + "\n")
    return {"learner": "scores", "files": {"scores": str(path)}}


def paid(folder):
    return {who: amount for who, amount in cents(folder).items() if amount}


@pytest.mark.parametrize("scale", [1.0, WIDE], ids=["embeddings", "tables"])
def test_copies_that_are_merged_before_units_are_scored_change_no_cent(tmp_path, scale):
    everything, held = month(scale)
    found = {}
    for name, submitted in (("honest", rows(everything, HONEST)), ("attacked", everything)):
        training = merged(run(tmp_path / name / "draft", submitted, held, theta="auto"))
        scores = tool(training, held, tmp_path / f"{name}.csv")
        found[name] = run(tmp_path / name / "paid", submitted, held, theta="auto", **scores)
        assert merged(found[name]).equals(training)  # what the tool was given is what is paid for
        assert "unscored_units" not in warned(found[name])
    assert paid(found["attacked"]) == paid(found["honest"])
    assert len(paid(found["honest"])) == 4


def test_copies_that_a_tool_has_trained_on_change_what_others_are_paid(tmp_path):
    everything, held = month(1.0)
    found = {}
    for name, submitted in (("honest", rows(everything, HONEST)), ("attacked", everything)):
        training = merged(
            run(tmp_path / name / "draft", submitted, held, theta="none")
        )  # exact copies alone
        scores = tool(training, held, tmp_path / f"{name}.csv")
        found[name] = run(tmp_path / name / "paid", submitted, held, theta="auto", **scores)
    assert paid(found["attacked"]).keys() == paid(found["honest"]).keys()  # the attacker has nothing
    assert paid(found["attacked"]) != paid(found["honest"])
