"""Copies on the level of content: rewritten or augmented by rule, then embedded again by the encoder.

The attacker keeps its units and puts changed copies of a share of them into further identities, as in
near_duplicate_2x_sybils; what differs is that the change is made to the text or the image.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.parameters import OneOf, Range
from datamarket_gym.core.registry import register
from datamarket_gym.world.attacks import augment, paraphrase
from datamarket_gym.world.attacks.attack import CONTENT, Attack, Block, Identities, Own, Share
from datamarket_gym.world.attacks.labels import groups
from datamarket_gym.world.encoders.store import stored

Strength = Annotated[int, Range(1, 3), "strength; 1 is hardly noticed, 3 is plain to see"]

Change = Callable[[Any, Sequence[Any], np.random.Generator], Any]
"""A unit's content, the attacker's other content of the same label and a generator; the new content."""


def changed_copies(
    own: Own, kind: str, fraction: float, sybils: int, change: Change, purpose: str
) -> list[Block]:
    """Own units, and changed copies of a share of them under each of ``sybils`` further names."""
    content = content_of(own, kind, own.rows)
    count, code = max(1, round(fraction * len(own.rows))), groups(own.honest.label)
    copied = np.sort(own.rng("copied units").permutation(own.rows)[:count])
    rng = own.rng(purpose)
    blocks = [Block(0, own.rows)]
    for pseudonym in range(1, sybils + 1):
        new = np.empty(count, dtype=object)
        for i, row in enumerate(copied):
            alike = own.rows[(code[own.rows] == code[row]) & (own.rows != row)]
            new[i] = change(content[row], content[alike], rng)
        features = own.honest.features[copied].copy()
        differs = np.array([a != b for a, b in zip(new, content[copied], strict=True)])
        if differs.any():  # what came out unchanged is an exact copy, embedding included
            features[differs] = stored(own.state.encoder).encode(new[differs].tolist())
        blocks.append(Block(pseudonym, copied, features=features, content={kind: new}, copy=True))
    return blocks


def content_of(own: Own, kind: str, rows: NDArray[np.int64]) -> Any:
    """The market's column of raw content; an error where these units, or the market, cannot be changed."""
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
            f"this market names no encoder for {kind}, so changed content cannot be embedded again; "
            "set the dataset's encoder"
        )
    return column


class _ContentVariants(Attack):
    """Copies of texts or images, changed by a rule."""

    how: str
    strength: int
    fraction: float
    sybils: int
    needs_content: ClassVar[str]

    @property
    def label(self) -> str:
        """The kind of content, the rule and its strength, for example image_crop_2."""
        return f"{self.needs_content}_{self.how}_{self.strength}"

    @abstractmethod
    def changed(self, content: Any, others: Sequence[Any], rng: np.random.Generator) -> Any:
        """One unit's content, changed by the rule."""

    def blocks(self, own: Own) -> list[Block]:
        """Own units, and changed copies."""
        return changed_copies(
            own, self.needs_content, self.fraction, self.sybils, self.changed, self.label
        )


@register("attack", "image_variants")
@dataclass(frozen=True)
class ImageVariants(_ContentVariants):
    """Submit own images again, altered by rule, under each of some further identities."""

    title = "altered images under new identities"

    how: Annotated[str, OneOf(*augment.RULES), "rule"] = "jpeg"
    strength: Strength = 1
    fraction: Share = 0.5
    sybils: Identities = 2
    needs_content: ClassVar[str] = "image"

    def changed(self, content: Any, others: Sequence[Any], rng: np.random.Generator) -> Any:
        """The image, augmented."""
        return augment.augmented(content, self.how, self.strength, rng)


@register("attack", "text_variants")
@dataclass(frozen=True)
class TextVariants(_ContentVariants):
    """Submit own texts again, paraphrased by rule, under each of some further identities."""

    title = "paraphrased texts under new identities"

    how: Annotated[str, OneOf(*paraphrase.RULES), "rule"] = "synonyms"
    strength: Strength = 1
    fraction: Share = 0.5
    sybils: Identities = 2
    needs_content: ClassVar[str] = "text"

    def changed(self, content: Any, others: Sequence[Any], rng: np.random.Generator) -> Any:
        """The text, paraphrased."""
        return paraphrase.RULES[self.how](content, others, self.strength, rng)
