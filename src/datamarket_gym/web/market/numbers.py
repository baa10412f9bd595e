"""Numbers that JSON can hold."""

from __future__ import annotations

import math


def finite(value: float | None) -> float | None:
    """The number; None where there is none, or none that is finite."""
    return None if value is None or not math.isfinite(value) else float(value)
