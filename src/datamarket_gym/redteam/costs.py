"""What an attack costs the attacker, in units of its honest payment (the paper's Remark on costs).

net gain = G - c_id (identities - 1) - c_d d, with d the perturbation: the sum over the attacker's
submitted units of the distance to the unit they derive from, in units of the market's spread, per
honest unit of the attacker. Content made from nothing (junk) has no distance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.errors import require_in
from datamarket_gym.market.market import MarketState
from datamarket_gym.units.truth import SubmittedProfile


@dataclass(frozen=True)
class AttackCosts:
    """Cost per further identity and per unit of perturbation, as shares of the honest payment."""

    identity: float = 0.0
    perturbation: float = 0.0

    def __post_init__(self) -> None:
        require_in("identity", self.identity, 0.0, np.inf)
        require_in("perturbation", self.perturbation, 0.0, np.inf)

    def of(self, effort: Effort) -> float:
        """The cost of an effort."""
        return self.identity * (effort.identities - 1) + self.perturbation * effort.perturbation


@dataclass(frozen=True)
class Effort:
    """How many identities an attack uses, and how far it moves content."""

    identities: int
    perturbation: float

    @classmethod
    def of(cls, profile: SubmittedProfile, state: MarketState) -> Effort:
        """The effort behind a manipulated profile."""
        provider = str(profile.attacker)
        names = profile.identities_of(provider)
        submission, honest = profile.submission, state.honest.submission
        mine = np.flatnonzero(np.isin(submission.identity, names))
        row = {str(name): i for i, name in enumerate(honest.id)}
        sources = profile.truth.aligned(submission).source[mine]
        origin = np.array([row.get(str(source), -1) for source in sources])
        known = origin >= 0
        gone = submission.features[mine[known]] - honest.features[origin[known]]
        total = float(np.linalg.norm(gone, axis=1).sum())
        scale = float(np.sqrt(honest.features.var(axis=0).sum())) or 1.0
        owned = int((state.honest.truth.owner == provider).sum())
        return cls(len(names), total / scale / owned)
