"""What an object shows of itself at a prompt: a line and a short table, one screen at most.

The same `Screen` is plain text (``repr``), a table for rich (``rich.print``) and HTML (a notebook). Objects that say
nothing else show their fields: dataclasses and pydantic models those that their ``repr`` would have, all others their
public attributes.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass
from itertools import islice
from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


ROWS = 12
"""Of a longer table this many rows are shown."""
_FIELDS = 16  # of an object this many fields
_WIDEST = 24  # characters of a cell: names are submitted by strangers
_VALUE = 70  # characters of a field's value
_ACROSS = 78


@dataclass(frozen=True)
class Screen:
    """A title and some rows of a table, of which there are ``rows_in_all``; the first ``texts`` columns are text."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    rows_in_all: int
    texts: int = 1

    @classmethod
    def of(
        cls,
        title: str,
        heads: Sequence[str],
        rows: Iterable[Sequence[object]],
        rows_in_all: int,
        texts: int = 1,
        widest: int = _WIDEST,
    ) -> Screen:
        """Show the first rows, each cell as a short text."""
        few = tuple(tuple(_cell(value, widest) for value in row) for row in islice(rows, ROWS))
        return cls(title, tuple(heads), few, rows_in_all, texts)

    @classmethod
    def of_fields(cls, title: str, values: Mapping[str, object]) -> Screen:
        rows = ((shortened(k, _WIDEST), shortened(described(v), _VALUE)) for k, v in values.items())
        return cls(title, ("field", "value"), tuple(islice(rows, _FIELDS)), len(values), 2)

    @property
    def rest(self) -> str:
        more = self.rows_in_all - len(self.rows)
        return f"... and {more} more" if more > 0 else ""

    def text(self) -> str:
        """Return plain text of at most 80 columns."""
        table = [self.heads, *self.rows]
        wide = [max(len(row[i]) for row in table) for i in range(len(self.heads))]
        lines = [
            "  ".join(
                f"{cell:{'>' if i >= self.texts else '<'}{wide[i]}}" for i, cell in enumerate(row)
            ).rstrip()
            for row in table
        ]
        title = wrap(self.title, _ACROSS, subsequent_indent="  ")
        return "\n".join(filter(None, [*title, *lines, self.rest]))

    def rich(self) -> Table:
        """Return a table for rich; what is in the cells is text, never markup."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(self.title), caption=Text(self.rest) if self.rest else None)
        for i, head in enumerate(self.heads):
            table.add_column(head, justify="right" if i >= self.texts else "left")
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        return table

    def html(self) -> str:
        def line(tag: str, row: Iterable[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"

        rows = "".join(line("td", row) for row in self.rows)
        rest = f"<p>{html.escape(self.rest)}</p>" if self.rest else ""
        return f"<p>{html.escape(self.title)}</p><table>{line('th', self.heads)}{rows}</table>{rest}"


class Described:
    """Something that shows its fields as a table in a notebook; its ``repr`` is a dataclass's, over several lines."""

    __slots__ = ()

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "__repr__" not in vars(cls):  # else a dataclass writes one
            cls.__repr__ = cls.__repr__  # type: ignore[method-assign]

    def screen(self) -> Screen:
        """Return what is shown: the fields, unless a class says something else."""
        public = {name: value for name, value in _fields(self).items() if not name.startswith("_")}
        return Screen.of_fields(_headline(self), public)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in _fields(self).items())
        return folded(f"{type(self).__qualname__}({fields})")

    def _repr_html_(self) -> str:
        return self.screen().html()


class Shown(Described):
    """Something that shows itself by its screen at a prompt and in rich, too."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self.screen().text()

    def __str__(self) -> str:
        return repr(self)

    def __rich__(self) -> Table:
        return self.screen().rich()


def described(value: object) -> str:
    """Describe a value in a few words: an array by its type and shape, one of our objects by its title."""
    if isinstance(value, Shown):
        own = type(value).screen is not Described.screen
        return value.screen().title if own else _headline(value)
    if isinstance(value, Described):
        return " ".join(repr(value).split())
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return f"{value:.4g}"
    if (shape := getattr(value, "shape", ())) and (kind := getattr(value, "dtype", None)):
        return f"{'text' if kind.kind in 'US' else kind} array of shape {tuple(shape)}"
    if isinstance(value, Mapping):
        return _items(value, [f"{described(k)}: {described(v)}" for k, v in islice(value.items(), 9)])
    if isinstance(value, Sequence | Set) and not isinstance(value, str):
        return _items(value, [described(each) for each in islice(value, 9)])
    text = value.__name__ if callable(value) and hasattr(value, "__name__") else str(value)
    return type(value).__name__ if " at 0x" in text or "\n" in text else text


def shortened(text: str, most: int) -> str:
    """Return a text of at most that many characters, all of which can be printed."""
    text = text if text.isprintable() else repr(text)[1:-1]
    return text if len(text) <= most else text[: most - 3] + "..."


def folded(text: str) -> str:
    """Wrap a long line, all but the first indented, without the addresses of objects."""
    lines = wrap(
        re.sub(r" object at 0x[0-9a-f]+", "", text), 100, subsequent_indent="    ", max_lines=20
    )
    return "\n".join(lines)


def counted(number: int, one: str, several: str = "") -> str:
    """Write ``1 unit``, ``2,000 units``, ``3 identities``."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def listed(items: Iterable[str], most: int, between: str = ", ") -> str:
    """Write ``a, b and 3 more``: the first items, and how many there are besides."""
    items = list(items)
    more = len(items) - most
    return between.join(items[:most]) + (f" and {more:,} more" if more > 0 else "")


def _cell(value: object, widest: int) -> str:
    return shortened(f"{value:.4g}" if isinstance(value, float) else str(value), widest)


def _items(items: Sized, first: list[str]) -> str:
    """Write all of few items; of more, or of long ones, how many there are and how they begin."""
    if not first:
        return "empty"
    same = len(first) > 2 and len(set(first)) == 1
    text = first[0] if same else ", ".join(first)
    few = len(items) == len(first) and len(text) < _VALUE and not same
    return text if few else f"{counted(len(items), 'entry', 'entries')}: {text}"


def _headline(shown: object) -> str:
    name = type(shown).__name__
    return f"{name} of {len(shown):,}" if isinstance(shown, Sized) else name


def _fields(shown: Any) -> dict[str, object]:
    """Return what is shown of an object; fields that are kept out of a ``repr`` are kept out of this."""
    if dataclasses.is_dataclass(shown):
        names = [f.name for f in dataclasses.fields(shown) if f.repr]
    elif hasattr(type(shown), "model_fields"):
        names = [name for name, field in type(shown).model_fields.items() if field.repr]
    else:
        names = [n for n in vars(shown) if not (n.startswith("_") or hasattr(type(shown), n))]
    return {name: getattr(shown, name) for name in names}
