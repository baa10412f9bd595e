"""A payout_run of a table of measurements: evidence, theta and checks compare what coverage compares."""

import numpy as np
import pytest
from check_files import draws_of
from payout_files import payments, run, units, validation, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.execution.files import read_json
from datamarket_gym.payout.checks.review_page import checks_page
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.what_if import finished_results

IN_UNITS = np.array([1.0, 0.1, 5.0, 0.01, 2.0, 700.0])
"""The last column in other units: raw cosines are all near 1."""


def in_units(columns):
    """The columns as a table of measurements, far from zero."""
    return {**columns, "features": (columns["features"] + 6.0) * IN_UNITS}


def standardised(columns):
    held = in_units(validation(120))["features"]
    return (columns["features"] - held.mean(axis=0)) / held.std(axis=0)


SUBMITTED, HELD = in_units(units(90)), in_units(validation(120))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(tmp_path_factory.mktemp("measured"), SUBMITTED, HELD, theta="auto")


def test_noisy_copies_in_a_table_are_tied_and_earn_nothing(folder):
    assert payments(folder)["attacker"]["payment"] == "0.00"
    assert read_json(folder / "threshold.json")["theta"] < 0.9995
    assert all(check.good for check in verify(folder, recompute=True))


def test_the_page_of_checks_measures_as_evidence_does(folder):
    places, drawn = places_of(folder), draws_of(folder)
    page = checks_page(finished_results(folder, places)[1], places, drawn)
    unit = standardised(SUBMITTED)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    place = {name: i for i, name in enumerate(SUBMITTED["id"])}
    beside = [
        (place[check["unit"]], place[other["unit"]], float(other["cosine"]))
        for payee in page["payees"] for check in payee["checks"]
        for side in check["sides"] for other in side["others"]
    ]  # fmt: skip
    assert len(beside) > 10
    for ours, theirs, cosine in beside:
        assert cosine == pytest.approx(unit[ours] @ unit[theirs], abs=6e-4)


def test_theta_of_a_file_is_theta_of_a_payout_run_on_it(folder, tmp_path):
    places = write(tmp_path, SUBMITTED, HELD)
    asked = ["theta", str(places.validation), "--json", str(tmp_path / "t.json"), "--trials", "3"]
    done = CliRunner().invoke(app, [*asked, "--per-provider", "5"])
    assert done.exit_code == 0, done.output
    said, paid = read_json(tmp_path / "t.json")["recommended"], read_json(folder / "threshold.json")
    assert said["cost"]["theta"] == paid["cost"]["theta"] < 0.9995
