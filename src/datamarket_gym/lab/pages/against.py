"""Against the paper, shortly: how many of its numbers are within the bar, and which of ours are furthest outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from datamarket_gym.lab.accounts import OUTSIDE, Account, tally
from datamarket_gym.lab.pages.short import aligned

FURTHEST = 5

Against = Mapping[str, Sequence[Account]]
"""Accounts with the paper by experiment, "time" among them."""


def counted(shown: Sequence[Account], prefix: str = "paper") -> dict[str, str]:
    """The counts as fields of a text."""
    within, outside, not_claimed = tally(shown)
    counts = {"cells": len(shown), "within": within, "outside": outside, "not_claimed": not_claimed}
    return {f"{prefix}.{name}": str(count) for name, count in counts.items()}


def summary(against: Against, tables: str) -> list[str]:
    """A line for each experiment of which the paper says something, linked to its ``tables``, and one for all."""
    lines = [
        [f"[{name}]({tables}/{name}.md)", *_counts(shown)] for name, shown in against.items() if shown
    ]
    every = [account for shown in against.values() for account in shown]
    heads = ["experiment", "the paper's cells", "within", "outside", "not claimed"]
    return aligned(heads, [*lines, ["**all**", *_counts(every)]])


def _counts(shown: Sequence[Account]) -> list[str]:
    return [str(n) for n in (len(shown), *tally(shown))]


def furthest(against: Against, tables: str) -> list[str]:
    """What is outside, the furthest first as counted in bars, each with its reason; bounds without a bar come last."""
    outside = [(name, one) for name, shown in against.items() for one in shown if one.verdict == OUTSIDE]
    outside.sort(key=lambda pair: -pair[1].off)
    lines = []
    for name, one in outside[:FURTHEST]:
        far = f", {one.off:.1f} bars away" if one.off else ""
        what = f"{one.cell.rstrip('.')}" + (f" ({one.metric.replace('_', ' ')})" if one.metric else "")
        lines.append(
            f"- [{name}]({tables}/{name}.md): {what}. The paper has {one.paper}, we have {one.ours}{far}. {one.why}"
        )
    if len(outside) > FURTHEST:
        lines.append(f"- and {len(outside) - FURTHEST} more, in the full tables.")
    return lines
