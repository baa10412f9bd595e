"""Labels that are numbers: read whatever way they are written, and named by their row where they are none."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acquired_files import july
from payout_files import approve, bare, run, spec, table, units, validation

from datamarket_gym.errors import SubmissionError
from datamarket_gym.payout.input_files import read_quarantine
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.intake import unit_digests
from datamarket_gym.payout.settings import (
    worth_of,
)
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.warnings import read_warnings
from datamarket_gym.registry import create

NUMBERS = "knn_regression"


def read(folder, submitted, held=None, **changes):
    for name, columns in {"units": submitted, "held": held or numbered(validation())}.items():
        pq.write_table(table(columns), folder / f"{name}.parquet")
    return read_inputs(
        Places(folder / "units.parquet", folder / "held.parquet"), spec(learner=NUMBERS, **changes)
    )


def numbered(columns):
    return columns | {"label": np.asarray(columns["label"]) + 0.5}


@pytest.mark.parametrize(
    "written",
    [float, str, lambda x: f"{x:.2f}", lambda x: f" {x}", np.float32, lambda x: f"{x:e}"],
    ids=["floats", "text", "zeros behind", "blanks", "short floats", "exponents"],
)
def test_numbers_are_read_whatever_way_they_are_written(written, tmp_path):
    plain = numbered(units())
    found = read(tmp_path, plain | {"label": [written(x) for x in plain["label"].tolist()]})
    assert found.submission.label.tolist() == plain["label"].tolist()
    assert found.validation_label.dtype == np.float64


def test_whole_numbers_and_numbers_in_a_csv_are_read_as_numbers(tmp_path):
    rows = "".join(f"u{i},anna,{label},{i},1\n" for i, label in enumerate(["3", "3.5", "-1", "2e3"]))
    (tmp_path / "units.csv").write_text(f"id,identity,label,features_0,features_1\n{rows}")
    (tmp_path / "held.csv").write_text("label,features_0,features_1\n1,0,1\n2,1,0\n")
    found = read_inputs(Places(tmp_path / "units.csv", tmp_path / "held.csv"), spec(learner=NUMBERS))
    assert found.submission.label.tolist() == [3.0, 3.5, -1.0, 2000.0]
    assert found.validation_label.tolist() == [1.0, 2.0]


WRONG = {
    "cat": "'cat' is no number",
    "3,5": "'3,5' is no number; write decimals with a point",
    "1_000": "'1_000' is no number",
    "inf": "'inf' is no number",
    "1e200": "'1e200' is no number",
}


@pytest.mark.parametrize("cell", WRONG)
def test_what_is_no_number_is_named_by_its_row_or_set_aside(cell, tmp_path):
    label = [str(x) for x in numbered(units())["label"].tolist()]
    label[7] = cell
    with pytest.raises(SubmissionError) as error:
        read(tmp_path, bare(units(), label))
    assert f"units.parquet': column 'label', row 7: {WRONG[cell]}" in str(error.value)
    found = read(tmp_path, bare(units(), label), quarantine=True)
    ((row,), left) = found.bad, found.submission.label
    assert (row.row, row.wrong) == (7, f"label: {WRONG[cell]}")
    assert len(left) == 65
    assert left.dtype == np.float64


def test_a_row_without_a_number_is_set_aside_once(tmp_path):
    label = numbered(units())["label"].tolist()
    label[3] = None
    with pytest.raises(SubmissionError, match="row 3: no number; mend it or drop the row"):
        read(tmp_path, bare(units(), label))
    ((row,)) = read(tmp_path, bare(units(), label), quarantine=True).bad
    assert row.row == 3


@pytest.mark.parametrize(("value", "said"), [(np.inf, "inf"), (-np.inf, "-inf"), (1e200, r"1e\+200")])
def test_numbers_without_end_are_named(value, said, tmp_path):
    label = numbered(units())["label"].tolist()
    label[3] = value
    with pytest.raises(SubmissionError, match=rf"row 3: {said} is no finite number of at most 1e\+150"):
        read(tmp_path, bare(units(), label))


def test_validation_rows_are_never_set_aside(tmp_path):
    label = [str(x) for x in numbered(validation())["label"].tolist()]
    label[2] = "dog"
    with pytest.raises(SubmissionError, match=r"held.parquet': column 'label', row 2: 'dog'"):
        read(tmp_path, numbered(units()), bare(validation(), label), quarantine=True)


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us")])
@pytest.mark.parametrize("quarantine", [False, True])
def test_dates_are_no_numbers(kind, quarantine, tmp_path):
    days = pa.array([datetime.datetime(2026, 5, 1)] * 66, pa.timestamp("us")).cast(kind)
    with pytest.raises(SubmissionError, match=r"holds .*, and dates are no numbers; .* days since"):
        read(tmp_path, bare(units(), days), quarantine=quarantine)


def test_a_payout_run_by_variance_explained(tmp_path):
    made = run(tmp_path, numbered(units()), numbered(validation()), learner=NUMBERS)
    assert worth_of(create("learner", NUMBERS)).total == "variance explained"
    assert sum(float(p) for p in pq.read_table(made / "payments.parquet")["payment"].to_pylist()) == 1000
    label = [str(x) for x in numbered(units())["label"].tolist()]
    label[0] = "none at all"
    aside = run(
        tmp_path / "aside",
        bare(units(), label),
        numbered(validation()),
        learner=NUMBERS,
        quarantine=True,
    )
    assert [row.wrong for row in read_quarantine(aside / "quarantine.csv")] == [
        "label: 'none at all' is no number"
    ]


def test_given_what_was_acquired_the_report_speaks_of_variance(tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    few = numbered(units(9, copies=0))
    june = run(tmp_path / "june", few, numbered(validation()), ledger=ledger, learner=NUMBERS)
    approve(june)
    made = july(
        tmp_path,
        numbered(units(90, seed=4, copies=0)),
        [june],
        held=numbered(validation()),
        acquired_discount=True,
        learner=NUMBERS,
    )
    page = " ".join((made / "report.html").read_text(encoding="utf-8").split())
    assert "explains" in page
    assert "is right on" not in page


def test_numbers_that_were_measured_before_and_not_again_are_no_lost_labels(tmp_path):
    """Hardly any number is measured twice; what was acquired is heard all the same."""
    held = numbered(validation())
    few = units(9, copies=0)
    acquired = few | {"label": few["label"] + 0.5 + few["features"][:, 3] / 100}
    june = run(tmp_path / "june", acquired, held, ledger=tmp_path / "ledger.sqlite", learner=NUMBERS)
    approve(june)
    made = july(tmp_path, numbered(units(90, seed=4, copies=0)), [june], held=held, learner=NUMBERS)
    assert "lost_labels" not in [warning.name for warning in read_warnings(made)]


def test_an_intake_log_knows_a_number_whatever_stands_beside_it():
    """2 in a batch of whole numbers is 2.0 beside 2.5: which it is depends on the file, and not on the unit."""
    features = np.ones((2, 3))
    whole = unit_digests("features", np.array([2, 3]), features)
    mixed = unit_digests("features", np.array([2.0, 2.5]), features)
    text = unit_digests("features", np.array(["2", "2.5"]), features)
    assert whole[0] == mixed[0] == text[0]
    assert mixed[1] == text[1]
