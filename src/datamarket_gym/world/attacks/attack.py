"""What an attack is: it replaces one provider's honest units by others, and carries the truth along."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.registry import Kind, name_of
from datamarket_gym.units.submission import Submission
from datamarket_gym.units.truth import GroundTruth, SubmittedProfile
from datamarket_gym.world.market import MarketState

CONTENT: Mapping[str, str | bytes] = {"text": "", "image": b""}
"""Metadata columns that hold raw content, and what stands there for none."""


@dataclass(frozen=True, eq=False)
class Block:
    """Units that the attacker submits under its pseudonym number ``pseudonym`` (0: its own name).

    ``rows`` are honest units (any provider's) from which the block derives, one per unit. Where
    ``features`` or ``label`` are given they replace the originals'. Copies come after originals.
    ``content`` replaces raw content; new features without it have none, so theirs is left blank.
    """

    pseudonym: int
    rows: NDArray[np.int64]
    features: Features | None = None
    label: NDArray[Any] | None = None
    content: Mapping[str, NDArray[Any]] | None = None
    copy: bool = False
    owner: str | None = None  # who owns generated content; None: the owner of the original
    derived: bool = True  # False: the content has no source unit but itself


@dataclass(frozen=True, eq=False)
class Own:
    """The attacker's view: the honest submission, which rows are its own, and a generator."""

    name: str
    honest: Submission
    owner: NDArray[np.str_]
    rows: NDArray[np.int64]
    state: MarketState

    def rng(self, purpose: str) -> np.random.Generator:
        """A generator for one purpose of this attacker."""
        return self.state.rng(purpose, self.name)


class Attack(ABC):
    """Plug point ``attack``: a frozen dataclass that says which blocks the attacker submits."""

    needs_content: ClassVar[str] = ""
    """The raw content it changes ("text" or "image"); most attacks need none."""

    @property
    def label(self) -> str:
        """The name that tables print."""
        return name_of(self)

    @abstractmethod
    def blocks(self, own: Own) -> list[Block]:
        """What the attacker submits instead of its honest units."""

    def apply(self, provider_id: str | int, market_state: MarketState) -> SubmittedProfile:
        """The profile after the provider's manipulation; everyone else stays honest."""
        honest, truth = market_state.honest.submission, market_state.honest.truth
        name = market_state.provider(provider_id)
        own = Own(name, honest, truth.owner, np.flatnonzero(truth.owner == name), market_state)
        others = np.flatnonzero(truth.owner != name)
        submissions = [honest.take(others)] if len(others) else []
        owners, sources = [truth.owner[others]], [truth.source[others]]
        controller = {k: v for k, v in truth.controller.items() if v != name}
        for block in self.blocks(own):
            if not len(block.rows):
                raise DataMarketError(
                    f"{self.label}: pseudonym {block.pseudonym} of {name} would submit no units; "
                    f"{name} has {len(own.rows)}, so use fewer identities or a larger fraction"
                )
            identity = name if block.pseudonym == 0 else f"{name}~{block.pseudonym}"
            controller[identity] = name
            submissions.append(_submit(honest, block, identity, len(submissions)))
            owners.append(
                truth.owner[block.rows] if block.owner is None else np.full(len(block.rows), block.owner)
            )
            sources.append(truth.source[block.rows] if block.derived else submissions[-1].id)
        submission = Submission.concat(submissions)
        attacked = GroundTruth(
            submission.id, np.concatenate(owners), np.concatenate(sources), controller
        )
        return SubmittedProfile(submission, attacked, name, self.label)


ATTACKS: Kind[Attack] = Kind("attack", Attack)


def _submit(honest: Submission, block: Block, identity: str, number: int) -> Submission:
    n = len(block.rows)
    changed: dict[str, NDArray[Any]] = {"identity": np.full(n, identity)}
    changed["batch"] = np.full(n, f"{identity}/{number if block.copy else 0}")
    if block.copy:
        # Copies follow the originals, in the originals' order, and get ids of their own.
        changed["id"] = np.array([f"{u}~{number}.{i}" for i, u in enumerate(honest.id[block.rows])])
        changed["time"] = honest.times[block.rows] + float(honest.times.max()) + 1.0
    if block.features is not None:
        changed["features"] = block.features
    if block.label is not None:
        changed["label"] = block.label
    taken = honest.take(block.rows, changed)
    return replace(taken, metadata={**taken.metadata, **_content(honest, block)})


def _content(honest: Submission, block: Block) -> Mapping[str, NDArray[Any]]:
    if block.content is not None:
        return block.content
    if block.features is None:
        return {}
    made = (block.features != honest.features[block.rows]).any(axis=1)
    blanked = {}
    for kind in CONTENT.keys() & honest.metadata.keys():
        column = honest.metadata[kind][block.rows].astype(object)
        column[made] = CONTENT[kind]
        blanked[kind] = column
    return blanked
