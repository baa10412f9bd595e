"""The paper's attack library (copies under pseudonyms, pure splits, label noise), and rotated copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.execution.arrays import Features
from datamarket_gym.market.attacks.base import (
    ATTACKS,
    Attack,
    Block,
    Identities,
    Noise,
    Own,
    Share,
    Victim,
    add_noise,
    choose_share,
)
from datamarket_gym.market.market import MarketState
from datamarket_gym.registry import OneOf, Range, register


@register("attack", "honest")
@dataclass(frozen=True)
class Honest(Attack):
    """Submit the own units under one identity, and nothing else."""

    title = "no attack"
    tried = ()

    def blocks(self, own: Own) -> list[Block]:
        return [Block(0, own.rows)]


@register("attack", "exact_dup_2x_sybils")
@dataclass(frozen=True)
class ExactDuplicates(Attack):
    """Keep all own units, and submit copies of some of them under each of some further identities.

    At ``fraction=0`` there is nothing to copy: identities without units do not exist, so the provider
    is honest.
    """

    title = "exact copies under new identities"
    tried = ("fraction=0.5, sybils=2", "fraction=1.0, sybils=1", "fraction=1.0, sybils=4")

    fraction: Annotated[Share, Range(0, 1)] = 0.5
    sybils: Identities = 2

    def blocks(self, own: Own) -> list[Block]:
        return _copies(own, self.fraction, self.sybils, sigma=0.0)


@register("attack", "near_duplicate_2x_sybils")
@dataclass(frozen=True)
class NearDuplicates(Attack):
    """Keep all own units, and submit noisy copies of some of them under each of some further identities."""

    title = "near copies under new identities"
    tried = ("sigma={noise}, fraction=1.0, sybils=1", "sigma={noise}, fraction=1.0, sybils=3")

    sigma: Noise = 0.03
    fraction: Annotated[Share, Range(0, 1)] = 0.5
    sybils: Identities = 2

    def blocks(self, own: Own) -> list[Block]:
        return _copies(own, self.fraction, self.sybils, self.sigma)


@register("attack", "sybil_split_k")
@dataclass(frozen=True)
class SybilSplit(Attack):
    """Divide the own units among several identities, and add nothing."""

    title = "split over several identities"
    tried = ("k=2", "k=3", "k=5")

    k: Annotated[int, Range(1), "identities"] = 3
    how: Annotated[str, OneOf("round_robin", "block"), "how units are divided"] = "round_robin"

    @property
    def label(self) -> str:
        return f"sybil_split_{self.k}"

    def blocks(self, own: Own) -> list[Block]:
        if self.how == "round_robin":
            parts = [own.rows[j :: self.k] for j in range(self.k)]
        else:
            parts = np.array_split(own.rows, self.k)
        return [Block(j, part) for j, part in enumerate(parts)]


@register("attack", "label_noise")
@dataclass(frozen=True)
class LabelNoise(Attack):
    """Change some own labels to another class, or to another unit's number, at random."""

    title = "randomly wrong labels"

    needs_labels: ClassVar[bool] = True

    p: Annotated[float, Range(0, 1), "share of the labels that are wrong"] = 0.3

    def blocks(self, own: Own) -> list[Block]:
        rng = own.rng("label noise")
        label = own.honest.label[own.rows].copy()
        classes = np.unique(own.honest.label)
        flipped = rng.permutation(len(label))[: round(self.p * len(label))]
        codes = np.searchsorted(classes, label[flipped])
        shift = rng.integers(1, max(2, len(classes)), size=len(flipped))
        label[flipped] = classes[(codes + shift) % len(classes)]
        return [Block(0, own.rows, label=label)]


@register("attack", "provider_zero_attack")
@dataclass(frozen=True)
class ProviderZeroAttack(Attack):
    """Let provider 0 play the named attack, whichever provider is asked for: the paper's setting."""

    title = "attack by the first provider"
    tried = ()

    attack: Annotated[str, "which attack"] = "exact_dup_2x_sybils"

    def __post_init__(self) -> None:
        ATTACKS.create(self.attack)

    def beyond(self, label: NDArray[Any]) -> str:
        return ATTACKS.create(self.attack).beyond(label)

    def blocks(self, own: Own) -> list[Block]:
        return ATTACKS.create(self.attack).blocks(own)

    def apply(self, provider_id: str | int, market_state: MarketState) -> SubmittedProfile:
        return super().apply(0, market_state)


@register("attack", "turn")
@dataclass(frozen=True)
class Turn(Attack):
    """Copy others' units, each rotated at random to a given similarity with its original, and as long as that is.

    Added noise makes vectors longer, and so less useful to nearest neighbours; a rotated copy is as long as the units
    around it. Knows their units, guesses theta, and may write vectors of its own.
    """

    title = "rotated copies"
    tried = ("cosine=0.9", "cosine=0.8", "cosine=0.7", "cosine=0.6", "cosine=0.6, fraction=0.05")

    cosine: Annotated[float, Range(-1, 1), "cosine similarity of a copy with its original"] = 0.8
    victim: Victim = "all"
    fraction: Share = 1.0

    def blocks(self, own: Own) -> list[Block]:
        rows = choose_share(own.rows_of(self.victim), self.fraction, own.rng("turn"))
        vectors = own.honest.features[rows]
        aside = own.rng("turning").normal(size=vectors.shape)
        made = rotated(vectors, aside, self.cosine)
        return [Block(0, own.rows), Block(0, rows, features=made, copy=True)]


def rotated(vectors: Features, aside: Features, cosine: float) -> Features:
    """Rotate vectors towards ``aside``, to a cosine with themselves and without a change of length."""
    least = np.finfo(float).tiny
    squared = np.maximum((vectors**2).sum(axis=1, keepdims=True), least)
    aside = aside - vectors * ((aside * vectors).sum(axis=1, keepdims=True) / squared)
    aside *= np.sqrt(squared / np.maximum((aside**2).sum(axis=1, keepdims=True), least))
    made: Features = cosine * vectors + np.sqrt(1 - cosine**2) * aside
    return made


def _copies(own: Own, fraction: float, sybils: int, sigma: float) -> list[Block]:
    if not fraction:
        return [Block(0, own.rows)]
    copied = choose_share(own.rows, fraction, own.rng("copied units"))
    noise = own.rng("copy noise")
    blocks = [Block(0, own.rows)]
    for pseudonym in range(1, sybils + 1):
        features = add_noise(own.honest.features[copied], sigma, noise)
        blocks.append(Block(pseudonym, copied, features=features, copy=True))
    return blocks
