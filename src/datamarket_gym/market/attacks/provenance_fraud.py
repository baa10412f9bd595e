"""False claims about units: when they came, where they come from, and who is to be paid for them."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.arrays import Keys
from datamarket_gym.market.attacks.base import (
    AddedUnits,
    Attack,
    Block,
    Noise,
    Own,
    Share,
    Victim,
    add_noise,
    choose_share,
    wrong,
)
from datamarket_gym.market.market import ACCOUNT
from datamarket_gym.registry import Range, register


@register("attack", "backdate")
@dataclass(frozen=True)
class Backdate(Attack):
    """Copy others' units and date the copies before all originals: a forged clock.

    Knows their units, and that the market believes the times that submitters write. Where it goes by its own log, the
    copies come at once after their originals, and no sooner.
    """

    title = "backdated copies"
    tried = ("victim=all",)

    forges_times: ClassVar[bool] = True

    victim: Victim = 1
    sigma: Noise = 0.0
    fraction: Share = 1.0

    @property
    def assumes(self) -> str:
        return "that submitters can forge their times"

    def blocks(self, own: Own) -> list[Block]:
        if own.honest.time is None:
            raise DataMarketError("this market's units have no times, so there is no clock to forge")
        rows = choose_share(own.rows_of(self.victim), self.fraction, own.rng("backdate"))
        features = add_noise(own.honest.features[rows], self.sigma, own.rng("backdate noise"))
        times = own.honest.times
        forged = times[rows] - (times.max() - times.min()) - 1.0
        time = own.at_once(rows)
        copies = Block(0, rows, features=features, time=time, forged=forged, copy=True)
        return [Block(0, own.rows), copies]


@register("attack", "grind_ties")
@dataclass(frozen=True)
class GrindTies(Attack):
    """Copy others' units at the originals' times, and try noise until random tie-breaking favours the attacker.

    Of ``tries`` noisy copies of each unit it submits the one with the smallest content key: the owner,
    where units of equal time go to the smallest. With a ``guess`` it is the one that is drawn first, by the HMAC of
    the content key under the text of random tie-breaking, ``SEED|BEACON``. Knows their units and, where there are any,
    their times, which the clock lets it share; a log of what is received does not.
    """

    title = "copies that are drawn first at equal times"
    tried = ("victim=all, sigma={little}",)

    forges_times: ClassVar[bool] = True

    victim: Victim = 1
    sigma: Annotated[Noise, Range(0, open_low=True), "noise on each copy"] = (
        0.01  # an exact copy has one key
    )
    tries: Annotated[int, Range(1), "noisy copies of each unit; the one that wins is submitted"] = 20
    fraction: Share = 1.0
    guess: Annotated[str, "guess of the text of random tie-breaking; SEED|BEACON, blank: none"] = ""

    @property
    def assumes(self) -> str:
        return "that copies have the times of their originals"

    def blocks(self, own: Own) -> list[Block]:
        rows = choose_share(own.rows_of(self.victim), self.fraction, own.rng("grinding"))
        label, rng = own.honest.label[rows], own.rng("grinding noise")
        original = own.honest.features[rows]
        best, features = None, original
        for _ in range(self.tries):
            copies = original + rng.normal(scale=self.sigma, size=original.shape)
            keys = self._order(unit_keys(copies, label))
            better = np.ones(len(rows), dtype=bool) if best is None else keys < best
            features = np.where(better[:, None], copies, features)
            best = keys if best is None else np.where(better, keys, best)
        time, forged = own.at_once(rows), own.honest.times[rows]
        luckiest = Block(0, rows, features=features, time=time, forged=forged, copy=True)
        return [Block(0, own.rows), luckiest]

    def _order(self, keys: Keys) -> Keys:
        if not self.guess:
            return keys
        draw = [hmac.digest(self.guess.encode(), key, "sha256").hex() for key in keys.tolist()]
        return np.array(draw, dtype="S64")


@register("attack", "own_source")
@dataclass(frozen=True)
class OwnSource(Attack):
    """Copy others' units later, and name each copy as its own source.

    Copies of the other attacks leave the original's name in the column ``source``. Knows the units of its
    ``victim``, and that the market trusts the column.
    """

    title = "copies that name themselves as source"
    tried = ("victim=all",)

    victim: Victim = 1
    sigma: Noise = 0.0
    fraction: Share = 1.0

    def blocks(self, own: Own) -> list[Block]:
        if own.honest.source is None:
            raise DataMarketError("this market's units have no column 'source', so none can be claimed")
        rows = choose_share(own.rows_of(self.victim), self.fraction, own.rng("own source"))
        features = add_noise(own.honest.features[rows], self.sigma, own.rng("own source noise"))
        copies = Block(0, rows, features=features, claims_origin=True, copy=True)
        return [Block(0, own.rows), copies]


@register("attack", "link_claim")
@dataclass(frozen=True)
class LinkClaim(Attack):
    """Submit mislabelled units under a further identity that claims the victim's payout account.

    The units are its own with the next class's label (of numbers, the one half-way round); of several victims each is
    claimed by an identity. Evidence that links who names one account matches the victim to the junk. Knows the account.
    """

    title = "junk in another's name"

    needs_labels: ClassVar[bool] = True

    victim: Victim = 1
    ratio: AddedUnits = 1.0

    def blocks(self, own: Own) -> list[Block]:
        if ACCOUNT not in own.honest.metadata:
            raise DataMarketError(
                f"this market's units have no column {ACCOUNT!r}, so no account can be claimed"
            )
        rng = own.rng("link claim")
        blocks = [Block(0, own.rows)]
        for pseudonym, victim in enumerate(own.victims(self.victim), start=1):
            rows = rng.choice(own.rows, size=max(1, round(self.ratio * len(own.rows))))
            account = str(own.honest.metadata[ACCOUNT][own.owner == victim][0])
            label = wrong(own.honest.label[rows], own.honest.label)
            blocks.append(Block(pseudonym, rows, label=label, copy=True, account=account))
        return blocks
