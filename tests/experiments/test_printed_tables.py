"""What a table says: both averages, the seeds behind every cell, and all of it within 80 columns."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.experiments import builtin_specs, parse_spec, run_experiment
from datamarket_gym.experiments.results import collect, read_all
from datamarket_gym.experiments.spec import Layout
from datamarket_gym.experiments.summary import summarise
from datamarket_gym.experiments.tables import Grid, as_text, grids, render, spans
from repository import published

DOCS = Path(__file__).parents[2] / "docs"
LABELS = {
    "experiment": "x", "task": "t", "attack": "a", "mechanism": "m", "granularity": "unit",
    "representative": "identity",
}  # fmt: skip


def rows_of(honest, attacked, near, **more):
    return [
        {
            **LABELS, **more, "seed": seed, "honest_payment": h, "attacked_payment": a,
            "gain": a / h, "near_zero": float(n),
        }
        for seed, (h, a, n) in enumerate(zip(honest, attacked, near, strict=True))
    ]  # fmt: skip


def shown(*found):
    return render(summarise(row for rows in found for row in rows), [])


def test_the_ratio_of_means_stands_beside_the_mean_of_ratios():
    assert "| a | 1.500 ± 0.500 [1.250] |" in shown(rows_of([1.0, 3.0], [2.0, 3.0], [0, 0]))


def test_seeds_that_are_left_out_are_named_under_their_own_table():
    near = [0, 1, 0, 1, 1, 1, 0, 1]
    some = rows_of([1.0, 0.1] + [1.0] * 6, [2.0] * 4 + [1.0] * 4, near)
    other = rows_of([1.0] * 8, [1.5] * 8, [0] * 8, task="other")
    text = shown(some, other)
    first, second = text.split("## Gain")[1:3]
    assert (
        "(a) 3 of 8 seeds; left out, as the honest payment is not clearly above zero there: 1, 3-5, 7."
        in first
    )
    assert re.search(r"\| 1\.667 ± 0\.333 \[[\d.]+\] \(a\) \|", first)
    assert "left out" not in second
    assert "1.500 [1.500] |" in second  # one number from all seeds: nothing after ±


def test_a_cell_of_one_seed_says_so_and_has_no_error():
    text = shown(rows_of([1.0, 1.0], [1.371, 2.0], [0, 1]))
    assert "1.371 (1 seed) [1.685] (a)" in text
    assert "±" not in text.split("Mean ±")[0]


def test_a_cell_without_a_clear_seed_stays_with_the_ratio_of_means():
    rows = summarise(rows_of([0.01, 0.03], [0.02, 0.03], [1, 1]))
    gain = next(row for row in rows if row["metric"] == "gain")
    assert (gain["value"], gain["se"], gain["seeds"], gain["left_out"]) == (None, None, 0, [0, 1])
    assert "| a | no clear seed [1.250] (a) |" in render(rows, [])
    assert "0 of 2 seeds" in render(rows, [])


def test_there_is_no_ratio_of_means_where_the_honest_earn_nothing_or_owe():
    for honest in ([-1.0, 0.5], [0.1 + 0.2, -0.3]):
        rows = summarise(rows_of(honest, [1.0, 1.0], [1, 1]))
        assert "gain_ratio_of_means" not in {row["metric"] for row in rows}


def test_left_out_seeds_survive_compact_results(tmp_path):
    spec = builtin_specs()["s2"].model_copy(update={"name": "mine", "seeds": 3, "only": "loo"})
    spec = spec.model_copy(update={"attacks": ["sybil_split_k@2"], "utilities": spec.utilities[:1]})
    rows = run_experiment(spec, tmp_path / "runs" / "mine")
    assert any(row.get("left_out") for row in rows if row["metric"] == "gain")
    collect(tmp_path / "runs", tmp_path / "kept")
    (kept,) = read_all(tmp_path / "kept")
    assert render(kept.rows, spec.tables) == render(rows, spec.tables)
    assert "left out" in render(kept.rows, spec.tables)


def test_an_error_is_taken_over_seeds_not_over_pooled_values():
    """A deterministic game has no error, however its values differ over n."""
    pooled = [
        {**row, "n": n, "attacked_payment": float(n), "gain": float(n)}
        for n in (1, 2, 6)
        for row in rows_of([1.0] * 4, [1.0] * 4, [0] * 4)
    ]
    found = [row for row in summarise(pooled, ["n"]) if row["metric"] == "gain" and "n" not in row]
    assert [(row["value"], row["se"], row["seeds"]) for row in found] == [(3.0, None, 4)]
    moved = [{**row, "gain": row["gain"] + row["seed"]} for row in pooled]
    (found,) = [row for row in summarise(moved, ["n"]) if row["metric"] == "gain" and "n" not in row]
    assert found["value"] == 4.5
    assert found["se"] == pytest.approx((5 / 3) ** 0.5 / 2)  # of 0, 1, 2, 3


def test_s1_has_no_error_on_unanimity_games(tmp_path):
    rows = run_experiment(builtin_specs()["s1"].model_copy(update={"seeds": 3}), tmp_path)
    of = {t: [r for r in rows if r["task"] == t] for t in ("unanimity", "random_monotone")}
    assert {row["se"] for row in of["unanimity"]} == {None}
    assert any(row["se"] for row in of["random_monotone"])
    assert not re.search(r"\| unanimity .*±", (tmp_path / "table.md").read_text())


def test_no_difference_is_counted_in_errors_that_are_rounding():
    """0.1 printed "808113220293181.4 of our standard errors" for the embeddings' norm."""
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "results").glob("*.md"))
    assert text
    assert "of our standard errors" not in text
    assert "± 0.000" not in text


def test_a_cell_of_the_paper_without_a_clear_seed_is_outside():
    entry = next(r for one in published().values() for r in one.rows if r["within"])
    rows = rows_of([1.0], [1.0], [1], **{k: v for k, v in entry.items() if k in LABELS})
    axes = {k: v for k, v in entry.items() if k in ("n", "k", "theta", "empty", "learner")}
    (gain,) = [r for r in summarise([{**rows[0], **axes}]) if r["metric"] == "gain"]
    assert (gain["paper"], gain["value"], gain["within"]) == (entry["paper"], None, False)


@pytest.mark.parametrize("name", sorted(builtin_specs()))
def test_every_table_fits_80_columns_and_no_name_is_cut(name):
    kept = published()
    if name not in kept:
        pytest.skip("no results yet")
    rows = [
        {**row, "left_out": list(range(0, 40, 2)), "seeds": 1} if i % 5 == 0 else row
        for i, row in enumerate(kept[name].rows)
    ]
    found = grids(rows, kept[name].spec.tables)
    text = as_text(found, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for grid in found:
        own = as_text([grid], 80)
        for part in (
            part for _, cells in grid.lines for cell in cells for part in cell if len(part) <= 24
        ):
            assert part in own


def test_narrow_tables_stay_whole_and_wide_ones_are_split():
    lines = [(["first_label"], [("1.000 ± 0.100", "[1.000]")] * 6)]
    wide = as_text([Grid("A title", ["attack"], [f"mechanism_{i}" for i in range(6)], lines, [])], 80)
    assert wide.count("first_label") == 2
    lines = [(["first_label"], [("1.000",)] * 3)]
    assert (
        as_text([Grid("A title", ["attack"], ["x", "y", "z"], lines, [])], 80).count("first_label") == 1
    )


def test_labels_are_merged_only_where_no_row_would_hide_another():
    rows = summarise(
        [
            {"experiment": "mine", "seed": seed, "attack": "copycat", "mechanism": name, "theta": theta,
             "gain": gain, "near_zero": 0.0, "honest_payment": 1.0, "attacked_payment": gain}
            for seed in range(2)
            for name, theta, gain in (("a", 0.9, 1.1), ("a", 0.99, 1.2), ("b", 0.5, 1.3))
        ]
    )  # fmt: skip
    layout = Layout(down=["attack"], merge=["theta"])
    values = [
        cell[0] for grid in grids(rows, [layout]) for _, line in grid.lines for cell in line if cell
    ]
    assert sorted(values) == ["1.100", "1.200", "1.300"]
    apart = [row for row in rows if row["theta"] != 0.99]
    assert len(grids(apart, [layout])) == 1


def test_runs_of_seeds_are_written_with_a_dash():
    assert spans([0, 1, 3, 4, 5, 9]) == "0, 1, 3-5, 9"
    assert spans([7]) == "7"


def test_ones_own_experiment_prints_the_papers_other_metrics_and_what_others_lose(tmp_path):
    spec = tmp_path / "mine.toml"
    spec.write_text(
        'name = "mine"\ntitle = "Mine"\nseeds = 2\nattacks = ["sybil_split_k@2"]\n'
        'tasks = [{ task = "synthetic(n_providers=3, per_provider=8, validation=30)" }]\n'
        'utilities = [{ learner = "knn@3" }]\n'
        '[[mechanisms]]\nname = "shapley"\n[[mechanisms]]\nname = "quotient_shapley/oracle_latent"\n'
    )
    made = CliRunner().invoke(
        app, ["run", str(spec), "--out", str(tmp_path / "out")], env={"COLUMNS": "80"}
    )
    assert made.exit_code == 0
    text = " ".join(made.stdout.split())
    assert "Additive gain, oracle L1, rank stability (Kendall's tau), utility v(all)" in text
    assert "Victim's loss (largest), victims' loss (summed), theft (share of the pot)" in text
    lines = [line for line in made.stdout.splitlines() if str(tmp_path) not in line]  # paths stay whole
    assert max(map(len, lines)) <= 80


def test_the_main_experiment_prints_rank_stability_and_utility():
    assert {"gain", "rank_stability", "utility"} <= {
        metric for layout in builtin_specs()["s2"].tables for metric in layout.metrics
    }


def test_without_layouts_all_mechanisms_stand_beside_one_another(tmp_path):
    text = """
name = "mine"
title = "Mine"
seeds = 1
tasks = [{ task = "synthetic(n_providers=3, per_provider=8, validation=40)" }]
utilities = [{ learner = "knn@3", empty = "none" }]
attacks = ["sybil_split_k@2"]
[[mechanisms]]
name = "shapley"
[[mechanisms]]
name = "recommended"
"""
    rows = run_experiment(parse_spec(text, "mine.toml"), tmp_path / "mine")
    gains, *others = grids(rows, [])
    assert list(gains.heads) == ["shapley", "recommended"]
    assert len(others) == 2
    for grid in others:
        assert [labels[1] for labels, _ in grid.lines] == ["shapley", "recommended"]
