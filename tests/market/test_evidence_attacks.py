"""Attacks on evidence: what they submit, when, in whose name, and who owns it in truth."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from datamarket_gym.analysis.metrics import provider_totals
from datamarket_gym.analysis.redteam import market_state
from datamarket_gym.analysis.redteam.attack_grid import moved_embeddings
from datamarket_gym.data import Submission
from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.evidence.graph import EvidenceGraph, seniority_ranks
from datamarket_gym.market.attacks.placement import mean_directions
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import components, create
from datamarket_gym.testing.base import small_market
from datamarket_gym.utilities.oracle import Utility

SMALL = Synthetic(n_providers=4, per_provider=12, validation=60)
COMPONENTS = "recommended/hybrid_hash_cosine@0.9"


@pytest.fixture(scope="module")
def undated():
    return ProviderMarket.from_task(SMALL, seed=3, times="none")


@pytest.fixture(scope="module")
def equal():
    return ProviderMarket.from_task(SMALL, seed=3, times="equal")


def attacked(market, text, provider=0):
    return create("attack", text).apply(provider, market.state)


def added(market, profile):
    """The rows that are in the attacked market and not in the honest one."""
    honest = set(market.honest.submission.id.tolist())
    return np.array([unit not in honest for unit in profile.submission.id.tolist()])


def pay(market, text, name=COMPONENTS, provider=0, **changes):
    """What everybody gets when honest, and when the provider attacks."""
    oracle, m = market.utility_oracle(Utility("knn@3", "chance")), get_mechanism(name, **changes)
    profile = attacked(market, text, provider)
    paid = m.pay(profile.submission, oracle)
    honest = m.pay(market.honest.submission, oracle)
    return provider_totals(honest, market.honest), provider_totals(paid, profile)


def test_the_clock_is_a_dial_of_the_market(market, undated, equal):
    assert undated.honest.submission.time is None
    assert (equal.honest.submission.time == 0).all()
    assert len(np.unique(market.honest.submission.time)) == 48
    for other in (undated, equal):  # nothing else differs
        assert (other.honest.submission.keys == market.honest.submission.keys).all()
    assert attacked(undated, "copycat").submission.time is None
    assert (attacked(equal, "copycat").submission.time == 0).all()  # a copy does not come later
    with pytest.raises(ParameterError, match="times = 'late': choose one of given, equal, none"):
        ProviderMarket.from_task(SMALL, times="late")


def test_without_a_clock_an_exact_copy_takes_half(market, undated, equal):
    """k = 1 copy of each unit: the copier gets 1 / 2, and 0 where the clock tells."""
    for clockless in (undated, equal):
        before, after = pay(clockless, "copycat")
        assert after["provider_1"] == pytest.approx(before["provider_1"] / 2)
    before, after = pay(market, "copycat")
    assert after == pytest.approx(before)


def test_everybody_has_an_account_and_pseudonyms_their_own(market):
    honest = market.honest.submission
    assert (honest.metadata["account"] == honest.identity).all()
    for text in ("exact_dup_2x_sybils", "copycat", "composite(names=2)"):
        found = attacked(market, text).submission
        assert (found.metadata["account"] == found.identity).all()


def test_victims_are_counted_from_the_attacker(market):
    for provider, victim, wanted in ((0, 1, {"provider_1"}), (3, 2, {"provider_1"})):
        profile = attacked(market, f"backdate(victim={victim})", provider)
        assert set(profile.truth.owner[added(market, profile)]) == wanted
    profile = attacked(market, "backdate(victim=all)", 2)
    new = added(market, profile)
    assert set(profile.truth.owner[new]) == {"provider_0", "provider_1", "provider_3"}
    assert set(profile.submission.identity[new]) == {"provider_2"}
    with pytest.raises(DataMarketError, match="there is no victim 4; provider_0 has 3 others"):
        attacked(market, "backdate(victim=4)")
    for wrong in ("0", "some", "1.5"):
        with pytest.raises(ParameterError, match="victim"):
            create("attack", f"bridge(victim={wrong})")


def test_who_is_alone_has_no_victim():
    alone = ProviderMarket.from_task("synthetic(n_providers=1, per_provider=12, partition=iid)")
    with pytest.raises(DataMarketError, match="provider_0 is alone in this market"):
        attacked(alone, "bridge")


def test_bridges_tie_the_victim_to_an_earlier_owner_by_cosine(market):
    profile = attacked(market, "bridge(theta=0.9)")
    submission, new = profile.submission, added(market, profile)
    assert (submission.time[new] > market.honest.submission.time.max()).all()
    assert set(submission.identity[new]) == {"provider_0"}
    assert set(profile.truth.source[new]) <= set(
        market.honest.submission.id
    )  # each of a unit of somebody's
    clusters = EvidenceGraph.build(submission, "cosine@0.9")
    theirs = np.flatnonzero(submission.identity == "provider_1")
    (one,) = set(clusters.label[theirs])  # all in one
    members = clusters.members(one)
    first = members[submission.time[members].argmin()]
    assert submission.identity[first] != "provider_1"
    apart = EvidenceGraph.build(market.honest.submission, "cosine@0.9")
    theirs = market.honest.submission.identity == "provider_1"
    assert len(set(apart.label[theirs])) > 6


def test_bridges_ruin_the_victim_of_components(market):
    before, after = pay(market, "bridge")
    assert before["provider_1"] > 0.05
    assert after["provider_1"] == 0


def test_the_earliest_owner_bridges_everything_to_itself(market):
    profile = attacked(market, "bridge(victim=all, most=1000, first=true)", 2)
    first = profile.submission.time.argmin()
    assert profile.submission.identity[first] == "provider_2"
    assert profile.submission.time[first] < market.honest.submission.time.min()
    assert len(set(EvidenceGraph.build(profile.submission, "cosine@0.9").label)) <= 12
    before, after = pay(market, "bridge(victim=all, most=1000, first=true)", provider=2)
    assert [after[f"provider_{i}"] for i in (0, 1, 3)] == [0, 0, 0]
    assert after["provider_2"] > before["provider_2"] / 2


def test_the_number_of_bridges_is_bounded_and_cheap_ones_come_first(market):
    few = attacked(market, "bridge(most=7)")
    many = attacked(market, "bridge(most=1000)")
    assert 0 < added(market, few).sum() <= 7 < added(market, many).sum()
    made = few.submission.features[added(market, few)]
    assert (made == many.submission.features[added(market, many)][: len(made)]).all()
    with pytest.raises(ParameterError, match="most = 0"):
        create("attack", "bridge(most=0)")


def test_bridges_lie_in_the_embedding_where_that_is_what_is_compared(market):
    """The features move too, and an audit does not move the embeddings again."""
    honest = market.honest.submission
    turned = np.roll(honest.features, 1, axis=1) * 2.0
    own = Submission(
        honest.id, honest.identity, honest.features, honest.label, embedding=turned, time=honest.time
    )
    state = market_state(own, market.dataset.validation_features, market.dataset.validation_label)
    profile = create("attack", "bridge").apply(0, state)
    found = moved_embeddings(profile, state).submission
    assert (found.embedding == profile.submission.embedding).all()
    added = found.features[~np.isin(found.id, honest.id)]
    assert len(added) > 0
    assert not (added[:, None] == honest.features[None]).all(axis=2).any()
    label = EvidenceGraph.build(found, "cosine@0.9").label
    assert len(set(label[found.identity == "provider_1"])) == 1


def test_text_bridges_are_blends_of_two_texts():
    market = small_market("text")
    theta = 0.96
    profile = attacked(market, f"text_bridge(theta={theta}, most=500)")
    submission, new = profile.submission, added(market, profile)
    assert new.sum() >= 10
    words = {str(t): set(str(t).split()) for t in market.honest.submission.metadata["text"]}
    source = dict(
        zip(market.honest.submission.id, market.honest.submission.metadata["text"], strict=True)
    )
    for text, origin in zip(submission.metadata["text"][new], profile.truth.source[new], strict=True):
        assert text not in words
        assert set(text.split()) & words[source[origin]]
        assert set(text.split()) <= set.union(*words.values())
    encoder = create("encoder", market.dataset.encoder)
    again = encoder.encode(submission.metadata["text"][new].tolist())
    assert np.allclose(again, submission.features[new])
    label = EvidenceGraph.build(submission, f"cosine@{theta}").label
    theirs = submission.identity == "provider_1"
    before = EvidenceGraph.build(market.honest.submission, f"cosine@{theta}").label
    assert len(set(label[theirs])) == 1
    assert len(set(before[market.honest.submission.identity == "provider_1"])) > 1


def test_texts_are_needed_for_blends(market):
    with pytest.raises(DataMarketError, match="carry no text"):
        attacked(market, "text_bridge")


@pytest.mark.parametrize("attack", ["backdate(victim=all)", "grind_ties(victim=all)"])
def test_against_a_log_copies_come_after_what_they_copy_whatever_is_written(market, attack):
    honest = market.honest.submission
    came = dict(zip(honest.id.tolist(), honest.times.tolist(), strict=True))
    logged = replace(market.state, logged=True)
    for state in (market.state, logged):
        profile = create("attack", attack).apply(0, state)
        unit, source = profile.submission, profile.truth.aligned(profile.submission).source
        copies = np.array([name not in came for name in unit.id])
        originals = np.array([came[name] for name in source[copies]])
        assert copies.any()
        assert (unit.times[copies] > originals).all() == state.logged
        kept = np.array([came[name] for name in unit.id[~copies]])
        assert (unit.times[~copies] == kept).all()  # honest units, and its own, came when they came
    late = create("attack", attack).apply(0, logged).submission
    assert (late.times[copies] <= originals + 1e-9).all()  # the fastest copyist there can be


def test_backdated_copies_come_before_everything(market, undated):
    profile = attacked(market, "backdate(sigma=0.01)")
    new = added(market, profile)
    assert profile.submission.time[new].max() < market.honest.submission.time.min()
    before, after = pay(market, "backdate")
    assert after["provider_1"] == 0
    assert after["provider_0"] == pytest.approx(before["provider_0"] + before["provider_1"])
    assert "forge" in create("attack", "backdate").assumes
    with pytest.raises(DataMarketError, match="no clock to forge"):
        attacked(undated, "backdate")


def test_ground_copies_have_the_smallest_key_of_their_tries(market, undated):
    honest = market.honest.submission
    key = dict(zip(honest.id, honest.keys, strict=True))
    for tries, wins in ((1, (0.2, 0.8)), (20, (0.8, 1.0))):
        profile = attacked(market, f"grind_ties(victim=all, tries={tries})")
        new = added(market, profile)
        mine, source = profile.submission.keys[new], profile.truth.source[new]
        smaller = np.mean([a < key[s] for a, s in zip(mine, source, strict=True)])
        assert wins[0] <= smaller <= wins[1]
    at = dict(zip(honest.id, honest.time, strict=True))
    assert [at[s] for s in source] == profile.submission.time[new].tolist()
    assert attacked(undated, "grind_ties").submission.time is None
    with pytest.raises(ParameterError, match="sigma = 0"):
        create("attack", "grind_ties(sigma=0.0)")


def test_lots_are_ground_with_a_good_guess_and_not_with_a_bad_one(market, equal):
    """The guess is all that lots are drawn under: the seed and the beacon."""
    profile = attacked(equal, "grind_ties(victim=all, guess=0|tulip)")
    new = np.flatnonzero(added(equal, profile))
    origin = {unit: at for at, unit in enumerate(profile.submission.id.tolist())}
    source = [origin[unit] for unit in profile.truth.source[new].tolist()]
    wins = {}
    for lot in ("0|tulip", "0|rose"):
        rank = seniority_ranks(profile.submission, lot)
        wins[lot] = (rank[new] < rank[source]).mean()
    assert wins["0|tulip"] > 0.85
    assert 0.25 < wins["0|rose"] < 0.75


def test_own_sources_are_claimed_in_the_column_and_not_in_truth(market):
    profile = attacked(market, "own_source(sigma=0.1)")
    submission, new = profile.submission, added(market, profile)
    assert (submission.source[new] == submission.id[new]).all()
    assert set(profile.truth.owner[new]) == {"provider_1"}
    assert (profile.truth.source[new] != submission.id[new]).all()
    assert (submission.time[new] > market.honest.submission.time.max()).all()
    plain = attacked(market, "copycat")  # copies of other attacks tell where they come from
    assert (plain.submission.source == plain.truth.source).all()
    nameless = market_state(
        Submission(submission.id, submission.identity, submission.features, submission.label),
        market.dataset.validation_features,
        market.dataset.validation_label,
    )
    with pytest.raises(DataMarketError, match="no column 'source'"):
        create("attack", "own_source").apply(0, nameless)
    with pytest.raises(DataMarketError, match="no column 'account'"):
        create("attack", "link_claim").apply(0, nameless)


def test_the_account_claimed_is_the_victims_and_the_junk_the_attackers(market):
    profile = attacked(market, "link_claim")
    submission, new = profile.submission, added(market, profile)
    assert set(submission.metadata["account"][new]) == {"provider_1"}
    assert set(submission.identity[new]) == {"provider_0~1"}
    assert profile.truth.controller["provider_0~1"] == "provider_0"
    assert set(profile.truth.owner[new]) == {"provider_0"}
    honest = market.honest.submission
    label = dict(zip(honest.id, honest.label, strict=True))
    assert all(
        label[s] != y for s, y in zip(profile.truth.source[new], submission.label[new], strict=True)
    )
    names = attacked(market, "link_claim(victim=all)").identities_of("provider_0")
    assert names == ["provider_0", "provider_0~1", "provider_0~2", "provider_0~3"]


def test_leaked_rows_are_stuffed_as_they_are_or_with_noise(market):
    leaked = {row.tobytes() for row in market.state.leaked_features}
    profile = attacked(market, "leak_stuffing")
    new = added(market, profile)
    assert {row.tobytes() for row in profile.submission.features[new]} == leaked
    wanted = unit_keys(market.state.leaked_features, market.state.leaked_label)
    assert set(profile.submission.keys[new]) == set(wanted)  # with their labels
    assert set(profile.truth.owner[new]) == {"provider_0"}
    noisy = attacked(market, "leak_stuffing(share=0.5, sigma=0.3, instead=true)")
    mine = noisy.submission.identity == "provider_0"
    assert mine.sum() == round(0.5 * len(leaked))
    assert not leaked & {row.tobytes() for row in noisy.submission.features}


def test_squatters_come_first_and_their_honest_victims_seem_to_be_copies(market, undated):
    profile = attacked(market, "squat(victim=all, points=6)")
    submission, new = profile.submission, added(market, profile)
    assert submission.time[new].max() < market.honest.submission.time.min()
    assert new.sum() <= 6 * 4
    label = EvidenceGraph.build(submission, "cosine@0.85").label
    caught = np.isin(label, label[new]) & ~new
    assert caught.sum() > 6
    assert "provider_0" not in profile.truth.owner[new]
    assert attacked(undated, "squat").submission.time is None
    guesses = attacked(market, "squat(victim=2, points=50, how=guesses)")
    theirs = market.honest.submission.take(market.honest.submission.identity == "provider_2")
    assert set(guesses.submission.keys[added(market, guesses)]) == set(theirs.keys)


def test_squatters_lie_at_mean_directions_of_groups_under_one_name(market):
    rng = np.random.default_rng(0)
    ends = np.array([[3.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    units = np.repeat(ends, 20, axis=0) + 0.1 * rng.normal(size=(40, 3))
    centres = np.array(
        [[1.0, 0.4, 0.4], [0.4, 1.0, -0.4], [0.0, 0.0, -1.0]]
    )  # the last has no unit near it
    found = mean_directions(units, centres)
    length = np.linalg.norm(units, axis=1).mean()
    assert found == pytest.approx(length * np.array([[1, 0, 0], [0, 1, 0], [0, 0, -1]]), abs=0.1)
    squat = attacked(market, "squat").submission
    assert set(squat.identity) == set(market.honest.submission.identity)


def test_squatters_without_foresight_use_nothing_of_the_others(market):
    """The same points, whatever the others own."""
    one, honest = attacked(market, "squat(knows=leak)"), market.honest.submission
    others = honest.identity != "provider_0"
    moved = honest.take(np.arange(len(honest)), {"features": honest.features + 5.0 * others[:, None]})
    changed = replace(market.state, honest=replace(market.honest, submission=moved))
    two = create("attack", "squat(knows=leak)").apply(0, changed)
    new = added(market, one)
    assert (one.submission.features[new] == two.submission.features[new]).all()
    assert set(one.truth.owner[new]) == {"provider_0"}
    assert create("attack", "squat(knows=leak)").assumes == ""
    assert "before they came" in create("attack", "squat").assumes


def test_the_library_is_on_the_page_of_the_plug_point():
    page = Path(__file__).parents[2] / "docs" / "plug-points" / "attack.md"
    text = page.read_text(encoding="utf-8")
    ours = {n for n, c in components("attack").items() if c.__module__.startswith("datamarket_gym.")}
    assert [name for name in sorted(ours) if f"`{name}`" not in text] == []


def test_turned_copies_have_the_cosine_and_the_length_of_their_originals(market):
    honest = market.honest.submission
    profile = create("attack", "turn@0.6").apply(0, market.state)
    units = profile.submission
    copies = np.flatnonzero(~np.isin(units.id, honest.id))
    place = {unit: row for row, unit in enumerate(honest.id.tolist())}
    original = honest.features[[place[unit] for unit in profile.truth.source[copies].tolist()]]
    lengths = np.linalg.norm(original, axis=1)
    assert len(copies) == len(honest) - (honest.identity == "provider_0").sum()
    assert np.linalg.norm(units.features[copies], axis=1) == pytest.approx(lengths)
    assert (units.features[copies] * original).sum(axis=1) == pytest.approx(0.6 * lengths**2)
    assert set(units.identity[copies].tolist()) == {"provider_0"}
    with pytest.raises(ParameterError, match="cosine"):
        create("attack", "turn@1.5")
