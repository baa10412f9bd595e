"""What an attacker knows of the others' units: none, a share of each provider's, or all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from datamarket_gym.core.errors import require_in
from datamarket_gym.units.submission import Submission
from datamarket_gym.units.truth import GroundTruth, SubmittedProfile
from datamarket_gym.world.attacks.attack import Attack
from datamarket_gym.world.market import MarketState


def apply_knowing(
    attack: Attack, provider: str | int, state: MarketState, knowledge: float = 1.0
) -> SubmittedProfile:
    """The attack of a provider who sees its own units and this share of each other provider's.

    Units it does not see are in the market all the same.
    """
    require_in("knowledge", knowledge, 0.0, 1.0)
    name = state.provider(provider)
    if knowledge == 1.0:
        return attack.apply(name, state)
    honest, truth = state.honest.submission, state.honest.truth.aligned(state.honest.submission)
    seen = truth.owner == name
    for other in state.providers:
        theirs = np.flatnonzero(truth.owner == other)
        if other != name:
            shuffled = state.rng("known units", other).permutation(theirs)
            seen[shuffled[: round(knowledge * len(theirs))]] = True
    visible = SubmittedProfile(honest.take(np.flatnonzero(seen)), _of(truth, seen))
    profile = attack.apply(name, replace(state, honest=visible))
    hidden = honest.take(np.flatnonzero(~seen))
    if not len(hidden):
        return profile
    submission = Submission.concat([hidden, profile.submission])
    after, unseen = profile.truth.aligned(profile.submission), _of(truth, ~seen)
    joined = GroundTruth(
        submission.id,
        np.concatenate([unseen.owner, after.owner]),
        np.concatenate([unseen.source, after.source]),
        {**truth.controller, **after.controller},
    )
    return replace(profile, submission=submission, truth=joined)


def _of(truth: GroundTruth, rows: np.ndarray) -> GroundTruth:
    return GroundTruth(truth.id[rows], truth.owner[rows], truth.source[rows], truth.controller)
