"""JSON lines: one object per line, its fields as columns; a field that a line lacks is empty there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from datamarket_gym.data.readers.files import Kind, encoding_error, open_text, readable
from datamarket_gym.errors import SubmissionError

_ROWS = 8192
_LONG = re.compile(rb"[:,\[]\s*(-?\d{19,})\s*[,}\]]")  # whole numbers that a float cannot hold
_LARGEST = 2**31 - 1  # bytes that pyarrow takes at once; within them its errors name the row


class JsonLines:
    """A table of one JSON object per line, whose cells have the types that pyarrow infers; dates stay text."""

    typed = True

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, repr(str(path))
        with readable(path), open_text(path) as file:
            text = file.read().removeprefix(b"\xef\xbb\xbf").strip()
        table = self._parse(text, {})
        dates = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
        self._table = self._parse(text, dict.fromkeys(dates, pa.string())) if dates else table
        self.names, self.rows = tuple(table.column_names), table.num_rows

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Mapping[str, Any]]:
        """Yield columns, as `Source` says."""
        for batch in self._table.select(list(wanted)).to_batches(max_chunksize=_ROWS):
            yield {name: batch.column(name) for name in wanted}

    def _parse(self, text: bytes, types: Mapping[str, Any]) -> pa.Table:
        from pyarrow import json

        if not text:
            return pa.table({})
        if long := next((m for m in _LONG.finditer(text) if abs(int(m[1][:40])) >= 2**63), None):
            raise SubmissionError(
                f"{self.where}: row {_row_at(text, long.start())} holds {long[1][:40].decode()}, a number too large to "
                "be told from its neighbours; write it as text"
            )
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise encoding_error(self.where, f"row {_row_at(text, error.start)}") from error
        try:
            return json.read_json(
                pa.BufferReader(text),
                json.ReadOptions(use_threads=False, block_size=min(len(text) + 1, _LARGEST)),
                json.ParseOptions(explicit_schema=pa.schema(list(types.items()))),
            )
        except pa.ArrowInvalid as error:
            raise self._explain(str(error)) from error

    def _explain(self, message: str) -> SubmissionError:
        """Say what pyarrow says, with the column, the row and the remedy."""
        where = re.search(r"(?: in)? row (\d+)$", message)
        row = f"row {where[1]}" if where else "a row"
        text = message.removeprefix("JSON parse error: ").removesuffix(where[0] if where else "")
        if changed := re.match(r"Column\(/(.+)\) changed from (\w+) to (\w+)", text):
            name, before, after = changed.groups()
            return SubmissionError(
                f"{self.where}: column {name!r} changes from {before} to {after} in {row}; write all of it the same way"
            )
        return SubmissionError(
            f"{self.where}: {row} cannot be read ({text}); write one JSON object per line"
        )


def _row_at(text: bytes, place: int) -> int:
    return len(re.findall(rb"\n\s*\S", text[: place + 1]))
