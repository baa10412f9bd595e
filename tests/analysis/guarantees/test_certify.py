"""Certificates on real runs: what they say, what they refuse, and that they never say too much."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

from datamarket_gym.analysis.theorems import Certificate, Paid, certify
from datamarket_gym.analysis.theorems.stability import quotient_stability
from datamarket_gym.errors import (
    CollapsedMarketWarning,
    DataMarketError,
    OracleRequiredError,
    ParameterError,
)
from datamarket_gym.games.semivalues import Semivalue
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import Mechanism, get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility

KNN = Utility("knn@3", "chance")


def small(seed=3, n=4):
    return ProviderMarket.from_task(Synthetic(n_providers=n, per_provider=12, validation=120), seed)


def run(market, m, attack, provider=0, **options):
    oracle = market.utility_oracle(KNN)
    profile = create("attack", attack).apply(provider, market.state)
    honest, attacked = (Paid.by(m, p, oracle) for p in (market.honest, profile))
    return certify(honest, attacked, m, **options)


RECOMMENDED = get_mechanism("recommended")
ATTACKS = (
    "sybil_split_k@3", "exact_dup_2x_sybils", "near_duplicate_2x_sybils@0.03",
    "near_duplicate_2x_sybils@1.0", "copycat", "copycat(sigma=0.5)", "label_noise",
    "synthetic_laundering", "junk_padding", "strategic_curation", "composite",
)  # fmt: skip
MECHANISMS = (
    RECOMMENDED,
    get_mechanism("shapley"),
    get_mechanism("uniform"),
    get_mechanism("quotient_shapley/cosine@0.9"),
    get_mechanism("quotient_banzhaf/cosine@0.95", normalize=True),
    get_mechanism(
        "quotient_shapley/oracle_latent", representative="collapse", allocation="latent_share"
    ),
    get_mechanism("quotient_shapley/noisy_oracle_latent(p_fs=0.3, p_fm=0.2)"),
    get_mechanism("quotient_beta_shapley/oracle_source", granularity="unit", samples=8),
    get_mechanism("shapley", estimator="permutation", samples=16),
)


@pytest.mark.parametrize("m", MECHANISMS, ids=lambda m: f"{m.name}-{m.estimator}")
def test_every_certificate_is_obeyed_survives_json_and_speaks(m):
    market = small()
    for attack in ATTACKS:
        certificate = run(market, m, attack, provider=1)
        assert certificate.obeys in (True, None)
        assert (certificate.bound is None) == (certificate.claim == "none")
        assert Certificate.model_validate_json(certificate.model_dump_json()) == certificate
        assert "provider_1" in certificate.words
        if certificate.claim == "exact":
            assert abs(certificate.gain) <= certificate.rounding
            assert certificate.terms.allocation == pytest.approx(0.0, abs=1e-15)  # sums of shares
            assert certificate.terms.escape == 0.0
            assert certificate.terms.drift <= 1e-12
        if certificate.claim == "none":
            assert "do not apply" in certificate.words


def test_theorem_2_is_claimed_where_it_holds_and_nowhere_else():
    market = small()
    for attack in ("sybil_split_k@3", "exact_dup_2x_sybils", "copycat"):
        certificate = run(market, RECOMMENDED, attack)
        assert certificate.claim == "exact"
        assert certificate.gain == 0.0
    sampled = RECOMMENDED.model_copy(update={"estimator": "permutation", "samples": 8})
    certificate = run(market, sampled, "sybil_split_k@3")
    assert certificate.gain == 0.0  # scores are keyed by content, so the estimates are the same
    assert certificate.claim == "probable"  # but the theorem speaks of exact ones
    assert certificate.bound > 0
    assert run(market, get_mechanism("shapley"), "sybil_split_k@3").claim == "certain"


def test_a_quotient_stable_attack_on_a_non_neutral_allocator_is_caught():
    market = small()
    certificate = run(market, get_mechanism("quotient_shapley/pool"), "sybil_split_k@3")
    assert certificate.holds("quotient_stable")
    assert not certificate.holds("neutral")
    assert certificate.claim == "certain"
    assert certificate.terms.allocation == pytest.approx(certificate.gain, abs=1e-12)
    assert certificate.gain > 0.01


def test_false_merges_show_in_a_and_false_splits_in_l():
    """S5, at identity granularity with equal shares."""
    leaks = {"merge": [], "split": []}
    for seed in range(6):
        market = small(seed, n=5)
        for kind, evidence in (
            ("merge", "noisy_oracle_latent(p_fs=0.0, p_fm=0.3)"),
            ("split", "noisy_oracle_latent(p_fs=0.8, p_fm=0.0)"),
        ):
            m = get_mechanism(f"quotient_shapley/{evidence}", seed=seed)
            terms = run(market, m, "near_duplicate_2x_sybils@0.03").terms
            leaks[kind].append((terms.allocation, terms.escape))
    merge, split = np.mean(leaks["merge"], axis=0), np.mean(leaks["split"], axis=0)
    assert merge[0] > 0.01
    assert merge[1] == 0.0
    assert split[1] > 0.01
    assert split[0] == 0.0


def test_loose_thresholds_leak_shares_and_tight_ones_let_copies_escape():
    """S4: the same attack, on both sides of the admissible interval."""
    loose, tight = [], []
    for seed in range(4):
        market = small(seed, n=5)
        for found, theta in ((loose, 0.6), (tight, 0.9999)):
            m = get_mechanism(f"quotient_shapley/cosine@{theta}")
            found.append(run(market, m, "near_duplicate_2x_sybils@0.1").terms)
    assert np.mean([t.allocation for t in loose]) > 0.01
    assert all(t.escape == 0.0 for t in loose)
    assert np.mean([t.escape for t in tight]) > 0.01
    assert all(t.allocation == 0.0 for t in tight)


def test_withdrawn_and_merged_clusters_are_said_to_be_outside_the_theorem():
    market = small()
    withdrawn = run(market, RECOMMENDED, "strategic_curation@0.5")
    assert withdrawn.claim == "none"
    assert "cannot be matched one to one" in withdrawn.words
    # units of one provider that stand apart honestly, tied together through a change of one
    profile = market.honest
    mine = np.flatnonzero(profile.submission.identity == "provider_0")
    features = profile.submission.features.copy()
    features[mine[1]] = features[mine[0]] * 1.0001
    label = profile.submission.label.copy()
    label[mine[1]] = label[mine[0]]
    changed = profile.submission.take(
        np.arange(len(profile.submission)), {"features": features, "label": label}
    )
    attacked = type(profile)(changed, profile.truth, "provider_0", "merge")
    oracle = market.utility_oracle(KNN)
    certificate = certify(
        Paid.by(RECOMMENDED, profile, oracle), Paid.by(RECOMMENDED, attacked, oracle), RECOMMENDED
    )
    assert certificate.claim == "none"
    assert "merge several of the honest clusters" in certificate.words


def test_merged_descendants_are_found_when_originals_are_withdrawn():
    """Both originals replaced by one identical variant each: the variants carry the sources."""
    market = small()
    honest = market.honest
    mine = np.flatnonzero(honest.submission.identity == "provider_0")
    features, ids = honest.submission.features.copy(), honest.submission.id.astype("U64")
    label = honest.submission.label.copy()
    features[mine[:2]], label[mine[:2]] = 7.0, label[mine[0]]
    ids[mine[:2]] = ["variant_a", "variant_b"]
    everything = np.arange(len(ids))
    changed = honest.submission.take(everything, {"features": features, "label": label, "id": ids})
    truth = type(honest.truth)(ids, honest.truth.owner, honest.truth.source, honest.truth.controller)
    attacked = type(honest)(changed, truth, "provider_0", "replace")
    oracle = market.utility_oracle(KNN)
    certificate = certify(
        Paid.by(RECOMMENDED, honest, oracle), Paid.by(RECOMMENDED, attacked, oracle), RECOMMENDED
    )
    assert "merge several" in certificate.words


class Peeking(Mechanism):
    """Declares no oracle, and asks one."""

    def pay(self, submission, utility, oracle=None):
        honest = self.model_copy(update={"evidence": "oracle_latent"})
        return Mechanism.pay(honest, submission, utility, oracle)


class Favouring(Mechanism):
    """Declares equal shares, and gives more to those whom the truth names."""

    def pay(self, submission, utility, oracle=None):
        other = self.model_copy(update={"allocation": "latent_share"})
        return Mechanism.pay(other, submission, utility, oracle)


def test_a_peeking_mechanism_is_caught():
    market = small()
    for cls, base, says in (
        (Peeking, get_mechanism("shapley"), "the clusters are not those"),
        (Favouring, get_mechanism("quotient_shapley/pool"), "the shares are not those"),
    ):
        m = cls(**base.model_dump())
        with pytest.raises(DataMarketError, match=says):
            run(market, m, "sybil_split_k@3")


def test_a_tampered_certificate_is_refused():
    written = json.loads(run(small(), get_mechanism("shapley"), "sybil_split_k@3").model_dump_json())
    Certificate.model_validate(written)
    for changes, says in (
        ({"claim": "exact"}, "Theorem 2 without"),
        ({"eta_method": "hoeffding"}, "support 'probable', no more"),
        ({"eta_method": "mean_absolute"}, "support 'expected', no more"),
        ({"terms": None}, "without an admissible matching"),
        ({"terms": {**written["terms"], "matching": [[0, 0], [1, 0]]}}, "uses a cluster twice"),
        ({"terms": {**written["terms"], "drift": -0.5}}, "a term is negative"),
        ({"terms": {**written["terms"], "eta": 0.1}}, "exact scores have no error bars"),
        ({"approved": True}, "approved"),
    ):
        with pytest.raises(ValidationError, match=says):
            Certificate.model_validate({**written, **changes})


def test_profiles_that_do_not_belong_together_are_refused():
    market, other = small(3), small(4)
    m, oracle = get_mechanism("shapley"), market.utility_oracle(KNN)
    honest = Paid.by(m, market.honest, oracle)
    elsewhere = create("attack", "sybil_split_k").apply(0, other.state)
    with pytest.raises(DataMarketError, match="do not belong together"):
        certify(honest, Paid.by(m, elsewhere, oracle), m)
    with pytest.raises(DataMarketError, match="names no attacker"):
        certify(honest, honest, m)
    with pytest.raises(DataMarketError, match="on another submission"):
        Paid(elsewhere, honest.payments)
    with pytest.raises(OracleRequiredError, match="ground truth"):
        Paid(market.honest.submission, honest.payments)
    smaller = ProviderMarket.from_task(Synthetic(n_providers=2, per_provider=12, validation=120), 3)
    profile = create("attack", "sybil_split_k").apply(3, market.state)
    two = Paid.by(m, smaller.honest, oracle)
    with pytest.raises(DataMarketError, match="no provider 'provider_3'"):
        certify(two, Paid.by(m, profile, oracle), m)


class HalfALaw(Semivalue):
    """Weights that sum to a half."""

    def size_weights(self, n_players):
        return np.full(n_players, 0.5 / n_players)


def test_weights_that_do_not_sum_to_one_are_refused():
    market = small()
    fair = get_mechanism("shapley")
    oracle = market.utility_oracle(KNN)
    profile = create("attack", "sybil_split_k").apply(0, market.state)
    honest, attacked = (Paid.by(fair, p, oracle) for p in (market.honest, profile))
    halved = fair.model_copy(update={"semivalue": HalfALaw()})
    with pytest.raises(ParameterError, match="not a semivalue's"):
        certify(honest, attacked, halved)


def test_a_worst_case_of_many_gets_its_share_of_delta():
    market, m = small(), get_mechanism("shapley", estimator="permutation", samples=64)
    one = run(market, m, "sybil_split_k@3")
    many = run(market, m, "sybil_split_k@3", comparisons=100)
    assert many.delta == pytest.approx(one.delta / 100)
    assert many.bound > one.bound
    assert "rules nothing out" in one.words  # 64 samples do not make a bound worth having


def test_stability_with_identical_players():
    """Two exact copies that no evidence ties are two players of one content; a renaming is stable."""
    market = small()
    m = get_mechanism("quotient_shapley/none", granularity="unit")
    oracle = market.utility_oracle(KNN)
    base = create("attack", "exact_dup_2x_sybils").apply(0, market.state)
    names = np.char.add("x", base.submission.identity)
    renamed = base.submission.take(np.arange(len(names)), {"identity": names})
    truth = type(base.truth)(
        base.truth.id,
        base.truth.owner,
        base.truth.source,
        {f"x{k}": v for k, v in base.truth.controller.items()},
    )
    other = type(base)(renamed, truth, "provider_0", "rename")
    found = quotient_stability(Paid.by(m, base, oracle), Paid.by(m, other, oracle))
    assert found.stable
    assert found.pairing.tolist() == list(range(len(names)))


def test_open_evidence_is_settled_again_and_not_believed():
    market = small()
    oracle = market.utility_oracle(Utility("knn", "chance"))
    profile = create("attack", "copycat(sigma=0.5)").apply(0, market.state)
    honest, attacked = (Paid.by(RECOMMENDED, p, oracle) for p in (market.honest, profile))
    found = certify(honest, attacked, RECOMMENDED)
    assert found.evidence == tuple(p.payments.threshold.evidence for p in (honest, attacked))
    assert found.evidence[0].startswith("lineage@0.")
    assert Certificate.model_validate_json(found.model_dump_json()) == found
    with pytest.raises(
        DataMarketError, match=r"validation rows, which are not known here; pay with .*Paid.by"
    ):
        certify(Paid(market.honest, honest.payments), attacked, RECOMMENDED)
    loose = RECOMMENDED.model_copy(update={"evidence": "hybrid_hash_cosine@0.3"})
    with pytest.warns(CollapsedMarketWarning):
        other = Paid(market.honest, loose.pay(market.honest.submission, oracle), oracle)
    with pytest.raises(DataMarketError, match="cannot be certified"):
        certify(other, attacked, RECOMMENDED)
    moved = found.model_copy(update={"evidence": ("hybrid_hash_cosine@0.9", "exact_hash")})
    assert "hybrid_hash_cosine@0.9 on the honest submission and exact_hash on this one" in moved.words
    same = found.model_copy(update={"evidence": ("exact_hash", "exact_hash")})
    assert "on the honest submission" not in same.words
