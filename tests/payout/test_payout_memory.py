"""A payout run of many units: what its stages need besides the units grows with their number, and little."""

import cProfile
import hashlib
import pstats
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from payout_files import run, spec, units, validation, write

from datamarket_gym.evidence import graph as order
from datamarket_gym.execution.arrays import WHOLE
from datamarket_gym.execution.parallel import Compute, computing
from datamarket_gym.payout.acquired_data import write_acquired
from datamarket_gym.payout.manifest import LEAST, OWNED, Contents
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import Places, places_of
from datamarket_gym.payout.what_if import finished_results

WIDTH = 256
# Without the copies, a tenth, both are still too large to be kept as plain float64.
SMALL = WHOLE // WIDTH * 10 // 9 + 1000
LARGE = SMALL + 8000
FLOAT64 = 8 * WIDTH  # bytes of a unit's features, were they widened


class Watched:
    """How much more memory each stage had at its peak than when it began, and what it counted."""

    def __init__(self):
        self.peaks, self.counts, self._stage, self._before = {}, {}, None, 0

    def stage(self, what, unit=""):
        now, peak = tracemalloc.get_traced_memory()
        if self._stage is not None:
            self.peaks[self._stage] = peak - self._before
        self._stage = re.sub(r" [\d,]+ ", " ", what.split(" (")[0])
        self._before = now
        tracemalloc.reset_peak()

    def count(self, done, total):
        self.counts.setdefault(self._stage, []).append((done, total))


def many(folder: Path, n: int) -> Places:
    """Units in half precision, every tenth the same as one before it, and few validation rows."""
    folder.mkdir()
    rng = np.random.default_rng(n)
    features = rng.normal(size=(n, WIDTH)).astype(np.float16)
    features[9::10] = features[8::10][: len(features[9::10])]
    label = rng.integers(0, 4, n)
    label[9::10] = label[8::10][: len(label[9::10])]
    columns = {
        "id": [f"unit {i}" for i in range(n)],
        "identity": [f"seller {i}" for i in rng.integers(0, 20, n)],
        "label": label,
        "time": np.arange(n, dtype=np.float64),
        "features": pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), WIDTH),
    }
    pq.write_table(pa.table(columns), folder / "units.parquet")
    held = rng.normal(size=(24, WIDTH))
    columns = {
        "label": np.arange(24) % 4,
        "features": pa.FixedSizeListArray.from_arrays(pa.array(held.ravel()), WIDTH),
    }
    pq.write_table(pa.table(columns), folder / "validation.parquet")
    return Places(folder / "units.parquet", folder / "validation.parquet")


@pytest.fixture(scope="module")
def payout_runs(tmp_path_factory):
    """What the stages of two payout runs took, the second with 8,000 more units."""
    found = []
    for n in (SMALL, LARGE):
        folder = tmp_path_factory.mktemp("lean")
        places, watched = many(folder / "in", n), Watched()
        tracemalloc.start()
        try:
            with computing(Compute(memory=0.02, threads=1)):  # what grows is to be seen beside blocks
                pay(places, spec(theta="0.9"), folder / "run", watched)
            watched.stage("over")
        finally:
            tracemalloc.stop()
        found.append((watched, folder / "run"))
    return found


@pytest.mark.parametrize(
    ("stage", "most"),
    [
        ("looking for leaked validation rows", 100),
        ("checking which similarity threshold may be used", 200),
        ("looking for copies", 4 * WIDTH + 200),  # one copy in single precision: docs/lineage.md
        ("scoring clusters", 700),
        ("scoring once more without evidence", 700),
        ("writing tables", 500),
        ("storing acquired units", 2 * WIDTH + 600),  # the features as they were submitted, and names
        ("storing covered validation rows", 500),
        ("writing the report", 300),
    ],
)
def test_no_stage_widens_the_features_of_all_units(payout_runs, stage, most):
    (small, _), (large, _) = payout_runs
    assert large.peaks[stage] - small.peaks[stage] < (LARGE - SMALL) * most
    assert most < FLOAT64  # else it would say nothing


def test_tables_are_columns_and_not_rows_of_python(payout_runs):
    """The calls that writing takes grow with the units, by a handful for each."""
    calls = []
    for _, folder in payout_runs:
        _, results = finished_results(folder, places_of(folder))
        profile = cProfile.Profile()
        profile.enable()
        write_acquired(results, frozenset(), folder.parent / "again")
        profile.disable()
        calls.append(pstats.Stats(profile).total_calls)
        assert (folder.parent / "again" / OWNED).read_bytes() == (folder / OWNED).read_bytes()
    assert calls[1] - calls[0] < 3 * (LARGE - SMALL)


def test_the_time_left_is_told_of_tables(payout_runs):
    counts = payout_runs[0][0].counts["writing tables"]
    done, total = counts[-1]
    assert done == total > 0.8 * SMALL
    assert len(counts) > 1


def test_the_time_left_is_told_of_attacks_under_one_name(tmp_path):
    watched = Watched()
    tracemalloc.start()
    try:
        pay(write(tmp_path / "in"), spec(audit=True), tmp_path / "run", watched)
    finally:
        tracemalloc.stop()
    counts = watched.counts["attacking a sample of the market"]
    assert counts[-1][0] == counts[-1][1] > 10
    assert "audit" not in watched.peaks


def test_lots_are_drawn_once(tmp_path, monkeypatch):
    """Every stage asks who was first; where all units carry one time, that takes a digest of each."""
    drawn = []

    def tie_break_key(key, lot):
        drawn.append(key)
        return hashlib.sha256(key + lot.encode()).digest()[:31] + b"."

    monkeypatch.setattr(order, "tie_break_key", tie_break_key)
    submitted = units() | {"time": np.zeros(66)}
    run(tmp_path, submitted)
    assert len(drawn) == 66


def test_the_crowd_is_asked_once(tmp_path, monkeypatch):
    """What the check of the threshold found of all units is kept for later periods as it is."""
    import importlib

    threshold = importlib.import_module("datamarket_gym.evidence.threshold")
    asked, plain = [], threshold.highest_cosines

    def counted(unit, others, *more, rows=None):
        asked.append(len(others) if rows is None else len(rows))
        return plain(unit, others, *more, rows=rows)

    monkeypatch.setattr(threshold, "highest_cosines", counted)
    leaked = validation(150)
    submitted = units()
    submitted["features"][:2] = leaked["features"][:2]  # set aside, and no part of the crowd
    folder = run(tmp_path, submitted, leaked, theta="auto")
    assert asked == [64, 0]
    _, results = finished_results(
        folder, places_of(folder)
    )  # a run that was made before is asked again, and says the same
    write_acquired(results, frozenset(), tmp_path / "again")
    assert asked == [64, 0, 64]
    assert (tmp_path / "again" / OWNED).read_bytes() == (folder / OWNED).read_bytes()


def test_contents_are_the_least_hashes_of_single_precision():
    rows = np.random.default_rng(0).normal(size=(700, 3))
    rows[400:] = rows[:300]
    rows[0, 0], rows[400, 0] = 0.0, -0.0
    hashes = {
        hashlib.sha256(row.tobytes()).hexdigest()[:16] for row in rows.astype("<f4") + np.float32(0)
    }
    found = Contents.of(rows)
    assert (found.distinct, list(found.least)) == (400, sorted(hashes)[:LEAST])
