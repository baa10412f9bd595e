"""Checkers for what values coalitions: games, learners, similarities, semivalues and estimators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from datamarket_gym.errors import ParameterError
from datamarket_gym.execution.arrays import Values
from datamarket_gym.games import Banzhaf, Shapley
from datamarket_gym.games.closed_form import AdditiveGame, UnanimityGame
from datamarket_gym.games.exact import coalitions_numbered, semivalues_from_table
from datamarket_gym.games.game import Game
from datamarket_gym.games.semivalues import Estimator, Semivalue
from datamarket_gym.testing.base import check_written, promise
from datamarket_gym.utilities.base import (
    AlwaysThere,
    Scorer,
    Target,
    TrainingRows,
    UtilityFunction,
    ValidationRows,
    with_background,
)
from datamarket_gym.utilities.similarity import Similarity


def validate_game(game: Game) -> None:
    """Validate that v(empty) = 0, answers do not depend on the batch, and evaluations are counted.

    Parameters
    ----------
    game
        The game, or its written form.
    """
    rng = np.random.default_rng(0)
    coalitions = rng.random((40, game.n_players)) < 0.5
    coalitions[0] = False
    before = game.asked
    values = game.values(coalitions)
    promise(values.shape == (40,), f"40 coalitions gave values of shape {values.shape}")
    promise(np.isfinite(values).all(), "a value is not finite")
    promise(values[0] == 0.0, "the empty coalition is not worth 0")
    promise(game.asked - before == 40, "the game does not count what it is asked")
    computed = game.computed
    order = rng.permutation(40)
    promise((game.values(coalitions[order]) == values[order]).all(), "values depend on the batch")
    promise(game.computed == computed, "a coalition was computed twice")


def example_rows(target: Target = "class") -> tuple[TrainingRows, ValidationRows]:
    """Return the rows on which learners are validated: six players with four rows each, three classes or numbers."""
    rng = np.random.default_rng(0)
    label = np.tile(np.arange(3), 8)
    features = rng.normal(size=(24, 4)) + label[:, None]
    numbers = np.array([-1.0, 0.5, 4.0]) if target == "number" else None
    rows = TrainingRows(features, label, np.arange(24) // 4, 6, 3, classes=numbers)
    return rows, ValidationRows(rng.normal(size=(30, 4)) + 1.0, rng.integers(0, 3, size=30), numbers)


def validate_utility(learner: UtilityFunction) -> None:
    """Validate that utilities are finite, accuracies in [0, 1], and depend neither on the batch nor on the order.

    A closed form agrees with enumeration. Given rows that are always there, coalitions are worth what they are together
    with those.

    Parameters
    ----------
    learner
        The utility, or its written form.
    """
    rows, validation = example_rows(learner.target)
    features, label, player = rows.features, rows.label, rows.player
    rng = np.random.default_rng(1)
    coalitions = rng.random((20, 6)) < 0.5
    coalitions[~coalitions.any(axis=1), 0] = True
    values = learner.scorer(rows, validation).utility(coalitions)
    promise(values.shape == (20,), f"20 coalitions gave utilities of shape {values.shape}")
    promise(np.isfinite(values).all(), "a utility is not finite")
    if learner.paid_from == "chance":
        promise(((values >= 0) & (values <= 1)).all(), "a utility lies outside [0, 1]")
    scorer = learner.scorer(rows, validation)
    alone = np.concatenate([scorer.utility(c[None]) for c in coalitions])
    promise(np.allclose(alone, values, rtol=0, atol=1e-12), "utilities depend on the batch")
    order = rng.permutation(24)
    mixed = replace(rows, features=features[order], label=label[order], player=player[order])
    promise(
        np.allclose(learner.scorer(mixed, validation).utility(coalitions), values, atol=1e-12),
        "utilities depend on the order of rows",
    )
    _check_closed_form(learner, rows, validation)
    own = replace(rows, features=features[:6], label=label[:6], player=np.arange(6))
    _check_closed_form(learner, own, validation)
    there = np.zeros(9, dtype=np.int64)
    background = replace(rows, features=features[6:15], label=label[6:15], player=there, n_players=1)
    for some in (rows, own):
        _check_background(learner, some, background, validation)


def _check_background(
    learner: UtilityFunction, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
) -> None:
    scorer = learner.scorer_given(rows, background, validation)
    everything = coalitions_numbered(0, 1 << rows.n_players, rows.n_players)
    together = learner.scorer(with_background(rows, background), validation)
    wanted = AlwaysThere(together).utility(everything)
    promise(
        np.allclose(scorer.utility(everything), wanted, rtol=0, atol=1e-9),
        "coalitions that join a background are not worth what they are together with it",
    )
    _check_formula(learner, scorer, wanted - wanted[0], float(wanted[0]))


def _check_closed_form(learner: UtilityFunction, rows: TrainingRows, validation: ValidationRows) -> None:
    scorer = learner.scorer(rows, validation)
    if scorer.closed_form(Shapley(), 0.0) is None and scorer.closed_form(Banzhaf(), 0.0) is None:
        return
    everything = coalitions_numbered(1, 1 << rows.n_players, rows.n_players)
    _check_formula(learner, scorer, np.r_[0.0, scorer.utility(everything)], 0.0)


def _check_formula(learner: UtilityFunction, scorer: Scorer, table: Values, empty_value: float) -> None:
    semivalues = [Shapley(), Banzhaf()]
    enumerated = semivalues_from_table(table, semivalues)
    for semivalue, wanted in zip(semivalues, enumerated, strict=True):
        values = scorer.closed_form(semivalue, empty_value)
        if values is None:
            continue
        promise(learner.has_closed_form, "there is a closed form, but has_closed_form is False")
        promise(
            np.allclose(values, wanted, rtol=0, atol=1e-9),
            f"the closed form of {type(semivalue).__name__} is not what all coalitions say",
        )


def validate_similarity(similarity: Similarity) -> None:
    """Validate that each row has one direction, of length 1 or 0, by itself and the validation rows alone.

    Parameters
    ----------
    similarity
        The similarity, or its written form.
    """
    check_written("similarity", similarity)
    rng = np.random.default_rng(0)
    for scale in (np.ones(5), np.array([1.0, 1e3, 1.0, 0.1, 1.0])):  # as of an encoder, as of a table
        rows, validation = (rng.normal(size=(n, 5)) * scale + 0.5 for n in (12, 30))
        rows[3] = 0.0
        unit, towards = (similarity.directions(x, validation) for x in (rows, validation))
        one_each = len(unit) == 12 and unit.shape[1:] == towards.shape[1:]
        promise(one_each, "not one direction for each row")
        promise(np.isfinite(unit).all(), "a direction is not finite")
        length = np.linalg.norm(unit, axis=1)
        normed = (np.minimum(length, abs(length - 1)) < 1e-9).all()
        promise(normed, "a direction is not of length one or zero")
        some = rng.permutation(12)[:5]
        promise(
            np.allclose(similarity.directions(rows[some], validation), unit[some], rtol=0, atol=1e-12),
            "a direction depends on the other rows; scale on the validation rows alone",
        )
        mixed = [similarity.directions(x, validation[::-1].copy()) for x in (rows, validation)]
        promise(
            np.allclose(mixed[0] @ mixed[1].T, unit @ towards.T, rtol=0, atol=1e-9),
            "similarities depend on the order of the validation rows",
        )


def validate_semivalue(semivalue: Semivalue) -> None:
    """Validate that the weights of coalition sizes are a probability distribution for any number of players.

    Parameters
    ----------
    semivalue
        The semivalue, or its written form.
    """
    check_written("semivalue", semivalue)
    for n_players in (1, 2, 3, 10, 400):
        weights = semivalue.size_weights(n_players)
        shape = f"{n_players} players gave weights of shape {weights.shape}"
        promise(weights.shape == (n_players,), shape)
        promise((weights >= 0).all(), "a size has negative probability")
        total = weights.sum()
        promise(abs(total - 1) < 1e-9, f"the weights of {n_players} players sum to {total}")


def validate_estimator(estimator: Estimator) -> None:
    """Validate that estimates come with standard errors, near the truth, and within the budget.

    Parameters
    ----------
    estimator
        The estimator, or its written form.
    """
    check_written("estimator", estimator)
    supported = [semivalue for semivalue in (Shapley(), Banzhaf()) if _supports(estimator, semivalue)]
    promise(supported, "the estimator supports neither Shapley nor Banzhaf")
    for semivalue in supported:
        for game in (UnanimityGame(5), AdditiveGame([0.1, 0.2, 0.3, 0.4])):
            budget = 600 * game.n_players
            scores = estimator.estimate(game, semivalue, budget, np.random.default_rng(0))
            promise(game.asked <= budget, f"{game.asked} coalitions asked, the budget is {budget}")
            promise(scores.values.shape == (game.n_players,), "one score per player is needed")
            promise((scores.standard_errors >= 0).all(), "a standard error is negative")
            off = np.abs(scores.values - game.exact(semivalue))
            promise(
                (
                    off <= 5 * scores.standard_errors + scores.bias + 1e-9
                ).all(),  # both games are monotone
                f"a score is {off.max():.3g} off, more than its bias and five standard errors",
            )


def _supports(estimator: Estimator, semivalue: Semivalue) -> bool:
    try:
        estimator.estimate(AdditiveGame([1.0, 2.0]), semivalue, 100, np.random.default_rng(0))
    except ParameterError as error:
        if error.parameter == "semivalue":
            return False
        raise
    return True
