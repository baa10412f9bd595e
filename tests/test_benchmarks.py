"""The benchmark scripts: every workload runs, what fails is said, and ratios are of equal values."""

import importlib
import sys
from argparse import Namespace

import numpy as np
import pytest

from repository import ROOT


def script(name):
    """A module of benchmarks/, by its name."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


scaling, engine = script("scaling"), script("engine")


@pytest.mark.parametrize("name", scaling.WORKLOADS)
def test_every_workload_is_measured(name, tmp_path):
    small = Namespace(
        units=[200], validation=[20], identities=5, device="cpu", memory=1.0, utility="coverage", keep=tmp_path,
        no_audit=True,
    )  # fmt: skip
    row = scaling.measure_here(name, small)
    assert row["seconds"] >= 0  # to the millisecond
    assert row["peak_gib"] > 0
    if name == "payout":
        assert {stage["stage"] for stage in row["stages"]} >= {"writing the report"}
        assert scaling.differences(tmp_path / "run", tmp_path / "run") == []


def test_every_tenth_unit_is_found_to_be_a_copy():
    search = scaling.search(scaling.Market(500, 20))
    assert (search().parent >= 0).sum() >= 50


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_exponents_are_slopes_over_the_largest_three(power):
    rows = [
        {"workload": "search", "units": n, "validation": 100, "seconds": 1.0, "cpu_seconds": n**power}
        for n in (1_000, 10_000, 100_000, 1_000_000)
    ]
    rows[0]["cpu_seconds"] = 1e12  # the smallest: start-up, which is not looked at
    assert list(scaling.exponents(rows)) == [
        f"search, 100 validation: CPU seconds grow as units^{power:.2f}"
    ]


def test_what_takes_too_long_or_fails_is_said():
    assert scaling.output_of([sys.executable, "-c", "print(1); print('{\"a\": 2}')"], 60.0) == {"a": 2}
    failing = [sys.executable, "-c", "raise SystemExit('no such thing')"]
    assert scaling.output_of(failing, 60.0) == "failed: no such thing"
    assert scaling.output_of([sys.executable, "-c", "import time; time.sleep(60)"], 0.3) == "over 0.3 s"


@pytest.mark.parametrize("learner", engine.LOOPS)
def test_the_loop_has_the_accuracies_of_the_engine(learner):
    row = engine.against_loop(engine.synthetic(4), learner, 15)
    assert row["agreement"] == 1.0
    assert np.isfinite([row["default"], row["converged"]]).all()
