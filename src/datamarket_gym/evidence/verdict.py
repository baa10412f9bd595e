"""The outcome of the admissibility check: interval, margin, verdict, and what to do instead."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from datamarket_gym.evidence.chaining import Merges
from datamarket_gym.typing import Values

STEP = 0.02
"""Grid on which floors are reported, as in the paper."""

USEFUL_MARGIN = 0.02
"""An interval narrower than this leaves no room for error in either bound."""


@dataclass(frozen=True, eq=False)
class Admissibility:
    """Bounds on a cosine threshold, and how they were found."""

    units: int
    dimensions: int
    median_norm: float
    pairwise_floor: float
    chaining_floors: dict[float, float]  # by cutoff
    cutoff: float
    near_duplicate_p10: float
    partition: str
    n_providers: int
    per_provider: int | None
    trials: int
    variants: str
    lonely_classes: int
    curve_theta: Values
    curve: Values

    @property
    def chaining_floor(self) -> float:
        """The chaining floor at the chosen cutoff."""
        return self.chaining_floors[self.cutoff]

    @property
    def interval(self) -> tuple[float, float]:
        """[theta_min, theta_max]; empty where the first exceeds the second."""
        return max(self.pairwise_floor, self.chaining_floor), self.near_duplicate_p10

    @property
    def margin(self) -> float:
        """Width of the interval; negative where it is empty."""
        low, high = self.interval
        return high - low

    @property
    def binding(self) -> str:
        """Which floor binds."""
        return "chaining" if self.chaining_floor >= self.pairwise_floor else "pairwise"

    @property
    def usable(self) -> bool:
        """Whether a threshold can be used: the interval has a useful margin."""
        return self.margin >= USEFUL_MARGIN

    @property
    def theta(self) -> float | None:
        """The threshold to use: a third of the way up the interval, to two decimals.

        Nearer to the floor, because what slips through above is paid to a cheat, while what is
        tied just above the floor is rare.
        """
        return round(self.interval[0] + self.margin / 3, 2) if self.usable else None

    @property
    def verdict(self) -> str:
        """Use, or do not use and what to do instead, in one sentence."""
        low, high = self.interval
        if self.usable:
            return (
                f"use cosine evidence with theta in [{low:.2f}, {high:.2f}], for example {self.theta}: "
                f"honest providers stay apart above {low:.2f} ({self.binding} floor) and nine of ten "
                f"variants ({self.variants}) are tied below {high:.2f}"
            )
        why = "is empty" if self.margin <= 0 else f"is only {self.margin:.3f} wide"
        instead = (
            "let units play instead of identities (granularity 'unit'), where chains tie no providers, "
            "or use source or linkage evidence"
            if self.binding == "chaining"
            else "use source or linkage evidence, an encoder that separates units of one class better, "
            "or pay identities without similarity evidence"
        )
        return f"do not use cosine evidence: the interval [{low:.2f}, {high:.2f}] {why}; {instead}"

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, with the time and a hash of everything but the time."""
        values = asdict(self)
        values["curve_theta"] = [round(float(t), 6) for t in self.curve_theta]
        values["curve"] = [round(float(m), 6) for m in self.curve]
        values["chaining_floors"] = {f"{cut:g}": floor for cut, floor in self.chaining_floors.items()}
        values |= {
            "interval": list(self.interval), "margin": self.margin, "binding": self.binding,
            "usable": self.usable, "theta": self.theta, "verdict": self.verdict,
        }  # fmt: skip
        text = json.dumps(values, sort_keys=True)
        return {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            **values,
        }


def chaining_floors(
    simulated: Sequence[Merges], cutoffs: Sequence[float]
) -> tuple[Values, Values, dict[float, float]]:
    """The mean MCF on the grid of thresholds, and per cutoff where it falls below for good."""
    theta = np.round(np.arange(0.0, 1.0 + STEP / 2, STEP), 10)
    mean = np.mean([each.at(theta) for each in simulated], axis=0)
    floors = {}
    for cutoff in cutoffs:
        above = np.flatnonzero(mean >= cutoff)
        last = int(above[-1]) + 1 if len(above) else 0
        floors[cutoff] = float(theta[last]) if last < len(theta) else 1.0
    return theta, mean, floors
