"""Pages of results: nothing on them is typed, nothing is dropped, and what they lack they say."""

import json
import re
from pathlib import Path

import pytest

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab import builtin_specs
from datamarket_gym.lab.figures import presets
from datamarket_gym.lab.kinds.checks import ASSUMING
from datamarket_gym.lab.pages.asked import Pick, ShortTable, asked
from datamarket_gym.lab.pages.picked import LackingError, fields, filled
from datamarket_gym.lab.pages.short import WIDTH, short_table
from datamarket_gym.lab.pages.whole import pages

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "results"


@pytest.fixture(scope="module")
def made():
    return pages(RESULTS)


@pytest.fixture(scope="module")
def front(made):
    return made["results.md"]


def test_no_page_is_stale_and_none_is_left_over(made):
    """Fails when results, specifications, questions or the paper's numbers changed: run `datamarket results`."""
    for place, text in made.items():
        assert (DOCS / place).read_text(encoding="utf-8") == text, place
    there = [*RESULTS.glob("*.md"), *(DOCS / "questions").glob("*.md")]
    assert {str(page.relative_to(DOCS)) for page in there} == set(made) - {
        "results.md",
        "reproduce.md",
        "ten-numbers.md",
    }


def test_every_experiment_has_its_full_tables_and_a_question_or_is_among_the_rest(made, front):
    files = {path.stem for path in RESULTS.glob("*.json")}
    assert files == {Path(place).stem for place in made if place.startswith("results/")} - {"time"}
    asked_of = {name for question in asked().question for name in question.experiments}
    rest = set(re.findall(r"^- \[([\w.-]+)\]\(results/", front.partition("## The rest")[2], re.M))
    assert files == asked_of - {"time"} | rest
    assert asked_of - {"time"} <= set(builtin_specs())


def test_every_question_is_answered_and_there_are_ten_numbers(made, front):
    assert "Not answered" not in front
    for question in asked().question:
        assert f"](questions/{question.slug}.md)" in front
        text = made[f"questions/{question.slug}.md"]
        assert all(f"../results/{name}.md" in text for name in question.experiments)
        assert set(question.figures) <= set(presets())
        assert "{" not in text
    ten = re.findall(r"^\d+\. \*\*.*$", front, re.M)
    assert [line.partition(".")[0] for line in ten] == [str(n) for n in range(1, 11)]
    assert made["ten-numbers.md"].endswith("\n".join(["", *ten, ""]))
    assert len(front.splitlines()) < 100


def test_short_tables_are_short_and_fit_a_terminal(made):
    for question in asked().question:
        text = made[f"questions/{question.slug}.md"]
        lines = [line for line in text.splitlines() if line.startswith("|")]
        assert lines
        assert max(map(len, lines)) <= WIDTH, question.slug
        for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
            assert table.count("\n") <= 14  # twelve, the heads and a rule


def raw(name):
    """The rows of a compact file, read without any of our code."""
    kept = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return [{**kept["same"], **dict(zip(kept["columns"], line, strict=True))} for line in kept["rows"]]


def test_numbers_are_those_of_the_files(made, front):
    """Worked out anew, for some of them."""
    s2 = [
        row
        for row in raw("s2")
        if (row["attack"], row["mechanism"], row["metric"]) == ("sybil_split_3", "shapley", "gain")
        and (row["representative"], row["empty"]) == ("identity", "none")
    ]
    (three,) = s2
    assert f"1. **{three['value']:.2f} ± {three['se']:.2f}** of honest pay" in front
    assert (
        f"three names earn {three['value']:.2f} ± {three['se']:.2f} of one name's pay with U(empty) = 0"
        in front
    )

    net = [row for row in raw("s11") if row["metric"] == "expected_net_gain"]
    checked = [r for r in net if (r["learner"], r["checks"], r["power"]) == ("coverage", 3, 0.8)]
    worst = max(checked, key=lambda row: row["value"])
    above = sum(row["value"] > 1.02 for row in checked)
    assert f"**{worst['value']:.3f} ± {worst['se']:.3f}** is what is left" in front
    assert f"{above} of {len(checked)} rows miss our bar of 1.02" in front
    families = {}
    for row in checked:
        families[row["family"]] = max(families.get(row["family"], 0.0), row["value"])
    page = made["questions/checks.md"]
    for family, value in families.items():
        if family == ASSUMING:  # it has a shorter name there
            family = "forged clock, foresight"
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {family} ")]
        assert line.rstrip(" |").endswith(f" {value:.3f}")
    assert page.count("**Does not hold**: With 3 checks") == (above > 0)

    periods = [
        row
        for row in raw("s12")
        if (row["metric"], row["learner"], row["mechanism"], row["prior"])
        == ("gain", "coverage", "recommended", "with")
        and not row["attack"].startswith(("own_", "honest"))
    ]
    worst = max(periods, key=lambda row: row["value"])
    real = max((row for row in periods if row["task"] != "synthetic"), key=lambda row: row["value"])
    assert f"**{worst['value']:.2f} ± {worst['se']:.2f}** is the most that units made of" in front
    assert f"{real['value']:.2f} ± {real['se']:.2f} on real data" in front


def test_every_page_that_says_what_splits_gain_says_what_no_data_are_worth(made):
    """The gain of three names is 1.63 or 1.21, and which depends on U(empty): a page with one has the other."""
    zero, chance = (
        f"{row['value']:.2f} ± {row['se']:.2f}"
        for empty in ("none", "chance")
        for row in raw("s2")
        if (row["attack"], row["mechanism"], row["metric"]) == ("sybil_split_3", "shapley", "gain")
        and (row["representative"], row["empty"]) == ("identity", empty)
    )
    for place, text in made.items():
        if place.startswith("results/"):
            continue  # every table has it in its title
        if re.search(
            r"names (?:still )?(?:gain|earn)|split into (?:three|four)|gain of three names|gain of a split",
            text,
        ):
            assert "U(empty)" in text, place
        if zero in text:
            assert chance in text, place
            assert {"0", "chance"} <= set(re.findall(r"U\(empty\) = (\w+)", text)), place


def test_what_is_said_of_the_strongest_attack_on_accuracy_is_true_of_it():
    """The page says that no check is drawn on its units, as they earn nothing."""
    net = [
        row
        for row in raw("s11")
        if (row["metric"], row["learner"], row["checks"]) == ("expected_net_gain", "knn", 3)
    ]
    assert "worthless=True" in max(net, key=lambda row: row["value"])["best_attack"]


def test_counts_against_the_paper_are_those_of_the_full_tables(made, front):
    verdicts = {"within": 0, "**outside**": 0, "not claimed": 0}
    for place, text in made.items():
        if place.startswith("results/"):
            for line in text.partition("against the paper\n")[2].splitlines():
                for verdict in verdicts:
                    verdicts[verdict] += line.endswith(f" | {verdict} |")
    times = made["results/time.md"].partition("## Against the paper")[2].count(" | not claimed |\n")
    total = [str(n) for n in verdicts.values()]
    total[2] = str(verdicts["not claimed"] + times)
    (line,) = [line for line in front.splitlines() if line.startswith("| **all** ")]
    assert [part.strip() for part in line.strip(" |").split("|")][2:] == total


ROW = {"metric": "gain", "se": 0.04, "seeds": 10, "task": "x"}
ROWS = {
    "e": [
        {**ROW, "attack": "honest", "mechanism": "a", "value": 1.0, "se": None},
        {**ROW, "attack": "honest", "mechanism": "b", "value": 1.25},
        {**ROW, "attack": "copycat", "mechanism": "a", "value": 3.5, "left_out": [4, 7], "seeds": 8},
        {**ROW, "attack": "copycat", "mechanism": "b", "value": None},
        {**ROW, "attack": "sybil_split_2", "mechanism": "a", "value": 2.0},
    ]
}


def pick(**said):
    return Pick(experiment="e", **{"where": {"metric": "gain"}, **said})


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"over": "highest"}, "3.50 ± 0.04 (8 of 10 seeds)"),
        ({"over": "lowest"}, "1.00"),
        ({"over": "highest", "without": {"attack": "copycat"}}, "2.00 ± 0.04"),
        ({"over": "highest", "percent": True, "digits": 0, "without": {"mechanism": "a"}}, "125 ± 4 %"),
        ({"above": 1.0}, "3"),
        ({"where": {"metric": "gain", "attack": "honest", "mechanism": "b"}}, "1.25 ± 0.04"),
    ],
)
def test_a_number_is_the_one_asked_for(said, shown):
    assert fields(ROWS, {"n": pick(**said)})["n"] == shown


def test_a_number_says_whose_it_is_and_counts_say_of_how_many():
    found = fields(ROWS, {"n": pick(over="highest"), "c": pick(above=9.0)})
    assert (found["n.attack"], found["n.value"]) == ("copies of another's units", "3.50")
    assert (found["c"], found["c.of"]) == ("0", "4")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"experiment": "s99"}, r"no s99.json .* datamarket run s99; then datamarket results runs"),
        ({"where": {"metric": "gain", "attack": "turn"}}, "no row of e has .*turn.* without --only: datamarket run e"),
        ({"where": {"attack": "copycat", "mechanism": "b"}}, "no row of e has"),  # it has no value
        ({}, "4 rows have metric = 'gain', and one is needed"),
        ({"over": "highest", "at_most": 3.0}, "not true of these results: 3.5 is not in -inf to 3"),
        ({"above": 1.0, "at_least": 4}, "not true of these results: 3 is not in 4 to inf"),
    ],
)  # fmt: skip
def test_what_results_lack_is_named_with_the_remedy(said, why):
    with pytest.raises(LackingError, match=why):
        fields(ROWS, {"n": pick(**said)}) if "experiment" not in said else fields(
            ROWS, {"n": Pick(where={}, **said)}
        )


def test_a_field_that_stands_for_nothing_is_an_error():
    assert filled("{n.value} of {n}", {"n": "2", "n.value": "1"}, "q") == "1 of 2"
    with pytest.raises(DataMarketError, match=r"q: \{m\} stands for nothing"):
        filled("{m}", {"n": "2"}, "q")


def table(**said):
    return ShortTable(
        **{"title": "T", "experiment": "e", "where": {"metric": "gain"}, "down": "attack", **said}
    )


def test_a_short_table_is_chosen_by_its_rule():
    text = short_table(table(order="largest", by="a", most=2, called={"a": "ours", "b": "theirs"}), ROWS)
    assert text.splitlines() == [
        "**T**",
        "",
        "| attack                    |          ours | theirs |",
        "|---------------------------|--------------:|-------:|",
        r"| copies of another's units | 3.50 ± 0.04\* |      - |",
        "| split into 2 names        |   2.00 ± 0.04 |      - |",
        "",
        "A dash: not played, or honest pay is nowhere clearly above zero. The 2 largest of 3.",
    ]


def test_errors_go_below_where_they_would_not_fit_and_several_rows_in_a_cell_need_a_rule():
    wide = {"e": [{**ROW, "attack": "honest", "mechanism": f"m{n}", "value": 1.0 + n} for n in range(7)]}
    text = short_table(table(), wide)
    assert "Standard errors are up to 0.04." in text
    assert "±" not in text
    assert max(map(len, text.splitlines())) <= WIDTH
    with pytest.raises(LackingError, match=r"7 rows have the same place in 'T'"):
        short_table(table(across="task"), wide)
    assert "| 7.00 ± 0.04 |" in short_table(table(across="task", fold="highest"), wide)


def test_results_without_what_questions_need_say_so_and_keep_their_tables(tmp_path):
    (tmp_path / "mine").mkdir()
    for name in ("s1", "s7"):
        (tmp_path / "mine" / f"{name}.json").write_bytes((RESULTS / f"{name}.json").read_bytes())
    found = pages(tmp_path / "mine")
    assert set(found) == {
        "mine.md", "mine/s1.md", "mine/s7.md", "mine/time.md",
        "mine-questions/inside-clusters.md", "mine-questions/cost.md", "mine-reproduce.md",
    }  # fmt: skip
    front = found["mine.md"]
    assert "- **What does splitting into names gain?** there is no s2.json, s8.json" in front
    assert "datamarket run s2; datamarket run s8" in front
    assert "- [s1](mine/s1.md): Closed-form" in front.partition("## The rest")[2]
    assert "- **[Who is paid inside a cluster?](mine-questions/inside-clusters.md)**" in front
    assert "](../mine-questions/inside-clusters.md)" in found["mine/s7.md"]
    assert "](../mine/s7.md)" in found["mine-questions/inside-clusters.md"]


def test_a_folder_without_results_and_an_experiment_called_time_are_refused(tmp_path):
    with pytest.raises(DataMarketError, match="no results in"):
        pages(tmp_path)
    kept = json.loads((RESULTS / "s7.json").read_text(encoding="utf-8"))
    own = {**kept, "name": "time", "spec": {**kept["spec"], "name": "time"}}
    (tmp_path / "time.json").write_text(json.dumps(own), encoding="utf-8")
    with pytest.raises(DataMarketError, match="called 'time'"):
        pages(tmp_path)
