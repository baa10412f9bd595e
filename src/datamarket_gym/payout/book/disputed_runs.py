"""Disputes by the folder of a run, or by its book: units are looked up in the folder, which notes what was entered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from datamarket_gym.core.errors import RunError, require_known
from datamarket_gym.payout.book.disputes import Dispute
from datamarket_gym.payout.book.disputing import (
    Effects,
    open_dispute,
    resolve_dispute,
    revoke_dispute,
)
from datamarket_gym.payout.book.place import book_at, book_of, run_folder, run_of, write_receipt
from datamarket_gym.payout.book.store import Book
from datamarket_gym.payout.manifest import KNOWN
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible


@dataclass(frozen=True)
class OpenedDispute:
    """A dispute, the state of its run, and what is to be said of payments that it holds."""

    dispute: Dispute
    state: str
    told: list[str]


def open_on_run(
    run: Path,
    payee: str,
    about: str,
    units: Sequence[str],
    against: str,
    hold: bool,
    hold_against: bool,
    by: str | None,
) -> OpenedDispute:
    """Enter a dispute about the run of a folder."""
    book, record = book_of(run), run_of(run)
    if units:
        require_known("unit of this run", units, units_of(run))
    dispute = open_dispute(
        book, record.run, payee, about, units=units, against=against, hold=hold, hold_against=hold_against, by=by
    )  # fmt: skip
    _noted(book, run)
    told = []
    if dispute.holds:
        told.append(f"held until it is decided: {', '.join(visible(name) for name in dispute.holds)}")
    ordered = book.accounts().outgoing
    for name in dispute.holds:
        if on_its_way := ordered[name, record.currency]:
            text = Currency(record.currency).text(on_its_way)
            told.append(
                f"{record.currency} {text} to {visible(name)} are ordered at the bank already, and not held: stop them "
                "there, then: datamarket ledger cancel"
            )
    return OpenedDispute(dispute, record.state, told)


def resolve_at(
    where: str, number: int, outcome: str, why: str, effects: Effects, by: str | None
) -> tuple[Book, Dispute]:
    """Decide a dispute; units are looked up in the run's folder, where that is named."""
    book, folder = book_at(where), run_folder(where)
    disputed = book.accounts().disputes.numbered(number)
    same = folder is not None and run_of(folder).run == disputed.run
    units = units_of(folder) if folder is not None and same else None
    dispute = resolve_dispute(book, number, outcome, why, effects, units=units, by=by)
    _noted(book, folder)
    return book, dispute


def revoke_at(where: str, number: int, why: str, by: str | None) -> None:
    """End what a dispute changes in later runs."""
    book, folder = book_at(where), run_folder(where)
    revoke_dispute(book, number, why, by=by)
    _noted(book, folder)


def units_of(run: Path) -> set[str]:
    """The names of all units of a run, those set aside included, and of earlier ones that some are tied to."""
    import pyarrow.parquet as pq

    columns = [("clusters.parquet", "unit"), ("leaks.parquet", "unit")]
    if (run / KNOWN).is_file():  # an earlier unit is named as overrides name it
        columns += [(KNOWN, "unit"), (KNOWN, "tied_to")]
    try:
        return {
            str(unit)
            for name, column in columns
            for unit in pq.read_table(run / name, columns=[column])[column].to_pylist()
        }
    except (OSError, KeyError, ValueError) as error:
        raise RunError(
            f"the units of {str(run)!r} cannot be read: {error}; run: datamarket verify {run}"
        ) from error


def _noted(book: Book, folder: Path | None) -> None:
    """The folder of a run notes the head of the chain."""
    if folder is not None:
        write_receipt(folder, book, book.accounts())
