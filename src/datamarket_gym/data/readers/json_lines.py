"""JSON lines: one object per line, its fields as columns; a field that a line lacks is empty there."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from datamarket_gym.data.readers.files import Kind, encoding_error, open_text, readable
from datamarket_gym.errors import SubmissionError

_ROWS = 1024  # lines at a time: Python's numbers take four times the memory of an array's
_FAMILY = {
    bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list",
    dict: "an object", type(None): "null",
}  # fmt: skip
_NAMED = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(?=\s*:)')  # what may be a field's name, nested ones too


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the field {next(n for n in names if names.count(n) > 1)!r} is there twice")
    return fields


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


class JsonLines:
    """A table of one JSON object per line, whose cells have the types that Arrow finds for them."""

    typed, rows = True, 0

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, repr(str(path))
        names: dict[str, None] = {}
        for row, text in self._lines():  # a field may come up in any of them for the first time
            if not names or not names.keys() >= set(_NAMED.findall(text)):
                names.update(dict.fromkeys(self._object(row, text)))
        self.names = tuple(names)

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Mapping[str, Any]]:
        """Yield columns, as `Source` says; a column whose type changes on the way is refused with both rows."""
        lines = ((row, self._object(row, text)) for row, text in self._lines())
        first: dict[str, tuple[int, str]] = {}
        while some := list(islice(lines, _ROWS)):
            start, batch = some[0][0], {}
            for name, kind in wanted.items():
                cells = [fields.get(name) for _, fields in some]
                if kind == "text":
                    batch[name] = self._text(name, cells, start)
                else:
                    self._require_one_type(name, cells, start, first)
                    batch[name] = self._array(name, cells, start)
            yield batch

    def _lines(self) -> Iterator[tuple[int, str]]:
        row = 0
        with readable(self.path), open_text(self.path) as file:
            for number, line in enumerate(file):
                try:
                    text = line.decode("utf-8" if number else "utf-8-sig").strip()
                except UnicodeDecodeError as error:
                    raise encoding_error(self.where, f"row {row}") from error
                if text:
                    yield row, text
                    row += 1

    def _object(self, row: int, text: str) -> dict[str, Any]:
        try:
            fields = _DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            raise SubmissionError(
                f"{self.where}: row {row} cannot be read ({error}); write one JSON object per line"
            ) from error
        if not isinstance(fields, dict):
            raise SubmissionError(
                f"{self.where}: row {row} is {_FAMILY[type(fields)]}; write one JSON object per line"
            )
        return fields

    def _text(self, name: str, cells: Sequence[Any], start: int) -> Any:
        """Return names, which may be written as numbers; NaN is none."""
        text = []
        for row, cell in enumerate(cells, start):
            if isinstance(cell, list | dict):
                raise self._error(name, row, cell, "give text")
            text.append(
                cell if cell is None or isinstance(cell, str) else str(cell) if cell == cell else None
            )
        return self._array(name, text, start, pa.string())

    def _require_one_type(
        self, name: str, cells: Sequence[Any], start: int, first: dict[str, tuple[int, str]]
    ) -> None:
        for row, cell in enumerate(cells, start):
            if cell is not None:
                at, before = first.setdefault(name, (row, _FAMILY[type(cell)]))
                if _FAMILY[type(cell)] != before:
                    raise SubmissionError(
                        f"{self.where}: column {name!r} is {before} in row {at} and "
                        f"{_FAMILY[type(cell)]} in row {row}; write all of it the same way"
                    )

    def _array(self, name: str, cells: Sequence[Any], start: int, kind: Any = None) -> Any:
        try:
            return pa.array(cells, kind)
        except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
            upto = range(1, len(cells))
            at = bisect_left(upto, True, key=lambda n: not _fits(cells[:n], kind))
            raise self._error(name, start + at, cells[at], f"mend it ({error})") from error

    def _error(self, name: str, row: int, cell: Any, remedy: str) -> SubmissionError:
        text = json.dumps(cell)
        text = text if len(text) <= 60 else f"{text[:57]}..."
        return SubmissionError(f"{self.where}: column {name!r}, row {row} is {text}; {remedy}")


def _fits(cells: Sequence[Any], kind: Any) -> bool:
    try:
        pa.array(cells, kind)
    except (pa.ArrowException, UnicodeEncodeError, OverflowError):
        return False
    return True
