"""Content keys are sha256 of the bytes of float64 rows and of the label, however rows are stored."""

import hashlib

import numpy as np
import pytest

from datamarket_gym.data import content_keys as content
from datamarket_gym.data.content_keys import row_keys, unit_keys
from datamarket_gym.execution.arrays import LowPrecisionRows

ROWS = np.random.default_rng(0).normal(size=(11, 3)).astype(np.float16)
ROWS[4] = -0.0
LABELS = [
    np.arange(11) % 3,
    np.arange(11) % 3 == 1,
    np.arange(11) / 4,
    np.where(np.arange(11) % 2, 0.0, -0.0),  # equal, and written unlike
    np.array([f"ä{i % 3}" for i in range(11)]),
    np.array([1, True, 1.0, "1", 2, 2, 2, 2, 2, 2, 2], dtype=object),
    np.arange(11).astype("datetime64[D]"),
]


def by_hand(rows, tails):
    return [
        hashlib.sha256((row + 0.0).tobytes() + tail).hexdigest().encode()
        for row, tail in zip(rows, tails, strict=True)
    ]


@pytest.mark.parametrize("label", LABELS, ids=lambda label: str(label.dtype))
@pytest.mark.parametrize("decimals", [None, 2])
@pytest.mark.parametrize(
    "rows", [ROWS.astype(np.float64), ROWS, LowPrecisionRows([ROWS]), ROWS.astype(">f8")]
)
def test_keys_are_those_of_the_bytes(rows, decimals, label, monkeypatch):
    monkeypatch.setattr(content, "_ROWS", 4)
    wide = ROWS.astype(np.float64) if decimals is None else np.round(ROWS.astype(np.float64), decimals)
    tails = [f"|{each}".encode() for each in label.tolist()]
    found = unit_keys(rows, label, decimals)
    assert found.dtype == "S64"
    assert found.tolist() == by_hand(wide, tails)
    assert row_keys(rows, decimals).tolist() == by_hand(wide, [b""] * 11)


def test_rows_are_not_written_to():
    rows = np.array([[-0.0, 1.26]])
    unit_keys(rows, np.zeros(1), 1)
    assert rows.tobytes() == np.array([[-0.0, 1.26]]).tobytes()


def test_no_rows_have_no_keys_and_every_row_needs_a_label():
    assert unit_keys(ROWS[:0], np.zeros(0)).tolist() == []
    with pytest.raises(ValueError, match="11 rows of features but 10 labels"):
        unit_keys(ROWS, np.zeros(10))
