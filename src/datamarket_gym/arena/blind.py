"""Markets in which nothing but what is submitted tells who cheats.

Providers of a market are numbered, pseudonyms are written after the name they belong to and copies after the unit they
copy, and attackers' units come last. A mechanism that looked for that would need no evidence. So identities and units
are renamed by a keyed hash, rows are shuffled, and what a real market would not know (sources, accounts) is left out.
Times are places in the order of arrival, and what an attacker adds comes among the others' units (`_arrivals`).
In tasks every provider has as many units as the next, and there are always as many providers, so that whoever has
another number would be a cheat. Here both differ from draw to draw, within bounds that can be known (docs/enter.md).
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
from datamarket_gym.world.attacks.attack import squares
from datamarket_gym.world.market import MarketState, ProviderMarket

_LEAVE = 3  # up to one less so many providers of a task stay away
_LEAST = 0.4  # of its units, what a provider brings at least
_RHYTHM = 1.5  # the largest logarithm of a beta law's parameters


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
    honest = state.honest
    if honest.submission.time is not None:
        honest = replace(honest, submission=replace(honest.submission, time=_rhythms(honest, key)))
    return replace(state, honest=_renamed(honest, key, known=None), logged=True)


def _rhythms(honest: SubmittedProfile, key: int) -> Values:
    """Times at which providers come each in a rhythm of its own: some early, some late, some all along.

    Copies come late, since they come after their originals. Were everybody else's units spread evenly, whoever is late
    on average would be a cheat.
    """
    owner, rng = honest.truth.aligned(honest.submission).owner, keyed_generator(key, "rhythms")
    times = np.empty(len(owner))
    for name in sorted(set(owner.tolist())):
        early, late = np.exp(rng.uniform(-_RHYTHM, _RHYTHM, size=2))
        own = owner == name
        times[own] = rng.beta(early, late, size=int(own.sum()))
    return times


def blind_profile(profile: SubmittedProfile, honest: SubmittedProfile, key: int) -> SubmittedProfile:
    """An attacked profile of a blind market: new names and units are renamed, and all rows shuffled."""
    submission = profile.submission
    if submission.time is not None:
        submission = replace(submission, time=_arrivals(profile, honest, key))
    return _renamed(replace(profile, submission=submission), key, known=honest)


def _arrivals(profile: SubmittedProfile, honest: SubmittedProfile, key: int) -> Values:
    """Times of an attacked profile at which added units come among the others, none before its source.

    Attacks hand in what they add after everything else, or before, so that a mechanism could drop the end of the
    queue. Here an added unit comes at any moment after its source and after the other provider's unit that it
    is nearest to, whatever it says that its source is; before its source where the attack wants that, the source is the
    attacker's own and nothing of others is nearer.
    """
    submission, truth = profile.submission, profile.truth.aligned(profile.submission)
    before, owner = honest.submission, honest.truth.aligned(honest.submission).owner
    place = {unit: at for at, unit in enumerate(before.id.tolist())}
    added = [row for row, unit in enumerate(submission.id.tolist()) if unit not in place]
    times, moments = submission.times.copy(), keyed_generator(key, "arrivals").random(len(added))
    others = np.flatnonzero(owner != profile.attacker)
    apart = squares(submission.features[added], before.features)
    for number, (row, moment) in enumerate(zip(added, moments.tolist(), strict=True)):
        low, high = 0.0, 1.0
        source = place.get(str(truth.source[row]))
        near = others[apart[number, others].argmin()] if len(others) else None
        if source is not None:
            mine = owner[source] == profile.attacker
            closer = near is not None and apart[number, near] <= apart[number, source]
            if mine and not closer and submission.times[row] < before.times[source]:
                high, near = before.times[source], None
            else:
                low = before.times[source]
        if near is not None:
            low = max(low, before.times[near])
        times[row] = low + (high - low) * moment
    return times


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
