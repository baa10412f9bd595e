"""The rule by which the recommended utility is chosen, on made rows; its table and its figure."""

import re

import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments.presets import draw, presets
from datamarket_gym.experiments.utility_choice import (
    DOMAINS,
    REFERENCE,
    choice_table,
    choose_utility,
    undominated,
    utility_points,
)

COMBINED = "coverage(quantile=0.9, similarity=combined, cap=0.5)"
SHARP = "coverage(quantile=0.97, similarity=combined)"


def summary(experiment, metric, value, **labels):
    return {"experiment": experiment, "metric": metric, "value": value, "se": 0.01, "seeds": 3, **labels}


def gains(learner, secret, leaked, **changed):
    """Worst gains on every domain, some of them changed; and rows that the rule must not read."""
    at = {"learner": learner, "mechanism": "recommended"}
    for domain in (*DOMAINS, "synthetic"):
        task = {"task": f"{domain}(n_providers=8)"}
        for validation, gain in (("secret", secret), ("leaked", leaked)):
            where = {**at, **task, "validation": validation, "checks": 0}
            worst = changed.get(f"{domain}_{validation}", 99.0 if domain == "synthetic" else gain)
            yield summary("frontier", "gain", worst, attack="worst", **where)
            yield summary("frontier", "gain", 77.0, attack="worst_of_library", **where)
            yield summary("frontier", "gain_worst_seed", 88.0, attack="worst", **where)
            yield summary("frontier", "gain", 55.0, attack="worst", **{**where, "checks": 3})


def scores(learner, lds, **changed):
    for domain in DOMAINS:
        at = {"task": domain, "learner": learner}
        yield summary("lds", "lds", changed.get(domain, lds), **at, model="logistic")
        yield summary("lds", "lds", 0.99, **at, model="mlp")
        yield summary("lds", "other", 0.99, **at, model="logistic")


def chosen(*parts):
    rows = [row for part in parts for row in part]
    points = utility_points(
        [row for row in rows if row["experiment"] == "frontier"],
        [row for row in rows if row["experiment"] == "lds"],
    )
    return choose_utility(points).learner


def market(**reference):
    return [*gains(REFERENCE, 2.0, 4.0), *scores(REFERENCE, 0.4, **reference)]


def test_of_faithful_utilities_the_least_mean_of_secret_and_leaked_is_chosen():
    kept = [*gains("knn", 1.9, 3.0), *scores("knn", 0.5), *gains(COMBINED, 1.4, 2.0)]
    assert chosen(market(), kept, scores(COMBINED, 0.37)) == COMBINED
    assert chosen(market(), kept, scores(COMBINED, 0.35)) == "knn"  # 0.35 < 0.9 * 0.4


def test_secret_and_leaked_gains_count_alike():
    parts = [*gains("knn", 1.0, 3.0), *scores("knn", 0.5), *gains(SHARP, 1.6, 2.2), *scores(SHARP, 0.5)]
    assert chosen(market(), parts) == SHARP
    assert chosen(market(), parts, gains(SHARP, 1.6, 2.6)) == "knn"  # later rows replace earlier ones


def test_fidelity_must_hold_on_each_domain_and_not_on_their_mean():
    parts = [*gains(COMBINED, 1.1, 1.5), *scores(COMBINED, 0.6, imdb=0.17)]
    assert chosen(market(imdb=0.2), parts) == REFERENCE
    parts = [
        *gains(COMBINED, 1.1, 1.5),
        *scores(COMBINED, 0.6, imdb=0.18),
    ]  # 0.9 of it, but for rounding
    assert chosen(market(imdb=0.2), parts) == COMBINED


def test_the_mean_is_over_the_four_domains():
    parts = [*gains(COMBINED, 1.4, 2.0, stl10_leaked=9.0), *scores(COMBINED, 0.5)]
    other = [*gains("knn", 1.6, 2.4), *scores("knn", 0.5)]
    assert chosen(market(), parts, other) == "knn"  # 2.575 and 2


def test_ties_within_two_hundredths_go_to_the_higher_fidelity():
    first = [*gains(COMBINED, 1.4, 2.0), *scores(COMBINED, 0.4)]
    for gain, expected in ((2.04, SHARP), (2.05, COMBINED)):
        other = [*gains(SHARP, 1.4, gain), *scores(SHARP, 0.45)]
        assert chosen(market(), first, other) == expected
    assert chosen(market(), first, [*gains(SHARP, 1.4, 2.04), *scores(SHARP, 0.39)]) == COMBINED


def test_without_fidelity_nothing_is_chosen_and_a_utility_without_it_is_not():
    with pytest.raises(DataMarketError, match=r"LDS of coverage@0.5"):
        chosen(gains(REFERENCE, 2.0, 4.0), gains("knn", 1.0, 1.0), scores("knn", 0.5))
    assert chosen(market(), gains("logistic", 1.0, 1.0)) == REFERENCE
    missing = [row for row in scores(SHARP, 0.5) if row["task"] != "imdb"]
    assert chosen(market(), gains(SHARP, 1.0, 1.0), missing) == REFERENCE


def test_names_that_say_the_same_are_one_utility():
    same = "coverage(cap=0.5,similarity=combined,quantile=0.9)"
    assert chosen(market(), gains(COMBINED, 1.0, 1.0), scores(same, 0.5)) == COMBINED


@pytest.fixture
def rows():
    found = [*market(), *gains(COMBINED, 1.4, 2.0), *scores(COMBINED, 0.38)]
    found += [*gains("knn", 2.5, 3.0), *scores("knn", 0.5), *gains(SHARP, 1.1, 3.0), *scores(SHARP, 0.3)]
    return found


def parts(rows):
    return [[row for row in rows if row["experiment"] == name] for name in ("frontier", "lds")]


def test_undominated_points_are_those_that_none_beats_in_both(rows):
    points = utility_points(*parts(rows))
    assert [point.learner for point in undominated(points, "secret")] == [
        SHARP,
        COMBINED,
        REFERENCE,
        "knn",
    ]
    assert [point.learner for point in undominated(points, "leaked")] == [COMBINED, "knn"]


def test_the_table_names_every_point_and_what_was_chosen(rows):
    head, _, *lines = choice_table(utility_points(*parts(rows)))
    assert "secret: mean" in head
    assert "leaked: mean" in head
    assert [re.split(r" *\| *", line)[1:3] for line in lines] == [
        [f"`{COMBINED}`", "chosen"], [f"`{SHARP}`", "not kept"], ["`knn`", "kept"], [f"`{REFERENCE}`", "kept"],
    ]  # fmt: skip
    alone = choice_table(utility_points(parts(rows)[0], []))
    assert all("no LDS" in line and "chosen" not in line for line in alone[2:])


def test_the_figure_names_every_utility_and_draws_gains_alone_without_fidelity(rows, tmp_path):
    pytest.importorskip("matplotlib")
    gained, scored = parts(rows)
    words = presets()["frontier"].figure.words["learner"]
    for others, both in (({"lds": scored}, True), ({}, False)):
        svg, _ = draw("frontier", gained, tmp_path, title="frontier", others=others)
        text = svg.read_text(encoding="utf-8")
        for learner in (REFERENCE, COMBINED, SHARP, "knn"):
            assert text.count(words[learner]) == (2 if both else 1)
        assert ("LDS against logistic regression" in text) == both
        assert "validation set secret" in text
        assert "a quarter of the validation set leaked" in text
