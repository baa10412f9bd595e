"""The paper's numbers held against ours: everything that it says of an experiment, with a verdict.

Three verdicts: *within* the tolerance, *outside* it, and *not claimed* (no tolerance, or nothing measured: the number
is shown and the reason said). Outside counts as a miss, whatever its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.claims import verdict
from datamarket_gym.lab.paper_values import Claim, bars, entry_of, paper_claims, paper_values, unmeasured
from datamarket_gym.lab.summary import LABELS
from datamarket_gym.lab.tables import axes_of, shown_error

WITHIN: Final = "within"
OUTSIDE: Final = "outside"
NOT_CLAIMED: Final = "not claimed"
TOO_FEW: Final = "These results hold too few rows for it."


@dataclass(frozen=True)
class PaperComparison:
    """One thing that the paper says, our number beside it, and the verdict."""

    cell: str
    metric: str
    paper: str
    ours: str = "not measured"
    difference: str = ""
    tolerance: str = ""
    verdict: Literal["within", "outside", "not claimed"] = NOT_CLAIMED
    why: str = ""


def compare_with_paper(experiment: str, rows: Sequence[Row]) -> list[PaperComparison]:
    """Compare all that the paper says of an experiment with these rows, what they lack included."""
    matched = [(row, entry) for row in rows if (entry := entry_of(row)) is not None]
    comparisons = [_compare_value(row, entry) for row, entry in matched]
    comparisons += [
        PaperComparison(_name(entry), entry["metric"], f"{entry['paper']:g}", why=TOO_FEW)
        for entry in paper_values().get(experiment, ())
        if all(entry is not known for _, known in matched)
    ]
    comparisons += [
        _compare_claim(each, rows) for each in paper_claims() if each.experiment == experiment
    ]
    return comparisons + [
        PaperComparison(each.says, "", "", why=each.why)
        for each in unmeasured()
        if each.experiment == experiment
    ]


def count_verdicts(comparisons: Sequence[PaperComparison]) -> list[int]:
    """Count how many are within, outside and not claimed."""
    return [sum(each.verdict == kind for each in comparisons) for kind in (WITHIN, OUTSIDE, NOT_CLAIMED)]


def summarize(comparisons: Sequence[PaperComparison]) -> str:
    """Say in one line how many of the paper's numbers are within our tolerance, and what becomes of the rest."""
    within, outside, rest = count_verdicts(comparisons)
    absent = sum(each.why == TOO_FEW for each in comparisons)
    text = f"{within} of {len(comparisons)} cells within tolerance, {outside} outside, "
    text += f"{rest - absent} not claimed by us"
    return text + (f", {absent} not in these results" if absent else "")


def comparison_table(comparisons: Sequence[PaperComparison]) -> str:
    """Write the comparisons as Markdown, and below them the reason for everything outside or not claimed."""
    lines = [
        "| the paper's cell | metric | paper | ours | difference | tolerance | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in comparisons:
        word = f"**{each.verdict}**" if each.verdict == OUTSIDE else each.verdict
        cells = (each.cell, each.metric, each.paper, each.ours, each.difference, each.tolerance, word)
        lines.append(f"| {' | '.join(cells)} |")
        if each.verdict != WITHIN:
            beside = f"{each.ours} for {each.paper}" if each.paper else each.ours
            reasons.setdefault((each.verdict, each.why), []).append(
                f"{each.cell.rstrip('.')} ({beside})"
            )
    lines += [""] + [
        f"- {kind.capitalize()}: {'; '.join(cells)}. {why}".rstrip()
        for wanted in (OUTSIDE, NOT_CLAIMED)
        for (kind, why), cells in reasons.items()
        if kind == wanted
    ]
    return "\n".join(lines) + "\n"


def _compare_value(row: Row, entry: Row) -> PaperComparison:
    error = f" ± {entry['paper_se']:g}" if entry.get("paper_se") else ""
    missing = row["value"] is None
    return PaperComparison(
        _name(row),
        row["metric"],
        f"{row['paper']:g}{error}",
        "no clear seed" if missing else f"{row['value']:.3f}{shown_error(row)}",
        "" if missing else f"{row['value'] - row['paper']:+.3f}",
        _tolerance(entry.get("bar", ""), row["paper"]),
        _verdict(row["within"]),
        entry.get("why", ""),
    )


def _compare_claim(claim: Claim, rows: Sequence[Row]) -> PaperComparison:
    if claim.paper is not None:
        bound = f"{claim.paper:g}"
    else:
        bound = (
            f"at most {claim.at_most:g}" if claim.at_least is None else f"at least {claim.at_least:g}"
        )
    outcome = verdict(claim, rows)
    if outcome is None:
        return PaperComparison(claim.says, "", bound, why=TOO_FEW)
    return PaperComparison(
        claim.says,
        "",
        bound,
        f"{outcome.value:.3f}",
        "" if claim.paper is None else f"{outcome.value - claim.paper:+.3f}",
        _tolerance(claim.bar, claim.paper or 0.0),
        _verdict(outcome.holds),
        claim.why,
    )


def _verdict(holds: bool | None) -> Literal["within", "outside", "not claimed"]:
    return NOT_CLAIMED if holds is None else WITHIN if holds else OUTSIDE


def _tolerance(bar: str, paper: float) -> str:
    if not bar:
        return ""
    return f"{bars()[bar].around(paper):g}" + (" (set after measuring)" if bars()[bar].after else "")


def _name(row: Row) -> str:
    words = [str(row[k]) for k in LABELS if k in ("attack", "mechanism") and k in row]
    if row["experiment"] == "predict-theta":  # the only one whose tasks are told apart
        words = [str(row["task"])]
    return ", ".join([*words, *(f"{axis} = {row[axis]}" for axis in axes_of(row) if axis != "k")])
