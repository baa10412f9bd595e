"""Attacks where units have no labels, or numbers for labels; and a market from which labels were taken away."""

from dataclasses import replace

import numpy as np
import pytest

from datamarket_gym import ProviderMarket
from datamarket_gym.data.inputs import NO_LABEL
from datamarket_gym.errors import DataMarketError, UnknownNameError
from datamarket_gym.market.attacks.base import Attack, Block, groups, wrong
from datamarket_gym.market.tasks.base import Dataset
from datamarket_gym.registry import components, create, written
from datamarket_gym.testing import validate_attack
from datamarket_gym.testing.base import ConformanceError

SMALL = "synthetic(n_providers=4, per_provider=12, validation=60)"
BARE = ProviderMarket.from_task({"name": "without_labels", "of": SMALL}, seed=3)
RNG = np.random.default_rng(5)
FEATURES = RNG.normal(size=(60, 6))
NUMBERS = ProviderMarket(
    Dataset("numbers", FEATURES[:40], FEATURES[:40, 0] * 10, FEATURES[40:], FEATURES[40:, 0] * 10),
    np.split(np.arange(40), 4),
    seed=2,
)
NEED_LABELS = {"label_noise", "label_poisoning", "link_claim"}


def attacked(market, text, provider=0):
    return create("attack", text).apply(provider, market.state).submission


def made(market, text):
    """The units of provider 0 that are new or changed, and whether they differ from its honest ones in their label."""
    honest = market.honest.submission
    known = dict(zip(honest.id.tolist(), honest.label.tolist(), strict=True))
    found = attacked(market, text)
    return found.take(np.array([known.get(u) != y for u, y in zip(found.id, found.label, strict=True)]))


def test_the_task_takes_labels_away_and_nothing_else(market):
    ours, theirs = BARE.honest.submission, market.honest.submission
    assert (ours.features == theirs.features).all()
    assert ours.id.tolist() == theirs.id.tolist()
    assert ours.identity.tolist() == theirs.identity.tolist()
    assert (ours.time == theirs.time).all()
    assert not ours.labelled
    assert not BARE.utility_oracle(None, create("learner", "coverage")).labelled
    assert (BARE.state.leaked_features == market.state.leaked_features).all()
    assert BARE.dataset.name == "synthetic without labels"
    assert "no labels" in str(BARE)
    assert "labels" not in str(BARE).splitlines()[-1]
    with pytest.raises(UnknownNameError, match="nothing_like_it"):
        create("task", "without_labels@nothing_like_it")
    nested = create("task", {"name": "without_labels", "of": SMALL})
    assert create("task", written(nested)) == nested


@pytest.mark.parametrize("name", sorted(NEED_LABELS))
def test_attacks_that_change_labels_say_that_there_are_none(name):
    attack = create("attack", name)
    assert attack.needs_labels
    with pytest.raises(
        DataMarketError, match=f"^{name} changes labels, and this market has none; leave it out$"
    ):
        attack.apply(0, BARE.state)
    with pytest.raises(DataMarketError, match="changes labels"):
        create("attack", f"provider_zero_attack@{name}").apply(1, BARE.state)


def test_no_other_attack_needs_labels_but_squatters_that_are_worthless():
    assert {n for n, a in components("attack").items() if a.needs_labels} == NEED_LABELS
    assert len(attacked(BARE, "squat")) > len(BARE.honest.submission)
    with pytest.raises(
        DataMarketError, match="a class that nobody asks for, and this market's units have no labels"
    ):
        attacked(BARE, "squat(worthless=True)")
    with pytest.raises(DataMarketError, match="this market's labels are numbers; leave it out"):
        attacked(NUMBERS, "squat(worthless=True)")


@pytest.mark.parametrize(
    "name", sorted({n for n, a in components("attack").items() if not a.needs_content})
)
def test_the_library_plays_without_labels_and_with_numbers(name):
    if name not in NEED_LABELS:
        found = attacked(BARE, name)
        assert not found.labelled
        assert set(found.label.tolist()) == {NO_LABEL}
    assert attacked(NUMBERS, name).label.dtype == np.float64


def test_one_that_breaks_where_there_are_no_labels_is_found_out():
    class Parting(Attack):
        """Looks for a second class."""

        def blocks(self, own):
            further = own.rows[: len(np.unique(own.honest.label)) - 1]
            return [Block(0, own.rows), Block(1, further, copy=True)]

    broken = Parting()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("datamarket_gym.testing.markets.check_written", lambda *_: None)
        patch.setattr(Parting, "label", "parting")
        with pytest.raises(
            ConformanceError, match=r"in a market without labels: .* would submit no units"
        ):
            validate_attack(broken)


def test_wrong_numbers_are_those_of_others_or_half_way_round():
    honest = NUMBERS.honest.submission
    noise = made(NUMBERS, "label_noise@1.0")
    assert len(noise) == 10
    assert np.isin(noise.label, honest.label).all()
    poisoned = made(NUMBERS, "label_poisoning")
    place = np.searchsorted(np.sort(honest.label), poisoned.label)
    before = np.searchsorted(np.sort(honest.label), honest.label[:10])
    assert ((place - before) % 40 == 20).all()
    claimed = attacked(NUMBERS, "link_claim")
    assert np.isin(claimed.label, honest.label).all()
    assert wrong(np.array([4, 1]), np.array([1, 2, 3, 4])).tolist() == [1, 2]  # integers are classes
    assert wrong(np.array([4.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])).tolist() == [2.0, 3.0]
    assert wrong(np.array(["b", "c"]), np.array(["a", "b", "c"])).tolist() == ["c", "a"]


def test_numbers_are_alike_by_size_and_classes_by_name():
    assert groups(np.array([0.1, 5.0, 0.2, 9.0, 4.0, 8.0, 1.5, 2.0])).tolist() == [
        0,
        2,
        0,
        3,
        2,
        3,
        1,
        1,
    ]
    assert groups(np.array([1, 7, 1, 3, 9, 11, 4])).tolist() == [0, 3, 0, 1, 4, 5, 2]
    assert groups(np.array([0.5, 1.0, 0.5])).tolist() == [0, 1, 0]
    assert groups(np.array(["", ""])).tolist() == [0, 0]


def test_laundered_units_mix_the_numbers_of_their_sources():
    honest = NUMBERS.honest.submission
    mixed = made(NUMBERS, "synthetic_laundering(ratio=3.0, how=mix)")
    assert len(mixed) == 30
    # The number is the first feature's tenfold: so it is of any mixture of two units.
    assert np.allclose(mixed.label, 10 * mixed.features[:, 0])
    assert not np.isin(mixed.label, honest.label).all()
    drawn = made(NUMBERS, "synthetic_laundering(ratio=3.0)")
    assert np.corrcoef(drawn.label, drawn.features[:, 0])[0, 1] > 0.8  # drawn part by part, by size
    copies = attacked(NUMBERS, "near_duplicate_2x_sybils")
    assert np.isin(copies.label, honest.label).all()
    junk = attacked(NUMBERS, "junk_padding@3.0")
    assert np.isin(junk.label, honest.label).all()


def test_without_labels_noise_is_that_of_all_own_units(market):
    """Gaussians are fitted to all own units, not to those of a class."""
    found = {m: attacked(m, "synthetic_laundering@200.0") for m in (BARE, market)}
    mine = BARE.honest.submission.features[:12]
    drawn = found[BARE].features[found[BARE].identity == "provider_0~1"]
    assert np.allclose(drawn.mean(axis=0), mine.mean(axis=0), atol=0.15)
    assert np.allclose(drawn.std(axis=0), mine.std(axis=0), atol=0.15)


def test_leaked_rows_are_labelled_as_the_units_are(market):
    """Labels may be on one side alone: what is submitted must fit the market's units."""
    of_rows = replace(BARE.state, leaked_label=market.state.leaked_label)
    assert not create("attack", "leak_stuffing").apply(0, of_rows).submission.labelled
    of_units = replace(market.state, leaked_label=BARE.state.leaked_label)
    for name in ("leak_stuffing", "outlier", "squat(knows=leak)"):
        found = create("attack", name).apply(0, of_units).submission
        assert np.isin(found.label, market.honest.submission.label).all()
        assert found.label.dtype == market.honest.submission.label.dtype
    stuffed = create("attack", "leak_stuffing(instead=True)").apply(0, of_units).submission
    stuffed = stuffed.take(stuffed.identity == "provider_0")
    mine = market.honest.submission.take(np.arange(12))
    near = ((stuffed.features[:, None] - mine.features) ** 2).sum(axis=2).argmin(axis=1)
    assert (stuffed.label == mine.label[near]).all()


def test_without_labels_what_is_near_a_leaked_row_is_rewarded_and_moved_to_it(market):
    one_sided = replace(market.state, leaked_label=BARE.state.leaked_label)
    kept = create("attack", "strategic_curation").apply(0, one_sided).submission
    assert kept.id.tolist() == attacked(BARE, "strategic_curation").id.tolist()
    assert kept.id.tolist() != attacked(market, "strategic_curation").id.tolist()
    leaked, honest = BARE.state.leaked_features, BARE.honest.submission
    moved = attacked(BARE, "shadow@1.0").take(np.arange(36, 48))

    def nearness(units):
        return np.exp(-((units[:, None] - leaked) ** 2).sum(axis=2) / 20).sum()

    assert nearness(moved.features) > 1.1 * nearness(honest.features[:12])
