"""Several cheats at once, each with an attack of its own, alone or in a coalition that shares what it holds.

Every cheat acts on what everybody *holds*, as if all others were honest: nobody sees what the others make, and nobody
copies a copy. So the market of several cheats is the honest units of those who do not cheat, and of every cheat what
it would submit alone. The order in which cheats are listed decides nothing: they are put in the market's own order,
and a cheat's random numbers are keyed by its name. One cheat is `Attack.apply` to the bit.

A coalition acts as one owner of all that its members hold, under the name of the first of them (in the market's order)
and that one's pseudonyms; the others' names go. Whose each unit was stays in the truth.

Times are those that each cheat's units have alone. Copies of two cheats of one unit come at one moment, after the
original: they draw lots, as all units of equal time do. A made unit whose id another cheat uses too is renamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile
from datamarket_gym.data.submission import Submission, Text
from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError, ParameterError, require_in
from datamarket_gym.market.attacks.base import ATTACKS, Attack, apply_knowing
from datamarket_gym.market.market import MarketState


@dataclass(frozen=True)
class MultiAttackerGame(Shown):
    """Say who attacks and how: one provider, or several as a coalition.

    Parameters
    ----------
    providers
        The attackers, each by name or number.
    attack
        What they play together.
    knowledge
        The share of every other provider's units that they see.
    """

    providers: tuple[str | int, ...] | str | int
    attack: Attack | str
    knowledge: float = 1.0

    def __post_init__(self) -> None:
        require_in("knowledge", self.knowledge, 0.0, 1.0)

    def members(self, state: MarketState) -> tuple[str, ...]:
        """The names of who cheats, in the market's order; the first is the one that the cheat goes by."""
        return members_of(self.providers, state)


def members_of(providers: Sequence[str | int] | str | int, state: MarketState) -> tuple[str, ...]:
    """The names of one provider, or of a coalition, in the market's order."""
    listed = (providers,) if isinstance(providers, str | int | np.integer) else tuple(providers)
    names = [state.provider(provider) for provider in listed]
    if not names:
        raise ParameterError("providers", providers, "name at least one provider who cheats")
    if len(set(names)) < len(names):
        raise ParameterError("providers", providers, "name every member of a coalition once")
    return tuple(sorted(names, key=state.providers.index))


def as_owners(honest: SubmittedProfile, coalitions: Sequence[Sequence[str]]) -> SubmittedProfile:
    """The honest profile with all that a coalition's members hold as its first member's."""
    lead = {name: members[0] for members in coalitions for name in members}
    truth = honest.truth
    owner = np.array([lead.get(str(name), str(name)) for name in truth.owner])
    controller = {name: lead.get(who, who) for name, who in truth.controller.items()}
    return replace(honest, truth=GroundTruth(truth.id, owner, truth.source, controller))


def attacked_by(cheats: Sequence[MultiAttackerGame], state: MarketState) -> SubmittedProfile:
    """Make the profile of a market in which some attack and everybody else is honest.

    Parameters
    ----------
    cheats
        The attackers.
    state
        The market.

    Returns
    -------
    SubmittedProfile
        The profile; its ``attacker`` is named where there is one alone.
    """
    listed = sorted(
        ((cheat.members(state), cheat) for cheat in cheats),
        key=lambda one: state.providers.index(one[0][0]),
    )
    _require_apart([members for members, _ in listed])
    honest = state.honest.submission
    truth = state.honest.truth.aligned(honest)
    cheating = [name for members, _ in listed for name in members]
    others = np.flatnonzero(~np.isin(truth.owner, cheating))
    parts = [_alone(cheat, members, state) for members, cheat in listed]
    parts = _renamed(parts, honest.id)
    names = {k: v for k, v in truth.controller.items() if v not in cheating}
    for part in parts:
        if twice := names.keys() & part.truth.controller.keys():
            raise DataMarketError(
                f"{min(twice)!r} would be a name of two cheats; give providers names of which none is "
                "another's with a tilde after it"
            )
        names |= part.truth.controller
    submissions = [honest.take(others)] if len(others) else []
    submission = Submission.concat([*submissions, *(part.submission for part in parts)])
    joined = GroundTruth(
        submission.id,
        np.concatenate([truth.owner[others], *(part.truth.owner for part in parts)]),
        np.concatenate([truth.source[others], *(part.truth.source for part in parts)]),
        names,
    )
    if len(parts) == 1:
        return replace(parts[0], submission=submission, truth=joined)
    told = "; ".join(
        f"{part.attacker}: {part.attack}" if len(members) == 1 else f"{'+'.join(members)}: {part.attack}"
        for part, (members, _) in zip(parts, listed, strict=True)
    )
    return SubmittedProfile(submission, joined, None, told or "honest")


def _require_apart(coalitions: Sequence[Sequence[str]]) -> None:
    """Refuse a provider who cheats twice."""
    seen: set[str] = set()
    for members in coalitions:
        if twice := seen.intersection(members):
            raise DataMarketError(
                f"{min(twice)} is listed in two cheats; a provider cheats alone or in one coalition"
            )
        seen.update(members)


def _alone(cheat: MultiAttackerGame, members: tuple[str, ...], state: MarketState) -> SubmittedProfile:
    """What a cheat submits: its own part of the market in which nobody else cheats."""
    union = replace(state, honest=as_owners(state.honest, [members]))
    attack = ATTACKS.create(cheat.attack)
    profile = apply_knowing(attack, members[0], union, cheat.knowledge)
    submission = profile.submission
    mine = np.isin(submission.identity, profile.identities_of(members[0]))
    truth = profile.truth.aligned(submission)
    names = {str(name): members[0] for name in np.unique(submission.identity[mine])}
    held = dict(zip(state.honest.truth.id.tolist(), state.honest.truth.owner.tolist(), strict=True))
    owner = [
        held.get(source, who) if who == members[0] and held.get(source) in members else who
        for who, source in zip(truth.owner[mine].tolist(), truth.source[mine].tolist(), strict=True)
    ]
    own = GroundTruth(truth.id[mine], np.array(owner), truth.source[mine], names)
    return replace(profile, submission=submission.take(mine), truth=own)


def _renamed(parts: list[SubmittedProfile], honest: Text) -> list[SubmittedProfile]:
    """The parts with ids of their own: a made unit whose id two cheats use goes by its cheat's name, too."""
    ids = [part.submission.id for part in parts]
    found, counts = np.unique(np.concatenate([*ids, honest[:0]]), return_counts=True)
    shared = np.setdiff1d(found[counts > 1], honest)
    return [_with_ids(part, shared) for part in parts] if len(shared) else parts


def _with_ids(part: SubmittedProfile, shared: Text) -> SubmittedProfile:
    def told(column: Text) -> Text:
        return np.where(np.isin(column, shared), np.char.add(column, f"~{part.attacker}"), column)

    submission, truth = part.submission, part.truth
    changed = {"id": told(submission.id)}
    if submission.source is not None:
        changed["source"] = told(submission.source)
    own = GroundTruth(told(truth.id), truth.owner, told(truth.source), truth.controller)
    taken = submission.take(np.arange(len(submission)), changed)
    return replace(part, submission=taken, truth=own)
