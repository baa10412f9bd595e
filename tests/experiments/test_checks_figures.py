"""The figures of S11 name what stays above the bar, every attack, and what the best responses know."""

import html
import itertools
import re

import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments import builtin_specs
from datamarket_gym.experiments.cells import attacks_of
from datamarket_gym.experiments.kinds.spot_checks import family, scale_noise
from datamarket_gym.experiments.presets import draw, figures_of
from datamarket_gym.experiments.tables import attack_words

pytest.importorskip("matplotlib")
ATTACKS = {
    "honest": "all are honest", "sybil_split_3": "own units again", "turn@0.6": "others' units",
    "backdate": "needs a forged clock or foresight", "best_response": "best response",
}  # fmt: skip
CHECKS = [(0, 0.8), (1, 0.8), (1, 1.0), (2, 0.8), (3, 0.8)]


def net(attack, learner, m, q):
    if attack in ("turn@0.6", "backdate"):
        return 2.5 * (1 - 0.6 * q) ** m
    return 1.4 if attack == "best_response" and learner == "knn" else 1.0


def rows():
    asked = itertools.product(
        ("agnews", "imdb"), ("recommended", "knn", "logistic"), ATTACKS, CHECKS, (0.5, 1.0)
    )
    return [
        {
            "experiment": "s11", "metric": "expected_net_gain", "task": task, "learner": learner,
            "empty": "none", "attack": attack, "family": ATTACKS[attack], "mechanism": "recommended",
            "knowledge": knowledge, "checks": m, "power": q, "value": net(attack, learner, m, q) * knowledge**0.1,
            "se": 0.01, "seeds": 5, "paper": None, "tolerance": None, "within": None,
        }
        for task, learner, attack, (m, q), knowledge in asked
    ]  # fmt: skip


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    out, found = tmp_path_factory.mktemp("figures"), {}
    for name in figures_of("s11"):
        svg, png = draw(name, rows(), out, title="S11")
        assert png.stat().st_size > 10_000
        parts = re.findall(r"<text[^>]*>(.*?)</text>", svg.read_text(encoding="utf-8"), flags=re.DOTALL)
        found[name] = " ".join(
            " ".join(html.unescape(re.sub(r"<[^>]*>", " ", part)).split()) for part in parts
        )
    return found


def test_all_three_say_n_the_errors_and_no_identifiers(texts):
    assert set(texts) == {"s11", "s11-attacks", "s11-responses"}
    for text in texts.values():
        assert "n = 5 seeds" in text
        assert "standard error" in text
        assert "markets of 4 providers" in text
        assert re.findall(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b", text) == []


def test_lines_by_checks_name_what_stays_above_the_bar(texts):
    text = texts["s11"]
    assert text.count("best response 1.40") == 2  # k-NN on both domains
    assert f"{attack_words('turn@0.6')} " not in text  # at 3 checks it nets less than honesty
    for said in (
        "AG News: recommended coverage",
        "IMDB: 5-NN over chance",
        "needs a forged clock or foresight",
    ):
        assert said in text


def test_every_attack_has_its_row_with_both_numbers(texts):
    text = texts["s11-attacks"]
    assert all(attack_words(attack) in text for attack in ATTACKS)
    assert text.count("2.50 → 0.35") == 2 * 3 * 2  # two attacks, three utilities, two domains
    assert text.count("1.40 → 1.40") == 2


def test_best_responses_say_what_they_know(texts):
    for share in ("50%", "100%"):
        assert f"recommended coverage, knows {share} of others' units" in texts["s11-responses"]


def test_results_without_best_responses_or_checks_are_refused(tmp_path):
    without = [row for row in rows() if row["attack"] != "best_response"]
    with pytest.raises(DataMarketError, match=r"attack best_response.*whole experiment"):
        draw("s11-responses", without, tmp_path)
    with pytest.raises(DataMarketError, match="have no expected_net_gain"):
        draw("s11", [{**row, "metric": "gain"} for row in rows()], tmp_path)


def test_all_attacks_of_s11_have_words_and_no_two_the_same():
    labels = [label for label, _ in attacks_of(scale_noise(builtin_specs()["s11"], 1.0))]
    words = [attack_words(label) for label in labels]
    assert [w for w in words if "_" in w] == []
    assert len(set(words)) == len(words)
    assert {family(attack) for _, attack in attacks_of(scale_noise(builtin_specs()["s11"], 1.0))} >= set(
        ATTACKS.values()
    ) - {"best response"}
