"""Markets in which nothing but what is submitted tells who cheats.

Providers of a market are numbered, pseudonyms are written after the name they belong to and copies after the unit they
copy, and attackers' units come last. A mechanism that looked for that would need no evidence. So identities and units
are renamed by a keyed hash, rows are shuffled, and what a real market would not know (sources, accounts) is left out.
Times are places in the order of arrival: honest units come within a second, and copies a second later.
Nor do numbers tell: in tasks every provider has as many units as the next, and there are always as many providers, so
that whoever has another number would be a cheat. Here both differ from draw to draw.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.units.submission import Text
from datamarket_gym.units.truth import GroundTruth, SubmittedProfile
from datamarket_gym.world.market import MarketState, ProviderMarket

_LEAVE = 3  # up to one less so many providers of a task stay away
_LEAST = 0.4  # of its units, what a provider brings at least


def uneven(market: ProviderMarket, key: int) -> ProviderMarket:
    """The market of some of its providers, each with some of its units."""
    rng = keyed_generator(key, "uneven")
    parts = market.provider_partition
    coming = np.sort(rng.permutation(len(parts))[int(rng.integers(_LEAVE)) :])
    brought = [
        parts[i][: max(2, round(float(rng.uniform(_LEAST, 1.0)) * len(parts[i])))]
        for i in coming.tolist()
    ]
    return ProviderMarket(
        market.dataset, brought, market.utility.learner, market.utility.empty,
        seed=market.seed, times=market.times,
    )  # fmt: skip


def blind_state(market: ProviderMarket, key: int) -> MarketState:
    """What attackers of a market can act on, under names that say nothing; its clock is the operator's own."""
    state = market.state
    return replace(state, honest=_renamed(state.honest, key, known=None), logged=True)


def blind_profile(profile: SubmittedProfile, honest: SubmittedProfile, key: int) -> SubmittedProfile:
    """An attacked profile of a blind market: new names and units are renamed, and all rows shuffled."""
    return _renamed(profile, key, known=honest)


def _renamed(profile: SubmittedProfile, key: int, known: SubmittedProfile | None) -> SubmittedProfile:
    submission, truth = profile.submission, profile.truth.aligned(profile.submission)
    names = set() if known is None else set(known.truth.controller)
    units = set() if known is None else set(known.submission.id.tolist())

    def of_names(column: NDArray[np.str_]) -> Text:
        return _column(column, names, f"{key}|name")

    def of_units(column: NDArray[np.str_]) -> Text:
        return _column(column, units, f"{key}|unit")

    rows = keyed_generator(key, "rows").permutation(len(submission))
    shown = replace(
        submission.take(rows),
        id=of_units(submission.id[rows]),
        identity=of_names(submission.identity[rows]),
        source=None,
        batch=None,
        time=_places(submission.time, rows),
        metadata={},
    )
    controller = {
        str(of_names(np.array([name]))[0]): str(of_names(np.array([who]))[0])
        for name, who in truth.controller.items()
    }
    held = GroundTruth(shown.id, of_names(truth.owner[rows]), of_units(truth.source[rows]), controller)
    attacker = None if profile.attacker is None else str(of_names(np.array([profile.attacker]))[0])
    return SubmittedProfile(shown, held, attacker, profile.attack)


def _places(time: Values | None, rows: NDArray[np.int64]) -> Values | None:
    """The order in which units came, from 0 to 1; what came at once has one place."""
    if time is None:
        return None
    distinct, place = np.unique(time[rows], return_inverse=True)
    return place / len(distinct)


def _column(values: NDArray[np.str_], kept: set[str], key: str) -> Text:
    """Each text under its keyed hash, but for those that are known already."""
    distinct, code = np.unique(values, return_inverse=True)
    new = [
        text if text in kept else hashlib.sha256(f"{key}|{text}".encode()).hexdigest()[:16]
        for text in distinct.tolist()
    ]
    return np.array(new)[code]
