"""Certificates of real runs: what their numbers are made of, and what they refuse to certify."""

from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from datamarket_gym.analysis.theorems.bounds import hoeffding, normalized_bound
from datamarket_gym.analysis.theorems.certificate import Certificate, Terms, certify, raw_scores
from datamarket_gym.analysis.theorems.paid_profile import Paid, require_from_submission
from datamarket_gym.analysis.theorems.stability import quotient_stability
from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

KNN = Utility("knn@3", "chance")


def terms(**changes):
    """Terms of three clusters without any leak."""
    base = {
        "allocation": 0.0, "escape": 0.0, "drift": 0.0, "eta": 0.1, "n_clusters": 3, "error_of_terms": 0.0,
        "matching": [(0, 0), (1, 1), (2, 2)], "escaped": [],
    }  # fmt: skip
    return Terms(**{**base, **changes})


def certified(market, m, attack, **options):
    oracle = market.utility_oracle(KNN)
    profile = create("attack", attack).apply(0, market.state)
    return certify(Paid.by(m, market.honest, oracle), Paid.by(m, profile, oracle), m, **options)


def test_a_stable_split_that_is_not_neutral_cannot_be_called_exact(market):
    """Under equal shares in a pool three names collect three parts: the clusters are the same, the pay is not."""
    found = certified(market, get_mechanism("quotient_shapley/pool"), "sybil_split_k@3")
    assert found.holds("quotient_stable")
    assert found.holds("exact_scores")
    written = found.model_dump(mode="json")
    with pytest.raises(ValidationError, match="neutrality"):
        Certificate.model_validate({**written, "claim": "exact"})


def test_a_certificates_bound_is_made_of_its_error_bars(market):
    """Four honest players and six manipulated ones, whose scores are all within eta with probability 0.95."""
    m, oracle = (
        get_mechanism("shapley", estimator="permutation", samples=4000),
        market.utility_oracle(KNN),
    )
    profile = create("attack", "sybil_split_k@3").apply(0, market.state)
    honest, attacked = Paid.by(m, market.honest, oracle), Paid.by(m, profile, oracle)
    found = certify(honest, attacked, m, delta=0.1, comparisons=2)
    assert found.delta == pytest.approx(0.05)
    fewest = min(paid.payments.scores.samples for paid in (honest, attacked))
    assert found.terms.eta == pytest.approx(hoeffding(2.0, fewest, 4 + 6, 0.05))
    leak = found.terms.allocation + found.terms.escape + found.terms.drift + found.terms.error_of_terms
    assert found.bound == pytest.approx(leak + 2 * 6 * found.terms.eta)


def test_units_that_moved_to_another_cluster_are_no_quotient_stable_manipulation(market):
    """Two units of the provider swap their ids: every content is still there, but not where it was."""
    m, oracle = get_mechanism("quotient_shapley/none", granularity="unit"), market.utility_oracle(KNN)
    honest = market.honest
    mine = np.flatnonzero(honest.truth.owner == "provider_0")[:2]
    ids = honest.submission.id.copy()
    ids[mine] = ids[mine[::-1]]
    swapped = honest.submission.take(np.arange(len(ids)), {"id": ids})
    truth = type(honest.truth)(ids, honest.truth.owner, honest.truth.source, honest.truth.controller)
    profile = type(honest)(swapped, truth, "provider_0", "swap")
    before, after = Paid.by(m, honest, oracle), Paid.by(m, profile, oracle)
    found = quotient_stability(before, after)
    assert not found.stable
    assert "2 units that are in both profiles" in found.reason
    assert quotient_stability(before, Paid.by(m, honest, oracle)).stable


def test_shares_off_by_more_than_rounding_are_not_certified(market):
    m, oracle = get_mechanism("quotient_shapley/pool"), market.utility_oracle(KNN)
    paid = Paid.by(m, market.honest, oracle)
    require_from_submission(paid, m)
    for off, refused in ((1e-13, False), (1e-9, True)):
        shares = paid.payments.shares
        other = shares.share.copy()
        other[:2] += [off, -off]
        payments = replace(paid.payments, shares=replace(shares, share=other))
        if refused:
            with pytest.raises(DataMarketError, match="the shares are not those"):
                require_from_submission(Paid(market.honest, payments), m)
        else:
            require_from_submission(Paid(market.honest, payments), m)


def test_an_obeyed_bound_allows_for_rounding_and_a_loss_counts_as_well(market):
    found = certified(market, get_mechanism("shapley"), "sybil_split_k@3")
    assert found.claim == "certain"
    for gain, fine in ((0.375, True), (0.376, False), (-0.375, True), (-0.376, False)):
        changes = {"honest_payment": 1.0, "attacked_payment": 1.0 + gain, "rounding": 0.125,
                   "terms": terms(drift=0.25, eta=0.0)}  # fmt: skip
        assert found.model_copy(update=changes).obeys == fine


def test_words_and_summary_state_the_numbers_of_the_bound(market):
    found = certified(
        market, get_mechanism("shapley", estimator="permutation", samples=64), "sybil_split_k@3"
    )
    shown = found.model_copy(
        update={
            "honest_payment": 0.5, "attacked_payment": 0.75, "claim": "probable", "grand_value": 9.0,
            "terms": terms(allocation=0.1, escape=0.2, drift=0.3, error_of_terms=0.05, eta=0.01, escaped=[4, 5]),
        }
    )  # fmt: skip
    assert (
        shown.summary == "at most +0.7100, times 2.42 (probable)"
    )  # 0.65 + 2 * 3 * 0.01, and 1.21 / 0.5
    for said in (
        "from 0.5000 to 0.7500 (times 1.500)",
        "0.1000 from shares gained inside clusters",
        "0.2000 from 2 clusters that escaped",
        "0.3000 from changed scores of 3 matched clusters",
        "0.1100 from sampling error (eta 0.01)",
        "The measured gain obeys it.",
        "with probability 0.95 the gain is at most 0.7100",
    ):
        assert said in shown.words
    assert "rules nothing out" not in shown.words
    assert "rules nothing out" in shown.model_copy(update={"grand_value": 0.71}).words
    assert "EXCEEDS" in shown.model_copy(update={"attacked_payment": 1.25}).words
    unpaid = shown.model_copy(update={"honest_payment": 0.0})
    assert unpaid.multiplier is None
    assert "times" not in unpaid.summary
    assert "sampling error" not in shown.model_copy(update={"terms": terms(eta=0.0)}).words


def test_rounding_of_amounts_is_allowed_for_and_no_more(market):
    """An amount is off by at most half a step of the grid: far below anything that is paid."""
    found = certified(market, get_mechanism("shapley"), "sybil_split_k@3")
    assert 0 < found.rounding < 1e-12


def test_normalised_scores_are_taken_back_to_what_they_were(market):
    oracle = market.utility_oracle(KNN)
    raw, scaled = (
        get_mechanism("quotient_banzhaf/none", normalize=normalize) for normalize in (False, True)
    )
    before = Paid.by(raw, market.honest, oracle).payments.scores
    paid = Paid.by(scaled, market.honest, oracle)
    assert paid.payments.scores.values.sum() == pytest.approx(paid.payments.grand_value)
    assert paid.payments.scores.values != pytest.approx(before.values)
    assert raw_scores(paid, scaled).values == pytest.approx(before.values)
    for unknown in ({"raw_total": None}, {"grand_value": 0.0}):
        scores = replace(paid.payments.scores, **unknown)
        other = Paid(market.honest, replace(paid.payments, scores=scores))
        with pytest.raises(ParameterError, match="raw scores are not known"):
            raw_scores(other, scaled)


def test_the_bound_of_normalised_pay_is_the_lemma_at_what_raw_scores_would_have_paid(market):
    oracle = market.utility_oracle(KNN)
    raw, scaled = (
        get_mechanism("quotient_banzhaf/none", normalize=normalize) for normalize in (False, True)
    )
    profile = create("attack", "sybil_split_k@3").apply(0, market.state)
    found = certify(Paid.by(scaled, market.honest, oracle), Paid.by(scaled, profile, oracle), scaled)
    before, after = Paid.by(raw, market.honest, oracle), Paid.by(raw, profile, oracle)
    sums = tuple(float(paid.payments.scores.values.sum()) for paid in (before, after))
    grand = (before.payments.grand_value, after.payments.grand_value)
    wanted = normalized_bound(found.terms.raw_bound, before.total("provider_0"), sums, grand)
    assert found.terms.normalized == pytest.approx(wanted)
    assert found.bound == found.terms.normalized
    assert found.terms.raw_bound == pytest.approx(certify(before, after, raw).bound)


def test_shares_moved_from_one_cluster_to_another_are_not_certified(market):
    """Every share is compared with that of the same cluster and the same name."""
    honest = market.honest
    rows = np.arange(len(honest.submission))[
        ::-1
    ]  # names and clusters are then numbered in opposite orders
    profile = type(honest)(honest.submission.take(rows), honest.truth)
    m = get_mechanism("quotient_shapley/none", granularity="unit")
    paid = Paid.by(m, profile, market.utility_oracle(KNN))
    require_from_submission(paid, m)
    shares = paid.payments.shares
    for one in (0, 8, 11, 20):
        for other in (12, 24, 40):
            moved = shares.share.copy()
            moved[shares.cluster == one] += 0.5
            moved[shares.cluster == other] -= 0.5
            with pytest.raises(DataMarketError, match="the shares are not those"):
                require_from_submission(
                    Paid(profile, replace(paid.payments, shares=replace(shares, share=moved))), m
                )


@pytest.mark.parametrize(("fewer", "where"), [("attacked", "honest"), ("honest", "attacked")])
def test_a_unit_that_only_one_profile_has_is_named_with_its_profile(market, fewer, where):
    m, oracle = get_mechanism("shapley"), market.utility_oracle(KNN)
    attacked = create("attack", "sybil_split_k").apply(0, market.state)
    profiles = {"honest": market.honest, "attacked": attacked}
    short = profiles[fewer]
    odd = str(short.submission.id[short.submission.identity == "provider_2"][0])
    kept = short.submission.take(short.submission.id != odd)
    profiles[fewer] = type(short)(kept, short.truth, short.attacker, short.attack)
    with pytest.raises(
        DataMarketError, match=f"unit '{odd}' of 'provider_2'.* is in the {where} one only"
    ):
        certify(*(Paid.by(m, profiles[side], oracle) for side in ("honest", "attacked")), m)


def test_identical_players_are_paired_by_the_units_they_share():
    """Three copies of one unit and three of another, in the opposite order: the same six players."""
    ids = np.array(list("abcdef"))
    units = Submission(
        id=ids, identity=ids, features=np.repeat([[0.0], [1.0]], 3, axis=0), label=[0, 0, 0, 1, 1, 1]
    )
    truth = GroundTruth(ids, ids, ids, {name: name for name in ids.tolist()})
    m = get_mechanism("quotient_shapley/none", granularity="unit")
    oracle = UtilityOracle(np.array([[0.0], [1.0]]), np.array([0, 1]), KNN)
    forward, backward = (
        Paid.by(m, SubmittedProfile(units.take(rows), truth, "a", "reverse"), oracle)
        for rows in (np.arange(6), np.arange(6)[::-1])
    )
    found = quotient_stability(forward, backward)
    assert found.stable
    assert found.pairing.tolist() == [5, 4, 3, 2, 1, 0]


def test_copies_that_changed_places_with_other_content_have_moved():
    """Units a and f exchange their contents: the same six players, two of whom are not who they were."""
    ids = np.array(list("abcdef"))
    units = Submission(
        id=ids, identity=ids, features=np.repeat([[0.0], [1.0]], 3, axis=0), label=[0, 0, 0, 1, 1, 1]
    )
    swapped = units.take(np.arange(6), {"id": np.array(list("fbcdea"))})
    truth = GroundTruth(ids, ids, ids, {name: name for name in ids.tolist()})
    m = get_mechanism("quotient_shapley/none", granularity="unit")
    oracle = UtilityOracle(np.array([[0.0], [1.0]]), np.array([0, 1]), KNN)
    before, after = (
        Paid.by(m, SubmittedProfile(side, truth, "a", "swap"), oracle) for side in (units, swapped)
    )
    found = quotient_stability(before, after)
    assert not found.stable
    assert found.reason.startswith("2 units")
