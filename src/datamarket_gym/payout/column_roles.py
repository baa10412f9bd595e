"""Roles of the columns of two tables: the guesses of ``datamarket init``, by their names and first rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from datamarket_gym.data.columns import Column, is_list, is_number, is_text, untyped
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.errors import SubmissionError

_ROWS = 2000  # that are looked at
_FEW_LABELS = 0.2  # share of rows above which different values are no labels
_SHOWN = 30  # characters of a value
_WORDS = 4.0  # on average, from which on cells are texts
_PAYEE = re.compile(
    r"payee|identit|contribut|provider|seller|author|supplier|vendor|owner|creator|account|member|user|e-?mail|name"
)
_LABEL = re.compile(r"label|section|category|class|topic|genre|kind|type|subject|target")
_TIME = re.compile(r"time|date|received|uploaded|submitted|created|(^|_)at$|when|arrived")
_ID = re.compile(r"(^|_)id$|^(id|key|uuid|guid|number|no|nr)\b|_(key|no|nr)$")
_TEXT = re.compile(r"text|body|content|article|abstract|description|message")
_IMAGE = re.compile(r"image|photo|picture|file")
_LINK = re.compile(r"iban|bank|payout|tax|phone|device")
_NUMBERED = re.compile(r"(.+)_\d+")


@dataclass(frozen=True)
class ColumnSample:
    """Hold the first values of a column, and what can be told from them."""

    name: str
    values: tuple[Any, ...]  # those that are not missing
    kind: pa.DataType

    @property
    def distinct(self) -> int:
        """Return the number of different values."""
        return len({str(value) for value in self.values})

    @property
    def words(self) -> float:
        """Return the mean number of words of a cell; 0 where the cells are no text."""
        if not is_text(self.kind) or not self.values:
            return 0.0
        return sum(len(str(value).split()) for value in self.values) / len(self.values)

    @property
    def is_time(self) -> bool:
        """Tell whether the values are dates, or are written as dates."""
        if pa.types.is_temporal(self.kind):
            return True
        with suppress(ValueError):
            return is_text(self.kind) and bool([datetime.fromisoformat(str(v)) for v in self.values])
        return False

    @property
    def is_number(self) -> bool:
        """Tell whether the values are numbers."""
        return is_number(self.kind)


@dataclass(frozen=True)
class ColumnRole:
    """Hold what a setting is likely to be, and which other columns it could be; None where no column fits."""

    column: str | None
    why: str = ""
    others: tuple[str, ...] = field(default=())


def read_first_rows(table: Table, wanted: Sequence[str]) -> tuple[dict[str, Column | None], str]:
    """Return the first rows of some columns, None where one is there twice or cannot be read; and a note."""
    times = Counter(table.names)
    once = [name for name in wanted if times[name] == 1]
    columns: dict[str, Column | None] = dict.fromkeys(wanted)
    note = ""
    try:
        columns |= _read(table, once)
    except SubmissionError as error:
        note = str(error)
        for name in once:
            with suppress(SubmissionError):
                columns |= _read(table, [name])
    if twice := sorted(name for name, many in times.items() if many > 1):
        several = ", ".join(repr(name) for name in twice[:5])
        note = f"There are several columns {several}; rename all but one. {note}".strip()
    return columns, note


def _read(table: Table, names: Sequence[str]) -> dict[str, Column]:
    batch = next(iter(table.source.batches(dict.fromkeys(names, "any"))), None) if names else None
    if batch is None:
        return {}
    return {name: Column(table.where, name, _first(table, batch[name])) for name in names}


def _first(table: Table, array: Any) -> pa.ChunkedArray:
    some = array.slice(0, _ROWS)
    if isinstance(some, pa.ExtensionArray):
        some = some.storage
    if pa.types.is_dictionary(some.type):
        some = some.dictionary_decode()
    whole = some if isinstance(some, pa.ChunkedArray) else pa.chunked_array([some])
    return whole if table.source.typed else untyped(whole)


def sample_columns(table: Table) -> dict[str, ColumnSample]:
    """Read the first rows of every column; one that cannot be read is left out."""
    columns, _ = read_first_rows(table, list(dict.fromkeys(table.names)))
    samples = {}
    for name, column in columns.items():
        if column is not None:
            cells = column.data.to_pylist()
            values = tuple(cell for cell in cells if cell is not None and str(cell).strip())
            samples[name] = ColumnSample(name, values, column.data.type)
    return samples


def find_roles(
    units: Mapping[str, ColumnSample], validation: Mapping[str, ColumnSample]
) -> dict[str, ColumnRole]:
    """Guess which columns of a table of units are what, given the validation rows beside it.

    Parameters
    ----------
    units, validation
        The first rows of both tables, by column.

    Returns
    -------
    dict
        The guess for each setting, by its name (``columns.identity``).
    """
    roles: dict[str, ColumnRole] = {}
    taken: set[str] = set()

    def choose(
        setting: str, why: str, fits: Callable[[ColumnSample], bool], *names: re.Pattern[str], both: bool
    ) -> None:
        """Take the column that fits, and whose name says most."""
        pool = [s for name, s in units.items() if name not in taken and (name in validation) == both]
        candidates = [s for s in pool if s.values and fits(s)]
        named = [s for p in names for s in candidates if p.search(s.name.lower())]
        best = named[0] if named else None
        others = tuple(s.name for s in candidates if s is not best)
        roles[setting] = ColumnRole(best.name if best else None, why, others)
        if best:
            taken.add(best.name)

    def take_features() -> None:
        stems: dict[str, list[str]] = {}
        for name in units:
            if (m := _NUMBERED.fullmatch(name)) and name in validation and units[name].is_number:
                stems.setdefault(m[1], []).append(name)
        lists = [n for n, s in units.items() if is_list(s.kind) and n in validation]
        stem = max(stems, key=lambda each: len(stems[each]), default=None)
        if lists:
            roles["columns.features"] = ColumnRole(
                "features" if "features" in lists else lists[0], "lists of numbers in both tables"
            )
            taken.update(lists)
        elif stem is not None and len(stems[stem]) > 1:
            count = len(stems[stem])
            roles["columns.features"] = ColumnRole(stem, f"{count:,} columns of numbers in both tables")
            taken.update(stems[stem])

    take_features()
    texts = [s for n, s in units.items() if n in validation and s.words >= _WORDS]
    if texts:
        best = max(texts, key=lambda s: (bool(_TEXT.search(s.name.lower())), s.words))
        roles["columns.text"] = ColumnRole(
            best.name, f"{best.words:.0f} words in a cell, in both tables",
            tuple(s.name for s in texts if s is not best),
        )  # fmt: skip
        taken.update(s.name for s in texts)
    rows = max((len(s.values) for s in units.values()), default=0)
    choose("columns.time", "dates", lambda s: s.is_time, _TIME, both=False)
    choose("columns.id", "another value in every row", lambda s: s.distinct == rows, _ID, both=False)
    if roles["columns.id"].column is None:  # validation rows may have ids of their own
        choose("columns.id", "another value in every row", lambda s: s.distinct == rows, _ID, both=True)
    choose(
        "columns.identity",
        "names that come back in several rows",
        lambda s: not s.is_time and not (s.is_number and not _PAYEE.search(s.name.lower())),
        *map(re.compile, _PAYEE.pattern.split("|")),
        both=False,
    )
    choose(
        "columns.label",
        "few different values, in both tables",
        lambda s: 1 < s.distinct <= max(2, _FEW_LABELS * rows) and not s.is_time and s.words < _WORDS,
        _LABEL,
        both=True,
    )
    choose("columns.image", "names of image files", _is_image, _IMAGE, both=True)
    links = [
        n for n, s in units.items() if n not in taken and n not in validation and _LINK.search(n.lower())
    ]
    if links:
        roles["linkage.keys"] = ColumnRole(links[0], "payees who share one are listed", tuple(links[1:]))
    return roles


def _is_image(sample: ColumnSample) -> bool:
    endings = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
    return all(str(value).lower().endswith(endings) for value in sample.values)


def describe_values(sample: ColumnSample | None, shown: int = 2) -> str:
    """Return the first different values of a column, for people."""
    if sample is None:
        return ""
    first = list(dict.fromkeys(str(value) for value in sample.values))[:shown]
    return ", ".join(_short(each) for each in first)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"


def missing_role(settings: Mapping[str, Any]) -> str | None:
    """Return the setting that no run can do without and that is not there: who is paid, or what for."""
    if not settings.get("columns.identity"):
        return "columns.identity"
    content = ("columns.features", "columns.text", "columns.image", "files.features")
    return None if any(settings.get(name) for name in content) else "columns.text"
