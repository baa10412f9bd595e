"""The answers of the page: what the library says of some rows, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from datamarket_gym.core.arrays import Codes, Values, directions
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.progress import Progress
from datamarket_gym.core.specs import Document
from datamarket_gym.evidence.every_theta import forest_of
from datamarket_gym.evidence.threshold.admissibility import IDENTITIES, honest_market
from datamarket_gym.evidence.threshold.near_copies import nearest_others
from datamarket_gym.evidence.threshold.price import LIMIT
from datamarket_gym.payout.checks.contents import shown
from datamarket_gym.payout.theta import ThetaCheck, in_words
from datamarket_gym.units.labels import are_numbers
from datamarket_gym.web.threshold.origin import Origin
from datamarket_gym.web.threshold.pool import RowPool, pool_of

SHOWN = 2000
"""Rows of which a page is told what merges."""
_BIN = 0.01
_LONGEST, _SIDE = 4000, 224  # characters of a text, pixels of a picture
DEFAULT = ThetaCheck()


class ThetaOptions(Document):
    """The options of ``datamarket theta``, bounded: a page must not ask for hours."""

    partition: str = Field(default=DEFAULT.partition, max_length=100)
    providers: int = Field(default=DEFAULT.providers, ge=2, le=100)
    per_provider: int = Field(default=DEFAULT.per_provider, ge=1, le=2000)
    trials: int = Field(default=DEFAULT.trials, ge=1, le=300)
    variants: str = Field(default=DEFAULT.variants, max_length=200)
    sample: int = Field(default=DEFAULT.sample, ge=1, le=20_000)
    cutoff: float = Field(default=DEFAULT.cutoff, gt=0, lt=1)
    seed: int = Field(default=DEFAULT.seed, ge=0, le=2**31)

    def check(self) -> ThetaCheck:
        """The same for the library."""
        return ThetaCheck(**self.model_dump())


class ShownMarket(Document):
    """Which rows are shown: a sample of all, or the first of the simulated markets."""

    shown: Literal["sample", "market"] = "sample"
    partition: str = Field(default=DEFAULT.partition, max_length=100)
    providers: int = Field(default=DEFAULT.providers, ge=2, le=100)
    per_provider: int = Field(default=DEFAULT.per_provider, ge=1, le=2000)
    seed: int = Field(default=DEFAULT.seed, ge=0, le=2**31)


def rows_shown(origin: Origin, market: ShownMarket, progress: Progress) -> dict[str, Any]:
    """Some rows, whose they are, and the forest of their similarities: what merges at every theta."""
    pool = _read(origin, progress)
    everything = pool.rows.vectors
    places, owner, owners = _chosen(pool, market)
    vectors = everything[places]
    progress.stage("comparing rows", "steps")
    nearest = nearest_others(directions(vectors))
    forest = forest_of(vectors, nearest, progress)
    label, classes = _classes(pool, places)
    return {
        "title": pool.title,
        "rows": len(places),
        "of": len(everything),
        "market": market.shown == "market" and owner is not None and pool.rows.identity is None,
        "place": places.tolist(),
        "left": forest.left.tolist(),
        "right": forest.right.tolist(),
        "score": forest.score.tolist(),
        "owner": owner,
        "owners": owners,
        "label": label,
        "labels": classes,
        "kind": pool.kind,
        "own_partition": pool.own,
        "identities": pool.rows.identity is not None,
        "taken": pool.taken,
        "nearest": histogram(nearest),
    }


def checked(origin: Origin, asked: ThetaOptions, progress: Progress) -> dict[str, Any]:
    """The check for components, with the similarities that it looked at."""
    pool = _read(origin, progress)
    found = pool.check(asked.check(), progress)
    label = pool.rows.label
    return found.as_dict() | {
        "alike": histogram(found.alike),
        "copies": histogram(found.copies),
        "classes": label is not None and not are_numbers(label) and len(np.unique(label)) > 1,
    }


def policy(origin: Origin, progress: Progress) -> dict[str, Any]:
    """The threshold that `recommended` takes, why, and the honest price by theta."""
    pool = _read(origin, progress)
    progress.stage("measuring the honest price")
    found = pool.policy()
    words = in_words(found)
    if origin.kind == "run" and origin.part == "submissions":
        words = f"{found.why[:1].upper()}{found.why[1:]}."
    return found.model_dump(mode="json") | {"floor": found.floor, "words": words, "limit": LIMIT}


def contents(origin: Origin, rows: tuple[int, ...], progress: Progress) -> dict[str, Any]:
    """What some rows hold: a text, a picture, or numbers."""
    pool = _read(origin, progress)
    names = pool.names
    return {
        "contents": [
            {"row": row, "name": f"row {row}" if names is None else names[row]}
            | shown(each, _LONGEST, _SIDE)
            for row, each in zip(rows, pool.shown(rows), strict=True)
        ]
    }


def histogram(similarities: Values) -> dict[str, Any]:
    """Shares of similarities in bins of a hundredth, from the first that holds any."""
    edges = np.round(np.arange(-100, 101) / 100, 2)
    counts = np.histogram(np.clip(similarities, -1.0, 1.0), bins=edges)[0]
    used = np.flatnonzero(counts)
    if not len(used):
        return {"start": 0.0, "step": _BIN, "shares": [], "count": 0}
    some = counts[used[0] : used[-1] + 1]
    return {
        "start": float(edges[used[0]]),
        "step": _BIN,
        "shares": (some / counts.sum()).round(6).tolist(),
        "count": int(counts.sum()),
    }


def _read(origin: Origin, progress: Progress) -> RowPool:
    progress.stage("reading the rows")
    return pool_of(origin)


def _chosen(pool: RowPool, market: ShownMarket) -> tuple[Codes, list[int] | None, list[str]]:
    """The places of the rows that are shown, the number of each one's owner, and the owners' names."""
    rows, partition = pool.rows, market.partition or pool.own
    if market.shown == "market" and partition != IDENTITIES:
        if market.providers * market.per_provider > SHOWN:
            raise DataMarketError(
                f"a market of {market.providers} x {market.per_provider} units is too large to be shown; ask for at "
                f"most {SHOWN:,} units, or show a sample of all rows"
            )
        dealt = honest_market(rows, partition, market.providers, market.per_provider, market.seed)
        owner = np.repeat(np.arange(len(dealt)), [len(part) for part in dealt])
        return np.concatenate(dealt), owner.tolist(), [f"provider {i + 1}" for i in range(len(dealt))]
    pointed = np.flatnonzero(rows.vectors.any(axis=1))
    places = np.sort(
        pointed[keyed_generator(market.seed, "rows shown").permutation(len(pointed))[:SHOWN]]
    )
    if rows.identity is None:
        return places, None, []
    names, code = np.unique([str(each) for each in rows.identity[places].tolist()], return_inverse=True)
    return places, code.tolist(), names.tolist()


def _classes(pool: RowPool, places: Codes) -> tuple[list[int] | None, Sequence[str]]:
    """The number of each row's class, and their names; numbers are no classes."""
    labels = pool.labels()
    if labels is None or pool.rows.label is None or are_numbers(pool.rows.label):
        return None, []
    names, code = np.unique([labels[place] for place in places.tolist()], return_inverse=True)
    return (code.tolist(), names.tolist()) if len(names) > 1 else (None, [])
