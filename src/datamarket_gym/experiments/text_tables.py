"""Tables of experiments as text of a given width: wide ones are cut into several, names are never cut.

The paper's table is kept in one piece as long as that is possible: first its standard errors go, then its labels
are wrapped.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence, Set

from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.reproduction import legend, paper_grids
from datamarket_gym.experiments.tables import LEGEND, Cell, Grid

_GAP = "  "
_WHOLE = 20  # letters: shorter parts of a cell are not broken
_LABELS = 0.55  # of the width: the most that labels take before they are wrapped
_NARROW = 0.2  # the same, where that keeps a table in one piece


def as_text(grids: Sequence[Grid], width: int) -> str:
    """All tables and the legend."""
    legend = textwrap.fill(LEGEND, width)
    return "\n".join([*(_text(grid, width) for grid in grids), legend]) + "\n"


def paper_text(rows: Sequence[Row], own: Set[str], width: int) -> str:
    """The paper's tables beside ours, and their legend; "" where the paper says nothing of single cells."""
    full, short = (paper_grids(rows, own, errors=errors) for errors in (True, False))
    chosen, texts = [], []
    for with_errors, without in zip(full, short, strict=True):
        ways = [(with_errors, _LABELS), (without, _LABELS), (without, _NARROW)]
        grid, labels = next((way for way in ways if len(_laid_out(*way, width)[2]) == 1), ways[1])
        chosen.append(grid)
        texts.append(_text(grid, width, labels))
    return "\n".join([*texts, textwrap.fill(legend(chosen), width)]) if texts else ""


Tokens = list[tuple[str, str]]
"""Pieces that stay whole, each with what stands before it on the same line."""

Blocks = list[tuple[list[list[Tokens]], list[int]]]
"""Columns that stand beside each other, with their widths."""


def _laid_out(grid: Grid, most: float, width: int) -> tuple[list[list[Tokens]], list[int], Blocks]:
    """The labels with their widths, and the other columns in as few blocks as fit beside them."""
    labels = [[_pieces(text) for text in column] for column in _columns(grid)]
    sizes = _label_sizes(labels, most * width)
    room = width - sum(sizes) - len(_GAP) * len(sizes)
    values = [
        [_head(head), *(_parts(cells[i]) for _, cells in grid.lines)]
        for i, head in enumerate(grid.heads)
    ]
    return labels, sizes, list(_shared_out(values, room))


def _text(grid: Grid, width: int, most: float = _LABELS) -> str:
    labels, sizes, found = _laid_out(grid, most, width)
    lines = [*textwrap.wrap(grid.title, width, break_on_hyphens=False), ""]
    for some, widths in found:
        for row in range(len(grid.lines) + 1):
            blocks = [_wrap(column[row], size) for column, size in zip(labels, sizes, strict=True)]
            blocks += [_wrap(column[row], size) for column, size in zip(some, widths, strict=True)]
            lines += _beside(blocks, [*sizes, *widths])
            if row == 0:
                lines.append(_GAP.join("-" * size for size in [*sizes, *widths]))
        lines.append("")
    for note in grid.notes:
        lines += textwrap.wrap(note, width, subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join([*lines, ""] if grid.notes else lines)


def _columns(grid: Grid) -> Iterator[list[str]]:
    for i, name in enumerate(grid.names):
        yield [name, *(labels[i] for labels, _ in grid.lines)]


def _pieces(text: str) -> Tokens:
    """A text that may be broken at spaces, and behind marks inside names."""
    found: Tokens = []
    for word in text.split():
        parts = [part for part in re.split(r"(?<=[/_(,=@])", word) if part]
        found += [(part, "" if i else " ") for i, part in enumerate(parts)]
    return found


def _head(text: str) -> Tokens:
    """A column's head: a short name stays whole, as an axis and its value do."""
    whole = len(text) <= _WHOLE and "_" not in text and (" " not in text or " = " in text)
    return [(text, " ")] if whole else _pieces(text)


def _parts(cell: Cell) -> Tokens:
    return [
        token for part in cell for token in ([(part, " ")] if len(part) <= _WHOLE else _pieces(part))
    ]


def _least(column: Sequence[Tokens]) -> int:
    return max((len(piece) for tokens in column for piece, _ in tokens), default=1)


def _most(column: Sequence[Tokens]) -> int:
    return max(sum(len(a) + len(b) for a, b in tokens) - 1 if tokens else 1 for tokens in column)


def _label_sizes(labels: Sequence[Sequence[Tokens]], width: float) -> list[int]:
    """As wide as the labels are; where that leaves no room for numbers, the widest are wrapped."""
    sizes = [_most(column) for column in labels]
    least = [_least(column) for column in labels]
    while sum(sizes) > width and sizes != least:
        widest = max((i for i in range(len(sizes)) if sizes[i] > least[i]), key=lambda i: sizes[i])
        sizes[widest] -= 1
    return sizes


def _shared_out(
    values: Sequence[list[Tokens]], room: int
) -> Iterator[tuple[list[list[Tokens]], list[int]]]:
    """Columns that fit beside each other, with their widths; what room is left is shared."""
    start = 0
    while start < len(values):
        sizes: list[int] = []
        for column in values[start:]:
            least = min(_least(column), room)
            if sizes and sum(sizes) + least + len(_GAP) * len(sizes) > room:
                break
            sizes.append(least)
        some = list(values[start : start + len(sizes)])
        most = [_most(column) for column in some]
        spare = room - sum(sizes) - len(_GAP) * (len(sizes) - 1)
        while spare > 0 and any(a < b for a, b in zip(sizes, most, strict=True)):
            narrow = min((i for i in range(len(sizes)) if sizes[i] < most[i]), key=lambda i: sizes[i])
            sizes[narrow] += 1
            spare -= 1
        yield some, sizes
        start += len(sizes)


def _wrap(tokens: Tokens, width: int) -> list[str]:
    lines = [""]
    for piece, before in tokens:
        joined = lines[-1] + (before if lines[-1] else "") + piece
        if len(joined) <= width or not lines[-1]:
            lines[-1] = joined
        else:
            lines.append(piece)
    # only a piece with no mark to break at can still be too long
    return [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]


def _beside(blocks: Sequence[Sequence[str]], sizes: Sequence[int]) -> Iterator[str]:
    for i in range(max(len(block) for block in blocks)):
        cells = (block[i] if i < len(block) else "" for block in blocks)
        yield _GAP.join(f"{c:{size}}" for c, size in zip(cells, sizes, strict=True)).rstrip()
