"""What reports, statements and explanations say of runs without labels, with numbers, with scores from elsewhere."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from payout_files import bare, run, units, validation
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.statements.page import write_statements
from datamarket_gym.payout.validation_coverage import Needs

ROWS = 150


def with_numbers(columns):
    return {**columns, "label": columns["features"] @ np.arange(1.0, 7.0) + 0.25}


def scores(columns, rows, path):
    """What a tool could have computed: products of features."""
    alike = columns["features"] @ rows["features"].T
    unit, row = np.meshgrid(np.arange(len(alike)), np.arange(ROWS), indexing="ij")
    ids = np.array(columns["id"])
    table = {"unit": ids[unit.ravel()], "row": row.ravel(), "score": alike.ravel()}
    pq.write_table(pa.table(table), path)
    return str(path)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run of each kind."""
    place, settings = tmp_path_factory.mktemp("words"), {"theta": "auto", "checks": 3}
    plain = bare(units()), bare(validation(ROWS))
    numbers = with_numbers(units()), with_numbers(validation(ROWS))
    tools = scores(*plain, place / "scores.parquet")
    return {
        "none": run(place / "none", *plain, learner="coverage@0.9", **settings),
        "numbers": run(place / "numbers", *numbers, learner="knn_regression", **settings),
        "scores": run(place / "scores", *plain, learner="scores", files={"scores": tools}, **settings),
    }  # fmt: skip


def pages(folder):
    """All pages of a run, as people read them: the report first."""
    write_statements(folder)
    found = []
    for path in [folder / "report.html", *sorted((folder / "statements").glob("*.html"))]:
        page = path.read_text(encoding="utf-8")
        page = re.sub(
            r"<script(?! type=\"application/json\").*?</script>|<style.*?</style>", "", page, flags=re.S
        )
        page = re.sub(r"</(?:dt|dd|td|th|p|h\d|li)>", " ", page)
        found.append(" ".join(re.sub(r"<[^>]+>", "", page).split()))
    return found


def explained(folder):
    done = CliRunner().invoke(app, ["explain", str(folder), "--payee", "seller 1"])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_without_labels_nothing_speaks_of_any(folders):
    folder = folders["none"]
    for text in (*pages(folder), explained(folder)):
        assert not re.findall(r".{0,60}label.{0,60}", text, flags=re.IGNORECASE)
        assert not re.findall(r".{0,60}of one class.{0,60}", text)
    report = pages(folder)[0]
    assert "the nearest unit is to it than unrelated rows are" in report
    assert "5-NN" not in report


def test_without_labels_the_needs_are_told(folders):
    found = explain(folders["none"], "seller 1", with_rows=True).needs
    assert found.of == ROWS
    assert found.rows > found.well > 0
    for unit in found.units:
        assert sum(need.part for need in unit.needs) + unit.rest == pytest.approx(unit.score, abs=1e-15)
    assert "Validation rows, and who covers them" in pages(folders["none"])[0]


def test_numbers_are_told_of_as_variance_explained(folders):
    folder = folders["numbers"]
    report, *statements = pages(folder)
    assert re.search(r"variance explained \d+\.\d%", report)
    assert "predicts the numbers of the validation rows" in report
    assert "knn_regression: variance explained" in report
    assert all("numbers that are kept secret" in each for each in statements)
    for text in (report, *statements, explained(folder)):
        assert "over chance" not in text


def test_scores_from_elsewhere_are_told_of_as_such(folders):
    folder = folders["scores"]
    report, *statements = pages(folder)
    assert re.search(r"scores, summed \d+\.\d+ ", report)  # no part of a whole
    assert "what the scores say that another tool has computed" in report
    assert all("scores that a tool has computed" in each for each in statements)
    for text in (report, *statements, explained(folder)):
        assert "over chance" not in text
        assert "label" not in text


@pytest.mark.parametrize("kind", ["numbers", "scores"])
def test_only_coverage_has_needs(folders, kind):
    assert explain(folders[kind], "seller 1").needs is None
    assert len(Needs.read(folders[kind] / "needs.npz")) == 0
    assert "Validation rows, and who covers them" not in pages(folders[kind])[0]
