"""Statements of a whole run in one go: a folder with one page for each payee and ``index.csv``, made aside and renamed.

A page is called after its payee, as far as letters and digits of ASCII go, and by a hash of the whole name: names that
look alike, differ in case, are longer than a file's may be or mean something to a file system have files of their own.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import secrets
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import claimed, replacing
from datamarket_gym.payout.explain import require_payee
from datamarket_gym.payout.names import csv_text
from datamarket_gym.payout.statements.page import rendered, statement_page
from datamarket_gym.payout.statements.record import EXAMPLES, explained
from datamarket_gym.payout.statements.state import RunState, state_of
from datamarket_gym.payout.statements.tables import RunTables

INDEX = "index.csv"
_COLUMNS = ("payee", "file", "amount", "currency")
_LONGEST = 40


def file_name(payee: str) -> str:
    """The name of a payee's page: safe, and another for every other name, on any file system."""
    plain = unicodedata.normalize("NFKD", payee).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain)[:_LONGEST].strip("-")
    digest = hashlib.sha256(payee.encode()).hexdigest()[:16]
    return f"{words}-{digest}.html" if words else f"payee-{digest}.html"


@dataclass(frozen=True)
class Manner:
    """How statements are written: whether others have names in them, and what to do if one disagrees."""

    pseudonyms: bool = False
    contact: str | None = None


def write_statements(
    run: Path,
    out: Path | None = None,
    manner: Manner | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> Path:
    """Write the statements of all payees; killed, it is run again. Returns the folder.

    A folder of statements that is there already is replaced as a whole; one that holds anything else is refused.
    """
    tables, state = RunTables.read(run), state_of(run)
    out = (run / "statements" if out is None else out).resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    _require_ours(out)
    with claimed(out.parent, "command that writes statements"):
        for left in out.parent.glob(f".{glob.escape(out.name)}.*.part"):  # of a process that was killed
            shutil.rmtree(left)
        aside = out.with_name(f".{out.name}.{secrets.token_hex(8)}.part")
        try:
            aside.mkdir()
            for done, name in enumerate(tables.names):
                _write(aside / file_name(name), _page(tables, name, state, manner))
                if tell is not None:
                    tell(done + 1, len(tables.names))
            _write(aside / INDEX, _index(tables))
            if out.exists():
                old = out.with_name(f".{out.name}.{secrets.token_hex(8)}.part")
                out.rename(old)
                aside.rename(out)
                shutil.rmtree(old)
            else:
                aside.rename(out)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return out


def statement_pages(run: Path, manner: Manner | None = None) -> Iterator[tuple[str, str]]:
    """The name and the text of every file of a run's statements, one after another; nothing is written."""
    tables, state = RunTables.read(run), state_of(run)
    for name in tables.names:
        yield file_name(name), _page(tables, name, state, manner)
    yield INDEX, _index(tables)


def statement_text(
    run: Path, payee: str, manner: Manner | None = None, tables: RunTables | None = None
) -> str:
    """The statement of one payee as a page; ``tables`` are the run's, where they are read already."""
    tables = RunTables.read(run) if tables is None else tables
    require_payee(tables, payee)
    return _page(tables, payee, state_of(run), manner)


def write_statement(
    run: Path, payee: str, out: Path | None = None, manner: Manner | None = None
) -> Path:
    """Write the statement of one payee into a folder, beside what is there; returns the page's path."""
    text = statement_text(run, payee, manner)
    out = run / "statements" if out is None else out
    out.mkdir(parents=True, exist_ok=True)
    path = out / file_name(payee)
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")
    return path


def _page(tables: RunTables, name: str, state: RunState, manner: Manner | None) -> str:
    manner, manifest = manner or Manner(), tables.manifest
    found = explained(tables, name, most_ties=EXAMPLES)
    return rendered(
        statement_page(
            found, state, manifest["amount"], manifest["identities"], manner.pseudonyms, manner.contact
        )
    )


def _write(path: Path, text: str) -> None:
    """A file of a folder that is renamed when all of it is on the disk."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _index(tables: RunTables) -> str:
    """Which page is whose, in the order of the payments, and what it says."""
    currency = tables.manifest["currency"]
    rows = [
        (row["identity"], file_name(row["identity"]), row["payment"], currency)
        for row in tables.payments
    ]
    return csv_text(_COLUMNS, rows, ["amount"])


def _require_ours(out: Path) -> None:
    """Refuse to replace what is no folder, or one that holds anything but statements."""
    if not out.exists():
        return
    names = [path.name for path in out.iterdir()] if out.is_dir() else [out.name]
    strange = sorted(name for name in names if name != INDEX and not _ours(name))
    if strange:
        raise DataMarketError(
            f"{str(out)!r} is or holds something else than statements ({strange[0]!r}); choose another --out"
        )


def _ours(name: str) -> bool:
    return re.fullmatch(r"[a-z0-9-]+-[0-9a-f]{16}\.html", name) is not None
