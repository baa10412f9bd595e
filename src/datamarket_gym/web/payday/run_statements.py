"""Statements of a run's payees: one page, or all of them as a ZIP file that is written while it is sent."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

from datamarket_gym.payout.statements.files import Manner, file_name, statement_pages, statement_text
from datamarket_gym.payout.statements.tables import RunTables


class _Sent:
    """A file that hands on what was written to it."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, part: bytes) -> int:
        self.parts.append(part)
        return len(part)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""

    def taken(self) -> bytes:
        """What was written since the last time."""
        found, self.parts = b"".join(self.parts), []
        return found


def zipped(run: Path, manner: Manner) -> Iterator[bytes]:
    """All statements and index.csv, page by page; nothing is written to the run's folder."""
    sent = _Sent()
    with zipfile.ZipFile(sent, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in statement_pages(run, manner):
            archive.writestr(f"statements/{name}", text)
            yield sent.taken()
    yield sent.taken()


def one_page(run: Path, payee: str, manner: Manner, tables: RunTables | None = None) -> tuple[str, str]:
    """The name and the text of a payee's page; ``tables`` are the run's, where they are read already."""
    return file_name(payee), statement_text(run, payee, manner, tables)
