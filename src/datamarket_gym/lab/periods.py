"""Two periods of one market: who sells in which, and what a thief of the first submits in the second.

The thief saw all that was bought in the first period. What it makes of it comes first in the second, before
everybody else's units, unless it is better off by coming last: for that it needs neither a forged clock nor foresight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from datamarket_gym.core.arrays import Codes, Features
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.specs import Document
from datamarket_gym.judge.redteam.own_market import spread
from datamarket_gym.units.submission import Submission
from datamarket_gym.units.truth import GroundTruth, SubmittedProfile
from datamarket_gym.world.attacks.attack import is_clocked
from datamarket_gym.world.attacks.turning import turned
from datamarket_gym.world.market import ACCOUNT, ProviderMarket

_LATER = 1.0  # markets last from 0 to 1: the second begins where the first ends


class Theft(Document):
    """What a thief makes of old units, all of ``others`` or its ``own``, and sells in the second period.

    ``copy``: each with Gaussian noise, in spreads (multiples of the typical spread of a feature); ``turn``: each
    turned, as long as it is, to a cosine with the original just below what the market ties, by chance, and ``towards``:
    towards another of them of its class; ``midpoint``: half-way to such a one; ``blend``: half-way to a new unit of the
    thief's, of its class if there is one. ``relabelled`` gives each the next class, ``alone`` sells nothing else,
    ``apart`` sells it under a further name, and ``last`` after everybody else's units. Of ``new`` units it is no theft,
    and what theft is compared with: as many as there are to steal, made of its own new units, taken in turn.
    """

    called: str
    of: Literal["others", "own", "new"] = "others"
    how: Literal["copy", "turn", "towards", "midpoint", "blend"] = "copy"
    noise: list[float] = Field(default=[0.0], min_length=1)
    relabelled: bool = False
    alone: bool = False
    apart: bool = False
    last: bool = False

    @property
    def evades(self) -> bool:
        """Whether it is made for the threshold that the market ties at."""
        return self.how in ("turn", "towards")


@dataclass(frozen=True, eq=False)
class TwoPeriods:
    """What was bought in the first period, what all sell in the second when they are honest, and who is the thief."""

    old: Submission
    honest: SubmittedProfile
    thief: str
    spread: float
    seed: int

    def originals(self, theft: Theft) -> tuple[Submission, Codes]:
        """The units that a theft is made of: rows of a submission."""
        new, own = self.honest.submission, self.old.identity == self.thief
        if theft.of == "new":
            return new, np.resize(np.flatnonzero(new.identity == self.thief), np.count_nonzero(~own))
        return self.old, np.flatnonzero(own if theft.of == "own" else ~own)

    def possible(self, theft: Theft) -> bool:
        """Whether there is anything to make it of: a newcomer has no old units of its own."""
        return len(self.originals(theft)[1]) > 0

    def after(self, theft: Theft, noise: float, cosine: float = 1.0) -> SubmittedProfile:
        """The second period with the theft; ``cosine`` is how like their originals turned copies are."""
        new, truth = self.honest.submission, self.honest.truth
        if not self.possible(theft):
            raise DataMarketError(
                f"{theft.called}: {self.thief} sold nothing in the first period; choose units of others, or layout "
                "'continuing'"
            )
        pool, rows = self.originals(theft)
        made = self._made(theft, pool, rows, noise, cosine)
        kept = np.flatnonzero(new.identity != self.thief) if theft.alone else np.arange(len(new))
        submission = Submission.concat([new.take(kept), made])
        known = GroundTruth(
            submission.id,
            np.concatenate([truth.owner[kept], pool.identity[rows]]),
            np.concatenate([truth.source[kept], pool.id[rows]]),
            {**truth.controller, str(made.identity[0]): self.thief},
        )
        return SubmittedProfile(submission, known, self.thief, theft.called)

    def _made(
        self, theft: Theft, pool: Submission, rows: Codes, noise: float, cosine: float
    ) -> Submission:
        n, new = len(rows), self.honest.submission
        features, label = pool.features[rows], pool.label[rows]
        if theft.how == "turn":
            aside = keyed_generator(self.seed, "turned in period 2", self.thief).normal(
                size=features.shape
            )
            features = turned(features, aside, cosine)
        elif theft.how == "towards":
            features = turned(features, self._partners(theft, pool, rows), cosine)
        elif theft.how != "copy":
            features = (features + self._partners(theft, pool, rows)) / 2
        if noise:
            rng = keyed_generator(self.seed, "noise of period 2", self.thief)
            features = features + noise * self.spread * rng.normal(size=features.shape)
        if theft.relabelled:
            classes = np.unique(np.concatenate([self.old.label, new.label]))
            label = classes[(np.searchsorted(classes, label) + 1) % len(classes)]
        name = f"{self.thief}~again" if theft.apart else self.thief
        ids = np.array([f"{unit}~again.{i}" for i, unit in enumerate(pool.id[rows])])
        time = None if new.time is None else np.full(n, new.time[0])
        if is_clocked(new):
            end = float(new.times.max()) + _LATER
            ends = (end, end + _LATER) if theft.last else (_LATER, float(new.times.min()))
            time = np.linspace(*ends, n, endpoint=False)
        return Submission(
            id=ids,
            identity=np.full(n, name),
            features=features,
            label=label,
            source=ids,
            batch=np.full(n, f"{name}/again"),
            time=time,
            metadata={ACCOUNT: np.full(n, name)},
        )

    def _partners(self, theft: Theft, pool: Submission, rows: Codes) -> Features:
        """For each unit another of its class, stolen too or a new one of the thief's (of any class at need)."""
        others, among = pool, np.unique(rows)
        if theft.how == "blend":
            others = self.honest.submission
            among = np.flatnonzero(others.identity == self.thief)
        rng = keyed_generator(self.seed, "partners of period 2", self.thief)
        partner = np.empty(len(rows), dtype=np.int64)
        for place, row in enumerate(rows):
            alike = among[others.label[among] == pool.label[row]]
            if others is pool:
                alike = alike[alike != row]
            partner[place] = rng.choice(alike if len(alike) else among)
        return others.features[partner]


def newcomers(market: ProviderMarket, provider: int) -> TwoPeriods:
    """Half of the providers sell in the first period; the others, the thief among them, in the second."""
    names = market.state.providers
    if len(names) < 2:
        raise DataMarketError("a market of one provider has no two periods; give it two at least")
    thief = market.state.provider(provider)
    at = names.index(thief)
    late = [names[(at + i) % len(names)] for i in range(len(names) // 2)]
    return divided(market, thief, ~np.isin(market.honest.submission.identity, late))


def continuing(market: ProviderMarket, provider: int) -> TwoPeriods:
    """Every provider sells one half of its units, drawn at random, in the first period, and the other in the second."""
    submission, state = market.honest.submission, market.state
    early = np.zeros(len(submission), dtype=bool)
    for name in state.providers:
        rows = np.flatnonzero(submission.identity == name)
        if len(rows) < 2:
            raise DataMarketError(f"{name} has one unit; to sell in both periods it needs two at least")
        early[state.rng("sold in period 1", name).permutation(rows)[: len(rows) // 2]] = True
    return divided(market, state.provider(provider), early)


LAYOUTS: dict[str, Callable[[ProviderMarket, int], TwoPeriods]] = {
    "newcomers": newcomers,
    "continuing": continuing,
}
"""Who sells in which period, by name."""


def divided(market: ProviderMarket, thief: str, early: NDArray[np.bool_]) -> TwoPeriods:
    """The market in two periods: the units of ``early`` are sold in the first, all others in the second."""
    everything, truth = market.honest.submission, market.honest.truth
    rows = np.flatnonzero(~early)
    time = {} if everything.time is None else {"time": everything.time[rows] + _LATER}
    new = everything.take(rows, time)
    # Who sells in the first period alone is no seller of the second.
    sellers = {str(name): str(name) for name in new.identities}
    later = GroundTruth(truth.id[rows], truth.owner[rows], truth.source[rows], sellers)
    old = everything.take(np.flatnonzero(early))
    return TwoPeriods(old, SubmittedProfile(new, later), thief, spread(market.state), market.seed)
