"""What the paper says of several rows at once, held against our rows.

A claim is a number that some rows give (their lowest, their spread, how far they lie from another
mechanism's) and a bound on it; the numbers come from summary rows, nothing is run.

The paper's numbers held against ours: everything that it says of an experiment, with a verdict.

Three verdicts: *within* the tolerance, *outside* it, and *not claimed* (no tolerance, or nothing measured: the number
is shown and the reason said). Outside counts as a miss, whatever its reason.

The paper's table of an experiment: our number and the paper's in one cell, with a mark where they differ.

The pages of a folder of compact results, as Markdown; a function of the results and the paper's numbers alone.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.figures import figures_of
from datamarket_gym.experiments.names import COMPONENTS, VALUES, key_words, metric_titles, words
from datamarket_gym.experiments.paper import (
    SLACK,
    Claim,
    PaperResult,
    bars,
    entry_of,
    paper_claims,
    paper_results,
    paper_values,
    unmeasured,
)
from datamarket_gym.experiments.results import Compact, read_all
from datamarket_gym.experiments.spec import builtin_specs
from datamarket_gym.experiments.summary import LABELS, matches
from datamarket_gym.experiments.tables import Grid, axes_of, caption, render, shown_error


@dataclass(frozen=True)
class ClaimOutcome:
    """The number that our rows give for a claim, and whether the claim holds (None: none is made)."""

    value: float
    holds: bool | None


def verdict(claim: Claim, rows: Sequence[Row]) -> ClaimOutcome | None:
    """Hold a claim against the rows of its experiment; None where these are too few for it."""
    found = _numbers(claim, rows)
    if not found:
        return None
    if claim.over == "only" and len(found) > 1:
        raise DataMarketError(
            f"{len(found)} rows of {claim.experiment} for the claim {claim.says!r}; say `over`"
        )
    if any(math.isnan(number) for number in found):
        return ClaimOutcome(math.nan, False)
    value = {
        "only": found[0],
        "lowest": min(found),
        "highest": max(found),
        "spread": max(found) - min(found),
    }[claim.over]
    return ClaimOutcome(value, _holds(claim, value))


def _holds(claim: Claim, value: float) -> bool | None:
    room = bars()[claim.bar].around(claim.paper or 0.0) if claim.bar else 0.0
    if claim.paper is not None:
        return abs(value - claim.paper) <= room + SLACK if claim.bar else None
    low = -math.inf if claim.at_least is None else claim.at_least - room
    high = math.inf if claim.at_most is None else claim.at_most + room
    return low - SLACK <= value <= high + SLACK


def _numbers(claim: Claim, rows: Sequence[Row]) -> list[float]:
    taken = [row for row in rows if matches(row, claim.where)]
    if any(not _has_each(taken, label, value) for label, value in claim.where.items()):
        return []
    if claim.along:
        return list(_steps(claim, taken))
    if not claim.less:
        return [_signed(claim, _number(claim, row)) for row in taken]
    pairs = [(row, other) for row in taken if (other := _partner(claim, row, rows)) is not None]
    if len(pairs) < len(taken):
        return []
    return [
        _signed(claim, _compared(claim, _number(claim, row), _number(claim, other)))
        for row, other in pairs
    ]


def _has_each(rows: Sequence[Row], label: str, wanted: Any) -> bool:
    """Whether every value that a claim names has a row: one about four thresholds is none about three."""
    found = [row.get(label, "") for row in rows]
    return all(value in found for value in (wanted if isinstance(wanted, list) else [wanted]))


def _signed(claim: Claim, number: float) -> float:
    return abs(number) if claim.absolute else number


def _compared(claim: Claim, one: float, other: float) -> float:
    return one / other - 1 if claim.relative else one - claim.times * other


def _number(claim: Claim, row: Row) -> float:
    if claim.of == "se":
        # seeds that all give one number have no error printed; a single one has none at all
        error = (row["se"] or 0.0) if row["seeds"] > 1 else math.nan
        return float(error) * math.sqrt(row["seeds"] / claim.seeds)
    return math.nan if row["value"] is None else float(row["value"]) - claim.above


def _partner(claim: Claim, row: Row, rows: Sequence[Row]) -> Row | None:
    """The one row that has this one's labels but for those in ``less``; "" means without the axis."""
    wanted = {key: row.get(key, "") for key in ("metric", *LABELS, *axes_of(row))} | claim.less
    found = [other for other in rows if matches(other, wanted)]
    if len(found) > 1:
        raise DataMarketError(
            f"{len(found)} rows of {claim.experiment} to compare with {wanted}; one is needed"
        )
    return found[0] if found else None


def _steps(claim: Claim, rows: Sequence[Row]) -> Iterator[float]:
    """Differences between neighbours along an axis, all other labels being equal."""
    axis = claim.along

    def rest(row: Row) -> str:
        return repr([row.get(key) for key in (*LABELS, *axes_of(row)) if key != axis])

    ordered = sorted(rows, key=lambda row: (rest(row), row[axis]))
    for _, group in itertools.groupby(ordered, key=rest):
        for one, other in itertools.pairwise(group):
            yield _number(claim, other) - _number(claim, one)


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


_COLUMN = 3  # lines that a column is worth, when a table could be laid out in two ways
_PLAYED = ("granularity", "representative")  # mechanisms stand side by side whatever these are
_MARKS = {OUTSIDE: "!", NOT_CLAIMED: "~"}


def paper_grids(rows: Sequence[Row], own: Set[str] = frozenset(), *, errors: bool) -> list[Grid]:
    """Lay out the rows that have a number of the paper, one table for each metric.

    Parameters
    ----------
    rows
        Summary rows of one experiment.
    own
        Names of mechanisms and attacks that were added to it: they stand beside those of the paper.
    errors
        Whether cells have standard errors; without them a note says how large they are.

    Returns
    -------
    list of Grid
        Empty where the paper says nothing of single cells.
    """
    metrics = dict.fromkeys(row["metric"] for row in rows if row["paper"] is not None)
    return [_grid([row for row in rows if row["metric"] == metric], own, errors) for metric in metrics]


def legend(grids: Sequence[Grid]) -> str:
    """Explain how a cell is read, and the marks that these tables have."""
    text = " ".join(part for grid in grids for _, cells in grid.lines for cell in cells for part in cell)
    text += " ".join(note for grid in grids for note in grid.notes)
    parts = ["the paper's number in brackets"]
    parts += ["± standard error"] if "±" in text else []
    parts += ["! outside the tolerance"] if ")!" in text else []
    parts += ["~ no tolerance, nothing claimed"] if ")~" in text else []
    parts += (
        ["* fewer seeds, as honest pay is not clearly above zero in the others"] if "*" in text else []
    )
    gain = any(grid.title.startswith("Gain") for grid in grids)
    said = "Gain: ratio of attacked to honest payment (1 = no gain). " if gain else ""
    joined = "; ".join(parts)
    return f"{said}{joined[0].upper()}{joined[1:]}."


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
    found = [one for one in shown if one.verdict in _MARKS and one.why not in ("", TOO_FEW)]
    return list(dict.fromkeys(f"{_MARKS[one.verdict]} {one.why}" for one in found))


@dataclass(frozen=True)
class _Layout:
    """The rows of a table, the labels that they share, and those that name its lines and its columns."""

    body: list[Row]
    shared: Row
    down: list[str]
    across: str


def _layout(rows: Sequence[Row], own: Set[str]) -> _Layout:
    paper = [row for row in rows if row["paper"] is not None]
    axes = dict.fromkeys(axis for row in paper for axis in axes_of(row))
    keys = [key for key in (*LABELS, *axes) if key != "k"]  # it is in the attack's name
    body = [*paper, *(row for row in rows if row["paper"] is None and _is_added(row, own, paper, keys))]
    shared = {key: body[0].get(key) for key in keys if len({row.get(key) for row in body}) == 1}
    several = [key for key in keys if key not in shared]
    varying = [key for key in several if key not in _PLAYED]
    if len({_at(row, varying) for row in body}) < len(body):
        varying = several
    if len(varying) < 2:
        return _Layout(body, shared, varying or ["mechanism"], "")
    # of two ways that are equally large the last label is across: the paper's own grid has it there
    across = min(reversed(varying), key=lambda key: _size(paper, varying, key))
    return _Layout(body, shared, [key for key in varying if key != across], across)


def _grid(rows: Sequence[Row], own: Set[str], errors: bool) -> Grid:
    layout = _layout(rows, own)
    down, across, shared = layout.down, layout.across, dict(layout.shared)
    found = {(_at(row, down), row.get(across)): row for row in layout.body}
    digits = {at: _digits([row for (line, _), row in found.items() if line == at]) for at, _ in found}
    cells = {place: _cell(row, digits[place[0]], errors) for place, row in found.items()}
    metric = metric_titles(rows[0]["metric"])
    columns, notes = [], []
    for column in dict.fromkeys(column for _, column in cells):
        texts = {line: text for (line, at), text in cells.items() if at == column}
        if across and (note := _folded(layout, column, texts)):
            notes.append(note)
        else:
            columns.append((column, _head(across, column) if across else metric))
    lines = list(dict.fromkeys(line for line, at in cells if any(at == column for column, _ in columns)))
    if len(down) == 1 and all(isinstance(line[0], int | float) for line in lines):
        lines.sort(key=lambda line: float(str(line[0])))
    alike = [i for i in range(len(down)) if len(lines) > 1 and len({line[i] for line in lines}) == 1]
    shared |= {down[i]: lines[0][i] for i in alike}
    kept = [i for i in range(len(down)) if i not in alike]
    if not errors and (said := _errors(layout.body)):
        notes.append(said)
    table = [
        (
            [_words(down[i], line[i]) for i in kept],
            [tuple(filter(None, [cells.get((line, column))])) for column, _ in columns],
        )
        for line in lines
    ]
    title = f"{metric[0].upper()}{metric[1:]}: {_caption(shared)}"
    return Grid(title, [key_words(down[i]) for i in kept], [head for _, head in columns], table, notes)


def _folded(layout: _Layout, column: object, texts: dict[tuple[object, ...], str]) -> str:
    """A column as a note: one of a single cell, or one in which we and the paper have the same everywhere."""
    head = _head(layout.across, column)
    plain = {text.replace("*", "") for text in texts.values()}
    if len(texts) == 1:
        ((line, text),) = texts.items()
        beside = [_words(key, value) for key, value in zip(layout.down, line, strict=True)]
        return f"{', '.join(filter(None, [*beside, head]))}: {text}"
    if len(plain) == 1 and "(" in (text := plain.pop()):
        return f"{head}: {text} in every line"
    return ""


def _caption(shared: Row) -> str:
    named = {k: words(k, v) if k in ("task", "attack", "mechanism") else v for k, v in shared.items()}
    return caption({key: value for key, value in named.items() if value is not None})


def _is_added(row: Row, own: Set[str], paper: Sequence[Row], keys: Sequence[str]) -> bool:
    """Whether a row without a number of the paper is of an added mechanism or attack, all else being equal."""
    if own.isdisjoint({row.get("mechanism"), row.get("attack")}) or set(axes_of(row)) - {*keys, "k"}:
        return False
    loose = ("mechanism", "attack", *_PLAYED)
    return all(row.get(k) in {other.get(k) for other in paper} for k in keys if k not in loose)


def _at(row: Row, keys: Sequence[str]) -> tuple[object, ...]:
    return tuple(row.get(key) for key in keys)


def _size(rows: Sequence[Row], keys: Sequence[str], across: str) -> int:
    """How large a table is with this label across."""
    lines = {_at(row, [key for key in keys if key != across]) for row in rows}
    return max(len(lines), _COLUMN * len({row.get(across) for row in rows}))


def _digits(rows: Sequence[Row]) -> int:
    """Decimals of a line: as many as the paper has, and two at least."""
    return max(
        2, *(len(f"{row['paper']:g}".partition(".")[2]) for row in rows if row["paper"] is not None), 2
    )


def _words(key: str, value: object) -> str:
    """A label's value in words, below the name of the label."""
    if value is None:
        return ""
    return words(key, value) if key in LABELS or key in COMPONENTS or key in VALUES else str(value)


def _head(key: str, value: object) -> str:
    return _words(key, value) if key in LABELS or value is None else f"{key_words(key)} {value}"


def _cell(row: Row, digits: int, errors: bool) -> str:
    if row["value"] is None:
        ours = "none"
    else:
        ours = f"{round(row['value'], digits) + 0.0:.{digits}f}"  # no minus before zero
        error = f"{row['se'] or 0.0:.{digits}f}"
        ours += f"±{error}" if errors and float(error) else ""
    ours += "*" if row.get("left_out") else ""
    if row["paper"] is None:
        return ours
    mark = "!" if row["within"] is False else "~" if row["within"] is None else ""
    return f"{ours} ({row['paper']:.{digits}f}){mark}"


def _errors(rows: Sequence[Row]) -> str:
    known = [row["se"] for row in rows if row["se"]]
    if not known:
        return ""
    return f"Standard errors: median {statistics.median(known):.2g}, largest {max(known):.2g}"


TIME = "time"
"""The name of the page of times, which no experiment may have."""

FRONT = """\
# Results

Generated by `datamarket results`; do not edit. A page for each experiment, with its tables and everything that the
paper says of it. Gains are ratios of attacked to honest payment (1 = no gain), means over seeds. Of the paper's cells
some are *within* our tolerance, some *outside* it (a miss, whatever the reason), and some *not claimed*, with the
reason on the page. As in the paper, U(empty) = 0.
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
    """Write every page of a folder of compact results.

    Parameters
    ----------
    folder
        Holds one JSON file for each experiment.

    Returns
    -------
    dict of str to str
        Texts by their paths beside the folder: ``results.md``, ``results/EXPERIMENT.md``, ``results/time.md``, and
        ``reproduce.md`` where the results have anything that the paper speaks of. A folder of another name gives its
        name to them all.

    Raises
    ------
    DataMarketError
        Where the folder holds no results.
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
    lines = [_reproduction_line(each, name, results, compared) for each in paper_results()]
    links = ""
    if any(lines):
        texts[reproduction] = REPRODUCTION + "\n".join(filter(None, lines)) + "\n\n" + _suites(results)
        links = f"\nWhich command makes which table or figure of the paper: [{reproduction}]({reproduction}).\n"
    if name == "results" and (folder.parent / "questions" / "index.md").exists():
        links += "\nWhat these results say, one page a question: [questions](questions/index.md).\n"
    return {f"{name}.md": _front_page(name, results, compared) + links, **texts}


def experiment_page(result: Compact, compared: Sequence[PaperComparison]) -> str:
    """Write the page of an experiment: what it asks, its figures, its tables, and the paper beside them."""
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
    """Write what experiments cost: the seconds of all cells, and by the clock where they are known."""
    lines = [
        "# Time",
        "",
        "Seconds of all cells added up, and by the clock with cells in parallel (a dash: the run was "
        "interrupted and resumed, or made beside others of its suite).",
        "",
        "| experiment | seeds | cells | seconds, added up | by the clock | processes | machine |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in results:
        t = each.timings
        clock = "-" if (wall := t.get("wall_seconds")) is None else f"{wall:.1f}"
        cells = f"{each.seeds} | {t['cells']} | {t['cell_seconds']:.1f} | {clock} | {t.get('jobs', '-')}"
        lines.append(f"| [{each.spec.name}]({each.spec.name}.md) | {cells} | {t['machine']} |")
    total = sum(each.timings["cell_seconds"] for each in results)
    return "\n".join([*lines, f"| **all** | | | {total:.1f} | | | |"]) + "\n"


def _front_page(name: str, results: Mapping[str, Compact], compared: Comparisons) -> str:
    lines = [
        "| experiment | what it asks | seeds | the paper's cells | within | outside | not claimed |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for each, result in results.items():
        counts = [len(compared[each]), *count_verdicts(compared[each])] if compared[each] else [""] * 4
        cells = [f"[{each}]({name}/{each}.md)", result.spec.title, result.seeds, *counts]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    everything = [comparison for each in compared.values() for comparison in each]
    totals = " | ".join(map(str, [len(everything), *count_verdicts(everything)]))
    lines.append(f"| **all** | [time]({name}/{TIME}.md) | | {totals} |")
    return FRONT + "\n" + "\n".join(lines) + "\n"


def _reproduction_line(
    wanted: PaperResult, folder: str, results: Mapping[str, Compact], compared: Comparisons
) -> str:
    """Write the line of a table or figure of the paper; "" where these results have none of its experiments."""
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
    experiments = [
        name
        for each in paper_results()
        if set(each.experiments) & set(results)
        for name in each.experiments
    ]
    suites = dict.fromkeys(builtin_specs()[name].suite for name in experiments)
    commands = ", ".join(f"`datamarket suite {suite}`" for suite in suites)
    return (
        f"All of them at once: {commands}. Experiments on images and texts need their embeddings beside them "
        "([real domains](real-domains.md)).\n"
    )
