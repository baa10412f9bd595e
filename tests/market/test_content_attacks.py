"""Attacks on content: paraphrases, augmentations, and what becomes of them."""

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.market.attacks import content as augment
from datamarket_gym.market.attacks import content as paraphrase
from datamarket_gym.market.attacks.content import SYNONYMS
from datamarket_gym.market.encoders.base import open_image
from datamarket_gym.registry import create
from datamarket_gym.testing.base import small_market

TEXT = (
    "The company said its profits rose 12 percent. Officials announced a new plan, but several people "
    "think the 3,500 jobs will help. The movie was a great story!"
)


def rng():
    return np.random.default_rng(5)


@pytest.mark.parametrize("how", sorted(paraphrase.TEXT_RULES))
def test_paraphrases_change_more_with_strength_and_are_never_empty(how):
    rule = paraphrase.TEXT_RULES[how]
    others = ["Another text of the same label, with some more words in it."]
    kept = []
    for strength in (1, 2, 3):
        new = rule(TEXT, others, strength, rng())
        assert new == rule(TEXT, others, strength, rng())
        assert new.strip()
        old, now = TEXT.lower().split(), new.lower().split()
        kept.append(len(set(old) & set(now)) / len(set(old) | set(now)))
        assert rule("Word", [], strength, rng()).strip()
    assert kept[2] <= kept[0]
    assert rule(TEXT, others, 3, rng()) != TEXT


def test_rules_do_what_they_say():
    assert paraphrase.casing(TEXT, [], 3, rng()) == TEXT.upper()
    assert len(paraphrase.truncate(TEXT, [], 2, rng()).split()) == round(len(TEXT.split()) / 2)
    assert sorted(paraphrase.reorder(TEXT, [], 3, rng()).split()) == sorted(TEXT.split())
    changed = paraphrase.numbers(TEXT, [], 3, rng())
    assert "12 percent" not in changed
    assert "3,500" not in changed
    assert "firm" in paraphrase.synonyms(TEXT, [], 3, rng())
    assert all(a != b for a, b in SYNONYMS.items())


@pytest.mark.parametrize("how", sorted(augment.IMAGE_RULES))
def test_augmentations_keep_the_size_and_change_more_with_strength(how):
    image = small_market("image").honest.submission.metadata["image"][0]
    before = np.asarray(open_image(image), dtype=float)
    gaps = []
    for strength in (1, 2, 3):
        new = augment.augmented(image, how, strength, rng())
        assert new == augment.augmented(image, how, strength, rng())
        after = np.asarray(open_image(new), dtype=float)
        assert after.shape == before.shape
        gaps.append(np.abs(after - before).mean())
    assert gaps[0] > 0
    if how not in ("flip", "crop", "mixed"):  # a random window may happen to lie anywhere
        assert gaps[0] < gaps[1] < gaps[2]


@pytest.mark.parametrize(
    ("kind", "attack"),
    [
        ("text", "text_variants(how=typos, strength=3)"),
        ("image", "image_variants(how=crop, strength=2)"),
    ],
)
def test_copies_are_embedded_again(kind, attack):
    market = small_market(kind)
    profile = create("attack", attack).apply(1, market.state)
    submission = profile.submission
    copies = np.flatnonzero(submission.time >= 1)
    assert len(copies) == 10
    assert len(profile.identities_of("provider_1")) == 3
    encoder = create("encoder", market.dataset.encoder)
    again = encoder.encode(submission.metadata[kind][copies].tolist())
    assert np.allclose(submission.features[copies], again, atol=1e-3)
    row = {unit: i for i, unit in enumerate(submission.id.tolist())}
    source = [row[unit] for unit in profile.truth.source[copies].tolist()]
    assert (submission.metadata[kind][copies] != submission.metadata[kind][source]).any()
    assert (submission.label[copies] == submission.label[source]).all()


def test_content_that_comes_out_unchanged_is_an_exact_copy():
    market = small_market("text")
    lower = market.honest.submission.metadata["text"].copy()
    profile = create("attack", "text_variants(how=numbers, strength=1)").apply(0, market.state)
    submission = profile.submission
    same = [t in set(lower.tolist()) for t in submission.metadata["text"].tolist()]
    copies = (submission.time >= 1) & np.array(same)
    honest_keys = set(market.honest.submission.keys.tolist())
    assert all(key in honest_keys for key in submission.keys[copies].tolist())


def test_markets_without_content_or_encoder(market):
    for attack, kind in (("text_variants", "text"), ("image_variants", "image")):
        with pytest.raises(DataMarketError, match=f"units carry no {kind}"):
            create("attack", attack).apply(0, market.state)
    with pytest.raises(DataMarketError, match="units carry no image"):
        create("attack", "image_variants").apply(0, small_market("text").state)
    for bad in ("text_variants(strength=4)", "text_variants@rot13", "image_variants(strength=1.5)"):
        with pytest.raises(ParameterError):
            create("attack", bad)
