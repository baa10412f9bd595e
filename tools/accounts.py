"""docs/accounts.md: which published numbers moved since 0.1, and why, and where our tolerances come from.

The numbers of 0.1 are kept as they were published (docs/accounts/0.1), today's are in docs/results, the
reasons are in docs/accounts/why.toml; nothing else is on the page. ``python tools/accounts.py`` writes
it anew; tests/lab/test_account_page.py fails where it is stale.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from datamarket_gym.core.files import write_text
from datamarket_gym.lab.accounts import accounts, tally
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.paper_values import bars, paper_claims, paper_values
from datamarket_gym.lab.results import Compact, read_all
from datamarket_gym.lab.tables import LABELS, axes_of

DOCS = Path(__file__).parents[1] / "docs"
EXACT = 0.005  # a number without a standard error moved if it differs by more
SHOWN = 5  # the largest moves of an experiment
NOT_NUMBERS = ("near_zero_seeds",)  # counts of seeds left out: said in another way now


@dataclass(frozen=True)
class Move:
    """A published number, before and after; ``far`` if by more than its standard error."""

    cell: str
    before: float
    after: float
    far: bool

    @property
    def size(self) -> float:
        """How far it moved."""
        return abs(self.after - self.before)


def cells(one: Compact) -> dict[str, Row]:
    """The published rows by what they are called; labels that all rows share are left out."""
    rows = [r for r in one.rows if r["metric"] not in NOT_NUMBERS and r["value"] is not None]
    keys = [k for k in LABELS if len({r.get(k) for r in rows}) > 1]
    names = (
        ", ".join(
            [*(str(r[k]) for k in keys if k in r), *(f"{a} = {r[a]}" for a in axes_of(r)), r["metric"]]
        )
        for r in rows
    )
    return dict(zip(names, rows, strict=True))


def moves(before: Compact, after: Compact) -> tuple[list[Move], int, int]:
    """The moves of all cells that are in both, and how many went and came."""
    old, new = cells(before), cells(after)
    both = [name for name in old if name in new]
    found = [
        Move(name, old[name]["value"], new[name]["value"], _far(old[name], new[name])) for name in both
    ]
    return found, len(old) - len(both), len(new) - len(both)


def _far(old: Row, new: Row) -> bool:
    error = max(old["se"] or 0.0, new["se"] or 0.0)
    return abs(new["value"] - old["value"]) > max(error, EXACT)


def page(docs: Path = DOCS) -> str:
    """The page as Markdown."""
    said = tomllib.loads((docs / "accounts" / "why.toml").read_text(encoding="utf-8"))
    old = {one.spec.name: one for one in read_all(docs / "accounts" / "0.1")}
    new = {one.spec.name: one for one in read_all(docs / "results")}
    changes = [f"- **{change['what']}** {change['why']}" for change in said["change"]]
    parts = [said["intro"], "## What changed", "", *changes, "", *_moved(old, new, said["experiment"])]
    return "\n".join([*parts, *_bars(list(new.values()))])


def _moved(old: dict[str, Compact], new: dict[str, Compact], why: dict[str, str]) -> list[str]:
    lines = [
        "## Published numbers that moved",
        "",
        "A number moved if it differs from 0.1's by more than the larger of the two standard errors and by more "
        f"than {EXACT:g}. *Gone* and *new* are cells that only one of the two has.",
        "",
        "| experiment | seeds in 0.1 | seeds now | cells in both | moved | gone | new | largest move | why |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    details: list[str] = []
    for name, one in new.items():
        if name not in old:
            lines.append(f"| {name} | - | {one.seeds} | 0 | 0 | 0 | {len(cells(one))} | | new |")
            continue
        found, gone, came = moves(old[name], one)
        far = sorted((m for m in found if m.far), key=lambda m: -m.size)
        largest = f"{far[0].before:.3f} to {far[0].after:.3f}" if far else ""
        reason = why[name] if far or gone or came else ""
        lines.append(
            f"| {name} | {old[name].seeds} | {one.seeds} | {len(found)} | {len(far)} | {gone} | {came} | "
            f"{largest} | {reason} |"
        )
        if far:
            details += [f"### {name}: the largest moves", "", "| cell | 0.1 | now |", "|---|---|---|"]
            details += [f"| {m.cell} | {m.before:.3f} | {m.after:.3f} |" for m in far[:SHOWN]]
            details.append("")
    return [*lines, "", *details]


def _bars(kept: list[Compact]) -> list[str]:
    lines = [
        "## Where the bars come from",
        "",
        "Every number of the paper is held to one of these; what has none claims nothing and says why in the "
        "[full tables](results.md).",
        "",
        "| bar | room | numbers and claims held to it | set after measuring | where it comes from |",
        "|---|---|---|---|---|",
    ]
    entries = [entry.get("bar") for of in paper_values().values() for entry in of]
    entries += [claim.bar for claim in paper_claims()]
    for name, bar in bars().items():
        room = f"{bar.share:.0%} of the paper's" if bar.share else f"{bar.within:g}"
        after = "yes" if bar.after else ""
        lines.append(f"| {name} | {room} | {entries.count(name)} | {after} | {bar.origin} |")
    within, outside, not_claimed = tally([a for one in kept for a in accounts(one.spec.name, one.rows)])
    lines += [
        "",
        f"Today {within} are within, {outside} outside and {not_claimed} not claimed, times left out.",
    ]
    return [*lines, ""]


if __name__ == "__main__":
    write_text(DOCS / "accounts.md", page())
    print(DOCS / "accounts.md")
