"""Rules that a market sets itself: how many people approve a run, and what is too little to be sent.

A rule that asks for less care than the one before (fewer people) stands once as many people as before have entered it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from datamarket_gym.payout.book.entry import BookEntry, BookError
from datamarket_gym.payout.book.run_record import same_person

MOST_APPROVALS = 10


@dataclass(frozen=True)
class Rules:
    """How many people approve a run; the least that is sent, by currency; and who asks for fewer approvals."""

    approvals: int = 1
    least: dict[str, int] = field(default_factory=dict)
    asking: dict[int, list[str]] = field(default_factory=dict)

    def after(self, entry: BookEntry) -> Rules:
        """The rules after an entry of the kind ``rule``."""
        said: dict[str, Any] = entry.content
        if "least" in said:
            if entry.amount < 0:
                raise BookError("the least amount to be sent cannot be below zero")
            return replace(self, least={**self.least, entry.currency: entry.amount})
        wanted = said.get("approvals")
        if type(wanted) is not int or not 1 <= wanted <= MOST_APPROVALS:
            raise BookError(f"a run is approved by 1 to {MOST_APPROVALS} people, not by {wanted!r}")
        if wanted >= self.approvals:
            return replace(self, approvals=wanted, asking={})
        asking = [by for by in self.asking.get(wanted, []) if not same_person(by, entry.by)]
        asking = sorted([*asking, entry.by])
        if len(asking) < self.approvals:
            return replace(self, asking={**self.asking, wanted: asking})
        return replace(self, approvals=wanted, asking={})
