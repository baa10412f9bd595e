"""Two runs side by side, from `payout.compared`: what differs, the largest changes, and payees a page at a time."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import require_choice
from datamarket_gym.core.progress import Progress
from datamarket_gym.payout.compared import Compared, compared
from datamarket_gym.payout.compared_payees import PayeeChange, PayeeStanding
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.report.change_chart import MOST_DRAWN, change_chart
from datamarket_gym.web.payday.run_tables import LEAF, Leafing, Stamp, stamp_of

_SORTED = ("change", "share", "identity", "before", "after")


def compare_page(a: Path, b: Path, progress: Progress) -> dict[str, Any]:
    """All but the payees."""
    progress.stage("reading both runs")
    found = _compared(a, b, stamp_of(a), stamp_of(b))
    return {
        "before": asdict(found.before),
        "after": asdict(found.after),
        "settings": [asdict(each) for each in found.settings],
        "inputs": [asdict(each) for each in found.inputs],
        "units_in_both": None if found.units_in_both is None else round(found.units_in_both),
        "totals": [asdict(each) for each in found.totals],
        "warnings": [asdict(each) for each in found.warnings],
        "only_before": len(found.only_before),
        "only_after": len(found.only_after),
        "in_both": len(found.payees) - len(found.only_before) - len(found.only_after),
        "changed": sum(1 for each in found.payees if each.change or each.share_change),
        "chart": change_chart(found),
        "drawn": MOST_DRAWN,
    }


def changes_leaf(a: Path, b: Path, who: str, asked: Leafing, progress: Progress) -> dict[str, Any]:
    """Some payees of both runs: all, or those of one run alone."""
    progress.stage("reading both runs")
    found = _compared(a, b, stamp_of(a), stamp_of(b))
    require_choice("who", who, ("all", "before", "after"))
    payees = {"all": found.payees, "before": found.only_before, "after": found.only_after}[who]
    wanted = asked.search.strip().casefold()
    kept = [each for each in payees if wanted in each.identity.casefold()]
    kept = _ordered(kept, asked)
    leaves = max(1, -(-len(kept) // LEAF))
    at = min(asked.leaf, leaves - 1)
    rows = [_row(found, each) for each in kept[at * LEAF : (at + 1) * LEAF]]
    return {"rows": rows, "found": len(kept), "in_all": len(payees), "leaf": at, "leaves": leaves}


@lru_cache(maxsize=1)
def _compared(a: Path, b: Path, stamp_a: Stamp, stamp_b: Stamp) -> Compared:
    return compared(a, b)


def _ordered(payees: list[PayeeChange], asked: Leafing) -> list[PayeeChange]:
    """By a column; the largest changes first, either way, where none is said."""
    if not asked.sort:
        return payees
    require_choice("sort", asked.sort, _SORTED)
    key = {
        "change": lambda x: (x.change if x.change is not None else x.share_change, x.identity),
        "share": lambda x: (x.share_change, x.identity),
        "identity": lambda x: x.identity,
        "before": lambda x: (x.before.paid if x.before else -1, x.identity),
        "after": lambda x: (x.after.paid if x.after else -1, x.identity),
    }[asked.sort]
    return sorted(payees, key=key, reverse=asked.down)


def _row(found: Compared, each: PayeeChange) -> dict[str, Any]:
    money = Currency(found.after.currency)
    change = None
    if each.change is not None:
        change = f"{'+' if each.change > 0 else ''}{money.shown(each.change)}"
    return {
        "identity": each.identity,
        "before": _standing(each.before, Currency(found.before.currency)),
        "after": _standing(each.after, money),
        "change": change,
        "minor": each.change,
        "share": each.share_change,
        "reasons": list(each.reasons),
    }


def _standing(standing: PayeeStanding | None, money: Currency) -> dict[str, Any] | None:
    if standing is None:
        return None
    return {
        "paid": money.shown(standing.paid), "share": standing.share, "rank": standing.rank,
        "units": standing.units, "counts": standing.counts, "for_others": standing.for_others,
    }  # fmt: skip
