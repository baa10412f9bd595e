"""U(P + S) by every learner; an oracle and a game that are given previously acquired data P."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.execution.arrays import LowPrecisionRows
from datamarket_gym.games.exact import full_table, semivalues_from_table
from datamarket_gym.mechanism.quotient_game import QuotientGame, score_clusters
from datamarket_gym.mechanism.representatives import CanonicalUnits
from datamarket_gym.registry import create
from datamarket_gym.testing import ConformanceError, validate_utility
from datamarket_gym.utilities.base import AlwaysThere, TrainingRows, ValidationRows, with_background
from datamarket_gym.utilities.knn import Knn
from datamarket_gym.utilities.labels import require_learnable
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

LEARNERS = [
    "ridge",
    "logistic",
    "knn(k=3, vote=majority)",
    "knn(k=3)",
    "knn(k=1)",
    "coverage",
    "sklearn@GaussianNB",
]


def drawn(seed, n_players=4, per_player=2, n_old=7, n_val=30, d=3, weights=False):
    """Rows of some players, a background of two classes, and validation rows of three."""
    rng = np.random.default_rng(seed)
    n = n_players * per_player
    label, old_label = (np.arange(n) + 2) % 3, np.arange(n_old) % 2
    features = rng.normal(size=(n, d)) + label[:, None]
    old = rng.normal(size=(n_old, d)) + old_label[:, None]
    held_label = np.arange(n_val) % 3
    held = rng.normal(size=(n_val, d)) + held_label[:, None]
    weight = rng.uniform(0.5, 2.0, size=n) if weights else None
    player = rng.permutation(np.repeat(np.arange(n_players), per_player))
    return (
        TrainingRows(features, label, player, n_players, 3, weight),
        TrainingRows(old, old_label, np.zeros(n_old, dtype=int), 1, 3),
        ValidationRows(held, held_label),
    )


def coalitions_of(n):
    """All coalitions, numbered as by `exact`."""
    return (np.arange(1 << n)[:, None] >> np.arange(n)) & 1 == 1


def plain(learner, rows, background, validation, coalition):
    """U(P + S) from a scorer that has seen these rows and no others."""
    inside = coalition[rows.player]
    together = TrainingRows(
        np.concatenate([rows.features[inside], background.features]),
        np.concatenate([rows.label[inside], background.label]),
        np.zeros(inside.sum() + len(background.label), dtype=int),
        1,
        rows.n_classes,
        np.concatenate([rows.weights[inside], background.weights]),
    )
    return learner.scorer(together, validation).utility(np.ones((1, 1), dtype=bool))[0]


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("per_player", [1, 3])
@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_answers_coalitions_that_join_what_is_there(name, per_player, weights):
    learner = create("learner", name)
    rows, background, validation = drawn(3, per_player=per_player, weights=weights)
    coalitions = coalitions_of(rows.n_players)
    want = [plain(learner, rows, background, validation, coalition) for coalition in coalitions]
    for scorer in (
        AlwaysThere(learner.scorer(with_background(rows, background), validation)),
        learner.scorer_given(rows, background, validation),
    ):
        np.testing.assert_allclose(scorer.utility(coalitions), want, rtol=0, atol=1e-12)
    assert len(set(want)) > 2  # the players do change it


def test_rows_that_are_stored_narrow_stay_so_beside_the_background():
    rows, background, validation = drawn(3)[:3]
    short = [replace(each, features=each.features.astype(np.float16)) for each in (rows, background)]
    whole = with_background(*(replace(each, features=each.features.astype(float)) for each in short))
    narrow = with_background(
        *(replace(each, features=LowPrecisionRows([each.features])) for each in short)
    )
    assert isinstance(narrow.features, LowPrecisionRows)
    assert np.array_equal(narrow.features[:], whole.features)
    for name in ("knn@3", "logistic", "ridge", "coverage", "sklearn@GaussianNB"):
        one, other = (create("learner", name).scorer(each, validation) for each in (whole, narrow))
        coalition = np.ones((1, whole.n_players), dtype=bool)
        assert one.utility(coalition).tolist() == other.utility(coalition).tolist()


def test_rows_of_another_length_than_the_background_are_refused():
    rows, background, validation = drawn(0)
    short = TrainingRows(background.features[:, :2], background.label, background.player, 1, 3)
    with pytest.raises(SubmissionError, match="3 features but those that are there already 2"):
        create("learner", "ridge").scorer_given(rows, short, validation)


NAMES = np.array(["ant", "bee", "cow"])


def given(name, seed=0, empty="none", cache=None, **how):
    rows, background, validation = drawn(seed, **how)
    oracle = UtilityOracle(
        validation.features, NAMES[validation.label], Utility(name, empty), cache=cache
    )
    return rows, background, oracle, oracle.given(acquired_art(background))


def acquired_art(background, rows=slice(None), padding=2):
    """The rows as previously acquired data, after some old units that nobody trains on."""
    old, label = background.features[rows], NAMES[background.label[rows]]
    n = padding + len(label)
    units = Submission(
        id=[f"old{i}" for i in range(n)],
        identity=["them"] * n,
        features=np.concatenate([np.full((padding, old.shape[1]), 9.0), old]),
        label=np.concatenate([np.full(padding, "cow"), label]),
    )
    return AcquiredData(units, np.arange(padding, n))


def game_of(rows, oracle):
    label, n = NAMES[rows.label], len(rows.label)
    keys = unit_keys(rows.features, label)
    each = np.arange(n)
    canonical = CanonicalUnits(
        rows.features, label, keys, None, rows.player, each, each, each, np.ones(n), rows.n_players
    )
    return QuotientGame(canonical, oracle), canonical


@pytest.mark.parametrize("per_player", [1, 2])
@pytest.mark.parametrize("name", LEARNERS)
def test_the_game_is_worth_what_its_coalitions_add(name, per_player):
    rows, background, plain_oracle, oracle = given(name, per_player=per_player)
    learner = create("learner", name)
    validation = ValidationRows(plain_oracle.features, np.searchsorted(NAMES, plain_oracle.label))
    want = np.array(
        [plain(learner, rows, background, validation, c) for c in coalitions_of(rows.n_players)]
    )
    assert oracle.empty_value == pytest.approx(want[0], abs=1e-12)
    game, canonical = game_of(rows, oracle)
    order = np.argsort(game.player)  # the cluster of each player
    found = full_table(game)
    for number, coalition in enumerate(coalitions_of(rows.n_players)):
        clusters = np.zeros(rows.n_players, dtype=bool)
        clusters[order[coalition]] = True
        at = int(clusters @ (1 << np.arange(rows.n_players)))
        assert found[number] == pytest.approx(want[at] - want[0], abs=1e-12)
    for law in ("shapley", "banzhaf", "beta(alpha=4, beta=1)"):
        semivalue = create("semivalue", law)
        exact = semivalues_from_table(want - want[0], [semivalue])[0]
        scores = score_clusters(canonical, oracle, semivalue, "exact", samples=64)
        np.testing.assert_allclose(scores.values, exact, rtol=0, atol=1e-12)
        formula = game.closed_form(semivalue)
        if formula is not None:
            np.testing.assert_allclose(formula[game.player], exact, rtol=0, atol=1e-12)
    assert game.grand_value() == pytest.approx(want[-1] - want[0], abs=1e-12)


def test_acquired_art_stays_with_the_oracle_and_its_memo_apart():
    rows, background, plain_oracle, oracle = given("ridge")
    assert plain_oracle.acquired is None
    np.testing.assert_array_equal(oracle.acquired.features, background.features)
    assert oracle.digest != plain_oracle.digest
    assert "given 7 units" in repr(oracle)
    turned = plain_oracle.given(acquired_art(background, slice(None, None, -1), padding=0))
    assert turned.digest == oracle.digest
    fewer = plain_oracle.given(acquired_art(background, slice(1, None)))
    assert fewer.digest not in (oracle.digest, plain_oracle.digest)
    before, _ = game_of(rows, plain_oracle)
    alone = before.grand_value()
    game, _ = game_of(rows, oracle)
    assert game.grand_value() != alone
    assert game.computed == 1  # not what is remembered of the rows alone
    assert oracle.cache is not plain_oracle.cache
    assert len(plain_oracle.cache) == len(oracle.cache) == 1
    for other in (oracle.counted_from("chance"), oracle.embedded):
        assert other.acquired is oracle.acquired
        assert other.cache is oracle.cache
        assert other.empty_value == oracle.empty_value
        again, _ = game_of(rows, other)
        assert again.grand_value() == game.grand_value()
        assert again.computed == 0
    assert plain_oracle.counted_from("chance").empty_value == pytest.approx(1 / 3)


def test_acquired_art_is_joined_before_it_is_given():
    _, background, plain_oracle, oracle = given("ridge")
    with pytest.raises(ParameterError, match=r"AcquiredData\.concat"):
        oracle.given(oracle.acquired)
    early, late = (acquired_art(background, rows) for rows in (slice(3), slice(3, None)))
    assert plain_oracle.given(early).empty_value != oracle.empty_value
    both = plain_oracle.given(AcquiredData.concat({"may": early, "june": late}))
    assert both.digest == oracle.digest
    assert both.empty_value == oracle.empty_value


def test_values_given_acquired_art_are_remembered_in_the_same_file(tmp_path):
    rows, _, plain_oracle, oracle = given("ridge", cache=tmp_path / "cache.sqlite")
    value = game_of(rows, oracle)[0].grand_value()
    game_of(rows, plain_oracle)[0].grand_value()
    *_, later = given("ridge", cache=tmp_path / "cache.sqlite")
    game, _ = game_of(rows, later)
    assert game.grand_value() == value
    assert game.computed == 0


def test_labels_of_acquired_art_count_as_submitted():
    rows, _, plain_oracle, oracle = given("ridge")
    with pytest.raises(SubmissionError, match="single class"):
        require_learnable(np.array(["cow", "cow"]), plain_oracle)
    require_learnable(np.array(["cow", "cow"]), oracle)
    with pytest.raises(SubmissionError, match=r"'cow' .* is unseen"):
        require_learnable(np.array(["bee", "ant"]), oracle)  # one that nobody trains on does not count
    game, _ = game_of(rows, oracle)
    assert np.isfinite(full_table(game)).all()


def test_a_label_that_acquired_art_alone_has_is_nobody_elses():
    oracle = UtilityOracle(np.zeros((3, 1)), NAMES[[1, 1, 2]], Utility("knn(k=1)"))
    old = Submission(id=["old"], identity=["them"], features=[[0.0]], label=["bat"])
    far = TrainingRows(np.array([[8.0], [9.0]]), np.array([1, 0]), np.arange(2), 2, 3)
    game, _ = game_of(far, oracle.given(AcquiredData(old, np.arange(1))))
    assert (full_table(game) == 0.0).all()  # a bat is nearer than any bee


def test_acquired_art_that_cannot_be_compared_is_refused():
    _, background, plain_oracle, oracle = given("ridge")
    units = oracle.acquired.units
    short = Submission(
        id=units.id, identity=units.identity, features=units.features[:, :2], label=units.label
    )
    with pytest.raises(SubmissionError, match="previously acquired data has 2 numbers per unit"):
        plain_oracle.given(AcquiredData(short, oracle.acquired.canonical))
    numbers = UtilityOracle(background.features, background.label, Utility("ridge"))
    with pytest.raises(SubmissionError, match="both as numbers or both as text"):
        numbers.given(oracle.acquired)


@dataclass(frozen=True)
class Forgetful(Knn):
    """Of what is there it remembers one row."""

    def scorer_given(self, rows, background, validation):
        return AlwaysThere(self.scorer(with_background(rows, _first(background)), validation))


def _first(background):
    one = slice(1)
    return TrainingRows(background.features[one], background.label[one], background.player[one], 1, 3)


def test_the_checker_finds_a_learner_that_forgets_what_is_there():
    validate_utility(Knn(3))
    with pytest.raises(ConformanceError, match="not worth what they are together"):
        validate_utility(Forgetful(3))
