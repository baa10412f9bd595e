import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError, ParameterError, UnknownNameError
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.registry import create


def attacked(market, text, provider=0):
    return create("attack", text).apply(provider, market.state)


def own(profile):
    return profile.submission.take(
        np.isin(profile.submission.identity, profile.identities_of(profile.attacker))
    )


def test_pure_split_is_a_partition(market):
    for how in ("round_robin", "block"):
        profile = attacked(market, f"sybil_split_k(k=3, how={how})")
        assert len(profile.identities_of("provider_0")) == 3
        honest = market.honest.submission
        assert sorted(profile.submission.id) == sorted(honest.id)
        assert sorted(profile.submission.keys) == sorted(honest.keys)


def test_duplicates_have_the_counts_of_the_table(market):
    profile = attacked(market, "exact_dup_2x_sybils@0.5")
    assert len(profile.submission) == 48 + 2 * 6
    parts = [profile.submission.identity == name for name in profile.identities_of("provider_0")]
    assert [part.sum() for part in parts] == [12, 6, 6]
    first, second = (sorted(profile.submission.keys[part]) for part in parts[1:])
    assert first == second  # the same units into both
    assert set(first) <= set(profile.submission.keys[parts[0]])


def test_near_duplicates_are_the_exact_ones_with_noise(market):
    exact = attacked(market, "exact_dup_2x_sybils")
    near = attacked(market, "near_duplicate_2x_sybils@0.03")
    assert (exact.truth.source == near.truth.source).all()
    copies = near.submission.time >= 1
    noise = (near.submission.features - exact.submission.features)[copies]
    assert 0.02 < noise.std() < 0.04
    assert (near.submission.features[~copies] == exact.submission.features[~copies]).all()
    still = attacked(market, "near_duplicate_2x_sybils@0.0")
    assert (still.submission.features == exact.submission.features).all()


def test_label_noise_flips_the_stated_share_to_other_classes(market):
    profile = attacked(market, "label_noise@0.5")
    honest = market.honest.submission
    order = np.argsort(profile.submission.id)
    flipped = profile.submission.label[order] != honest.label[np.argsort(honest.id)]
    assert flipped.sum() == 6
    assert set(profile.submission.identity[order][flipped]) == {"provider_0"}


def test_copycat_units_belong_to_the_victim_but_pay_the_attacker(market):
    profile = attacked(market, "copycat", provider=1)
    stolen = (profile.truth.owner == "provider_2") & (profile.submission.identity == "provider_1")
    assert stolen.sum() == 12
    assert profile.truth.controller["provider_1"] == "provider_1"
    assert profile.submission.time[stolen].min() > market.honest.submission.time.max()
    with pytest.raises(DataMarketError, match="cannot copy itself"):
        attacked(market, "copycat(victim=1)", provider=1)


def test_laundering_curation_and_junk(market):
    laundered = own(attacked(market, "synthetic_laundering@2.0"))
    assert len(laundered) == 12 + 24
    curated = own(attacked(market, "strategic_curation@0.25"))
    assert len(curated) == 3
    assert len(own(attacked(market, "strategic_curation(keep=0.25, rest=0.5)"))) == 3 + 4
    junk = attacked(market, "junk_padding(ratio=1.0, identities=3)")
    assert len(own(junk)) == 24
    assert len(junk.identities_of("provider_0")) == 3
    made = ~np.isin(junk.submission.id, market.honest.submission.id)
    assert (junk.truth.source[made] == junk.submission.id[made]).all()


def test_provider_zero_attack_names_the_attacker(market):
    wrapped = attacked(market, "provider_zero_attack@sybil_split_k", provider=2)
    assert wrapped.attacker == "provider_0"
    assert len(wrapped.identities_of("provider_0")) == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sybil_split_k@0", "k = 0"),
        ("sybil_split_k(how=diagonal)", "round_robin"),
        ("label_noise@1.5", "p = 1.5"),
        ("label_noise@nan", "p = "),
        ("near_duplicate_2x_sybils@-1", "sigma = -1"),
        ("exact_dup_2x_sybils@1.5", r"\[0, 1\]"),
        ("sybil_split_k@1.5", "whole number"),
    ],
)
def test_bad_parameters_are_named(text, says):
    with pytest.raises((ParameterError, DataMarketError), match=says):
        create("attack", text)


def test_providers_and_names_that_do_not_exist(market):
    with pytest.raises(DataMarketError, match="no provider 9; this market has 0 to 3"):
        attacked(market, "honest", provider=9)
    with pytest.raises(UnknownNameError, match="did you mean provider_"):
        attacked(market, "honest", provider="provider_x")
    with pytest.raises(UnknownNameError, match="did you mean copycat"):
        create("attack", "copy_cat")
    with pytest.raises(UnknownNameError, match="parameter of attack label_noise"):
        create("attack", "label_noise(q=0.1)")
    with pytest.raises(DataMarketError, match="would submit no units"):
        attacked(market, "sybil_split_k@13")


def test_a_provider_without_units_or_rows_dealt_twice(market):
    empty = [np.array([], dtype=int), np.array([1])]
    with pytest.raises(DataMarketError, match="provider 0 owns no units"):
        ProviderMarket(market.dataset, empty)
    with pytest.raises(DataMarketError, match="row 1 of the dataset is dealt twice"):
        ProviderMarket(market.dataset, [np.array([0, 1]), np.array([1])])
