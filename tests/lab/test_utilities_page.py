"""docs/utilities.md: its numbers are those of the published results, and it says plainly what does not hold."""

from datamarket_gym.lab.promises import kept
from repository import published, tool_named

tool = tool_named("utilities_page")


def test_the_generated_block_is_up_to_date():
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "run: python tools/utilities_page.py"


def test_every_promise_stands_there_with_whether_it_holds():
    one = published()["s13"]
    lines = tool.block(tool.PAGE.read_text(encoding="utf-8")).splitlines()
    for promise in one.spec.promises:
        numbers = [number for number, row in kept(promise, one.rows).numbers if row["value"] is not None]
        (line,) = [line for line in lines if promise.says in line]
        assert numbers, promise.says
        assert ("**does not hold**" in line) == (max(numbers) > promise.at_most + 1e-9)


def row(task, learner, attack, value, mechanism="recommended", **more):
    return {
        "metric": "gain", "task": task, "learner": learner, "attack": attack, "value": value, "mechanism": mechanism,
        "se": None, "seeds": 10, **more,
    }  # fmt: skip


def test_gains_are_the_worst_of_real_domains_and_the_synthetic_market_beside():
    rows = [
        row("synthetic", "knn", "junk_padding", 0.5), row("synthetic", "knn", "junk_padding@3.0", 0.25),
        row("agnews", "knn", "junk_padding", 1.1), row("stl10", "knn", "junk_padding@3.0", 1.3),
        row("stl10", "knn", "junk_padding@3.0", 9.0, mechanism="shapley"),
        row("stl10", "knn", "junk_padding@3.0", 8.0, attacker="sees_classes"),
    ]  # fmt: skip
    head, _, line = tool._gains(rows, "recommended")
    cells = dict(zip(head.split(" | "), line.split(" | "), strict=True))
    assert cells["junk"] == "1.30 / 0.50"
    assert cells["laundering"] == "-"


def test_what_c_is_for_tells_owners_who_know_the_classes_from_others():
    learner = "coverage(quantile=0.9, labels=False)"
    at = {"learner": learner, "attack": "synthetic_laundering@3.0", "mechanism": "lineage@0.9"}
    rows = [row("agnews", value=1.02, **at), row("agnews", value=1.19, attacker="sees_classes", **at)]
    lines = tool._without(rows)[2:]
    assert [line.split(" | ")[-1] for line in lines] == ["1.02 |", "1.19 |"]
    assert "owner who knows" in lines[1]


def test_scores_of_a_model_that_saw_the_copies_show_how_far_they_fall():
    rows = [
        row(task, "scores_as_reported", attack, value)
        for task, value in (("agnews", 0.76), ("stl10", 0.9))
        for attack in ("honest", "exact_dup_2x_sybils")
    ]
    line = tool._imported(rows)[3]
    assert line.startswith(
        "| summed over training, model trained on all that was submitted | 2 | 0.76 to 0.90 |"
    )


def test_leads_are_points_of_accuracy():
    assert tool._points(0.0123) == "+1.2"
    assert tool._points(-0.0001) == "+0.0"
