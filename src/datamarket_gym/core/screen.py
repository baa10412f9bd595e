"""What an object shows of itself at a prompt: a line and a short table, one screen at most.

The same `Screen` is plain text (``repr``), a table for rich (``rich.print``) and HTML (a notebook).
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

ROWS = 12
"""Of a longer table this many rows are shown."""
_WIDEST = 24  # characters of a cell: names are submitted by strangers
_ACROSS = 78


@dataclass(frozen=True)
class Screen:
    """A title and some rows of a table, of which there are ``rows_in_all``; the first column is text."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    rows_in_all: int

    @classmethod
    def of(
        cls, title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], rows_in_all: int
    ) -> Screen:
        """The first rows, each cell as a short text."""
        few = tuple(tuple(_cell(value) for value in row) for row in islice(rows, ROWS))
        return cls(title, tuple(heads), few, rows_in_all)

    @property
    def rest(self) -> str:
        """How many rows are not shown."""
        more = self.rows_in_all - len(self.rows)
        return f"... and {more} more" if more > 0 else ""

    def text(self) -> str:
        """Plain text of at most 80 columns."""
        table = [self.heads, *self.rows]
        wide = [max(len(row[i]) for row in table) for i in range(len(self.heads))]
        lines = [
            "  ".join(_padded(row[i], wide[i], i) for i in range(len(wide))).rstrip() for row in table
        ]
        return "\n".join(filter(None, [*_folded(self.title), *lines, self.rest]))

    def rich(self) -> Table:
        """A table for rich; what is in the cells is text, never markup."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(self.title), caption=Text(self.rest) if self.rest else None)
        for i, head in enumerate(self.heads):
            table.add_column(head, justify="right" if i else "left")
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        return table

    def html(self) -> str:
        """A table for notebooks."""

        def line(tag: str, row: Iterable[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"

        rows = "".join(line("td", row) for row in self.rows)
        rest = f"<p>{html.escape(self.rest)}</p>" if self.rest else ""
        return f"<p>{html.escape(self.title)}</p><table>{line('th', self.heads)}{rows}</table>{rest}"


class Shown(ABC):
    """Something that shows itself by its screen, at a prompt, in rich and in a notebook."""

    @abstractmethod
    def screen(self) -> Screen:
        """What is shown."""

    def __repr__(self) -> str:
        return self.screen().text()

    def __rich__(self) -> Table:
        return self.screen().rich()

    def _repr_html_(self) -> str:
        return self.screen().html()


def counted(number: int, one: str, several: str = "") -> str:
    """``1 unit``, ``2,000 units``, ``3 identities``."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def listed(items: Iterable[str], most: int, between: str = ", ") -> str:
    """``a, b and 3 more``: the first items, and how many there are besides."""
    items = list(items)
    more = len(items) - most
    return between.join(items[:most]) + (f" and {more:,} more" if more > 0 else "")


def shortened(text: str, most: int) -> str:
    """A text of at most that many characters, all of which can be printed."""
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= most else text[: most - 3] + "..."


def _cell(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def _padded(cell: str, wide: int, place: int) -> str:
    return cell.rjust(wide) if place else cell.ljust(wide)


def _folded(title: str) -> list[str]:
    from textwrap import wrap

    return wrap(title, _ACROSS, subsequent_indent="  ")
