"""What the page of experiments is answered: every result opens, and its numbers are the library's."""

import json
import math
import shutil
import time

import pytest
from job_answers import followed
from published_results import DOCS, published_results

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments import builtin_specs, run_experiment
from datamarket_gym.experiments.results import list_results
from datamarket_gym.experiments.spec import Layout
from datamarket_gym.experiments.summary import RATIO, labels_of
from datamarket_gym.experiments.tables import grids
from datamarket_gym.explorer import experiments as heat_maps


@pytest.fixture
def asks(client, lasting_client):
    """``asks(folder)(what, name, **more)``: the answer's JSON, which must be there."""

    def of(folder):
        explorer = lasting_client(folder) if folder == DOCS else client(folder)
        first = explorer.get("/api/site").json()["places"]["results"][0]

        def asked(what, name="", status=200, result=first, **more):
            params = {"result": result, "name": name, **more}
            found = explorer.get(f"/api/benchmark/{what}", params=params)
            found = followed(explorer, found)
            assert found.status_code == status, found.text
            return found.json()

        return asked

    return of


def cells(heat):
    return [cell for line in heat["cells"] for cell in line if cell]


def test_every_experiment_opens_with_its_pictures_and_heat_maps(asks):
    """One after another, so that each is read once: its pictures, and cells that are rows of it."""
    asked = asks(DOCS)
    assert [one["name"] for one in asked("experiments")["experiments"]] == list(published_results())
    for name, one in published_results().items():
        told = asked("experiment", name)
        assert (told["title"], told["rows"]) == (one.spec.title, len(one.rows))
        for picture in told["charts"]:
            shown = asked("chart", name, picture=picture["value"])
            assert shown["panels"], (name, picture)
        for metric in [each["value"] for each in told["metrics"]][: 2 if len(one.rows) < 1000 else 1]:
            found = cells(asked("heat", name, metric=metric))
            assert found, (name, metric)
            rows = {labels_of(row): row for row in one.rows if row["metric"] == metric}
            for cell in found:
                row = rows.pop(labels_of(cell["row"]))  # no row is shown twice
                assert cell["row"] == row, (name, metric)
                assert (cell["value"], cell["paper"]) == (row["value"], row["paper"]), (name, metric)


def test_with_every_label_placed_no_row_is_left_out(asks):
    asked = asks(DOCS)
    for name in ("s2", "s4", "s7", "s8", "agnews", "ablation-granularity"):
        first = asked("heat", name, metric="gain")
        picked = json.dumps({each["key"]: "*down" for each in first["labels"]})
        heat = asked("heat", name, metric="gain", picked=picked)
        assert len(cells(heat)) == sum(
            row["metric"] == "gain" for row in published_results()[name].rows
        ), name


def test_cells_say_what_the_tables_print(asks):
    heat = asks(DOCS)("heat", "s2", metric="gain", picked=json.dumps({"empty": "chance"}))
    layout = Layout(where={"empty": "chance", "representative": "identity"})
    (table,) = grids(published_results()["s2"].rows, [layout])
    printed = [parts for _, line in table.lines for parts in line]
    assert len(printed) == len(cells(heat))
    for cell, parts in zip(cells(heat), printed, strict=True):
        assert parts[0] == " ".join(filter(None, [cell["text"], cell["error"]]))
        if cell["ratio"] is not None:
            assert f"[{cell['ratio']:.3f}]" in parts


def test_a_cell_tells_the_ratio_the_difference_and_the_seeds_left_out(asks):
    heat = asks(DOCS)("heat", "s2", metric="gain")
    rows = published_results()["s2"].rows
    ratios = {labels_of(row): row["value"] for row in rows if row["metric"] == "gain" + RATIO}
    left_out = [cell for cell in cells(heat) if cell["left_out"]]
    assert left_out
    for cell in left_out:
        assert any("left out, as the honest payment" in words for words in cell["remarks"])
        assert cell["ratio"] == ratios[labels_of(cell["row"])]
    for cell in cells(heat):
        if cell["paper"] is not None:
            assert cell["difference"] == pytest.approx(cell["row"]["value"] - cell["row"]["paper"])


def test_labels_go_where_the_reader_puts_them(asks):
    asked = asks(DOCS)
    heat = asked("heat", "ablation-semivalues", metric="gain", down="semivalue", across="evidence")
    assert (heat["down"], heat["across"]) == ("semivalue", "evidence")
    assert (len(heat["heads"]), len(heat["columns"])) == (3, 9)
    assert [each["key"] for each in heat["labels"]] == ["attack"]  # the mechanism is both of them
    other = asked("heat", "ablation-semivalues", metric="gain", down="no such label", across="attack")
    assert other["across"] == "attack"
    assert other["down"] in [each["value"] for each in other["free"]]


def test_rows_are_all_there_with_their_ratios(asks):
    asked = asks(DOCS)
    found = asked("rows", "s4", metric="gain")
    keys = [column["key"] for column in found["columns"]]
    lines = [dict(zip(keys, line, strict=True)) for line in found["rows"]]
    rows = [row for row in published_results()["s4"].rows if row["metric"] == "gain"]
    assert [line["value"] for line in lines] == [row["value"] for row in rows]
    assert [line["theta"] for line in lines] == [row.get("theta") for row in rows]
    assert len(asked("rows", "s4")["rows"]) == len(published_results()["s4"].rows)


def test_pictures_show_the_numbers_of_the_rows(asks):
    asked = asks(DOCS)
    panel = asked("chart", "s4", picture="s4")["panels"][0]
    rows = [
        r
        for r in published_results()["s4"].rows
        if r["metric"] == "gain" and r["attack"] == "near_duplicate_2x_sybils"
    ]
    swept = sorted((r for r in rows if "theta" in r), key=lambda r: r["theta"])
    assert panel["lines"][0]["x"] == [row["theta"] for row in swept]
    assert panel["lines"][0]["y"] == [row["value"] for row in swept]
    assert panel["lines"][0]["paper"] == [row["paper"] for row in swept]
    grid = asked("chart", "ablation-noise", picture="ablation-noise")["panels"][0]
    wanted = {(f"{r['p_fs']:g}", f"{r['p_fm']:g}"): r["value"] for r in published_results()["ablation-noise"].rows
              if r["metric"] == "gain" and r["errors"] == "even"}  # fmt: skip
    shown = {
        (head, column): grid["cells"][i][j]["value"]
        for i, head in enumerate(grid["heads"])
        for j, column in enumerate(grid["columns"])
    }
    assert shown == wanted


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder of runs: one of S1 that is whole."""
    folder = tmp_path_factory.mktemp("explored") / "runs"
    run_experiment(builtin_specs()["s1"].model_copy(update={"seeds": 2}), folder / "s1")
    return folder


def test_a_folder_of_runs_and_each_run_in_it_open(runs, client, asks):
    assert client(runs).get("/api/site").json()["places"]["results"] == ["runs", "runs/s1"]
    asked = asks(runs)
    for result in ("runs", "runs/s1"):
        found = asked("heat", "s1", metric="gain", result=result)
        rows = json.loads((runs / "s1" / "table.json").read_text())
        assert all(cell["row"] in rows for cell in cells(found))


def test_a_run_that_is_written_anew_is_read_anew(runs, tmp_path, asks):
    shutil.copytree(runs, tmp_path / "runs")
    asked = asks(tmp_path / "runs")
    before = asked("heat", "s1", metric="gain")
    table = tmp_path / "runs" / "s1" / "table.json"
    rows = json.loads(table.read_text())
    table.write_text(json.dumps([{**row, "value": 7.25} for row in rows]))
    after = asked("heat", "s1", metric="gain")
    assert (
        {cell["value"] for cell in cells(before)} != {7.25} == {cell["value"] for cell in cells(after)}
    )


def test_numbers_that_json_lacks_are_none(runs, tmp_path, asks):
    shutil.copytree(runs, tmp_path / "runs")
    table = tmp_path / "runs" / "s1" / "table.json"
    rows = json.loads(table.read_text())
    table.write_text(json.dumps([{**row, "value": math.nan, "se": math.inf} for row in rows]))
    heat = asks(tmp_path / "runs")("heat", "s1", metric="gain")
    assert {cell["value"] for cell in cells(heat)} == {None}
    assert {cell["text"] for cell in cells(heat)} <= {"undefined", "no clear seed"}


def test_what_is_broken_or_foreign_says_so_and_hides_nothing(tmp_path, asks):
    folder = tmp_path / "odd"
    shutil.copytree(DOCS, folder, ignore=lambda _, names: [n for n in names if n != "s4.json"])
    (folder / "aaa.json").write_text("{")
    (folder / "cut.json").write_text((DOCS / "s5.json").read_text()[:3000])
    (folder / "list.json").write_text("[1, 2, 3]")
    (folder / "notes.txt").write_text("nothing")
    asked = asks(folder)
    assert [one["name"] for one in asked("experiments")["experiments"]] == ["s4", "aaa", "cut", "list"]
    for name in ("aaa", "cut", "list"):
        assert f"'{name}.json'" in asked("experiment", name, status=422)["error"]
    assert asked("experiment", "s4")["rows"] == len(published_results()["s4"].rows)


@pytest.mark.parametrize(
    "wrong",
    [
        {"same": {"metric": 5}},
        {"same": {"attack": {"a": [1]}}},
        {"same": {"left_out": 5}},
        {"versions": None},
    ],
)
def test_rows_that_are_no_plain_values_are_told(tmp_path, asks, wrong):
    kept = json.loads((DOCS / "s4.json").read_text())
    same = kept["same"] | wrong.get("same", {})
    columns = [name for name in kept["columns"] if name not in same]
    at = [kept["columns"].index(name) for name in columns]
    rows = [[row[i] for i in at] for row in kept["rows"]]
    kept |= {**wrong, "same": same, "columns": columns, "rows": rows}
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "s4.json").write_text(json.dumps(kept))
    for question in ("experiment", "rows"):
        assert "'s4.json'" in asks(tmp_path / "odd")(question, "s4", status=422)["error"]


def test_a_label_of_very_many_values_takes_no_minutes():
    rows = [
        {"metric": "gain", "value": 1.0, "attack": "a", "mechanism": "m", "theta": i, "n": i % 2}
        for i in range(6000)
    ]
    began = time.process_time()
    chosen, places, _ = heat_maps._chosen(rows, ["theta", "n"], "mechanism", {})
    assert time.process_time() - began < 3.0
    assert places == {"n": "0", "theta": "0"}
    assert chosen == rows[:1]
    with pytest.raises(DataMarketError, match="choose one value"):
        heat_maps.table([{**row, "n": row["theta"] % 5} for row in rows], ["theta"], ["n"], {})


def test_an_unfinished_run_is_listed_and_says_how_to_go_on(runs, tmp_path, asks):
    shutil.copytree(runs, tmp_path / "runs")
    (tmp_path / "runs" / "s1" / "manifest.json").unlink()
    asked = asks(tmp_path / "runs")
    assert asked("experiments")["experiments"][0]["finished"] is False
    assert "goes on where it stopped" in asked("experiment", "s1", status=422)["error"]


def test_what_is_not_there_is_named(asks):
    asked = asks(DOCS)
    assert "did you mean" in asked("heat", "s2", metric="gains", status=422)["error"]
    assert "known" in asked("experiment", "nothing-like-it", status=422)["error"]
    assert "picked" in asked("heat", "s2", metric="gain", picked="[1]", status=422)["error"]
    assert "figure" in asked("chart", "s2", picture="frontier", status=422)["error"]
    assert len(list_results(DOCS)) == len(published_results())
