"""pay --utility count: every distinct unit is paid alike; and what is refused or warned of before that."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from payout_files import run, table, units, validation, warned

from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.settings import checked_spec
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.warnings import read_warnings


def test_every_distinct_unit_is_paid_alike(tmp_path):
    """66 units, of which 6 are copies: three of them exact, which alone are matched here."""
    made = run(tmp_path, learner="count", amount="630.00")
    columns = units()
    first = {}
    for owner, row in zip(columns["identity"], columns["features"], strict=True):
        first.setdefault(row.tobytes(), owner)
    wanted = {name: f"{10 * list(first.values()).count(name)}.00" for name in set(columns["identity"])}
    rows = pq.read_table(made / "payments.parquet").to_pylist()
    assert {row["identity"]: row["payment"] for row in rows} == wanted
    assert all(row["low"] == row["payment"] == row["high"] for row in rows)
    assert set(pq.read_table(made / "clusters.parquet")["score"].to_pylist()) == {1.0}
    assert "counted_unchecked" in warned(made)
    assert "counted_unchecked" not in warned(run(tmp_path / "checked", learner="count", checks=3))


def test_near_copies_that_are_not_looked_for_are_told(tmp_path):
    few = {name: column[:11] for name, column in validation().items()}
    made = run(tmp_path, held=few, theta="auto")
    [found] = [each for each in read_warnings(made) if each.name == "unmatched_copies"]
    assert "11 different validation rows are too few" in found.words
    assert found.count == 11
    assert "unmatched_copies" not in warned(run(tmp_path / "chosen", held=few))


def test_pieces_of_texts_that_count_like_whole_ones_are_told(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"{a}{b}o" for a in "bdfgkmtprs" for b in ("an", "el", "ir", "os", "ub", "ech", "ill")]
    whole = [" ".join(rng.choice(words, 24)) for _ in range(24)]
    pieces = [" ".join(whole[i].split()[j : j + 4]) for i in range(2) for j in range(0, 24, 4)]
    held = [" ".join(rng.choice(words, int(rng.integers(20, 40)))) for _ in range(40)]
    pq.write_table(table({"text": held}), tmp_path / "validation.parquet")

    def paid(name, texts, learner="count"):
        submitted = {"text": texts, "identity": ["ann"] * 24 + ["eve"] * (len(texts) - 24)}
        pq.write_table(table(submitted), tmp_path / f"{name}.parquet")
        spec = checked_spec({
            "amount": "500.00", "columns": {"text": "text"}, "encoder": "ngrams@64", "audit": False, "checks": 3,
            "learner": learner, "theta": "auto",
        })  # fmt: skip
        pay(Places(tmp_path / f"{name}.parquet", tmp_path / "validation.parquet"), spec, tmp_path / name)
        return {each.name: each for each in read_warnings(tmp_path / name)}

    found = paid("cut", [*whole, *pieces])["short_texts"]
    assert (found.count, found.items) == (12, ("“eve”: 12 texts, in the median 4 words",))
    assert "short_texts" not in paid("whole", whole)
    assert "short_texts" not in paid("covered", [*whole, *pieces], "coverage@0.9")


@pytest.mark.parametrize(("ours", "alike"), [(("Cat", " cow"), True), (("x", "y"), False)])
def test_labels_that_never_meet_are_listed(tmp_path, ours, alike):
    submitted, held = units(), validation()
    submitted["label"] = np.array([*ours, "bird"])[submitted["label"]]
    held["label"] = np.array(["cat", "cow", "dog"])[held["label"]]
    with pytest.raises(DataMarketError, match="no label of the units occurs") as refused:
        run(tmp_path, submitted, held)
    assert all(repr(name) in str(refused.value) for name in (*ours, "cat", "cow", "dog"))
    assert ("capitals or blanks" in str(refused.value)) == alike
    assert not (tmp_path / "run").exists()
