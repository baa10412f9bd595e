"""False units made of other people's units, as a cheat would make them, and such that the evidence does not catch them.

Numbers: copies under noise, mixtures of two units of a label, copies under another label. Texts: paraphrases, the
first half of one with the second half of another, paraphrases under another label. Images: copies that were cropped,
turned and coloured a little, the same under another label. Units without labels are all alike: any two are mixed, and
there is no other label. Where labels are numbers, those of a size (a quarter of all) are alike, another label is the
number of a unit that is not, and mixtures keep the number of the first: one that nobody wrote would stand out. What
similarity evidence would tie to its original is thrown away, since it would not be paid and so never be drawn.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout.checks.contents import UnitContent, shows_images, unit_contents
from datamarket_gym.payout.checks.neighbours import Ranked, nearest_others
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.stages import Places
from datamarket_gym.payout.submitted import content_encoder, embed
from datamarket_gym.pipeline.threshold import compared
from datamarket_gym.world.attacks import augment, paraphrase
from datamarket_gym.world.attacks.labels import groups

COPY, MIXTURE, RELABELLED = "copy", "mixture", "relabelled"
_NOISE = (0.6, 1.0, 1.5, 2.0)  # standard deviations of a label's units, one round after the other
_ROUNDS = 4  # in which what is still missing is tried again
_DECIMALS = 4  # columns that are written with so few are written so in fakes, too


@dataclass(frozen=True)
class FalseUnit:
    """A false unit: how it was made, of which units, and what it holds."""

    how: str
    of: list[int]
    label: str
    features: Values
    vector: Values  # what similarity compares
    text: str | None = None
    image: bytes | None = None

    @property
    def encoded_image(self) -> str | None:
        """The image file in base64."""
        return None if self.image is None else base64.b64encode(self.image).decode()


def make_fakes(
    results: Results, places: Places, count: int, rng: np.random.Generator
) -> list[FalseUnit]:
    """So many false units, each kind about as often, in an order that says nothing."""
    workshop = _Workshop(results, places, rng)
    made: list[FalseUnit] = []
    kinds = workshop.kinds()
    for place, how in enumerate(kinds):  # what one kind cannot give is left to those that follow
        made += workshop.some(how, -(-(count - len(made)) // (len(kinds) - place)))
    for how in kinds * _ROUNDS:
        if len(made) < count:
            made += workshop.some(how, count - len(made))
    if len(made) < count:
        raise DataMarketError(
            f"only {len(made)} of {count} fakes could be made that the evidence (theta {results.threshold.theta:g}) "
            "does not catch; plant fewer, or none"
            if results.threshold.theta is not None
            else f"only {len(made)} of {count} fakes could be made of so few units; plant fewer, or none"
        )
    return [made[int(i)] for i in rng.permutation(len(made))]


class _Workshop:
    """The units that fakes are made of, and how."""

    def __init__(self, results: Results, places: Places, rng: np.random.Generator) -> None:
        self.results, self.places, self.rng = results, places, rng
        self.submission = results.inputs.submission
        self.utility = results.utility
        self.payee = results.payees.group[results.inputs.owner]
        self.label = groups(self.submission.label)
        self.images = shows_images(results, places)
        self.texts = "text" in self.submission.metadata
        columns, files = results.spec.columns, results.spec.files
        self.embeds = (self.images or self.texts) and columns.features is None and files.features is None

    def kinds(self) -> list[str]:
        """What can be made of these units."""
        several = len(np.unique(self.label)) > 1
        mixed = not self.images or self.texts
        return [COPY, *([MIXTURE] if mixed else []), *([RELABELLED] if several else [])]

    def some(self, how: str, wanted: int) -> list[FalseUnit]:
        """So many false units of a kind, or as many as can be made."""
        made: list[FalseUnit] = []
        for strength, noise in enumerate(_NOISE, 1):
            if len(made) < wanted:
                tried = self._tried(how, 2 * (wanted - len(made)), noise, min(strength, 3))
                made += self._passing(tried)[: wanted - len(made)]
        return made

    def _tried(self, how: str, count: int, noise: float, strength: int) -> list[FalseUnit]:
        first = self.rng.integers(len(self.submission), size=count)
        second = np.array([self._partner(int(row)) for row in first])
        contents = unit_contents(self.results, self.places, [*first.tolist(), *second.tolist()])
        changed = [
            self._content(how, contents[int(a)], contents[int(b)], strength)
            for a, b in zip(first, second, strict=True)
        ]
        features = self._features(how, first, second, noise, changed)
        embedding = self.submission.embedding
        vectors = (
            self.utility.compared(features)
            if embedding is None
            else self._numbers(embedding, how, first, second, noise)
        )
        return [
            FalseUnit(
                how,
                [int(first[i])] if how != MIXTURE else [int(first[i]), int(second[i])],
                self._label(how, int(first[i])),
                features[i],
                vectors[i],
                text if isinstance(text := changed[i], str) else None,
                image if isinstance(image := changed[i], bytes) else None,
            )
            for i in range(count)
            if how != MIXTURE or self.submission.keys[first[i]] != self.submission.keys[second[i]]
        ]

    def _partner(self, row: int) -> int:
        """Another unit of a label alike, of another payee where there is one; the unit itself if it is alone."""
        alike = np.flatnonzero(self.label == self.label[row])
        others = alike[self.payee[alike] != self.payee[row]]
        pool = others if len(others) else alike
        return int(pool[self.rng.integers(len(pool))])

    def _label(self, how: str, row: int) -> str:
        if how != RELABELLED:
            return str(self.submission.label[row])
        other = np.flatnonzero(self.label != self.label[row])
        return str(self.submission.label[other[self.rng.integers(len(other))]])

    def _content(self, how: str, a: UnitContent, b: UnitContent, strength: int) -> str | bytes | None:
        """The changed text or image; None where units are numbers."""
        if a.text is not None:
            if how == MIXTURE:
                return spliced(a.text, b.text or "")
            return paraphrase.RULES["mixed"](a.text, [b.text or ""], strength, self.rng)
        if a.image is not None:
            return augment.augmented(a.image, "mixed", strength, self.rng)
        return None

    def _features(
        self, how: str, first: Codes, second: Codes, noise: float, changed: Sequence[str | bytes | None]
    ) -> Features:
        if self.embeds:
            kind = "text" if self.texts else "image"
            return embed(
                list(changed),
                content_encoder(self.results.spec, kind),
                range(len(changed)),
                "planted unit",
            )
        return as_written(
            self._numbers(self.submission.features, how, first, second, noise), self.submission.features
        )

    def _numbers(
        self, matrix: Features, how: str, first: Codes, second: Codes, noise: float
    ) -> Features:
        """Rows mixed half and half, more or less, or under noise of so many standard deviations of their label."""
        if how == MIXTURE:
            part = self.rng.uniform(0.4, 0.6, (len(first), 1))
            mixed: Features = part * matrix[first] + (1 - part) * matrix[second]
            return mixed
        of_label = {
            c: matrix[self.label == c].std(axis=0) for c in np.unique(self.label[first]).tolist()
        }
        spread = np.array([of_label[int(self.label[row])] for row in first])
        spread[~spread.any(axis=1)] = matrix.std(axis=0)  # a label that one unit has
        noisy: Features = matrix[first] + noise * spread * self.rng.normal(size=spread.shape)
        return noisy

    def _passing(self, tried: Sequence[FalseUnit]) -> list[FalseUnit]:
        """Those that differ from what they were made of, and that evidence would not tie to a unit of the run."""
        different = [fake for fake in tried if self._differs(fake)]
        theta = self.results.threshold.theta
        if theta is None or not different:
            return different
        units = Ranked(
            compared(self.submission, self.utility)[0].vectors,
            np.zeros(len(self.submission), dtype=np.int64),
            self.payee,
        )
        made = Ranked(
            np.array([fake.vector for fake in different]),
            np.ones(len(different), dtype=np.int64),
            np.full(len(different), -1),
        )
        cosine = nearest_others(units, made, 1)[1][:, 0]
        return [fake for fake, near in zip(different, cosine, strict=True) if near < theta]

    def _differs(self, fake: FalseUnit) -> bool:
        if fake.how == RELABELLED:
            return True
        if self.texts and fake.text in {str(self.submission.metadata["text"][row]) for row in fake.of}:
            return False
        return not (self.submission.features[fake.of] == fake.features).all(axis=1).any()


def spliced(first: str, second: str) -> str:
    """The first half of one text and the second half of another, by words."""
    ours, theirs = first.split(), second.split()
    return " ".join([*ours[: (len(ours) + 1) // 2], *theirs[len(theirs) // 2 :]])


def as_written(made: Features, real: Features) -> Features:
    """Numbers within the range of each column, with no more decimals than it has: 3.1415 among counts stands out.

    What lies beyond is folded back: cut off, fakes would be those that hold a column's largest number.
    """
    low, wide = real.min(axis=0), np.ptp(real, axis=0)
    turn = np.where(wide > 0, 2 * wide, 1.0)
    out = np.clip(low + wide - np.abs((made - low) % turn - wide), low, low + wide)
    for decimals in range(_DECIMALS, -1, -1):
        short = (np.round(real, decimals) == real).all(axis=0)
        out[:, short] = np.round(out[:, short], decimals)
    return out
