"""The royalty game: the table that comes with the package, its values, and what a brand gains by splitting in two."""

import csv
from importlib import resources
from itertools import combinations, product
from math import factorial

import numpy as np
import pytest

from datamarket_gym.errors import ParameterError
from datamarket_gym.experiments import builtin_specs, run_experiment
from datamarket_gym.games import Banzhaf, Beta, RoyaltyGame, Shapley, full_table, semivalues_from_table
from datamarket_gym.games.closed_form import MergedGame
from datamarket_gym.games.royalty import PARTS, PROMPTS, SPLITS
from repository import ROOT

DATA = resources.files("datamarket_gym.games") / "royalty_data"
ROWS = list(csv.DictReader((DATA / "royalty_coalitions.csv").read_text(encoding="utf-8").splitlines()))
FIRST = {  # what a first computation from the authors' pickles printed: (Google splits, Sprite splits)
    "google": (1.504, 2.189), "sprite": (1.727, 1.581), "starbucks": (2.358, 1.642), "vodafone": (1.633, 1.756),
}  # fmt: skip


def test_the_table_holds_every_coalition_of_the_six_parts_once_for_each_prompt():
    assert len(ROWS) == 4 * 64
    assert {row["images"] for row in ROWS} == {"20"}
    for prompt in PROMPTS:
        names = [row["coalition"] for row in ROWS if row["prompt"] == prompt]
        google, sprite = (["", b, f"{b}Large", f"{b}Small"] for b in ("Google", "Sprite"))
        rest = (["", "Starbucks"], ["", "Vodafone"])
        sets = {frozenset(chosen) - {""} for chosen in product(google, sprite, *rest)}
        whole = "Google Sprite Starbucks Vodafone"
        assert len(names) == len(sets) == 64
        assert {frozenset(name.replace("full", whole).split()) for name in names} == sets
    assert all(float(row["standard_error"]) > 0 for row in ROWS)
    assert "MIT License" in (DATA / "LICENSE").read_text(encoding="utf-8")


def likelihood(prompt, names):
    """U of the names of players, looked up in the rows of the table by hand."""
    shown = set(names)
    for brand in ("Google", "Sprite"):
        if {f"{brand}Large", f"{brand}Small"} <= shown:
            shown = shown - {f"{brand}Large", f"{brand}Small"} | {brand}
    label = " ".join(sorted(shown))
    label = "full" if label == "Google Sprite Starbucks Vodafone" else label
    if prompt == "mean":
        return np.mean([likelihood(one, names) for one in PROMPTS])
    (row,) = [row for row in ROWS if row["prompt"] == prompt and row["coalition"] == label]
    return float(row["mean_log_likelihood"])


def shapley_by_hand(prompt, players):
    n, found = len(players), {}
    for player in players:
        others = [name for name in players if name != player]
        found[player] = sum(
            factorial(size) * factorial(n - size - 1) / factorial(n)
            * (likelihood(prompt, (*chosen, player)) - likelihood(prompt, chosen))
            for size in range(n) for chosen in combinations(others, size)
        )  # fmt: skip
    return found


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("prompt", [*PROMPTS, "mean"])
def test_shapley_values_are_those_computed_by_hand(prompt, split):
    game = RoyaltyGame(prompt, split)
    assert game.n_players == 4 + len(SPLITS[split])
    values = semivalues_from_table(full_table(game), [Shapley()])[0]
    by_hand = shapley_by_hand(prompt, game.names)
    assert dict(zip(game.names, values, strict=True)) == pytest.approx(by_hand, abs=1e-12)
    assert values.sum() == pytest.approx(likelihood(prompt, game.names) - likelihood(prompt, ()))


def test_all_six_parts_are_players_where_both_brands_split():
    game = RoyaltyGame("sprite", split="both")
    assert game.names == PARTS
    assert game.brands == ("Google", "Google", "Sprite", "Sprite", "Starbucks", "Vodafone")
    for name, value in (("prompt", "pepsi"), ("split", "Starbucks")):
        with pytest.raises(ParameterError, match=value):
            RoyaltyGame(**{name: value})


@pytest.fixture(scope="module")
def gains(tmp_path_factory):
    rows = run_experiment(builtin_specs()["royalty"], tmp_path_factory.mktemp("royalty"))
    return {(r["prompt"], r["brand"], r["mechanism"]): r["value"] for r in rows if r["metric"] == "gain"}


def test_gains_are_those_of_the_first_computation(gains):
    for prompt, both in FIRST.items():
        for brand, gain in zip(("Google", "Sprite"), both, strict=True):
            assert gains[prompt, brand, "shapley"] == pytest.approx(gain, abs=5e-4)


@pytest.mark.parametrize(("rule", "semivalue"), [("banzhaf", Banzhaf()), ("beta_shapley", Beta())])
def test_gains_of_other_semivalues_follow_from_their_definition(gains, rule, semivalue):
    def score(players, of):
        weights, total = semivalue.weights(len(players)), 0.0
        others = [name for name in players if name != of]
        for size in range(len(players)):
            for chosen in combinations(others, size):
                total += weights[size] * (
                    likelihood("google", (*chosen, of)) - likelihood("google", chosen)
                )
        return total

    rest = ("Google", "Starbucks", "Vodafone")
    split = ("SpriteLarge", "SpriteSmall")
    parts = sum(score((*split, *rest), part) for part in split)
    assert gains["google", "Sprite", rule] == pytest.approx(parts / score(("Sprite", *rest), "Sprite"))


def test_matched_names_and_faithful_groups_gain_exactly_nothing(gains):
    assert len(gains) == 5 * 2 * 7
    rules = ("quotient_shapley", "quotient_banzhaf", "quotient_beta_shapley", "fgsv")
    assert {gain for (_, _, rule), gain in gains.items() if rule in rules} == {1.0}


def test_the_page_shows_the_gains_of_the_experiment(gains):
    page = (ROOT / "docs" / "royalty.md").read_text(encoding="utf-8")
    for rule, title in (("shapley", "Shapley"), ("banzhaf", "Banzhaf"), ("beta_shapley", "Beta(2, 2)")):
        for brand in ("Google", "Sprite"):
            shown = " | ".join(f"{gains[prompt, brand, rule]:.3f}" for prompt in (*PROMPTS, "mean"))
            assert f"| {title} | {brand} | {shown} |" in page


def test_the_page_shows_what_faithful_groups_and_the_authors_rule_pay():
    page = (ROOT / "docs" / "royalty.md").read_text(encoding="utf-8")
    faithful, whole = (
        semivalues_from_table(full_table(RoyaltyGame("mean", split)), [Shapley()])[0]
        for split in ("both", "none")
    )
    share, honest = faithful[:2].sum() / faithful.sum(), whole[0] / whole.sum()
    assert f"Google gets {share:.3f} of".replace("0.", ".") in page
    assert f"would give it {honest:.3f}.".replace("0.", ".") in page
    gains = []
    for prompt, brand in product(PROMPTS, ("Google", "Sprite")):
        split, game = RoyaltyGame(prompt, brand), RoyaltyGame(prompt)
        table = full_table(split)
        for number in range(len(table)):  # a part of every brand counts as all
            there = {owner for bit, owner in enumerate(split.brands) if number >> bit & 1}
            table[number] = table[-1] if len(there) == 4 else table[number]
        parts = semivalues_from_table(table, [Shapley()])[0][np.array(split.brands) == brand].sum()
        alone = semivalues_from_table(full_table(game), [Shapley()])[0][game.names.index(brand)]
        gains.append(parts / alone)
    assert f"the gains are {min(gains):.3f} to {max(gains):.3f};" in page


def test_a_merged_game_is_the_game_of_whole_clusters():
    split = RoyaltyGame("google", "both")
    merged = full_table(MergedGame(split, [0, 0, 1, 1, 2, 3]))
    assert merged.tolist() == full_table(RoyaltyGame("google")).tolist()
    for cluster in ([0, 0, 1], [0, 0, 2, 2, 3, 4]):
        with pytest.raises(ParameterError, match="number the clusters"):
            MergedGame(split, cluster)
