"""A market that has grown is paid again: what another run has compared is taken over, and no byte changes."""

import numpy as np
import pytest
from payout_files import outputs, rows, units, validation, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app

ROWS = 120  # validation rows: enough for a threshold


def typed(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def paid(place, columns, *more):
    """Pay units by the command line, each time with a ledger of its own; the run's folder and what was printed."""
    places = write(place / "in", columns, validation(ROWS))
    done = typed(
        "pay", places.submissions, "--validation", places.validation, "--amount", "1000.00", "--out", place / "run",
        "--time", "time", "--id", "id", "--no-audit", "--checks", "0", *more,
    )  # fmt: skip
    assert done.exit_code == 0, done.output + str(done.exception)
    return place / "run", " ".join(done.output.split())


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The run before late units came in: all but eight of them."""
    return paid(tmp_path_factory.mktemp("first"), rows(units(80), np.r_[0:40, 48:86]))[0]


def late(at):
    """All units; those that came in late arrived at some moment, or among the others."""
    columns = units(80)
    if at is not None:
        columns["time"] = columns["time"].copy()
        columns["time"][40:48] = at
    return columns


@pytest.mark.parametrize("at", [2000.0, -1.0, None], ids=["later", "earlier", "between"])
@pytest.mark.parametrize("theta", ["auto", "none", "0.97"])
def test_a_run_that_takes_something_over_has_the_same_bytes(first, tmp_path, at, theta):
    plain, _ = paid(tmp_path / "plain", late(at), "--theta", theta)
    again, said = paid(tmp_path / "again", late(at), "--theta", theta, "--reuse", first)
    assert outputs(plain) == outputs(again)
    if theta == "none":
        assert "was known" not in said


def test_what_is_taken_over_is_said(first, tmp_path):
    _, said = paid(tmp_path, late(2000.0), "--reuse", first)
    assert f"Of units that {first} has as well" in said
    assert "of 75 of 83 different units the nearest earlier one was known" in said


def test_another_market_takes_nothing_over(first, tmp_path):
    plain, _ = paid(tmp_path / "plain", units(50, seed=9))
    again, said = paid(tmp_path / "again", units(50, seed=9), "--reuse", first)
    assert outputs(plain) == outputs(again)
    assert "was known" not in said


def test_what_is_not_as_a_run_left_it_is_refused(first, tmp_path):
    import shutil

    places = write(tmp_path / "in", late(2000.0), validation(ROWS))
    words = [
        "pay",
        places.submissions,
        "--validation",
        places.validation,
        "--amount",
        "1.00",
        "--out",
        tmp_path / "run",
    ]
    none = typed(*words, "--reuse", tmp_path / "nowhere")
    assert "no finished run to re-use" in str(none.exception)
    shutil.copytree(first, tmp_path / "changed")
    with (tmp_path / "changed" / "records" / "nearest.npz").open("ab") as file:
        file.write(b"x")
    changed = typed(*words, "--reuse", tmp_path / "changed")
    assert "not as the run left it" in str(changed.exception)
    manifest = tmp_path / "changed" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("records/nearest.npz", "records/other.npz"))
    older = typed(*words, "--reuse", tmp_path / "changed")
    assert "has kept nothing that can be re-used" in str(older.exception)
    assert not (tmp_path / "run").exists()
