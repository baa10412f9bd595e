"""Attacks on images: copies augmented by rule and embedded again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from datamarket_gym.errors import require_choice, require_count, require_in
from datamarket_gym.market.attack import Attack, Block, Own
from datamarket_gym.market.augment import RULES, augmented
from datamarket_gym.market.content_copies import changed_copies
from datamarket_gym.registry import register


@register("attack", "image_variants")
@dataclass(frozen=True)
class ImageVariants(Attack):
    """Copies half of its images, augmented by rule, into each of two further identities.

    ``how`` is a rule (flip, crop, colour, jpeg, blur, noise, rotate) or ``mixed``, several of them at
    once; ``strength`` is 1 (hardly visible), 2 or 3 (what a viewer would notice).
    """

    how: str = "jpeg"
    strength: int = 1
    fraction: float = 0.5
    sybils: int = 2
    needs_content: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        require_choice("how", self.how, RULES)
        require_count("strength", self.strength)
        require_in("strength", self.strength, 1, 3)
        require_in("fraction", self.fraction, 0.0, 1.0, open_low=True)
        require_count("sybils", self.sybils)

    @property
    def label(self) -> str:
        """The rule and its strength, for example image_crop_2."""
        return f"image_{self.how}_{self.strength}"

    def blocks(self, own: Own) -> list[Block]:
        """Own images, and augmented copies."""
        return changed_copies(
            own,
            "image",
            self.fraction,
            self.sybils,
            lambda image, _, rng: augmented(image, self.how, self.strength, rng),
            self.label,
        )
