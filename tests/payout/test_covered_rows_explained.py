"""Which validation rows a payee's units cover: what adds up, who may read it, and what no file of a run says."""

import json
import re
from dataclasses import asdict, replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from acquired_files import fresh, july, june
from payout_files import copied, payments, run, run_by_accuracy, spec, units, validation
from test_image_folders import picture
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError, RunError
from datamarket_gym.execution.files import sha256
from datamarket_gym.payout.explain import describe_validation_rows, explain
from datamarket_gym.payout.manifest import NEEDS, read_manifest
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.statements import page as statement_page
from datamarket_gym.payout.statements.page import write_statements
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.validation_coverage import Needs
from datamarket_gym.payout.verify import verify
from datamarket_gym.utilities.coverage import Coverage

SECRET = "what only the operator knows of number"


def submitted():
    columns = units()
    return {**columns, "text": [f"text of {name}, which is its own" for name in columns["id"]]}


def held():
    columns = validation()
    return {**columns, "text": [f"{SECRET} {i}" for i in range(len(columns["label"]))]}


@pytest.fixture(scope="module", params=["coverage", "coverage(labels=False)"])
def folder(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("needs")
    return run(
        place, submitted(), held(), learner=request.param, leak_check="off",
        columns={"text": "text", "features": "features"},
    )  # fmt: skip


def typed(*arguments, code=0):
    done = CliRunner().invoke(app, [str(word) for word in arguments])
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


def by_definition(folder):
    """g of each validation row, by its number, and each unit that stands for a cluster."""
    learner, columns, rows = read_manifest(folder)["spec"]["learner"], units(), validation()
    z, u = (
        x / np.linalg.norm(x, axis=1, keepdims=True) for x in (rows["features"], columns["features"])
    )
    c = Coverage().baseline_similarity(rows["features"])
    g = np.maximum(z @ u.T - c, 0.0) / (1 - c)
    if learner == "coverage":
        g = g * (rows["label"][:, None] == columns["label"][None])
    table = pq.read_table(folder / "clusters.parquet").to_pylist()
    stands = {row["unit"] for row in table if row["represents"]}
    return np.where([name in stands for name in columns["id"]], g, 0.0)


def test_what_is_told_is_what_the_definition_says(folder):
    g, columns = by_definition(folder), units()
    place = {name: i for i, name in enumerate(columns["id"])}
    for name in payments(folder):
        mine = np.array([other == name for other in columns["identity"]])
        found = explain(folder, name, with_rows=True).needs
        best = g[:, mine].max(axis=1)
        assert (found.of, found.rows, found.well) == (40, (best > 0).sum(), (best >= 0.5).sum())
        assert found.nearest == ((best > 0) & (best >= g.max(axis=1) - 1e-12)).sum()
        for unit in found.units:
            row = g[:, place[unit.unit]]
            assert (unit.rows, unit.well) == ((row > 0).sum(), (row >= 0.5).sum())
            for need in unit.needs:
                assert need.degree == pytest.approx(row[need.row], abs=1e-12)
                assert need.units == (g[need.row] > 0).sum()
                assert need.place == 1 + (g[need.row] > row[need.row] + 1e-12).sum()


def test_parts_add_up_to_units_and_units_to_scores(folder):
    needs, table = Needs.read(folder / NEEDS), pq.read_table(folder / "clusters.parquet").to_pylist()
    for row in table:
        assert needs.value[row["cluster"]] == pytest.approx(row["score"], rel=1e-12)
    by_need = np.zeros(len(needs))
    for name, row in payments(folder).items():
        found = explain(folder, name, with_rows=True).needs
        mine = [each for each in table if each["identity"] == name]
        assert sum(each["score"] * each["share"] for each in mine) == pytest.approx(
            row["score"], abs=1e-12
        )
        for unit in found.units:
            assert sum(need.part for need in unit.needs) + unit.rest == pytest.approx(
                unit.score, abs=1e-15
            )
            assert unit.rest >= -1e-15
            assert len(unit.needs) == min(5, unit.rows)
            if unit.rows <= 5:
                assert unit.rest == pytest.approx(0.0, abs=1e-15)
            for need in unit.needs:
                by_need[need.row] += need.part
                paid = (needs.covered[need.row] - needs.before[need.row]) / len(needs)
                assert need.share == pytest.approx(need.part / paid)
    assert (by_need <= (needs.covered - needs.before) / len(needs) + 1e-12).all()


def test_rows_are_told_to_whoever_asks_for_them_alone(folder):
    plain = json.loads(
        CliRunner().invoke(app, ["explain", str(folder), "--payee", "seller 1", "--json"]).output
    )
    assert plain["needs"]["units"]
    assert all(unit["needs"] == [] for unit in plain["needs"]["units"])
    told = json.loads(
        CliRunner()
        .invoke(app, ["explain", str(folder), "--payee", "seller 1", "--needs", "--json"])
        .output
    )
    assert told["needs"] == asdict(explain(folder, "seller 1", with_rows=True).needs)
    rows = {need["row"] for unit in told["needs"]["units"] for need in unit["needs"]}
    assert told["need_words"] == {str(row): f"{SECRET} {row}" for row in rows}
    without = typed("explain", folder, "--payee", "seller 1")
    assert "Of the 40 validation rows its units cover" in without
    assert "To see which validation rows these are: --needs" in without
    assert SECRET not in without
    assert not re.search(r"row \d", without)
    shown = typed("explain", folder, "--payee", "seller 1", "--needs")
    best = explain(folder, "seller 1", with_rows=True).needs.units[0]
    for need in best.needs:
        assert f"row {need.row} “{SECRET} {need.row}”" in shown
        assert f"covered {need.degree:.0%};" in shown
        assert f"gets {need.share:.1%} of what it pays" in shown


def test_what_is_covered_least_comes_first(folder):
    covered = by_definition(folder).max(axis=1)
    shown = typed("explain", folder, "--needs")
    rows = [int(each) for each in re.findall(r"% row (\d+) ", shown)]
    assert rows == np.argsort(covered, kind="stable")[:10].tolist()
    assert f"{SECRET} {rows[0]}" in shown
    listed = json.loads(CliRunner().invoke(app, ["explain", str(folder), "--needs", "--json"]).output)[
        "needs"
    ]
    assert [row["covered"] for row in listed] == pytest.approx(covered.tolist(), abs=1e-12)
    columns = units()
    owner = dict(zip(columns["id"], columns["identity"], strict=True))
    assert all(owner[row["unit"]] == row["of"] for row in listed)


def test_no_file_of_the_run_says_what_is_in_a_validation_row(folder):
    write_statements(folder)
    for path in folder.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path


def closely(count):
    return f"{count} of them closely" if count else "none closely"


def test_a_statement_says_none_where_no_example_is_covered_closely(folder, monkeypatch):
    found = explain(folder, "seller 1")
    told = replace(found, needs=replace(found.needs, well=0))
    monkeypatch.setattr(statement_page, "explain_payee", lambda *_, **__: told)
    page = statement_page.statement_text(folder, "seller 1")
    assert "examples of what is wanted, none closely" in page


def test_a_statement_says_how_many_and_nothing_by_which_rows_could_be_told(folder):
    pages = {
        path.name: path.read_text(encoding="utf-8") for path in write_statements(folder).glob("*.html")
    }
    [page] = [text for name, text in pages.items() if name.startswith("seller-1-")]
    needs = explain(folder, "seller 1").needs
    said = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert (
        f"Your units cover {needs.rows} of the 40 examples of what is wanted, {closely(needs.well)}"
        in said
    )
    assert not re.search(
        r"row \d|%", said.partition("What your units earn")[2].partition("Spot checks")[0]
    )


def test_the_report_has_the_section_where_coverage_is_paid_for(folder, tmp_path):
    page = (folder / "report.html").read_text(encoding="utf-8")
    needs = Needs.read(folder / NEEDS)
    assert "Validation rows, and who covers them" in page
    assert f"{needs.covered.mean():.1%} of all is covered" in " ".join(page.split())
    for row in needs.least_covered[:10]:
        assert f'<td class="name">row {row}</td>' in page
    other = run_by_accuracy(tmp_path)
    assert "Validation rows, and who covers them" not in (other / "report.html").read_text(
        encoding="utf-8"
    )
    assert explain(other, "seller 1").needs is None
    assert len(Needs.read(other / NEEDS)) == 0
    refused = CliRunner().invoke(app, ["explain", str(other), "--needs"]).exception
    assert "does not pay for how well units cover the validation rows" in str(refused)


def test_other_validation_rows_are_refused(folder, tmp_path):
    other = tmp_path / "other.parquet"
    table = pq.read_table(folder.parent / "in" / "validation.parquet")
    pq.write_table(table.slice(1), other)
    with pytest.raises(RunError, match="holds other validation rows than those of the run"):
        describe_validation_rows(folder, other)
    moved = tmp_path / "moved.parquet"
    moved.write_bytes((folder.parent / "in" / "validation.parquet").read_bytes())
    assert describe_validation_rows(folder, moved) == [f"{SECRET} {i}" for i in range(40)]


def test_needs_that_are_not_known_are_not_passed_over_in_silence(tmp_path):
    accuracy = run_by_accuracy(tmp_path)
    done = CliRunner().invoke(app, ["explain", str(accuracy), "--payee", "seller 1", "--needs"])
    assert "Leave --needs out" in str(done.exception)


def test_validation_rows_that_are_not_there_are_asked_for(folder, tmp_path):
    with pytest.raises(RunError, match="is not there; name them with --validation"):
        describe_validation_rows(folder, tmp_path / "moved.parquet")


def test_a_record_that_was_changed_is_refused(folder, tmp_path):
    other = copied(folder, tmp_path / "changed")
    before = sha256(other / NEEDS)
    (other / NEEDS).write_bytes((other / NEEDS).read_bytes() + b"x")
    assert sha256(other / NEEDS) != before
    with pytest.raises(DataMarketError, match=r"needs\.npz' is missing or not as the run left it"):
        explain(other, "seller 1")
    assert [check.what for check in verify(other) if not check.good] == [NEEDS]
    assert all(check.good for check in verify(folder, recompute=True))


def test_whose_payment_has_to_be_said(folder):
    assert "--payee NAME" in typed("explain", folder, code=2)
    assert "--payee NAME" in typed("explain", folder, "--needs", "--what-if", code=2)


def test_of_what_was_acquired_before_only_the_rest_is_told_and_paid(tmp_path):
    first = june(tmp_path)
    second = july(tmp_path, fresh(), [first], acquired_discount=True)
    needs, old = Needs.read(second / NEEDS), Needs.read(first / NEEDS)
    assert (
        f"40 validation rows, of which {(needs.covered >= 0.5).sum()} are covered half-way or more"
        in typed("explain", second, "--needs")
    )
    np.testing.assert_allclose(needs.before, old.covered, atol=1e-12)
    assert (needs.covered >= needs.before).all()
    total = sum(row["score"] for row in payments(second).values())
    assert needs.value.sum() == pytest.approx(total, abs=1e-12)
    assert (needs.covered - needs.before).mean() == pytest.approx(total, abs=1e-12)
    for name in payments(second):
        for unit in explain(second, name, with_rows=True).needs.units:
            for need in unit.needs:
                assert (
                    need.degree > needs.before[need.row]
                )  # who covers nothing better is not among them
    page = " ".join((second / "report.html").read_text(encoding="utf-8").split())
    assert (
        f"What was acquired before covers {needs.before.mean():.1%}, and no payee is paid for that again."
        in page
    )


def test_pictures_are_called_by_their_files(tmp_path):
    pytest.importorskip("PIL")
    for k in range(4):
        for seed, who in enumerate(("anna", "bert")):
            picture(tmp_path / "units" / who / f"{k}.png", seed)
        picture(tmp_path / "held" / f"wanted {k}.png", 2)
    places = Places(tmp_path / "units", tmp_path / "held")
    pay(places, spec(encoder="thumbnail", leak_check="off"), tmp_path / "run")
    assert describe_validation_rows(tmp_path / "run") == [f"wanted {k}.png" for k in range(4)]
    shown = typed("explain", tmp_path / "run", "--needs")
    assert "“wanted 0.png”" in shown
    picture(tmp_path / "held" / "wanted 0.png", 3)
    with pytest.raises(RunError, match="holds other validation rows"):
        describe_validation_rows(tmp_path / "run")
