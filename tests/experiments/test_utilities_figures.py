"""The figures of S13 show every attack, every pair and every domain, in words."""

import html
import itertools
import re

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments import builtin_specs
from datamarket_gym.experiments.kinds.utilities import HOW
from datamarket_gym.experiments.presets import draw, figures_of, pairs, presets
from datamarket_gym.experiments.tables import attack_words

pytest.importorskip("matplotlib")
UTILITIES = presets()["s13"].figure.words["learner"]
AGREED = presets()["s13-agreement"].figure.words["learner"]
DRAWN = presets()["s13-values"].figure.words["learner"]
ATTACKS = ["sybil_split_2", "junk_padding@3.0", "label_noise", "near_copies_1_spread"]
DOMAINS = ("synthetic", "agnews", "stl10")


def row(experiment, metric, value, **labels):
    return {
        "experiment": experiment, "metric": metric, "value": value, "se": 0.01, "seeds": 10, "paper": None,
        "tolerance": None, "within": None, **labels,
    }  # fmt: skip


def gains():
    asked = itertools.product(DOMAINS, UTILITIES, ATTACKS, ("recommended", "shapley"))
    return [
        row("s13", "gain", {"synthetic": 9.25, "agnews": 1.5, "stl10": 1.25}[task],
            task=task, learner=learner, attack=attack, mechanism=m)
        for task, learner, attack, m in asked
        if not (attack == "label_noise" and "labels=False" in learner)
        and not (m == "recommended" and learner in ("ridge", "logistic"))
    ]  # fmt: skip


def values():
    found = [
        row("s13-values", metric, 0.25, task=task, learner=a, beside=b, attack="honest", **more)
        for task in DOMAINS
        for a, b in itertools.combinations(AGREED, 2)
        for metric, more in (("unit_agreement", {}), ("share_l1", {"mechanism": "shapley"}))
    ]
    parts = itertools.product(DOMAINS, (*AGREED, "random"), HOW, (0.1, 0.5))
    found += [
        row("s13-values", "accuracy", 0.5 + part, task=task, learner=learner, how=how, part=part)
        for task, learner, how, part in parts
    ]
    return found


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    out, found = tmp_path_factory.mktemp("figures"), {}
    for experiment, rows in (("s13", gains()), ("s13-values", values())):
        for name in figures_of(experiment):
            svg, png = draw(name, rows, out, title="S13")
            assert png.stat().st_size > 10_000
            parts = re.findall(
                r"<text[^>]*>(.*?)</text>", svg.read_text(encoding="utf-8"), flags=re.DOTALL
            )
            found[name] = " ".join(
                " ".join(html.unescape(re.sub(r"<[^>]*>", " ", part)).split()) for part in parts
            )
    return found


def test_there_is_one_for_each_question_without_identifiers(texts):
    assert set(texts) == {"s13", "s13-values", "s13-agreement"}
    for text in texts.values():
        assert "n = 10 seeds" in text
        assert "standard error" in text
        assert re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b", text) == []


def test_gains_are_the_worst_of_the_real_domains_and_the_synthetic_market_apart(texts):
    text = texts["s13"]
    assert all(attack_words(attack) in text for attack in ATTACKS)
    assert all(said in text for said in UTILITIES.values())
    assert "1.50" in text
    assert "9.25" in text
    assert "1.25" not in text  # STL-10 is not the worst


def test_every_pair_is_shown_in_both_tables(texts):
    assert texts["s13-agreement"].count("0.25") == 2 * len(AGREED) * (len(AGREED) - 1)


def test_the_lines_are_named_and_every_question_asked_of_every_domain(texts):
    text = texts["s13-values"]
    assert all(said in text for said in DRAWN.values())
    assert "random order" in text
    assert all(
        said in text
        for said in ("are removed", "alone are kept", "AG News", "STL-10", "synthetic market")
    )


def test_every_utility_of_the_experiment_is_in_words():
    spec = builtin_specs()["s13-values"]
    assert {utility.learner for utility in spec.utilities} == set(AGREED)
    assert set(UTILITIES) - set(AGREED) == {
        "recommended",
        "coverage(quantile=0.9, labels=False, similarity=combined, cap=0.5)",
    }


def test_pairs_are_means_over_domains_either_way_round():
    rows = [
        row("s13-values", "unit_agreement", value, task=task, learner="knn", beside="ridge")
        for task, value in (("agnews", 0.2), ("stl10", 0.6))
    ]
    found = pairs(rows, ["ridge", "knn"])
    assert found[0, 1] == found[1, 0] == pytest.approx(0.4)
    assert np.isnan(found[0, 0])


@pytest.mark.parametrize("name", ["s13", "s13-values", "s13-agreement"])
def test_results_of_a_part_are_refused(name, tmp_path):
    with pytest.raises(DataMarketError, match="run the whole experiment"):
        draw(name, [row("s13", "gain_additive", 1.0, task="synthetic", learner="knn")], tmp_path)
