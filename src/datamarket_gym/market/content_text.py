"""Attacks on texts: copies paraphrased by rule and embedded again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from datamarket_gym.errors import require_choice, require_count, require_in
from datamarket_gym.market.attack import Attack, Block, Own
from datamarket_gym.market.content_copies import changed_copies
from datamarket_gym.market.paraphrase import RULES
from datamarket_gym.registry import register


@register("attack", "text_variants")
@dataclass(frozen=True)
class TextVariants(Attack):
    """Copies half of its texts, paraphrased by rule, into each of two further identities.

    ``how`` is a rule (synonyms, numbers, reorder, casing, typos, truncate, concat) or ``mixed``,
    several of them at once; ``strength`` is 1 (hardly visible), 2 or 3 (a reader would notice).
    """

    how: str = "synonyms"
    strength: int = 1
    fraction: float = 0.5
    sybils: int = 2
    needs_content: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        require_choice("how", self.how, RULES)
        require_count("strength", self.strength)
        require_in("strength", self.strength, 1, 3)
        require_in("fraction", self.fraction, 0.0, 1.0, open_low=True)
        require_count("sybils", self.sybils)

    @property
    def label(self) -> str:
        """The rule and its strength, for example text_typos_2."""
        return f"text_{self.how}_{self.strength}"

    def blocks(self, own: Own) -> list[Block]:
        """Own texts, and paraphrased copies."""
        rule = RULES[self.how]
        return changed_copies(
            own,
            "text",
            self.fraction,
            self.sybils,
            lambda text, others, rng: rule(text, others, self.strength, rng),
            self.label,
        )
