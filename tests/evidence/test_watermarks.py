"""Watermarks: what bears one is found after changes, what bears none never is, and a layer ties copies."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.conformance.promise import small_market
from datamarket_gym.core.errors import ParameterError, SubmissionError
from datamarket_gym.core.registry import create, written
from datamarket_gym.evidence import EvidenceGraph, mark_image, mark_in_image, mark_text, marks_in_text
from datamarket_gym.evidence.layers.watermark_image import IMAGE_NUMBERS
from datamarket_gym.evidence.layers.watermark_text import EVERY, TEXT_NUMBERS
from datamarket_gym.units.submission import Submission
from datamarket_gym.world.attacks import augment, paraphrase

Image = pytest.importorskip("PIL.Image")
KEY, OTHER = b"ours", b"theirs"
NEWS = (
    "Oil prices rose on Tuesday, after officials said that talks with the largest producers had failed; "
    "shares of airlines fell. Analysts expect more of the same next week, when new figures are due."
)


@given(st.text(min_size=1).filter(str.strip), st.integers(0, TEXT_NUMBERS - 1))
@settings(max_examples=200, deadline=None)
def test_any_text_can_bear_any_number_and_reads_as_before(text, number):
    marked = mark_text(text, KEY, number)
    assert number in marks_in_text(marked, KEY)
    seen = str.maketrans("", "", "\u200b\u200c\u200d\u2060")
    assert marked.translate(seen) == text.translate(seen)


@pytest.mark.parametrize(
    "change",
    [
        str.upper,
        str.title,
        lambda t: "  ".join(t.split()),
        lambda t: t.replace(" ", "\n"),
        lambda t: " ".join(t.split()[: EVERY + 1]),
        lambda t: " ".join(reversed(t.split())),
        lambda t: t + " " + NEWS,
    ],
)
def test_a_text_keeps_its_mark_under_changes(change):
    assert marks_in_text(change(mark_text(NEWS, KEY, 4711)), KEY) == {4711}


@pytest.mark.parametrize("how", sorted(paraphrase.RULES))
@pytest.mark.parametrize("strength", [1, 2, 3])
def test_a_text_keeps_its_mark_under_content_attacks(how, strength):
    rng = np.random.default_rng(0)
    marked = mark_text(NEWS, KEY, 99)
    changed = paraphrase.RULES[how](marked, [mark_text(NEWS, KEY, 7)], strength, rng)
    assert 99 in marks_in_text(changed, KEY)


def test_a_mark_is_nothing_without_the_secret_and_can_be_stripped():
    marked = mark_text(NEWS, KEY, 4711)
    assert marks_in_text(marked, OTHER) == set()
    assert marks_in_text(NEWS, KEY) == set()
    assert marks_in_text(marked.encode("ascii", "ignore").decode(), KEY) == set()  # it is what it is
    forged = sum(bool(marks_in_text(mark_text(NEWS, OTHER, n), KEY)) for n in range(2000))
    assert forged <= 2  # a frame passes by chance once in 65536


def test_numbers_out_of_range_and_empty_texts_are_refused():
    with pytest.raises(ParameterError, match="0 to 65535"):
        mark_text(NEWS, KEY, TEXT_NUMBERS)
    with pytest.raises(SubmissionError, match="without a word"):
        mark_text(" \n", KEY, 1)
    with pytest.raises(ParameterError, match="0 to 1023"):
        mark_image(picture(0), KEY, IMAGE_NUMBERS)


def picture(seed, side=96):
    """Something like a photograph: random phases under a spectrum that falls with frequency, in three channels."""
    rng = np.random.default_rng(seed)
    cycles = np.fft.fftfreq(side) * side
    radius = np.maximum(np.hypot(cycles[:, None], cycles[None, :]), 1.0)
    channels = []
    for _ in range(3):
        wave = np.fft.ifft2(np.fft.fft2(rng.normal(size=(side, side))) / radius**1.6).real
        channels.append(128 + 45 * wave / wave.std())
    pixels = np.clip(np.stack(channels, axis=-1), 0, 255).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def resized(image, share):
    opened = Image.open(io.BytesIO(image))
    out = io.BytesIO()
    opened.resize((round(opened.width * share), round(opened.height * share))).save(out, "PNG")
    return out.getvalue()


CHANGES = {
    "nothing": lambda image, rng: image,
    "jpeg": lambda image, rng: augment.augmented(image, "jpeg", 2, rng),
    "crop": lambda image, rng: augment.augmented(image, "crop", 1, rng),
    "colour": lambda image, rng: augment.augmented(image, "colour", 1, rng),
    "flip": lambda image, rng: augment.augmented(image, "flip", 1, rng),
    "upside down": lambda image, rng: augment.augmented(image, "flip", 2, rng),
    "noise": lambda image, rng: augment.augmented(image, "noise", 1, rng),
    "smaller": lambda image, rng: resized(image, 2 / 3),
    "larger": lambda image, rng: resized(image, 1.5),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_image_keeps_its_mark_under_changes(change):
    rng = np.random.default_rng(0)
    numbers = [3, 700, 1023]
    marked = [mark_image(picture(seed), KEY, number) for seed, number in enumerate(numbers)]
    assert [mark_in_image(CHANGES[change](image, rng), KEY) for image in marked] == numbers


def test_a_marked_image_looks_as_before_and_others_bear_nothing():
    original = picture(5)
    marked = mark_image(original, KEY, 12)
    before, after = (
        np.asarray(Image.open(io.BytesIO(image)), dtype=float) for image in (original, marked)
    )
    assert np.sqrt(((before - after) ** 2).mean()) < 12  # grey levels
    assert mark_in_image(marked, OTHER) is None
    assert [mark_in_image(picture(seed, side), KEY) for side in (32, 96) for seed in range(20)] == [
        None
    ] * 40


@pytest.mark.parametrize("kind", ["text", "image"])
def test_the_layer_ties_what_was_handed_out_to_its_copies_and_nothing_else(kind, monkeypatch):
    monkeypatch.setenv("OPERATOR", KEY.decode())
    rng = np.random.default_rng(1)
    if kind == "text":
        first, second = mark_text(NEWS, KEY, 1), mark_text(NEWS, KEY, 2)
        content = [first, first.upper(), second, NEWS, "", paraphrase.RULES["typos"](second, [], 2, rng)]
    else:
        first, second = mark_image(picture(1), KEY, 1), mark_image(picture(1), KEY, 2)
        content = [first, augment.augmented(first, "jpeg", 1, rng), second, picture(1), b"", second]
    column = np.empty(6, dtype=object)
    column[:] = content
    submission = Submission(
        id=list("uvwxyz"),
        identity=["a", "b", "a", "c", "c", "b"],
        features=np.eye(6),
        label=[0, 1, 0, 1, 0, 1],
        metadata={kind: column},
    )
    layer = create("evidence", f"watermark_{kind}(key=OPERATOR)")
    label = EvidenceGraph.build(submission, layer).label
    assert label[0] == label[1]
    assert label[2] == label[5]
    assert len(set(label.tolist())) == 4
    assert KEY.decode() not in written(layer)  # a spec names the variable, not the secret


def test_a_text_that_bears_every_mark_does_not_tie_the_units_of_others_together(monkeypatch):
    monkeypatch.setenv("DATAMARKET_WATERMARK_KEY", KEY.decode())
    texts = [mark_text(f"{NEWS} {number}", KEY, number) for number in range(6)]
    copied = " ".join(texts)  # whole: every frame that the thief has seen
    column = np.array([*texts, copied, f"{copied} {texts[3]}"])
    submission = Submission(
        id=list("abcdefgh"),
        identity=["a", "b"] * 3 + ["thief"] * 2,
        features=np.eye(8),
        label=[0, 1] * 4,
        metadata={"text": column},
    )
    label = EvidenceGraph.build(submission, "watermark_text").label
    assert len(set(label[:6].tolist())) == 6
    assert label[7] == label[3]  # the mark it bears most often


@pytest.mark.parametrize("size", [(1, 1), (200, 2)])
def test_an_image_that_cannot_bear_a_mark_is_refused(size):
    pixels = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    with pytest.raises(SubmissionError, match=f"{size[0]} x {size[1]} pixels"):
        mark_image(file.getvalue(), KEY, 77)


@pytest.mark.parametrize("kind", ["text", "image"])
def test_a_missing_secret_is_said(kind, monkeypatch):
    monkeypatch.delenv("DATAMARKET_WATERMARK_KEY")
    submission = small_market(kind).honest.submission
    with pytest.raises(ParameterError, match="DATAMARKET_WATERMARK_KEY"):
        EvidenceGraph.build(submission, f"watermark_{kind}")
