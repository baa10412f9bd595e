"""Copies on the level of content: rewritten or augmented by rule, then embedded again by the encoder.

The attacker keeps its units and puts changed copies of a share of them into further identities, as in
near_duplicate_2x_sybils; what differs is that the change is made to the text or the image.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.errors import DataMarketError, require_choice, require_count, require_in
from datamarket_gym.core.registry import register
from datamarket_gym.world.attacks import augment, paraphrase
from datamarket_gym.world.attacks.attack import CONTENT, Attack, Block, Own
from datamarket_gym.world.attacks.labels import groups
from datamarket_gym.world.encoders.store import stored

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
    """What attacks on texts and images share: the dials, and the copies they make."""

    how: str
    strength: int
    fraction: float
    sybils: int
    needs_content: ClassVar[str]
    rules: ClassVar[Mapping[str, Any]]

    def __post_init__(self) -> None:
        require_choice("how", self.how, self.rules)
        require_count("strength", self.strength)
        require_in("strength", self.strength, 1, 3)
        require_in("fraction", self.fraction, 0.0, 1.0, open_low=True)
        require_count("sybils", self.sybils)

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
    """Copies half of its images, augmented by rule, into each of two further identities.

    ``how`` is a rule (flip, crop, colour, jpeg, blur, noise, rotate) or ``mixed``, several of them at
    once; ``strength`` is 1 (hardly visible), 2 or 3 (what a viewer would notice).
    """

    title = "altered images under new identities"

    how: str = "jpeg"
    strength: int = 1
    fraction: float = 0.5
    sybils: int = 2
    needs_content: ClassVar[str] = "image"
    rules: ClassVar[Mapping[str, Any]] = augment.RULES

    def changed(self, content: Any, others: Sequence[Any], rng: np.random.Generator) -> Any:
        """The image, augmented."""
        return augment.augmented(content, self.how, self.strength, rng)


@register("attack", "text_variants")
@dataclass(frozen=True)
class TextVariants(_ContentVariants):
    """Copies half of its texts, paraphrased by rule, into each of two further identities.

    ``how`` is a rule (synonyms, numbers, reorder, casing, typos, truncate, concat) or ``mixed``,
    several of them at once; ``strength`` is 1 (hardly visible), 2 or 3 (a reader would notice).
    """

    title = "paraphrased texts under new identities"

    how: str = "synonyms"
    strength: int = 1
    fraction: float = 0.5
    sybils: int = 2
    needs_content: ClassVar[str] = "text"
    rules: ClassVar[Mapping[str, Any]] = paraphrase.RULES

    def changed(self, content: Any, others: Sequence[Any], rng: np.random.Generator) -> Any:
        """The text, paraphrased."""
        return paraphrase.RULES[self.how](content, others, self.strength, rng)
