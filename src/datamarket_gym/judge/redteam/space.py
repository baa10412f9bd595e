"""The space in which a best response is searched: attack families, each a cube of dials in [0, 1].

One decoding for all who search (an optimiser, a Gymnasium action, a grid): a family and a point of its
cube name an attack. Noise is in spreads of the market's features, on a logarithmic scale. How much is copied, made
or stolen is on a cubic one: where units are checked, a little that is false may pay more than much.

What an attack costs the attacker is in units of its honest payment (the paper's Remark on costs):
net gain = G - c_id (identities - 1) - c_d d, with d the perturbation: the sum over the attacker's
submitted units of the distance to the unit they derive from, in units of the market's spread, per
honest unit of the attacker. Content made from nothing (junk) has no distance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from datamarket_gym.core.errors import ParameterError, UnknownNameError, require_in
from datamarket_gym.core.registry import written
from datamarket_gym.core.screen import Described
from datamarket_gym.judge.redteam.own_market import spread
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.market import MarketState


@dataclass(frozen=True)
class AttackCosts(Described):
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
class Effort(Described):
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


@dataclass(frozen=True)
class Dial:
    """A parameter and the values that a number in [0, 1] stands for."""

    name: str
    low: float = 0.0
    high: float = 1.0
    kind: str = "share"  # or "part" (cubic), "count", "noise" (logarithmic, times the spread), "choice"
    choices: tuple[str | int | bool, ...] = ()

    def value(self, at: float, scale: float) -> Any:
        """The parameter's value at a number in [0, 1]; shares and noise are rounded to read well."""
        at = min(max(float(at), 0.0), 1.0)
        match self.kind:
            case "count":
                return int(min(self.low + at * (self.high - self.low + 1), self.high))
            case "choice":
                return self.choices[min(int(at * len(self.choices)), len(self.choices) - 1)]
            case "noise":
                return float(f"{scale * self.low * (self.high / self.low) ** at:.4g}")
            case "part":
                return round(self.low + at**3 * (self.high - self.low), 3)
            case _:
                return round(self.low + at * (self.high - self.low), 3)


def _noise(name: str) -> Dial:
    return Dial(name, 0.01, 3.0, "noise")


def _part(name: str, low: float = 0.01, high: float = 1.0) -> Dial:
    return Dial(name, low, high, "part")


_FIRST = Dial("first", kind="choice", choices=(False, True))
_VICTIM = Dial("victim", kind="choice", choices=(1, "all"))

SPACE: Mapping[str, tuple[Dial, ...]] = {
    "sybil_split_k": (Dial("k", 2, 4, "count"),),
    "exact_dup_2x_sybils": (_part("fraction"), Dial("sybils", 1, 4, "count")),
    "near_duplicate_2x_sybils": (_noise("sigma"), _part("fraction"), Dial("sybils", 1, 4, "count")),
    "copycat": (_noise("sigma"), _part("fraction")),
    "turn": (Dial("cosine", 0.3, 0.98), _VICTIM, _part("fraction")),
    "synthetic_laundering": (
        _part("ratio", high=4.0),
        Dial("how", kind="choice", choices=("gaussian", "mix")),
        _FIRST,
    ),
    "strategic_curation": (Dial("keep", 0.1, 1.0), Dial("rest", 0.0, 1.0)),
    "junk_padding": (_part("ratio", high=3.0), Dial("identities", 1, 3, "count"), _FIRST),
    "composite": (
        Dial("split", 1, 3, "count"),
        Dial("keep", 0.3, 1.0),
        _part("copy", low=0.0),
        _noise("copy_sigma"),
        _part("steal", low=0.0),
        _noise("steal_sigma"),
        Dial("victims", 1, 16, "count"),
        Dial("pick", kind="choice", choices=("random", "rewards")),
        Dial("names", 0, 2, "count"),
        _FIRST,
    ),
    "bridge": (_VICTIM, Dial("theta", 0.6, 0.98), Dial("most", 20, 400, "count")),
    "leak_stuffing": (_part("share"), _noise("sigma")),
    "squat": (
        Dial("knows", kind="choice", choices=("leak",)),
        Dial("points", 1, 20, "count"),
        _noise("sigma"),
        Dial("worthless", kind="choice", choices=(False, True)),
    ),
    "shadow": (Dial("budget", 0.05, 1.5), Dial("steps", 5, 20, "count")),
    "outlier": (Dial("budget", 0.05, 1.5), _part("ratio", high=2.0)),
}
"""Families and their dials, within bounds that keep identity-level games cheap.

Who forges the clock, or sees units before they come, owns them whatever the rule: such attacks are not searched.
"""

FAMILIES = tuple(SPACE)
DIMENSIONS = max(len(dials) for dials in SPACE.values())
_HALF_A_SPREAD = 0.69  # where a noise dial stands for half a spread: known to escape and still to teach
_A_SPREAD = 0.81
_FIVE_PERCENT = 0.37  # where the dial of a part stands for that

_THEFT = {
    "split": 0.0,
    "keep": 1.0,
    "copy": 0.0,
    "copy_sigma": _HALF_A_SPREAD,
    "steal": 1.0,
    "steal_sigma": _HALF_A_SPREAD,
    "victims": 1.0,
    "pick": 0.0,
    "names": 0.0,
    "first": 0.0,
}
_LITTLE = {"steal": _FIVE_PERCENT, "steal_sigma": _A_SPREAD, "pick": 1.0}
_OWN_COPIES = {"copy": 1.0, "steal": 0.0, "first": 1.0}


def starts() -> list[tuple[str, dict[str, float]]]:
    """Where a search begins: every family turned up, half up and down, and some that are known to be good.

    These are theft from everybody; of the twentieth part that the leaked sample rewards most, of all one's own units or
    of the better ones; and copies of one's own that came first.
    """
    found = [
        (family, {d.name: _HALF_A_SPREAD if d.kind == "noise" else at for d in dials})
        for at in (1.0, 0.5, 0.0)
        for family, dials in SPACE.items()
    ]
    known: tuple[dict[str, float], ...] = ({}, _LITTLE, _LITTLE | {"keep": 0.86}, _OWN_COPIES)
    return [*(("composite", _THEFT | change) for change in known), *found]


@dataclass(frozen=True, eq=False)
class Space(Described):
    """The attacks on one market, by family and dials."""

    scale: float

    @classmethod
    def of(cls, state: MarketState) -> Space:
        """The space scaled to a market."""
        return cls(spread(state))

    def attack(self, family: str, dials: Mapping[str, float]) -> str:
        """The written attack at some dials, each in [0, 1]."""
        if family not in SPACE:
            raise UnknownNameError("attack family", family, FAMILIES)
        values = {d.name: d.value(dials[d.name], self.scale) for d in SPACE[family]}
        return written(ATTACKS.create({"name": family, **values}))

    @staticmethod
    def point(family: str, dials: Mapping[str, float]) -> list[float]:
        """The point of [0, 1]^(1 + DIMENSIONS) that `attack_at` reads as this family and dials."""
        values = [dials[dial.name] for dial in SPACE[family]]
        first = (FAMILIES.index(family) + 0.5) / len(FAMILIES)
        return [first, *values, *[0.5] * (DIMENSIONS - len(values))]

    def attack_at(self, point: np.ndarray) -> str:
        """The written attack at a point of [0, 1]^(1 + DIMENSIONS): the family first, then its dials."""
        if point.shape != (1 + DIMENSIONS,) or not ((point >= 0.0) & (point <= 1.0)).all():
            raise ParameterError(
                "action", np.array2string(point, threshold=5), f"give {1 + DIMENSIONS} numbers in [0, 1]"
            )
        family = FAMILIES[min(int(point[0] * len(FAMILIES)), len(FAMILIES) - 1)]
        names = [dial.name for dial in SPACE[family]]
        return self.attack(family, dict(zip(names, point[1:].tolist(), strict=False)))
