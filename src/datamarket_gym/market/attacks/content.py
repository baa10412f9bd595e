"""Copies whose text or image is changed by rule, at three strengths, then embedded again by the encoder.

No language model: all it takes is a list of words. Every rule gives a text that is not empty. Sizes of image
changes are relative to the image's. All is deterministic given the generator.
"""

from __future__ import annotations

import io
import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import DataMarketError
from datamarket_gym.market.attacks.base import (
    CONTENT,
    Attack,
    Block,
    Identities,
    Own,
    Share,
    choose_share,
    groups,
)
from datamarket_gym.market.encoders.base import open_image, stored, to_bytes
from datamarket_gym.registry import OneOf, Range, register

_PAIRS = """
said stated, says states, big large, small little, good fine, great excellent, bad poor,
terrible awful, movie film, movies films, actor performer, actors performers, story tale,
plot storyline, scene sequence, scenes sequences, character figure, characters figures,
director filmmaker, funny amusing, boring dull, interesting engaging, beautiful lovely,
ugly hideous, scary frightening, sad gloomy, happy glad, show program, shows programs,
watch view, watched viewed, watching viewing, see observe, seen observed, think believe,
thought believed, know understand, make create, made created, making creating, get obtain,
got obtained, give offer, gave offered, take grab, took grabbed, start begin, started began,
end finish, ended finished, help assist, helped assisted, use employ, used employed,
using employing, want desire, wanted desired, need require, needed required, buy purchase,
bought purchased, sell vend, company firm, companies firms, profit gain, profits gains,
sales revenues, shares stocks, price cost, prices costs, rise increase, rose increased,
rising increasing, fall drop, fell dropped, falling dropping, report account, reported announced,
announce declare, announced declared, plan scheme, plans schemes, deal agreement,
deals agreements, talks negotiations, government administration, president leader,
minister secretary, official authority, officials authorities, police officers, killed slain,
attack assault, attacks assaults, war conflict, soldiers troops, troops soldiers, country nation,
countries nations, city town, world globe, people persons, man guy, woman lady, child kid,
children kids, game match, games matches, win victory, won triumphed, beat defeated,
lost dropped, team squad, teams squads, player athlete, players athletes, season campaign,
coach trainer, league division, goal target, computer machine, computers machines,
software program, internet web, online web, users customers, user customer, security safety,
search hunt, phone handset, phones handsets, research study, scientists researchers,
space cosmos, new fresh, old aged, first initial, last final, early initial, late tardy,
next following, many numerous, several various, few scant, more additional, most nearly,
very quite, really truly, also too, however though, because since, almost nearly, about around,
after following, before prior, between among, during throughout, against versus, may might,
could might, should must, quickly rapidly, slowly gradually, major significant, top leading,
strong sturdy, weak feeble, high elevated, low reduced, fast quick, hard tough, easy simple,
whole entire, part portion, kind sort, way manner, thing item, things items, place spot,
home house, job work, money cash, problem issue, problems issues, chance opportunity,
idea notion, reason cause, result outcome, results outcomes, number figure, group bunch,
member participant, members participants, friend pal, friends pals, wife spouse, husband spouse,
father dad, mother mom, boy lad, girl lass, life existence, death demise, love adore,
loved adored, hate despise, hated despised, enjoy like, enjoyed liked
"""

SYNONYMS: dict[str, str] = {
    pair.split()[0]: pair.split()[1] for pair in " ".join(_PAIRS.split()).split(",")
}
"""A word in lower case and what it is swapped for."""


TextRule = Callable[[str, Sequence[str], int, np.random.Generator], str]

_WORD = re.compile(r"[A-Za-z]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")


def synonyms(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Swap a third, two thirds or all of the words that have a synonym in the list."""

    def swap(match: re.Match[str]) -> str:
        word = match.group()
        other = SYNONYMS.get(word.lower())
        if other is None or rng.uniform() >= strength / 3:
            return word
        return other.capitalize() if word[0].isupper() else other

    return _WORD.sub(swap, text)


def numbers(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Change a third, two thirds or all of the numbers by up to a tenth."""

    def shift(match: re.Match[str]) -> str:
        written = match.group()
        if rng.uniform() >= strength / 3:
            return written
        digits = written.replace(",", "").replace(".", "")
        value = int(digits) + int(rng.integers(1, max(2, int(digits) // 10 + 1)))
        return str(value) if digits == written else written[:-1] + str(value % 10)

    return _NUMBER.sub(shift, text)


def reorder(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Swap two neighbouring sentences, shuffle all of them, or shuffle clauses too."""
    cut = _SENTENCE if strength < 3 else re.compile(r"(?<=[.!?;,])\s+")
    parts = cut.split(text)
    if len(parts) < 2:
        parts = re.split(r"(?<=,)\s+", text)  # a single sentence: its clauses
    if strength == 1 and len(parts) > 1:
        at = int(rng.integers(len(parts) - 1))
        parts[at], parts[at + 1] = parts[at + 1], parts[at]
    else:
        parts = [parts[i] for i in rng.permutation(len(parts))]
    return " ".join(parts)


def casing(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Change the text to lower case, capitalised words, or upper case."""
    return (text.lower(), text.title(), text.upper())[strength - 1]


def typos(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Swap two letters, or drop one, in 5, 15 or 30 percent of the longer words."""
    share = (0.05, 0.15, 0.30)[strength - 1]

    def slip(match: re.Match[str]) -> str:
        word = match.group()
        if len(word) < 4 or rng.uniform() >= share:
            return word
        at = int(rng.integers(1, len(word) - 2))
        if rng.uniform() < 0.5:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        return word[:at] + word[at + 1 :]

    return _WORD.sub(slip, text)


def truncate(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Keep the first 80, 50 or 25 percent of the words."""
    words = text.split()
    return " ".join(words[: max(1, round((0.8, 0.5, 0.25)[strength - 1] * len(words)))])


def concat(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Append a quarter, a half or the whole of another own text of the same label."""
    if not len(others):
        return text
    words = str(others[int(rng.integers(len(others)))]).split()
    return f"{text} {' '.join(words[: max(1, round((0.25, 0.5, 1.0)[strength - 1] * len(words)))])}"


def mix_text_rules(text: str, others: Sequence[str], strength: int, rng: np.random.Generator) -> str:
    """Apply synonyms, numbers, order, typos and truncation, each at this strength."""
    for rule in (synonyms, numbers, reorder, typos, truncate):
        text = rule(text, others, strength, rng)
    return text


TEXT_RULES: dict[str, TextRule] = {
    **{f.__name__: f for f in (synonyms, numbers, reorder, casing, typos, truncate, concat)},
    "mixed": mix_text_rules,
}
"""All rules by name."""

ImageRule = Callable[[Any, int, np.random.Generator], Any]


def augmented(image: bytes, how: str, strength: int, rng: np.random.Generator) -> bytes:
    """An image file with one rule applied, as a PNG file."""
    return to_bytes(IMAGE_RULES[how](open_image(image), strength, rng))


def flip(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Mirror left to right, top to bottom, or both."""
    from PIL import ImageOps

    mirrored = ImageOps.flip(image) if strength == 2 else ImageOps.mirror(image)
    return ImageOps.flip(mirrored) if strength == 3 else mirrored


def crop(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Keep a random window of 90, 75 or 50 percent of each side, scaled back up."""
    keep = (0.9, 0.75, 0.5)[strength - 1]
    width, height = round(keep * image.width), round(keep * image.height)
    left = int(rng.integers(image.width - width + 1))
    top = int(rng.integers(image.height - height + 1))
    return _back(image.crop((left, top, left + width, top + height)), image)


def colour(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Change brightness, contrast and saturation, each up or down by 10, 30 or 60 percent."""
    from PIL import ImageEnhance

    for change in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        factor = 1 + (0.1, 0.3, 0.6)[strength - 1] * (1 if rng.uniform() < 0.5 else -1)
        image = change(image).enhance(factor)
    return image


def jpeg(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Compress as JPEG of quality 75, 40 or 10."""
    out = io.BytesIO()
    image.save(out, format="JPEG", quality=(75, 40, 10)[strength - 1])
    return open_image(out.getvalue())


def blur(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Apply a Gaussian blur of radius 2, 4 or 8 percent of the width."""
    from PIL import ImageFilter

    return image.filter(ImageFilter.GaussianBlur((0.02, 0.04, 0.08)[strength - 1] * image.width))


def noise(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Add Gaussian noise of 5, 15 or 40 grey levels to every pixel."""
    from PIL import Image

    pixels = np.asarray(image, dtype=np.float64)
    noisy = pixels + rng.normal(scale=(5, 15, 40)[strength - 1], size=pixels.shape)
    return Image.fromarray(np.clip(np.round(noisy), 0, 255).astype(np.uint8))


def rotate(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Rotate by 3, 8 or 20 degrees and cut the corners away."""
    from PIL import Image

    angle = (3, 8, 20)[strength - 1] * (1 if rng.uniform() < 0.5 else -1)
    turned = image.rotate(angle, resample=Image.Resampling.BILINEAR)
    radians = np.deg2rad(abs(angle))
    keep = 1 / (np.cos(radians) + np.sin(radians))  # the square that fits into the turned square
    x, y = (1 - keep) / 2 * image.width, (1 - keep) / 2 * image.height
    return _back(
        turned.crop((round(x), round(y), round(image.width - x), round(image.height - y))), image
    )


def mix_image_rules(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Apply crop, colour, rotation, noise and JPEG, each at this strength."""
    for rule in (crop, colour, rotate, noise, jpeg):
        image = rule(image, strength, rng)
    return image


def _back(part: Any, image: Any) -> Any:
    from PIL import Image

    return part.resize(image.size, Image.Resampling.BICUBIC)


IMAGE_RULES: dict[str, ImageRule] = {
    **{rule.__name__: rule for rule in (flip, crop, colour, jpeg, blur, noise, rotate)},
    "mixed": mix_image_rules,
}
"""All rules by name."""


def content_of(own: Own, kind: str, rows: NDArray[np.int64]) -> Any:
    """Return the market's column of raw content; raise where the content of these units cannot be changed."""
    if kind not in own.honest.metadata:
        raise DataMarketError(
            f"this market's units carry no {kind}, so there is nothing to change; use a task with "
            "content, such as agnews(content=True) for texts or cifar10(content=True) for images"
        )
    column = own.honest.metadata[kind]
    blank = np.array([column[row] == CONTENT[kind] for row in rows])
    if blank.any():
        which = rows[blank][0]
        raise DataMarketError(f"unit {own.honest.id[which]!r} of {own.owner[which]} has no {kind}")
    if not own.state.encoder or stored(own.state.encoder).kind != kind:
        raise DataMarketError(
            f"the features of these units are not made of their {kind}s by an encoder, so those of a changed {kind} "
            "are not known"
        )
    return column


@dataclass(frozen=True)
class _ContentVariants(Attack):
    """Submit own texts or images again, changed by a rule."""

    how: str = ""
    strength: Annotated[int, Range(1, 3), "strength; 1 is hardly noticed, 3 is plain to see"] = 1
    fraction: Share = 0.5
    sybils: Identities = 2

    @property
    def label(self) -> str:
        return f"{self.needs_content}_{self.how}_{self.strength}"

    @abstractmethod
    def changed(self, content: Any, others: Sequence[Any], rng: np.random.Generator) -> Any:
        """Return the changed content of one unit, given the attacker's other content of its label."""

    def blocks(self, own: Own) -> list[Block]:
        kind, code = self.needs_content, groups(own.honest.label)
        content = content_of(own, kind, own.rows)
        copied = choose_share(own.rows, self.fraction, own.rng("copied units"))
        rng = own.rng(self.label)
        blocks = [Block(0, own.rows)]
        for pseudonym in range(1, self.sybils + 1):
            new = np.empty(len(copied), dtype=object)
            for i, row in enumerate(copied):
                others = own.rows[(code[own.rows] == code[row]) & (own.rows != row)]
                new[i] = self.changed(content[row], content[others], rng)
            features = own.honest.features[copied].copy()
            differs = np.array([a != b for a, b in zip(new, content[copied], strict=True)])
            if differs.any():  # what came out unchanged is an exact copy, embedding included
                features[differs] = stored(own.state.encoder).encode(new[differs].tolist())
            blocks.append(Block(pseudonym, copied, features=features, content={kind: new}, copy=True))
        return blocks


@register("attack", "image_variants")
@dataclass(frozen=True)
class ImageVariants(_ContentVariants):
    """Submit own images again, altered by rule, under each of some further identities."""

    title = "altered images under new identities"

    how: Annotated[str, OneOf(*IMAGE_RULES), "rule"] = "jpeg"
    needs_content: ClassVar[str] = "image"

    def changed(self, content: Any, others: Sequence[Any], rng: np.random.Generator) -> Any:
        return augmented(content, self.how, self.strength, rng)


@register("attack", "text_variants")
@dataclass(frozen=True)
class TextVariants(_ContentVariants):
    """Submit own texts again, paraphrased by rule, under each of some further identities."""

    title = "paraphrased texts under new identities"

    how: Annotated[str, OneOf(*TEXT_RULES), "rule"] = "synonyms"
    needs_content: ClassVar[str] = "text"

    def changed(self, content: Any, others: Sequence[Any], rng: np.random.Generator) -> Any:
        return TEXT_RULES[self.how](content, others, self.strength, rng)
