"""The attack library with its parameters scaled to a market, also to one made of a submission.

A submission is taken as the honest profile: each identity is a provider that owns what it submitted.
"""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import ParameterError
from datamarket_gym.execution.arrays import Codes, Features
from datamarket_gym.market.attacks.base import ATTACKS, apply_knowing
from datamarket_gym.market.market import MarketState
from datamarket_gym.registry import MISSING, components, parameters_of, written


def honest_profile(submission: Submission) -> SubmittedProfile:
    source = submission.id if submission.source is None else submission.source
    controller = {str(name): str(name) for name in submission.identities}
    return SubmittedProfile(
        submission, GroundTruth(submission.id, submission.identity, source, controller)
    )


def market_state(
    submission: Submission,
    validation_features: Features,
    validation_label: NDArray[Any],
    seed: int = 0,
    logged: bool = False,
    encoder: str = "",
) -> MarketState:
    """Make the state of a market that attackers act on, with a sample of the validation rows.

    Parameters
    ----------
    submission
        The units, taken as honest: each identity owns what it submitted.
    validation_features, validation_label
        The validation rows.
    seed, logged
        Seed of the sample and of the attacks, and whether times are those of the operator's intake log.
    encoder
        What makes the features of texts or images, for attacks that change these; blank where none does.

    Returns
    -------
    MarketState
    """
    profile = honest_profile(submission.plain())
    return MarketState.with_leak(
        profile, validation_features, validation_label, seed, logged=logged, encoder=encoder
    )


def feature_scale(state: MarketState) -> float:
    """Return the typical standard deviation of a feature over the honest units: the scale of attackers' noise."""
    return float(np.sqrt(state.honest.submission.features.var(axis=0).mean()))


def source_rows(profile: SubmittedProfile, state: MarketState) -> Codes:
    """Return the honest row from which each submitted unit derives; -1 where there is none."""
    row = {str(name): i for i, name in enumerate(state.honest.submission.id)}
    sources = profile.truth.aligned(profile.submission).source
    return np.array([row.get(str(source), -1) for source in sources])


def moved_embeddings(profile: SubmittedProfile, state: MarketState) -> SubmittedProfile:
    """Move embeddings as far as features, in standard deviations, where an attack changed features alone.

    The encoder is not known, so the direction is random: else similarity evidence would see through every disguise.
    """
    submission, honest = profile.submission, state.honest.submission
    if submission.embedding is None or honest.embedding is None:
        return profile
    origin = source_rows(profile, state)
    rows = np.flatnonzero(origin >= 0)
    rows = rows[(submission.embedding[rows] == honest.embedding[origin[rows]]).all(axis=1)]
    moved = np.zeros(len(submission))
    moved[rows] = np.linalg.norm(submission.features[rows] - honest.features[origin[rows]], axis=1)
    noise = keyed_generator(state.seed, "moved embeddings").normal(size=submission.embedding.shape)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    scale = [np.sqrt(columns.var(axis=0).sum()) for columns in (honest.features, honest.embedding)]
    step = moved * (scale[1] / scale[0] if scale[0] else 0.0)
    shifted = submission.embedding + step[:, None] * noise
    return replace(profile, submission=replace(submission, embedding=shifted))


def attacked_profile(
    attack: str, provider: str, state: MarketState, knowledge: float = 1.0
) -> SubmittedProfile:
    """Apply a written attack, and move the embeddings of what it changed."""
    profile = apply_knowing(attack, provider, state, knowledge)
    return replace(moved_embeddings(profile, state), attack=attack)


NOISE = (0.02, 0.1, 0.25, 0.5, 1.0)
"""Noise levels that are tried, in standard deviations of a feature."""


def attack_grid(state: MarketState, only: str | None = None) -> list[str]:
    """List every attack to try, with its parameters scaled to the market.

    Parameters
    ----------
    state
        The market.
    only
        Comma-separated patterns of names (``squat``) or written forms (``squat*knows=leak*``).

    Returns
    -------
    list of str
        The attacks as they are written.
    """
    scale = feature_scale(state)
    attacks: dict[str, None] = {}
    for name, component in components("attack").items():
        for parameters in vars(component).get("tried", ("",)):
            if not parameters and any(p.default is MISSING for p in parameters_of(component)):
                continue
            for noise in NOISE if "{noise}" in parameters else (0.0,):
                sizes = {"noise": noise, "little": NOISE[0], "half": 0.5}
                text = parameters.format(**{k: repr(round(v * scale, 6)) for k, v in sizes.items()})
                attack = written(ATTACKS.create(f"{name}({text})" if text else name))
                patterns = ["*"] if only is None else only.split(",")
                if any(fnmatch(name, p) or fnmatch(attack, p) for p in patterns):
                    attacks[attack] = None
    if not attacks:
        raise ParameterError("attacks", only, "no attack of the library matches; see: list attack")
    return list(attacks)


def family(attack: str) -> str:
    return attack.partition("(")[0].partition("@")[0]
