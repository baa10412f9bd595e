"""Spill: by how much a manipulation raises what genuine units earn, and how that is known."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import model_validator

from datamarket_gym.core.specs import Document
from datamarket_gym.learners.base import LEARNERS
from datamarket_gym.learners.coverage import Coverage
from datamarket_gym.learners.coverage.truncated import CoverageTruncated
from datamarket_gym.learners.oracle import Utility
from datamarket_gym.pipeline.mechanism import Mechanism


class Spill(Document):
    """By how much a manipulation raises what a payee's genuine units earn, in money, and how that is known.

    "proved": it is 0, by the theorems of coverage, for ties that the manipulation does not change. "measured": of one
    manipulation, by paying with it and without. "assumed": on somebody's word. "unknown": nothing bounds it.
    """

    known: Literal["proved", "measured", "assumed", "unknown"] = "unknown"
    amount: float | None = None

    @classmethod
    def by(cls, mechanism: Mechanism, utility: Utility) -> Spill:
        """What the theorems say: 0 where units play for Shapley values of coverage and the first owns, else unknown."""
        learner = LEARNERS.create(utility.learner)
        covered = isinstance(learner, Coverage) and not isinstance(learner, CoverageTruncated)
        m = mechanism
        exact = str(m.estimator) in ("auto", "exact")  # auto: coverage has a closed form
        plays = (m.granularity, str(m.representative), str(m.semivalue), str(m.allocation))
        if covered and exact and plays == ("unit", "capped", "shapley", "count_canonical"):
            return cls(known="proved", amount=0.0)
        return cls()

    @model_validator(mode="after")
    def _is_what_it_says(self) -> Spill:
        if (self.amount is None) != (self.known == "unknown"):
            raise ValueError("a spill has an amount where it is known, and none where it is not")
        if self.amount is not None and not (math.isfinite(self.amount) and self.amount >= 0.0):
            raise ValueError(f"a spill of {self.amount:g}: it is an amount of at least 0")
        if self.known == "proved" and self.amount != 0.0:
            raise ValueError(f"a spill of {self.amount:g} is claimed as proved: what is proved is 0")
        return self
