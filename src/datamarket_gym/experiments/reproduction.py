"""The paper's numbers beside ours, and the Markdown pages of a folder of compact results; nothing is run.

A claim is a number that some rows give (their lowest, their range, how far they lie from another mechanism's) and a
bound on it. There are three verdicts: *within* the tolerance, *outside* it, and *not claimed* (no tolerance, or nothing
measured: the number is shown and the reason given). Outside counts as a miss, whatever its reason.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.paper import SLACK, Claim, PaperResult, entry_of, paper, paper_values
from datamarket_gym.experiments.presets import figures_of
from datamarket_gym.experiments.results import Compact, read_all
from datamarket_gym.experiments.spec import Layout, builtin_specs
from datamarket_gym.experiments.summary import LABELS, matches
from datamarket_gym.experiments.tables import Grid, axes_of, grids, markdown_table, render, shown_error


@dataclass(frozen=True)
class ClaimOutcome:
    """The number that our rows give for a claim, and whether the claim holds (None: none is made)."""

    value: float
    holds: bool | None


def verdict(claim: Claim, rows: Sequence[Row]) -> ClaimOutcome | None:
    """Hold a claim against the rows of its experiment; None where these are too few for it."""
    numbers = _numbers(claim, rows)
    if not numbers:
        return None
    if claim.over == "only" and len(numbers) > 1:
        raise DataMarketError(
            f"{len(numbers)} rows of {claim.experiment} for the claim {claim.says!r}; say `over`"
        )
    if any(math.isnan(number) for number in numbers):
        return ClaimOutcome(math.nan, False)
    low, high = min(numbers), max(numbers)
    value = {"only": low, "lowest": low, "highest": high, "spread": high - low}[claim.over]
    tolerance = paper().tolerance[claim.tolerance].around(claim.paper or 0.0) if claim.tolerance else 0.0
    if claim.paper is not None:
        return ClaimOutcome(
            value, abs(value - claim.paper) <= tolerance + SLACK if claim.tolerance else None
        )
    least = -math.inf if claim.at_least is None else claim.at_least - tolerance
    most = math.inf if claim.at_most is None else claim.at_most + tolerance
    return ClaimOutcome(value, least - SLACK <= value <= most + SLACK)


def _numbers(claim: Claim, rows: Sequence[Row]) -> list[float]:
    taken = [row for row in rows if matches(row, claim.where)]
    if any(not _has_each(taken, label, value) for label, value in claim.where.items()):
        return []
    if claim.along:
        return list(_steps(claim, taken))
    numbers = [_number(claim, row) for row in taken]
    if claim.less:
        partners = [_partner(claim, row, rows) for row in taken]
        others = [_number(claim, other) for other in partners if other is not None]
        if len(others) < len(taken):
            return []
        numbers = [
            one / other - 1 if claim.relative else one - claim.times * other
            for one, other in zip(numbers, others, strict=True)
        ]
    return [abs(number) for number in numbers] if claim.absolute else numbers


def _has_each(rows: Sequence[Row], label: str, wanted: Any) -> bool:
    """Tell if every value that a claim names has a row: one about four thresholds is none about three."""
    values = [row.get(label, "") for row in rows]
    return all(value in values for value in (wanted if isinstance(wanted, list) else [wanted]))


def _number(claim: Claim, row: Row) -> float:
    if claim.of == "se":
        # seeds that all give one number have no error printed; a single one has none at all
        error = (row["se"] or 0.0) if row["seeds"] > 1 else math.nan
        return float(error) * math.sqrt(row["seeds"] / claim.seeds)
    return math.nan if row["value"] is None else float(row["value"]) - claim.above


def _partner(claim: Claim, row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the one row that has this one's labels but for those in ``less``; "" means without the axis."""
    wanted = {key: row.get(key, "") for key in ("metric", *LABELS, *axes_of(row))} | claim.less
    partners = [other for other in rows if matches(other, wanted)]
    if len(partners) > 1:
        raise DataMarketError(
            f"{len(partners)} rows of {claim.experiment} to compare with {wanted}; one is needed"
        )
    return partners[0] if partners else None


def _steps(claim: Claim, rows: Sequence[Row]) -> Iterator[float]:
    """Return differences between neighbours along an axis, all other labels being equal."""
    axis = claim.along

    def rest(row: Row) -> str:
        return repr([row.get(key) for key in (*LABELS, *axes_of(row)) if key != axis])

    ordered = sorted(rows, key=lambda row: (rest(row), row[axis]))
    for _, group in itertools.groupby(ordered, key=rest):
        for one, other in itertools.pairwise(group):
            yield _number(claim, other) - _number(claim, one)


Verdict = Literal["within", "outside", "not claimed"]
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
    verdict: Verdict = "not claimed"
    why: str = ""


def compare_with_paper(experiment: str, rows: Sequence[Row]) -> list[PaperComparison]:
    matched = [(row, entry) for row in rows if (entry := entry_of(row)) is not None]
    comparisons = [_compare_value(row, entry) for row, entry in matched]
    comparisons += [
        PaperComparison(_name(entry), entry["metric"], f"{entry['paper']:g}", why=TOO_FEW)
        for entry in paper_values().get(experiment, ())
        if all(entry is not other for _, other in matched)
    ]
    comparisons += [
        _compare_claim(each, rows) for each in paper().claim if each.experiment == experiment
    ]
    return comparisons + [
        PaperComparison(each.says, "", "", why=each.why)
        for each in paper().unmeasured
        if each.experiment == experiment
    ]


def count_verdicts(comparisons: Sequence[PaperComparison]) -> list[int]:
    return [sum(each.verdict == kind for each in comparisons) for kind in get_args(Verdict)]


def summarize(comparisons: Sequence[PaperComparison]) -> str:
    within, outside, rest = count_verdicts(comparisons)
    absent = sum(each.why == TOO_FEW for each in comparisons)
    text = f"{within} of {len(comparisons)} cells within tolerance, {outside} outside, "
    text += f"{rest - absent} not claimed by us"
    return text + (f", {absent} not in these results" if absent else "")


def comparison_table(comparisons: Sequence[PaperComparison]) -> str:
    """Write the comparisons as Markdown, and below them the reason for everything outside or not claimed."""
    rows = []
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in comparisons:
        text = f"**{each.verdict}**" if each.verdict == "outside" else each.verdict
        rows.append(
            (each.cell, each.metric, each.paper, each.ours, each.difference, each.tolerance, text)
        )
        if each.verdict != "within":
            beside = f"{each.ours} for {each.paper}" if each.paper else each.ours
            cells = reasons.setdefault((each.verdict, each.why), [])
            cells.append(f"{each.cell.rstrip('.')} ({beside})")
    listed = [
        f"- {kind.capitalize()}: {'; '.join(cells)}. {why}".rstrip()
        for (kind, why), cells in sorted(reasons.items(), key=lambda item: item[0][0] != "outside")
    ]
    heads = ("the paper's cell", "metric", "paper", "ours", "difference", "tolerance", "verdict")
    return "\n".join([*markdown_table(heads, rows), "", *listed]) + "\n"


def _compare_value(row: Row, entry: Row) -> PaperComparison:
    error = f" ± {entry['paper_se']:g}" if entry.get("paper_se") else ""
    missing = row["value"] is None
    return PaperComparison(
        _name(row),
        row["metric"],
        f"{row['paper']:g}{error}",
        "no clear seed" if missing else f"{row['value']:.3f}{shown_error(row)}",
        "" if missing else f"{row['value'] - row['paper']:+.3f}",
        _tolerance(entry.get("tolerance", ""), row["paper"]),
        _VERDICTS[row["within"]],
        entry.get("why", ""),
    )


def _compare_claim(claim: Claim, rows: Sequence[Row]) -> PaperComparison:
    value, outcome = claim.paper, verdict(claim, rows)
    bounds = {"at most ": claim.at_most, "at least ": claim.at_least, "": value}
    bound = next(f"{name}{limit:g}" for name, limit in bounds.items() if limit is not None)
    if outcome is None:
        return PaperComparison(claim.says, "", bound, why=TOO_FEW)
    return PaperComparison(
        claim.says,
        "",
        bound,
        f"{outcome.value:.3f}",
        "" if value is None else f"{outcome.value - value:+.3f}",
        _tolerance(claim.tolerance, value or 0.0),
        _VERDICTS[outcome.holds],
        claim.why,
    )


_VERDICTS: Final[dict[bool | None, Verdict]] = {None: "not claimed", True: "within", False: "outside"}


def _tolerance(name: str, value: float) -> str:
    if not name:
        return ""
    tolerance = paper().tolerance[name]
    return f"{tolerance.around(value):g}" + (" (set after measuring)" if tolerance.after else "")


def _name(row: Row) -> str:
    words = [str(row[k]) for k in LABELS if k in ("attack", "mechanism") and k in row]
    if row["experiment"] == "predict-theta":  # the only one whose tasks are told apart
        words = [str(row["task"])]
    return ", ".join([*words, *(f"{axis} = {row[axis]}" for axis in axes_of(row) if axis != "k")])


_MARKS = {"outside": "!", "not claimed": "~"}


def paper_tables(rows: Sequence[Row], added: Set[str] = frozenset()) -> list[Grid]:
    """Lay out rows with a number of the paper, and those of added mechanisms and attacks; none without the former."""
    metrics = dict.fromkeys(row["metric"] for row in rows if row["paper"] is not None)
    shown = [
        row
        for row in rows
        if row["paper"] is not None or not added.isdisjoint({row.get("mechanism"), row.get("attack")})
    ]
    return grids(shown, [Layout(metric=metric) for metric in metrics]) if metrics else []


def sentences(shown: Sequence[PaperComparison]) -> list[str]:
    """Write what the paper says of several cells at once, with our number for it."""
    return [
        f"{one.cell.rstrip('.')}: {one.ours}"
        + (f" ({one.paper}){_MARKS.get(one.verdict, '')}" if one.paper else "")
        for one in shown
        if not one.metric
    ]


def reasons(shown: Sequence[PaperComparison]) -> list[str]:
    """List why numbers are outside the tolerance or not claimed, each reason once behind its mark."""
    given = [one for one in shown if one.verdict in _MARKS and one.why not in ("", TOO_FEW)]
    return list(dict.fromkeys(f"{_MARKS[one.verdict]} {one.why}" for one in given))


TIME = "time"
"""The name of the page of times, which no experiment may have."""

FRONT = """\
# Results

Generated by `datamarket results`; do not edit. A page for each experiment, with its tables and everything that the
paper says of it. Gains are ratios of attacked to honest payment (1 = no gain), means over seeds. Of the paper's cells
some are *within* our tolerance, some *outside* it (a miss, whatever the reason), and some *not claimed*, with the
reason on the page. As in the paper, U(empty) = 0.
"""
TIMES = """\
# Time

Seconds of all cells added up, and by the clock with cells in parallel (a dash: the run was interrupted and \
resumed, or made beside others of its suite).

"""
REPRODUCTION = """\
# From the paper to a command

Generated by `datamarket results`; do not edit. The tables and figures of the paper in its order, and experiments that
are in its text alone. A command prints the paper's table with our numbers beside it, and below it the count that stands
in the last column: of everything that the paper says of the experiment, in its text too, how much is within our
tolerance. As in the paper, U(empty) = 0. `--seeds 5` gives a first look.

| the paper's | caption | command | minutes, one core | our result | against the paper |
|---|---|---|---:|---|---|
"""

Comparisons = Mapping[str, Sequence[PaperComparison]]
"""Comparisons with the paper by experiment."""


def result_pages(folder: Path) -> dict[str, str]:
    """Write the pages of a folder of compact results, by their paths beside it.

    These are ``results.md``, ``results/EXPERIMENT.md``, ``results/time.md``, and ``reproduce.md`` if the paper speaks
    of any of the results; a folder of another name gives its name to them all.
    """
    results = {each.spec.name: each for each in read_all(folder)}
    if not results:
        raise DataMarketError(
            f"there are no results in {str(folder)!r}; make some and take them in: datamarket run s2; "
            "datamarket results runs"
        )
    if TIME in results:
        raise DataMarketError(
            f"an experiment is called {TIME!r}, as the page of times is; give it another name and run it again"
        )
    compared = {name: compare_with_paper(name, each.rows) for name, each in results.items()}
    name = folder.name
    reproduction = "reproduce.md" if name == "results" else f"{name}-reproduce.md"
    texts = {f"{name}/{each}.md": experiment_page(results[each], compared[each]) for each in results}
    texts[f"{name}/{TIME}.md"] = time_page(list(results.values()))
    lines = [_reproduction_line(each, name, results, compared) for each in paper().result]
    links = ""
    if any(lines):
        texts[reproduction] = REPRODUCTION + "\n".join(filter(None, lines)) + "\n\n" + _suites(results)
        links = f"\nWhich command makes which table or figure of the paper: [{reproduction}]({reproduction}).\n"
    if name == "results" and (folder.parent / "questions" / "index.md").exists():
        links += "\nWhat these results say, one page a question: [questions](questions/index.md).\n"
    return {f"{name}.md": _front_page(name, results, compared) + links, **texts}


def experiment_page(result: Compact, compared: Sequence[PaperComparison]) -> str:
    spec = result.spec
    name = spec.name
    seeds = f"Seeds {result.first_seed} to {result.last_seed}. Rows: [{name}.json]({name}.json)."
    if name in builtin_specs():
        seeds += f" Made by `datamarket run {name}`."
    text = [f"# {name}: {spec.title}", "", spec.about.strip() or spec.title, "", seeds, ""]
    text += [f"![{spec.title}](../figures/{figure}.svg)\n" for figure in figures_of(name)]
    text.append(render(result.rows, spec.tables))
    if compared:
        text += ["## Cell by cell against the paper", "", comparison_table(compared)]
    return "\n".join(text)


def time_page(results: Sequence[Compact]) -> str:
    rows: list[Sequence[object]] = []
    for each in results:
        t, name = each.timings, each.spec.name
        clock = "-" if (wall := t.get("wall_seconds")) is None else f"{wall:.1f}"
        cost = (t["cells"], f"{t['cell_seconds']:.1f}", clock, t.get("jobs", "-"), t["machine"])
        rows.append((f"[{name}]({name}.md)", each.seeds, *cost))
    total = sum(each.timings["cell_seconds"] for each in results)
    rows.append(("**all**", "", "", f"{total:.1f}", "", "", ""))
    heads = ("experiment", "seeds", "cells", "seconds, added up", "by the clock", "processes", "machine")
    return TIMES + "\n".join(markdown_table(heads, rows)) + "\n"


def _front_page(name: str, results: Mapping[str, Compact], compared: Comparisons) -> str:
    def counts(comparisons: Sequence[PaperComparison]) -> Sequence[object]:
        return [len(comparisons), *count_verdicts(comparisons)]

    rows = [
        [
            f"[{each}]({name}/{each}.md)",
            result.spec.title,
            result.seeds,
            *(counts(compared[each]) if compared[each] else [""] * 4),
        ]
        for each, result in results.items()
    ]
    total = counts([comparison for each in compared.values() for comparison in each])
    rows.append(["**all**", f"[time]({name}/{TIME}.md)", "", *total])
    numbers = "seeds, the paper's cells, within, outside, not claimed"
    heads = ["experiment", "what it asks", *numbers.split(", ")]
    return FRONT + "\n" + "\n".join(markdown_table(heads, rows, numbers)) + "\n"


def _reproduction_line(
    wanted: PaperResult, folder: str, results: Mapping[str, Compact], compared: Comparisons
) -> str:
    present = [name for name in wanted.experiments if name in results]
    if not present:
        return ""
    commands = [f"`datamarket run {name}`" for name in wanted.experiments]
    if wanted.number.startswith("Figure"):
        figures = ", ".join(f"`datamarket figures runs/{name}`" for name in wanted.experiments)
        commands[-1] += f", then {figures}"
    seconds = sum(float(results[name].timings["cell_seconds"]) for name in present)
    links = [f"[{name}]({folder}/{name}.md)" for name in present]
    links += [f"[figure](figures/{name}.svg)" for each in present for name in figures_of(each)[:1]]
    links += [f"[theory]({page})" for page in wanted.also]
    cells = [
        f"{wanted.number} (`{wanted.label}`)" if wanted.label else wanted.number,
        wanted.caption,
        ", ".join(commands),
        f"{seconds / 60:.1f}",
        ", ".join(links),
        summarize([each for name in present for each in compared[name]]),
    ]
    return f"| {' | '.join(cells)} |"


def _suites(results: Mapping[str, Compact]) -> str:
    shown = [
        each.experiments for each in paper().result if not results.keys().isdisjoint(each.experiments)
    ]
    suites = dict.fromkeys(builtin_specs()[name].suite for names in shown for name in names)
    commands = ", ".join(f"`datamarket suite {suite}`" for suite in suites)
    return (
        f"All of them at once: {commands}. Experiments on images and texts need their embeddings beside them "
        "([real domains](real-domains.md)).\n"
    )
