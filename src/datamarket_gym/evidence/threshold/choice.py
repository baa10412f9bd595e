"""Which evidence may be used: identical units always, similar ones only at a threshold that is admitted.

The check asks how alike *honest* units are. It is therefore made on the validation rows, which are the
operator's own: made on the submissions, a few copies would look like honest units that are alike, and
whoever submits copies could switch the evidence off. Where only the submissions have embeddings it has to
be made on those, less identical ones, and says so. A second floor comes from the size of the submission
(`crowding`).

This is the policy behind ``lineage@auto``, for everybody who settles it: `Mechanism.pay`,
experiments, audits and paydays. A threshold is a function of content: neither names nor the order
of rows decide it.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from datamarket_gym.core.arrays import Codes, Features
from datamarket_gym.core.content import keyed_generator, unit_keys
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.registry import written
from datamarket_gym.evidence.lineage import AUTO, NONE, Lineage
from datamarket_gym.evidence.threshold.admissibility import USEFUL_MARGIN, Admissibility, predict_theta
from datamarket_gym.evidence.threshold.crowding import crowd_sample, floor_among
from datamarket_gym.world.data.embeddings import Embeddings

LEAST = 20
"""Units below which the check has nothing to go by."""

_POOL = 20_000  # units the check looks at; its floors come from small simulated markets anyway
_SIGMA = 0.02  # noise of the copies that must be caught, relative to a median vector


class Threshold(BaseModel):
    """The evidence that is used, why, and the checks it rests on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    evidence: str = "lineage@none"
    theta: float | None = None
    why: str
    check: dict[str, Any] | None = None
    crowding: float | None = None

    @property
    def layer_theta(self) -> float | str:
        """The threshold as evidence writes it."""
        return NONE if self.theta is None else self.theta

    @property
    def interval(self) -> tuple[float, float]:
        """The admissible interval, crowding included; empty where the first exceeds the second."""
        low, high = (self.check or {"interval": (1.0, 0.0)})["interval"]
        return _lifted(low, self.crowding), high

    def admits(self, theta: float) -> bool:
        """Whether the checks admit a threshold."""
        if self.check is None or not self.check["usable"]:
            return False
        low, high = self.interval
        return low <= theta <= _ceiling(low, high)


@dataclass(frozen=True, eq=False)
class LabelledVectors:
    """Embeddings of units with their labels; two are equal where their rows are, to the bit."""

    vectors: Features
    label: NDArray[Any]

    @cached_property
    def digest(self) -> str:
        """Hash of all rows in their order."""
        text = repr((self.vectors.shape, self.vectors.dtype.str, self.label.tolist()))
        return hashlib.sha256(text.encode() + np.ascontiguousarray(self.vectors).tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelledVectors) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def pool(self, seed: int) -> Embeddings:
        """Units to check on, each once, in order of content."""
        keys, first = np.unique(unit_keys(self.vectors, self.label), return_index=True)
        rows: Codes = first[np.sort(keyed_generator(seed, "threshold").permutation(len(keys))[:_POOL])]
        return Embeddings(self.vectors[rows], self.label[rows])


def choose_threshold(
    submitted: LabelledVectors,
    validation: LabelledVectors | None,
    wanted: str = AUTO,
    seed: int = 0,
    granularity: str = "unit",
) -> Threshold:
    """Exact hashes, with cosine at a threshold that both checks admit.

    ``validation`` are the operator's own units, None where they have no embeddings. ``wanted`` is ``auto``,
    ``none`` or a number; ``granularity`` says who plays, so that no advice is given that has been taken.
    """
    if wanted == NONE:
        return Threshold(why="similarity was switched off")
    # Submitted units differ from one payment to the next: their check is not worth remembering.
    checked = _check(submitted, seed) if validation is None else _remembered(validation, seed)
    if checked.found is None:
        return Threshold(why=checked.why)
    crowding = None
    if validation is not None:
        crowding = floor_among(checked.crowd, submitted.vectors)
    theta, why = admitted(checked.found, crowding, wanted, granularity)
    evidence = Lineage(NONE if theta is None else theta)
    return Threshold(
        evidence=written(evidence), theta=theta, why=why, check=checked.record, crowding=crowding
    )


def variants_for(pool: Embeddings) -> str:
    """The attack whose copies must be caught: noise in proportion to a median vector."""
    return variants_at(float(np.median(np.linalg.norm(pool.vectors, axis=1))))


def variants_at(norm: float) -> str:
    """The same where a median vector is that long."""
    return f"near_duplicate_2x_sybils@{_SIGMA * norm:.3g}"


@dataclass(frozen=True, eq=False)
class _Checked:
    """The admissibility check on honest units, or why there is none, and the units that crowding asks."""

    found: Admissibility | None
    why: str
    record: dict[str, Any]
    crowd: Features


def _check(honest: LabelledVectors, seed: int) -> _Checked:
    pool = honest.pool(seed)
    nothing = np.empty((0, 0))
    if len(pool.vectors) < LEAST:
        why = f"{len(pool.vectors)} different units are too few to check a threshold on; {LEAST} are needed"
        return _Checked(None, why, {}, nothing)
    try:
        found = predict_theta(
            pool,
            variants=variants_for(pool),
            seed=seed,
            per_provider=min(50, len(pool.vectors) // 4),
        )
    except DataMarketError as error:
        return _Checked(None, f"the threshold check could not be made: {error}", {}, nothing)
    # The time of the check is nobody's business here: this is a function of content. Its verdict is told as
    # the reason, in the words that suit who plays.
    record = {k: v for k, v in found.as_dict().items() if k not in ("created", "sha256", "verdict")}
    return _Checked(found, "", record, crowd_sample(honest.vectors, seed))


@lru_cache(maxsize=8)
def _remembered(honest: LabelledVectors, seed: int) -> _Checked:
    """Audits and experiments pay thousands of times on the same validation rows."""
    return _check(honest, seed)


def admitted(
    found: Admissibility, crowding: float | None, wanted: str, granularity: str = "unit"
) -> tuple[float | None, str]:
    """The threshold to use, or None, and why.

    The floors protect honest units and are never crossed. Where crowding lifts them above what most copies
    reach, a threshold above the crowd still catches plain copies and harms nobody: it is used, and called weak.
    """
    low, high = found.interval
    if not found.usable:
        return None, found.verdict_for(granularity)
    low = _lifted(low, crowding)
    ceiling = _ceiling(low, high)
    crowded = ceiling > high
    theta = found.theta if wanted == AUTO else float(wanted)
    if wanted == AUTO and (theta is None or theta < low):
        theta = math.ceil(100 * low if crowded else 50 * (low + high)) / 100
    if theta is None or not low <= theta <= ceiling:
        return None, f"theta {theta} is outside the admissible interval [{low:.2f}, {ceiling:.2f}]"
    copies = f"nine of ten variants ({found.variants})"
    if crowded:
        return theta, (
            f"similarity of at least {theta:g} counts as a copy; that is safe but weak: among so many units one "
            f"honest unit in a hundred has a stranger at {low:.2f} or closer, and {copies} are tied only "
            f"below {high:.2f}"
        )
    on = (
        ""
        if crowding is not None
        else " (checked on the submissions themselves, for want of other embeddings)"
    )
    return theta, (
        f"similarity of at least {theta:g} counts as a copy: honest units stay apart above {low:.2f}, and {copies} "
        f"are more alike than {high:.2f}{on}"
    )


def _lifted(low: float, crowding: float | None) -> float:
    return low if crowding is None else max(low, crowding)


def _ceiling(low: float, high: float) -> float:
    """In a crowd, where hardly anything is left below what copies reach, any threshold above it may be used."""
    return 1.0 if high - low < USEFUL_MARGIN else high
