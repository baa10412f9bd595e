"""At a prompt and in a notebook: completion, one-screen reprs, tables, and what a task may be written as."""

import importlib.util
import io
import re

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import datamarket_gym
from datamarket_gym import ProviderMarket, Submission, Synthetic, create, get_mechanism
from datamarket_gym import result_table as frames
from datamarket_gym.data.submission import from_table
from datamarket_gym.display import ROWS
from datamarket_gym.errors import DataMarketError, ParameterError, UnknownNameError
from datamarket_gym.utilities.oracle import Utility

KNN = Utility("knn@3", "chance")


@pytest.fixture(scope="module")
def big():
    """More providers than fit on a screen."""
    task = Synthetic(n_providers=40, per_provider=5, validation=40)
    return ProviderMarket.from_task(task, 1)


@pytest.fixture(scope="module")
def things(big):
    paid = get_mechanism("shapley", estimator="permutation", samples=4).pay(
        big.honest.submission, big.utility_oracle(KNN)
    )
    return {"payments": paid, "submission": big.honest.submission, "market": big}


def test_names_that_are_not_loaded_yet_are_completed():
    assert set(datamarket_gym.__all__) <= set(dir(datamarket_gym))
    assert "import_module" not in dir(datamarket_gym)  # what is ours to use, and no more


def test_the_base_class_of_every_plug_point_is_exported():
    bases = {
        "allocation": "Allocation", "attack": "Attack", "encoder": "Encoder", "estimator": "Estimator",
        "evidence": "EvidenceLayer", "game": "Game", "learner": "UtilityFunction", "mechanism": "Payer",
        "partition": "Partition", "representative": "Representative", "semivalue": "Semivalue",
        "similarity": "Similarity", "task": "Task",
    }  # fmt: skip
    from datamarket_gym.registry import _kinds, components
    from datamarket_gym.testing import CHECKERS

    assert set(bases) == set(CHECKERS)
    for kind, name in bases.items():
        components(kind)
        assert name in datamarket_gym.__all__
        assert getattr(datamarket_gym, name) is _kinds[kind].of
    assert {"UtilityFunction", "Scorer"} <= set(datamarket_gym.__all__)


@pytest.mark.parametrize("name", ["payments", "submission", "market"])
def test_a_repr_is_one_screen(things, name):
    lines = repr(things[name]).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[-1] == f"... and {40 - ROWS} more"
    assert "object at 0x" not in repr(things[name])
    assert "40" in lines[0]


def test_a_repr_says_what_there_is(submission):
    assert repr(submission).splitlines() == [
        "Submission of 6 units by 3 identities: 2 features, 2 labels, time",
        "identity  units  labels",
        "a             2       2",
        "b             2       2",
        "c             2       2",
    ]
    market = ProviderMarket.from_task("synthetic(n_providers=2, per_provider=30)", 5, "knn", "chance")
    title = " ".join(line.strip() for line in repr(market).splitlines()[:2])
    assert title == (
        "ProviderMarket of 'synthetic', seed 5: 2 providers with 60 units, 24 features, 4 labels; worth by "
        "knn on 200 validation rows, U(empty) = chance"
    )


def test_the_best_paid_come_first(things):
    paid = things["payments"]
    rows = [line.split() for line in repr(paid).splitlines() if line.startswith("provider_")]
    amounts = [float(row[1]) for row in rows]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[0] == pytest.approx(paid.totals.max(), abs=1e-4)
    assert rows[0][0] == paid.identities[paid.totals.argmax()]
    assert float(rows[0][2].rstrip("%")) == pytest.approx(
        100 * paid.totals.max() / paid.totals.sum(), abs=0.06
    )


def test_names_of_strangers_stay_names(submission):
    odd = ["[red]x[/red]", "<script>alert(1)</script>", "new\nline" + "y" * 200]
    names = np.repeat(odd, 2)
    shown = submission.take(np.arange(6), {"identity": names})
    assert max(map(len, repr(shown).splitlines())) <= 80
    assert len(repr(shown).splitlines()) == 5
    assert "[red]x[/red]" in repr(shown)
    out = io.StringIO()
    Console(file=out, width=100).print(shown)
    assert "[red]x[/red]" in out.getvalue()
    assert "<script>" not in shown._repr_html_()


@pytest.mark.parametrize("name", ["payments", "submission", "market"])
def test_rich_and_notebooks_show_the_same_rows(things, name):
    out = io.StringIO()
    Console(file=out, width=100).print(things[name])
    html = things[name]._repr_html_()
    first = re.search(r"^provider_\d+", repr(things[name]), re.M)[0]
    assert f"│ {first} " in out.getvalue()
    assert f"<td>{first}</td>" in html
    assert html.count("<tr>") == ROWS + 1
    assert out.getvalue().count("│ provider_") == ROWS


def test_arrow_is_always_there(things, submission):
    table = things["payments"].to_arrow()
    assert table.column_names == ["identity", "amount", "share", "standard_error"]
    assert dict(zip(table["identity"].to_pylist(), table["amount"].to_pylist(), strict=True)) == (
        things["payments"].as_dict()
    )
    assert sum(table["share"].to_pylist()) == pytest.approx(1.0)
    units = submission.to_arrow()
    assert isinstance(units, pa.Table)
    assert units["identity"].to_pylist() == list("aabbcc")
    again = from_table(units)
    assert isinstance(again, Submission)
    assert (again.features == submission.features).all()


def test_without_pandas_and_polars_the_error_names_arrow(things, monkeypatch):
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    for name in ("payments", "submission"):
        with pytest.raises(DataMarketError, match=r"neither is installed; .* to_arrow\(\)"):
            things[name].to_frame()


def test_pandas(things):
    pandas = pytest.importorskip("pandas")
    frame = things["payments"].to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.set_index("identity")["amount"].to_dict() == things["payments"].as_dict()
    units = things["submission"].to_frame()
    assert len(units) == len(things["submission"])
    assert len(units["features"][0]) == 24


def test_polars_where_there_is_no_pandas(things, monkeypatch):
    polars = pytest.importorskip("polars")
    monkeypatch.setattr(
        frames, "find_spec", lambda name: None if name == "pandas" else importlib.util.find_spec(name)
    )
    frame = things["payments"].to_frame()
    assert isinstance(frame, polars.DataFrame)
    assert dict(frame.select("identity", "amount").iter_rows()) == things["payments"].as_dict()
    assert things["submission"].to_frame().height == len(things["submission"])


def test_a_market_from_what_a_task_is_written_as():
    made = ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=6, validation=20), 0).honest
    for written in (
        "synthetic(n_providers=3, per_provider=6, validation=20)",
        {"name": "synthetic", "n_providers": 3, "per_provider": 6, "validation": 20},
    ):
        again = ProviderMarket.from_task(written).honest
        assert (again.submission.features == made.submission.features).all()
    assert len(ProviderMarket.from_task("synthetic").provider_partition) == 8


@pytest.mark.parametrize(
    ("task", "seed", "error", "words"),
    [
        ("synthetik", 0, UnknownNameError, "unknown task 'synthetik'; did you mean synthetic"),
        (Synthetic, 0, ParameterError, r"task = 'Synthetic': pass an instance, as Synthetic\(...\)"),
        (3.5, 0, ParameterError, "task = 'float': pass its written form, a mapping or an instance"),
        (None, 0, ParameterError, "task = 'NoneType'"),
        ("synthetic", -1, ParameterError, "seed = -1: choose a whole number of at least 0"),
        ("synthetic", "0", ParameterError, "seed = '0'"),
        ("synthetic", True, ParameterError, "seed = True"),
        ("synthetic(n=3)", 0, UnknownNameError, "parameter of task synthetic 'n'"),
    ],
)
def test_what_is_no_task_is_one_readable_error(task, seed, error, words):
    with pytest.raises(error, match=words):
        ProviderMarket.from_task(task, seed)


def test_a_component_is_made_from_an_instance_not_from_its_class():
    with pytest.raises(ParameterError, match=r"pass an instance, as Synthetic\(...\)"):
        create("task", Synthetic)
