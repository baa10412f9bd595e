"""Our accounts with the paper: everything it says of an experiment, what we have for it, and a verdict.

Three verdicts: *within* the bar, *outside* it, and *not claimed* (no bar: the number is shown and the
reason said; numbers that we do not measure and times on another machine are among these). What is
outside counts as a miss, whatever its reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.claims import verdict
from datamarket_gym.lab.paper_values import (
    Claim,
    Runtime,
    bars,
    entry_of,
    paper_claims,
    paper_values,
    runtimes,
    unmeasured,
)
from datamarket_gym.lab.summary import LABELS
from datamarket_gym.lab.tables import axes_of, shown_error

Kind = Literal["within", "outside", "not claimed"]
WITHIN: Final = "within"
OUTSIDE: Final = "outside"
NOT_CLAIMED: Final = "not claimed"
TOO_FEW: Final = "These results hold too few rows for it."


@dataclass(frozen=True)
class Account:
    """One thing that the paper says, ours beside it, and the verdict; ``off`` is the difference in bars, or 0."""

    cell: str
    metric: str
    paper: str
    ours: str
    difference: str
    bar: str
    verdict: Kind
    why: str = ""
    off: float = 0.0


def accounts(experiment: str, rows: Sequence[Row]) -> list[Account]:
    """All that the paper says of an experiment, what these rows do not have included."""
    found = [(row, entry) for row in rows if (entry := entry_of(row)) is not None]
    shown = [_of_value(row, entry) for row, entry in found]
    for entry in paper_values().get(experiment, ()):
        if all(entry is not known for _, known in found):
            said = f"{entry['paper']:g}"
            cell, metric = _name(entry), entry["metric"]
            shown.append(Account(cell, metric, said, "not measured", "", "", NOT_CLAIMED, TOO_FEW))
    shown += [_of_claim(claim, rows) for claim in paper_claims() if claim.experiment == experiment]
    for one in unmeasured():
        if one.experiment == experiment:
            shown.append(Account(one.says, "", "", "not measured", "", "", NOT_CLAIMED, one.why))
    return shown


def missing(experiment: str, rows: Sequence[Row]) -> list[Row]:
    """The paper's values that no row, or more than one, stands for."""
    found = [entry_of(row) for row in rows]
    return [e for e in paper_values().get(experiment, ()) if sum(f is e for f in found) != 1]


def tally(shown: Sequence[Account]) -> list[int]:
    """How many are within, outside and not claimed."""
    return [sum(one.verdict == kind for one in shown) for kind in (WITHIN, OUTSIDE, NOT_CLAIMED)]


def summed_up(shown: Sequence[Account]) -> str:
    """Say in one line how many of the paper's numbers are within our tolerance, and what becomes of the rest."""
    within, outside, rest = tally(shown)
    absent = sum(one.why == TOO_FEW for one in shown)
    said = f"{within} of {len(shown)} cells within tolerance, {outside} outside, {rest - absent} not claimed by us"
    return said + (f", {absent} not in these results" if absent else "")


def times(timings: Mapping[str, dict[str, Any]], suites: Mapping[str, str]) -> list[Account]:
    """The paper's times beside ours, from each experiment's timings (and ``seeds``) and suite.

    Seconds of all cells added up, as on one core; a time of which an experiment is missing is left out.
    """
    return [
        _of_time(one, [timings[name] for name in wanted])
        for one in runtimes()
        if (wanted := _experiments(one, suites)) and all(name in timings for name in wanted)
    ]


def _experiments(one: Runtime, suites: Mapping[str, str]) -> list[str]:
    return [*one.experiments, *(name for name, suite in suites.items() if suite in one.suites)]


def _of_time(one: Runtime, spent: Sequence[dict[str, Any]]) -> Account:
    seconds = sum(t["cell_seconds"] for t in spent)
    seconds /= {
        "run": 1,
        "seed": sum(t["seeds"] for t in spent),
        "cell": sum(t["cells"] for t in spent),
    }[one.per]
    ours = f"{seconds / 60:.1f} min"
    return Account(one.says, "time", f"{one.minutes:g} min", ours, "", "", NOT_CLAIMED, one.why)


def _of_value(row: Row, entry: Row) -> Account:
    error = f" ± {entry['paper_se']:g}" if entry.get("paper_se") else ""
    return Account(
        _name(row),
        row["metric"],
        f"{row['paper']:g}{error}",
        _ours(row),
        "" if row["value"] is None else f"{row['value'] - row['paper']:+.3f}",
        _room(entry.get("bar", ""), row["paper"]),
        _verdict(row["within"]),
        entry.get("why", ""),
        _off(row["value"], row["paper"], entry.get("bar", "")),
    )


def _of_claim(claim: Claim, rows: Sequence[Row]) -> Account:
    if claim.paper is not None:
        said = f"{claim.paper:g}"
    else:
        said = f"at most {claim.at_most:g}" if claim.at_least is None else f"at least {claim.at_least:g}"
    found = verdict(claim, rows)
    if found is None:
        return Account(claim.says, "", said, "not measured", "", "", NOT_CLAIMED, TOO_FEW)
    difference = "" if claim.paper is None else f"{found.value - claim.paper:+.3f}"
    room = _room(claim.bar, claim.paper or 0.0)
    ours = f"{found.value:.3f}"
    off = _off(found.value, claim.paper, claim.bar)
    return Account(claim.says, "", said, ours, difference, room, _verdict(found.holds), claim.why, off)


def _verdict(holds: bool | None) -> Kind:
    return NOT_CLAIMED if holds is None else WITHIN if holds else OUTSIDE


def _off(value: float | None, paper: float | None, bar: str) -> float:
    """How many bars lie between ours and the paper's; a value that there is none of is infinitely far."""
    if paper is None or not bar:
        return 0.0
    return (
        math.inf
        if value is None or math.isnan(value)
        else abs(value - paper) / bars()[bar].around(paper)
    )


def _room(bar: str, paper: float) -> str:
    if not bar:
        return ""
    return f"{bars()[bar].around(paper):g}" + (" (set after measuring)" if bars()[bar].after else "")


def _name(row: Row) -> str:
    words = [str(row[k]) for k in LABELS if k in ("attack", "mechanism") and k in row]
    if row["experiment"] == "predict-theta":  # the only one whose tasks are told apart
        words = [str(row["task"])]
    return ", ".join([*words, *(f"{axis} = {row[axis]}" for axis in axes_of(row) if axis != "k")])


def _ours(row: Row) -> str:
    return "no clear seed" if row["value"] is None else f"{row['value']:.3f}{shown_error(row)}"


def comparison(title: str, shown: Sequence[Account]) -> str:
    """The long table, and below it the reason for everything that is outside or not claimed."""
    lines = [
        f"## {title}",
        "",
        "| the paper's cell | metric | paper | ours | difference | bar | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in shown:
        word = f"**{one.verdict}**" if one.verdict == OUTSIDE else one.verdict
        lines.append(
            f"| {one.cell} | {one.metric} | {one.paper} | {one.ours} | {one.difference} | {one.bar} | "
            f"{word} |"
        )
    return "\n".join([*lines, "", *_reasons(shown, OUTSIDE), *_reasons(shown, NOT_CLAIMED)])


def _reasons(shown: Sequence[Account], kind: Kind) -> list[str]:
    """A sentence for each reason, with the cells that it is the reason of."""
    by_reason: dict[str, list[Account]] = {}
    for one in shown:
        if one.verdict == kind:
            by_reason.setdefault(one.why, []).append(one)
    lines = []
    for why, cells in by_reason.items():
        named = "; ".join(f"{one.cell.rstrip('.')} ({_beside(one)})" for one in cells)
        lines.append(f"- {kind.capitalize()}: {named}. {why}".rstrip())
    return [*lines, ""] if lines else []


def _beside(one: Account) -> str:
    return f"{one.ours} for {one.paper}" if one.paper else one.ours
