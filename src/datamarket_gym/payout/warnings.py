"""Warnings that stand before money: what a person should look at before a run is approved.

Each has a name. Whoever approves a run says every name that it has (``--accept NAME``), and the ledger keeps
who did. What they are found by is in `datamarket_gym.payout.warning_rules`; this is the rule of approval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.errors import DataMarketError, RunError, UnknownNameError
from datamarket_gym.execution.files import read_json, write_json
from datamarket_gym.payout.names import visible

FILE = "warnings.json"
NAMES = (
    "undated",
    "future_times",
    "early_times",
    "equal_times",
    "leak",
    "bought_from_others",
    "bought_rows",
    "received_from_others",
    "lost_labels",
    "unseen_labels",
    "unscored_units",
    "uneven_scores",
    "labels_ignored",
    "loses_half",
    "joined_identities",
    "chained",
    "collapse",
    "large_balances",
    "odd_lengths",
    "claims",
    "common_keys",
    "look_alikes",
    "odd_identities",
    "quarantined",
    "skipped_files",
    "unused_log",
    "same_submissions",
    "unnamed_prior",
    "left_behind",
    "disputes",
)
"""Every warning there is, in the order in which they are shown."""
MOST_ITEMS = 20
"""Of a longer list this many items are shown; the count is of all."""
_LONGEST_ITEM, _LONGEST_WORDS = 400, 2000
_FEW = 5  # items of a warning that is not answered


@dataclass(frozen=True)
class UnresolvedWarning:
    """One warning: what it is called, one line, what it means and what to do, how many, and some of them."""

    name: str
    title: str
    words: str
    count: int
    items: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise UnknownNameError("warning", self.name, NAMES)

    @classmethod
    def of(
        cls, name: str, title: str, words: str, items: Sequence[str] = (), count: int | None = None
    ) -> UnresolvedWarning:
        """A warning about items, the first of which are shown; names in them are made visible.

        ``count`` is for items that are not listed one by one.
        """
        shown = tuple(visible(item, _LONGEST_ITEM) for item in items[:MOST_ITEMS])
        total = len(items) if count is None else count
        return cls(name, title, visible(words, _LONGEST_WORDS), total, shown)

    @classmethod
    def from_plain(cls, data: dict[str, Any]) -> UnresolvedWarning:
        """A warning read back from JSON."""
        return cls(**{**data, "items": tuple(data["items"])})

    @property
    def more(self) -> int:
        """How many items there are beyond those shown; none where they are not listed at all."""
        return max(0, self.count - len(self.items)) if self.items else 0


class AcceptedWarningError(DataMarketError):
    """Warnings that nobody answered for, or an answer to one that the run does not have."""


def in_order(found: Sequence[UnresolvedWarning]) -> list[UnresolvedWarning]:
    """Warnings in the order in which they are shown."""
    return sorted(found, key=lambda warning: NAMES.index(warning.name))


def write_warnings(found: Sequence[UnresolvedWarning], folder: Path) -> None:
    """The warnings of a run as a file in its folder."""
    write_json(folder / FILE, [asdict(warning) for warning in in_order(found)], sort=False)


def read_warnings(folder: Path) -> list[UnresolvedWarning]:
    """The warnings of a finished run."""
    try:
        return [UnresolvedWarning.from_plain(row) for row in read_json(folder / FILE)]
    except (TypeError, KeyError) as error:
        raise RunError(
            f"{str(folder / FILE)!r} is damaged ({error}); run verify, or pay again into another folder"
        ) from error


def require_answered(found: Sequence[UnresolvedWarning], despite: Sequence[str]) -> None:
    """Refuse an approval unless it names each warning, and no other."""
    for name in despite:
        if name not in NAMES:
            raise UnknownNameError("warning", name, NAMES)
    present = [warning.name for warning in found]
    needless = [name for name in despite if name not in present]
    if needless:
        has = f"it has {', '.join(present)}" if present else "it has none"
        raise AcceptedWarningError(
            f"the run has no warning {needless[0]!r} ({has}); leave --accept {needless[0]} out"
        )
    missing = [warning for warning in found if warning.name not in despite]
    if missing:
        lines = [_at_length(warning) for warning in missing]
        raise AcceptedWarningError(
            "not approved: look at each of these first, then approve with its name\n" + "\n".join(lines)
        )


def _at_length(warning: UnresolvedWarning) -> str:
    """A warning as whoever approves reads it, with the first of what it is about."""
    items = [f"\n    - {item}" for item in warning.items[:_FEW]]
    more = f"\n    and {warning.count - _FEW:,} more" if items and warning.count > _FEW else ""
    return f"  --accept {warning.name}\n    {warning.title}. {warning.words}{''.join(items)}{more}"
