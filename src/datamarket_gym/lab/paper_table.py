"""The paper's table of an experiment: our number and the paper's in one cell, with a mark where they differ."""

from __future__ import annotations

import statistics
from collections.abc import Sequence, Set
from dataclasses import dataclass

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.names import COMPONENTS, VALUES, key_words, metric_words, words
from datamarket_gym.lab.reproduction import NOT_CLAIMED, OUTSIDE, TOO_FEW, PaperComparison
from datamarket_gym.lab.summary import LABELS
from datamarket_gym.lab.tables import Grid, axes_of, caption

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
    metric = metric_words(rows[0]["metric"])
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
