"""docs/prior-measured.md: its numbers are those of the published results, and it says plainly what does not hold."""

from datamarket_gym.lab.promises import kept
from repository import published, tool_named

tool = tool_named("prior_page")


def test_the_generated_block_is_up_to_date():
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "run: python tools/prior_page.py"


def test_every_promise_stands_there_with_whether_it_holds_and_where_not():
    one = published()["s12"]
    lines = tool.block(tool.PAGE.read_text(encoding="utf-8")).splitlines()
    for promise in one.spec.promises:
        found = kept(promise, one.rows)
        (line,) = [line for line in lines if promise.says in line]
        assert ("**does not hold**" in line) == (not found.holds)
        assert found.numbers, promise.says


def row(task, attack, value, mechanism="recommended", noise=1.0, prior="with", metric="gain"):
    return {
        "task": task, "attack": attack, "value": value, "mechanism": mechanism, "noise": noise, "prior": prior,
        "metric": metric, "learner": "coverage", "layout": "newcomers", "se": None, "seeds": 10,
    }  # fmt: skip


def test_a_column_shows_the_noise_that_is_worst_for_it_and_the_value_added_there():
    rows = [
        row("synthetic", "copies", 1.2, noise=0.6), row("synthetic", "copies", 1.5, noise=1.0),
        row("synthetic", "copies", 0.4, noise=1.0, metric="value_added"),
        row("synthetic", "copies", 9.9, noise=0.6, metric="value_added"),
        row("synthetic", "copies", 3.0, prior="without", noise=0.6),
        row("stl10(partition=iid)", "copies", 1.01),
    ]  # fmt: skip
    lines = tool.Found(rows).copies("coverage", "newcomers")
    assert lines[2].startswith("| synthetic market | 3.00 | - | 1.50 at 1 | 0.40 | - |")
    assert lines[3].startswith("| STL-10 | - | - | 1.01 at 1 | - |")


def test_where_the_bars_hold_is_said_of_the_mean_and_of_the_worst_seed():
    domains = {"synthetic": (1.2, 1.9), "agnews": (1.01, 1.02), "cifar10": (1.01, 1.06)}
    rows = [
        row(task, "copies_alone", value, metric=metric)
        for task, found in domains.items()
        for metric, value in zip(("gain", "gain_worst_seed"), found, strict=True)
    ]
    rows += [row("agnews", "midpoints", 9.0), row("agnews", "copies", 9.0, prior="without")]
    found = tool.Found(rows)
    assert found.where_bars_hold() == (
        "**Both bars hold in the mean and in every seed: AG News.** **Both hold in the mean, and not in every seed: "
        "CIFAR-10.** **Not both hold in the mean: synthetic market.**"
    )
    assert found.bars_by_domain()[4] == "| CIFAR-10 | 1.010 | **1.060** | - | - |"
    rows.append(row("agnews", "copies", 0.021, metric="victim_loss_worst_seed"))
    assert "not in every seed: AG News, CIFAR-10." in tool.Found(rows).where_bars_hold()
