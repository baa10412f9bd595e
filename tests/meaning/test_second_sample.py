"""Lines whose meaning a second sample of mutants (seed 1) found to be held by no test."""

import inspect
import time
from dataclasses import replace

import numpy as np
import pytest

from datamarket_gym import create
from datamarket_gym.analysis.theorems import Paid, certify, hoeffding
from datamarket_gym.analysis.theorems.certificate import _rounding, raw_scores
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.runs import read_record, write_record
from datamarket_gym.games import Exact, Game, Permutation, estimate
from datamarket_gym.games.sampling import Moments
from datamarket_gym.mechanism import (
    QuotientGame,
    Valuator,
    get_mechanism,
    match_units,
    represent_clusters,
)
from datamarket_gym.mechanism.allocation import floored
from datamarket_gym.mechanism.quotient_game import Scores
from datamarket_gym.payout.money import Currency
from datamarket_gym.utilities.oracle import Utility

KNN = Utility("knn@3", empty="chance")


class Dips(Game):
    """Worth 1 with player 0 alone and with all, 0 with player 0 and some others."""

    def _evaluate(self, coalitions):
        return (coalitions[:, 0] & np.isin(coalitions.sum(axis=1), (1, self.n_players))).astype(float)


class Flickers(Game):
    """Player 0 is worth 1 in a coalition of odd size and with all, and half of it else."""

    def _evaluate(self, coalitions):
        size = coalitions.sum(axis=1)
        return coalitions[:, 0] * np.where((size % 2 == 1) | (size == self.n_players), 1.0, 0.5)


def test_without_truncation_nothing_is_cut_off_though_a_prefix_is_worth_all():
    shapley, rng = create("semivalue", "shapley"), np.random.default_rng(0)
    exact = Exact().estimate(Dips(4), shapley, 10**6, rng).values
    found = Permutation().estimate(Dips(4), shapley, 4 * 4000, rng)
    assert (abs(found.values - exact) < 5 * found.standard_errors + 1e-12).all()


def test_an_order_is_cut_off_at_the_first_prefix_that_is_near_all():
    """Prefixes are asked several at a time: one of them that is near is enough."""
    shapley, asked = create("semivalue", "shapley"), {}
    for truncation in (0.0, 0.1):
        game = Flickers(40)
        Permutation(truncation=truncation).estimate(game, shapley, 40 * 64, np.random.default_rng(0))
        asked[truncation] = game.asked
    assert asked[0.1] < 0.6 * asked[0.0]  # player 0 comes in the middle on average


def test_two_samples_have_a_standard_error():
    moments = Moments.zeros(2)
    moments.add(np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([2.0, 2.0]))
    assert moments.standard_errors() == pytest.approx([1.0, 2.0])


DEFAULTS = ((estimate, "samples"), (Valuator.fit, "budget"))


def test_one_default_of_samples():
    defaults = [inspect.signature(f).parameters[name].default for f, name in DEFAULTS]
    assert [*defaults, get_mechanism("shapley").samples] == [256, 256, 256]


def test_seconds_are_those_of_the_payment(market):
    started = time.perf_counter()
    paid = get_mechanism("shapley").pay(market.honest.submission, market.utility_oracle(KNN))
    assert 0 < paid.seconds <= time.perf_counter() - started


def test_a_floor_spends_more_unless_it_is_asked_to_take_that_back(market):
    paid = get_mechanism("shapley").pay(market.honest.submission, market.utility_oracle(KNN))
    values = np.array([-1.0, 2.0, 3.0, 4.0])
    owed = replace(paid, scores=replace(paid.scores, values=values))
    assert floored(owed).scores.values.tolist() == [0.0, 2.0, 3.0, 4.0]
    assert floored(owed, rescale=True).scores.values.sum() == pytest.approx(8.0)


def test_a_record_is_never_unpickled(market, tmp_path):
    path = tmp_path / "scores.npz"
    paid = get_mechanism("shapley").pay(market.honest.submission, market.utility_oracle(KNN))
    write_record(path, paid.scores)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path, **{**arrays, "values": arrays["values"].astype(object)})
    with pytest.raises(DataMarketError, match="cannot be read as a record"):
        read_record(path, Scores)


def test_one_unit_stands_for_a_cluster_unless_more_are_asked_for(market):
    submission = market.honest.submission
    pooled = get_mechanism("uniform", representative="capped")
    assert len(represent_clusters(match_units(pooled, submission), pooled.representative).label) == 1


def test_players_are_numbered_by_their_content(market):
    submission, shapley = market.honest.submission, get_mechanism("shapley")
    clusters = match_units(shapley, submission)
    game = QuotientGame(represent_clusters(clusters, shapley.representative), market.utility_oracle(KNN))
    assert (game.keys[:-1] <= game.keys[1:]).all()


def test_errors_are_taken_back_from_normalising_as_scores_are(market):
    sampled = get_mechanism("shapley", estimator="permutation", normalize=True, samples=8)
    oracle, honest = market.utility_oracle(KNN), market.honest
    raw = raw_scores(Paid.by(sampled, honest, oracle), sampled)
    plain = sampled.model_copy(update={"normalize": False}).pay(honest.submission, oracle).scores
    banzhaf = get_mechanism("banzhaf", estimator="subset", normalize=True, samples=8)
    rescaled = raw_scores(Paid.by(banzhaf, honest, oracle), banzhaf)
    apart = banzhaf.model_copy(update={"normalize": False}).pay(honest.submission, oracle).scores
    assert raw.standard_errors == pytest.approx(plain.standard_errors)
    assert rescaled.standard_errors == pytest.approx(apart.standard_errors)
    assert (apart.standard_errors > 0).all()


def test_a_range_below_one_has_a_bar_in_proportion():
    assert hoeffding(0.5, 10, 1, 0.05) == pytest.approx(hoeffding(1.0, 10, 1, 0.05) / 2)


def test_rounding_counts_both_runs(market):
    """Twice the scores on one side are twice the rounding on that side, and none of the other's."""
    oracle, shapley = market.utility_oracle(KNN), get_mechanism("shapley")
    honest = Paid.by(shapley, market.honest, oracle)
    attacked = Paid.by(shapley, create("attack", "sybil_split_k@3").apply(0, market.state), oracle)
    alone = certify(honest, attacked, shapley).rounding
    own = _rounding(honest), _rounding(attacked)
    assert alone == pytest.approx(sum(own), rel=1e-9, abs=0.0)
    assert min(own) > 0


def test_a_truth_of_other_units_is_refused(market):
    oracle, shapley = market.utility_oracle(KNN), get_mechanism("shapley")
    paid = Paid.by(shapley, market.honest, oracle)
    truth = replace(market.honest.truth, id=np.char.add(market.honest.truth.id.astype(str), "?"))
    with pytest.raises(DataMarketError):
        Paid(replace(market.honest, truth=truth), paid.payments)


@pytest.mark.parametrize(
    ("digits", "codes"),
    [(3, "BHD IQD JOD KWD LYD OMR TND"), (0, "JPY KRW ISK CLP XAF XOF VND"), (2, "EUR USD GBP CHF")],
)
def test_minor_units_are_those_of_iso_4217(digits, codes):
    assert {Currency(code).digits for code in codes.split()} == {digits}
