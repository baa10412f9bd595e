"""Several attackers at once, each with an attack of its own, alone or in a coalition that shares what it owns.

Every attacker acts on the honest market, as if all others were honest: no copy is copied. So the market of several
attackers is the honest units of the others, and of every attacker what it would submit alone. The order in which
attackers are listed decides nothing, and an attacker's random numbers are keyed by its name.

A coalition acts as one owner of all that its members own, under the name and pseudonyms of the first of them in the
market's order. Whose each unit was stays in the truth. Copies of two attackers of one unit come at one moment, after
the original. A made unit whose id another attacker uses too is renamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile
from datamarket_gym.data.submission import Text
from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError, ParameterError, require_in
from datamarket_gym.market.attacks.base import Attack, apply_knowing, join_profiles, take_rows
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


def members_of(providers: Sequence[str | int] | str | int, state: MarketState) -> tuple[str, ...]:
    """Return the names of one provider, or of a coalition, in the market's order."""
    listed = (providers,) if isinstance(providers, str | int | np.integer) else tuple(providers)
    names = [state.provider(provider) for provider in listed]
    if not names:
        raise ParameterError("providers", providers, "name at least one provider who attacks")
    if len(set(names)) < len(names):
        raise ParameterError("providers", providers, "name every member of a coalition once")
    return tuple(sorted(names, key=state.providers.index))


def as_owners(honest: SubmittedProfile, coalitions: Sequence[Sequence[str]]) -> SubmittedProfile:
    """Return the honest profile with all that a coalition's members own as its first member's."""
    lead = {name: members[0] for members in coalitions for name in members}
    truth = honest.truth
    owner = np.array([lead.get(str(name), str(name)) for name in truth.owner])
    controller = {name: lead.get(who, who) for name, who in truth.controller.items()}
    return replace(honest, truth=GroundTruth(truth.id, owner, truth.source, controller))


def attacked_by(attackers: Sequence[MultiAttackerGame], state: MarketState) -> SubmittedProfile:
    """Make the profile of a market in which some attack and all others are honest.

    Parameters
    ----------
    attackers
        The attackers.
    state
        The market.

    Returns
    -------
    SubmittedProfile
        The profile; its ``attacker`` is named where there is one alone.
    """
    listed = sorted(
        ((members_of(attacker.providers, state), attacker) for attacker in attackers),
        key=lambda one: state.providers.index(one[0][0]),
    )
    attacking = [name for members, _ in listed for name in members]
    if twice := sorted(name for name in set(attacking) if attacking.count(name) > 1):
        raise DataMarketError(
            f"{twice[0]} is listed in two attackers; a provider attacks alone or in one coalition"
        )
    honest = state.honest.submission
    truth = state.honest.truth.aligned(honest)
    parts = _renamed([_alone(attacker, members, state) for members, attacker in listed], honest.id)
    names = {k: v for k, v in truth.controller.items() if v not in attacking}
    for part in parts:
        if twice := sorted(names.keys() & part.truth.controller.keys()):
            raise DataMarketError(
                f"{twice[0]!r} would be a name of two attackers; give providers names of which none is "
                "another's with a tilde after it"
            )
        names |= part.truth.controller
    others = replace(truth, controller=names)
    joined = join_profiles([*take_rows(honest, others, ~np.isin(truth.owner, attacking)), *parts])
    if len(parts) == 1:
        return replace(joined, attacker=parts[0].attacker, attack=parts[0].attack)
    attacks = (
        f"{'+'.join(members)}: {part.attack}" for part, (members, _) in zip(parts, listed, strict=True)
    )
    return replace(joined, attack="; ".join(attacks) or "honest")


def _alone(
    attacker: MultiAttackerGame, members: tuple[str, ...], state: MarketState
) -> SubmittedProfile:
    """Return what an attacker submits in the market in which all others are honest."""
    union = replace(state, honest=as_owners(state.honest, [members]))
    profile = apply_knowing(attacker.attack, members[0], union, attacker.knowledge)
    submission = profile.submission
    mine = np.isin(submission.identity, profile.identities_of(members[0]))
    truth = profile.truth.aligned(submission)
    names = {str(name): members[0] for name in np.unique(submission.identity[mine])}
    owners = dict(zip(state.honest.truth.id.tolist(), state.honest.truth.owner.tolist(), strict=True))
    owner = [
        owners.get(source, who) if who == members[0] and owners.get(source) in members else who
        for who, source in zip(truth.owner[mine].tolist(), truth.source[mine].tolist(), strict=True)
    ]
    own = GroundTruth(truth.id[mine], np.array(owner), truth.source[mine], names)
    return replace(profile, submission=submission.take(mine), truth=own)


def _renamed(parts: list[SubmittedProfile], honest: Text) -> list[SubmittedProfile]:
    """Add its attacker's name to the id of a made unit that two attackers use."""
    ids = [part.submission.id for part in parts]
    distinct, counts = np.unique(np.concatenate([*ids, honest[:0]]), return_counts=True)
    shared = np.setdiff1d(distinct[counts > 1], honest)
    return [_with_ids(part, shared) for part in parts] if len(shared) else parts


def _with_ids(part: SubmittedProfile, shared: Text) -> SubmittedProfile:
    def renamed(column: Text) -> Text:
        return np.where(np.isin(column, shared), np.char.add(column, f"~{part.attacker}"), column)

    submission, truth = part.submission, part.truth
    changed = {"id": renamed(submission.id)}
    if submission.source is not None:
        changed["source"] = renamed(submission.source)
    own = GroundTruth(renamed(truth.id), truth.owner, renamed(truth.source), truth.controller)
    taken = submission.take(np.arange(len(submission)), changed)
    return replace(part, submission=taken, truth=own)
