"""docs/experiments.md: its file runs, and it names every key, kind and option."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments import parse_spec, run_experiment
from datamarket_gym.experiments.cells import compute, kinds
from datamarket_gym.experiments.spec import (
    ExperimentSpec,
    Figure,
    Layout,
    MechanismEntry,
    Ranges,
    TaskEntry,
    UtilityEntry,
)

PAGE = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text(encoding="utf-8")
(TOML,) = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
(PYTHON,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def named(section):
    """What the first column of the tables of a section names."""
    cells = re.findall(r"^\| (`[^|]*`) \|", section, re.M)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_key_is_on_the_page():
    keys = PAGE.split("## Every key")[1].split("## Kinds")[0]
    first, tasks, utilities, mechanisms, tables, rest = re.split(r"^`\[\[.*", keys, flags=re.M)
    figures, ranges = rest.split("`[ranges]`")
    inside = {"tasks", "utilities", "mechanisms", "tables", "figures", "ranges"}
    assert named(first) == set(ExperimentSpec.model_fields) - inside
    for section, model in (
        (tasks, TaskEntry), (utilities, UtilityEntry), (mechanisms, MechanismEntry), (tables, Layout),
        (figures, Figure),
    ):  # fmt: skip
        assert named(section) == set(model.model_fields)
    assert set(Ranges.model_fields) <= set(re.findall(r"`(\w+)`", ranges))


def test_every_kind_and_option_is_on_the_page():
    section = PAGE.split("## Kinds")[1]
    assert named(section) == set(kinds())
    for kind in kinds():
        (row,) = re.findall(rf"^\| `{kind}` \|.*$", section, re.M)
        assert all(f"`{option}`" in row for option in kinds()[kind].options.model_fields), kind


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("market", {"draws": 16}, r"mine \(kind market\): options.draws"),
        ("market", {"batch": 0}, "options.batch"),
        ("best_response", {"costs": [{"identity": 0.1}]}, "options.trials"),
        ("budget", {"estimators": ["permutation"]}, "options.samples"),
        ("split_gain", {}, "options.n"),
        ("domain", {"units": {"lerner": "knn"}}, "options.units.lerner"),
        ("domain", {"units": 5}, "options.units"),
        ("domain", {"units": {"attacks": ["copycat"], "called": {"honest": "x"}}}, "unknown attack"),
        ("geometry", {"x": 1}, "options.x"),
        ("checks", {"paid": {}}, "options.checks"),
        ("checks", {"checks": [{"per_payee": -1}], "paid": {}}, "options.checks.0.per_payee"),
        ("checks", {"checks": [{"per_payee": 1, "power": 0.0}], "paid": {}}, "options.checks.0.power"),
    ],
)
def test_options_that_a_kind_does_not_know_or_lacks_are_refused_before_the_first_cell(
    kind, options, says, tmp_path
):
    spec = ExperimentSpec(name="mine", title="Mine", kind=kind, options=options, seeds=1)
    with pytest.raises(DataMarketError, match=says):
        run_experiment(spec, tmp_path / "run")


def test_units_without_a_utility_are_refused(tmp_path):
    text = 'name = "mine"\ntitle = "x"\nkind = "domain"\n[[mechanisms]]\nname = "recommended"\n'
    spec = parse_spec(text, "mine.toml").model_copy(update={"seeds": 1, "attacks": ["honest"]})
    with pytest.raises(DataMarketError, match=r"options\.units"):
        compute(spec, spec.tasks[0], 0, {})


def test_the_defaults_are_those_on_the_page():
    assert "| 50, 0 |" in PAGE
    assert (
        ExperimentSpec(name="x", title="x").seeds,
        ExperimentSpec(name="x", title="x").first_seed,
    ) == (50, 0)
    assert UtilityEntry() == UtilityEntry(learner="logistic", empty="none")
    assert Layout() == Layout(metric="gain", across="mechanism")


def test_the_file_of_the_page_runs_from_the_command_line_and_from_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(TOML)
    done = CliRunner().invoke(app, ["run", "my.toml", "--jobs", "1"])
    assert done.exit_code == 0, done.output
    table = Path("runs/prices/table.md").read_text()
    assert "copycat" in table
    assert "cosine" in table
    scope = {}
    exec(PYTHON, scope)  # the folder is finished: it is read back
    spec = parse_spec(TOML, "my.toml")
    mechanisms = 1 + 2 * 2
    results = pq.read_table("runs/prices/results.parquet")
    assert len(results) == len(spec.tasks) * len(spec.attacks) * mechanisms * spec.seeds
    assert {row["metric"] for row in scope["rows"]} >= set(
        re.findall(r"`(gain\w*|utility|clusters)`", PAGE)
    )


@pytest.mark.parametrize(
    ("words", "seeds"), [([], {4, 5}), (["--first-seed", "7"], {7, 8}), (["--seeds", "1"], {4})]
)
def test_what_the_file_says_holds_unless_the_command_line_says_otherwise(tmp_path, words, seeds):
    small = TOML.replace("seeds = 3", 'seeds = 2\nfirst_seed = 4\nonly = "shapley"').replace(
        "per_provider=15", "per_provider=5"
    )
    (tmp_path / "my.toml").write_text(small)
    command = ["run", str(tmp_path / "my.toml"), "--jobs", "1", "--out", str(tmp_path / "run"), *words]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    rows = pq.read_table(tmp_path / "run" / "results.parquet").to_pylist()
    assert {row["seed"] for row in rows} == seeds
    assert {row["mechanism"] for row in rows} == {"shapley"}
