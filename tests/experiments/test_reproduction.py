"""Everything that the paper says of our experiments is held against ours, and misses count as misses."""

import math
from collections import Counter
from pathlib import Path

import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments import builtin_specs
from datamarket_gym.experiments.paper import (
    Claim,
    entry_of,
    paper,
    paper_values,
    with_paper,
)
from datamarket_gym.experiments.reproduction import TOO_FEW, compare_with_paper, count_verdicts, verdict
from repository import published

DOCS = Path(__file__).parents[2] / "docs"
VALUES = [entry for entries in paper_values().values() for entry in entries]


@pytest.fixture(scope="module")
def kept():
    return published()


def test_every_number_has_a_tolerance_or_a_reason_for_having_none():
    for entry in VALUES:
        assert entry.get("tolerance") in paper().tolerance or entry["why"].strip(), entry
        assert (
            not {"within", "share"} & entry.keys()
        )  # tolerances have names; no single cell has its own
    for claim in paper().claim:
        bounds = (claim.paper, claim.at_most, claim.at_least)
        assert sum(bound is not None for bound in bounds) == 1, claim.says
        assert claim.paper is None or claim.tolerance in paper().tolerance or claim.why, claim.says
    assert all(one.why.strip() for one in paper().unmeasured)


def test_every_tolerance_is_used_and_says_where_it_comes_from():
    used = {entry.get("tolerance") for entry in VALUES} | {claim.tolerance for claim in paper().claim}
    assert used - {None, ""} == set(paper().tolerance)
    for tolerance in paper().tolerance.values():
        assert tolerance.origin.strip()
        assert (tolerance.within > 0) != (tolerance.share > 0)


def test_every_number_of_the_paper_is_one_row_of_the_committed_results(kept):
    for experiment in paper_values():
        found = [entry_of(row) for row in kept[experiment].rows]
        assert all(sum(each is entry for each in found) == 1 for entry in paper_values()[experiment])
    for claim in paper().claim:
        assert verdict(claim, kept[claim.experiment].rows) is not None, claim.says
    named = {claim.experiment for claim in paper().claim} | {
        one.experiment for one in paper().unmeasured
    }
    assert named <= set(kept)
    labels = [tuple((k, str(v)) for k, v in e.items() if k not in ("paper", "why")) for e in VALUES]
    assert max(Counter(labels).values()) == 1


def test_whatever_is_outside_or_not_claimed_says_why(kept):
    for name, one in kept.items():
        for account in compare_with_paper(name, one.rows):
            assert account.verdict == "within" or account.why.strip(), (name, account.cell)


def test_misses_count_as_misses(kept):
    """S9's cells had no tolerance, and so its line read: two compared, two within."""
    within, outside, not_claimed = count_verdicts(
        compare_with_paper("agnews-s9", kept["agnews-s9"].rows)
    )
    assert within + outside + not_claimed == len(paper_values()["agnews-s9"]) == 9
    assert not_claimed == 0
    assert outside == sum(row["within"] is False for row in kept["agnews-s9"].rows)


def test_the_full_tables_list_every_cell(kept):
    for name, one in kept.items():
        page = (DOCS / "results" / f"{name}.md").read_text(encoding="utf-8")
        for account in compare_with_paper(name, one.rows):
            assert f"| {account.cell} | {account.metric} | {account.paper} |" in page


def test_neighbours_have_one_tolerance():
    """STL-10 at .80 had five times the room of .85; chaining floors had four grid steps."""

    def tolerance(experiment, **labels):
        found = [
            e["tolerance"]
            for e in paper_values()[experiment]
            if all(e.get(key) == value for key, value in labels.items())
        ]
        assert len(set(found)) == 1
        return paper().tolerance[found[0]]

    cosine = {"mechanism": "quotient_shapley/cosine"}
    for theta in (0.8, 0.85, 0.9, 0.95):
        assert tolerance("stl10", theta=theta, **cosine).within == 0.05
    assert tolerance("predict-theta", quantity="chaining floor at 0.10").within == 0.02
    assert paper().tolerance["gain, put back"].within == paper().tolerance["gain"].within == 0.1
    assert (
        tolerance("s5", metric="gain")
        == tolerance("s7", metric="gain")
        == paper().tolerance["gain, put back"]
    )


def row(value, **labels):
    plain = {
        "experiment": "x",
        "attack": "a",
        "mechanism": "m",
        "metric": "gain",
        "se": 0.1,
        "seeds": 40,
    }
    return with_paper({**plain, "value": value, **labels})


ROWS = [
    row(1.0, theta=0.8),
    row(1.5, theta=0.9),
    row(1.25, theta=0.95),
    row(2.0, mechanism="base"),
    row(0.5, metric="other", theta=0.9),
]


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ({"where": {"theta": 0.9, "metric": "gain"}}, 1.5),
        ({"over": "lowest"}, 1.0),
        ({"over": "highest"}, 1.5),
        ({"over": "spread"}, 0.5),
        ({"over": "highest", "of": "se"}, 0.2),
        ({"over": "highest", "less": {"mechanism": "base", "theta": ""}}, -0.5),
        ({"over": "highest", "less": {"mechanism": "base", "theta": ""}, "absolute": True}, 1.0),
        ({"over": "lowest", "less": {"mechanism": "base", "theta": ""}, "relative": True}, -0.5),
        ({"where": {"theta": 0.9, "metric": "gain"}, "less": {"metric": "other"}, "times": 2.0}, 0.5),
        ({"over": "lowest", "along": "theta"}, -0.25),
        ({"where": {"theta": 0.9, "metric": "gain"}, "above": 1.0}, 0.5),
        (
            {
                "over": "lowest",
                "less": {"mechanism": "base", "theta": ""},
                "above": 0.5,
                "relative": True,
            },
            -2 / 3,
        ),
    ],
)
def test_claims_are_numbers_that_rows_give(form, value):
    where = {"mechanism": "m", "metric": "gain"}
    claim = Claim(**{"experiment": "x", "says": "?", "where": where, "at_most": value, **form})
    found = verdict(claim, ROWS)
    assert found.value == pytest.approx(value)
    assert found.holds is True
    tighter = claim.model_copy(update={"at_most": value - 0.01})
    assert verdict(tighter, ROWS).holds is False
    least = claim.model_copy(update={"at_most": None, "at_least": value + 0.01})
    assert verdict(least, ROWS).holds is False
    near = claim.model_copy(update={"at_most": None, "paper": value + 0.09, "tolerance": "gain"})
    assert verdict(near, ROWS).holds is True
    assert verdict(near.model_copy(update={"paper": value + 0.11}), ROWS).holds is False
    assert verdict(near.model_copy(update={"tolerance": ""}), ROWS).holds is None


@pytest.mark.parametrize(
    "form",
    [
        {"where": {"mechanism": "m", "metric": "gain"}},
        {"where": {"theta": 0.9, "metric": "other"}, "less": {"metric": ["gain", "other"]}},
    ],
)
def test_a_claim_that_finds_too_many_rows_is_an_error(form):
    with pytest.raises(DataMarketError, match="rows of x"):
        verdict(Claim(experiment="x", says="?", at_most=1.0, **form), ROWS)


def test_results_that_hold_no_rows_for_a_claim_say_so(kept):
    """A run with --only has its page as well."""
    some = [r for r in kept["s4"].rows if r["attack"] == "near_duplicate_2x_sybils"]
    shown = compare_with_paper("s4", some)
    claims = [account for account in shown if account.cell.startswith("On pure splits")]
    assert {(a.ours, a.verdict) for a in claims} == {("not measured", "not claimed")}
    unseen = [account for account in shown if account.metric and account.ours == "not measured"]
    assert len(unseen) == len(paper_values()["s4"]) - sum(entry_of(row) is not None for row in some) > 0
    assert {(a.verdict, a.why) for a in unseen} == {("not claimed", TOO_FEW)}
    assert len(shown) == len(compare_with_paper("s4", kept["s4"].rows))
    assert verdict(Claim(experiment="x", says="?", at_most=1.0, where={"mechanism": "no"}), ROWS) is None


def test_a_claim_about_several_cells_needs_all_of_them():
    """One about four thresholds says nothing about three, nor does one whose partners are gone."""
    claim = Claim(
        experiment="x", says="?", over="highest", at_most=2.0,
        where={"mechanism": "m", "metric": "gain", "theta": [0.8, 0.9]},
    )  # fmt: skip
    assert verdict(claim, ROWS).holds is True
    wider = claim.model_copy(update={"where": {**claim.where, "theta": [0.8, 0.9, 0.99]}})
    assert verdict(wider, ROWS) is None
    paired = claim.model_copy(
        update={"where": {"mechanism": "m", "metric": "gain"}, "less": {"metric": "other"}}
    )
    assert verdict(paired, ROWS) is None


def test_scatter_is_a_reason_only_for_what_scatters(kept):
    """A cell may be excused by its noise if it is within three standard errors, ours and the paper's."""
    for name in ("s5", "s7"):
        for row in kept[name].rows:
            entry = entry_of(row)
            if entry and row["within"] is False and "scatters" in entry.get("why", ""):
                error = math.hypot(row["se"] or 0.0, entry.get("paper_se", 0.0))
                assert abs(row["value"] - row["paper"]) <= 3 * error, (name, entry)


def test_both_axes_of_the_noise_grid_are_held_to_the_paper():
    """The paper: the gain rises monotonically along both axes."""
    assert {claim.along for claim in paper().claim if claim.experiment == "s5"} >= {"p_fs", "p_fm"}


def test_reasons_speak_of_their_own_cell():
    """Reasons that were copied to cells they are not about: nothing is merged at p_fm = 0, texts have no images."""
    for entry in VALUES:
        why = entry.get("why", "")
        assert "merged" not in why or entry.get("p_fm") != 0.0, entry
        assert "images" not in why or entry["task"] in ("cifar10", "stl10"), entry
        assert "0.85" not in why or entry.get("theta") == 0.85, entry


def test_every_table_of_real_data_says_that_they_are_a_subset():
    """docs/real-domains.md promises it; S9's did not."""
    for name, spec in builtin_specs().items():
        if spec.kind in ("domain", "geometry"):
            assert "subset" in spec.about, name


def test_a_row_without_a_value_or_without_an_error_breaks_its_claim():
    """A mean over no seed, and the error of a single one; seeds that all agree have an error of zero."""
    bound = {"experiment": "x", "says": "?", "at_most": 10.0, "where": {"mechanism": "m"}}
    assert verdict(Claim(**bound), [row(None)]).holds is False
    assert verdict(Claim(**bound, of="se"), [row(1.0, se=None, seeds=1)]).holds is False
    assert verdict(Claim(**bound, of="se"), [row(1.0, se=None, seeds=5)]).value == 0.0
