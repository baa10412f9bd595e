"""What each payment of a batch is for: the runs that it comes from and their periods, in a line for the payee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from datamarket_gym.payout.book.accounts import Batch
from datamarket_gym.payout.book.entry import BookEntry
from datamarket_gym.payout.book.run_record import RunRecord

_SHORT = 8  # characters of a run's id, enough to find it again


def remittance_texts(
    entries: Sequence[BookEntry], runs: Mapping[str, RunRecord], batch: Batch
) -> dict[str, str]:
    """A line for each payee of a batch; entries after the batch change none of them."""
    held = _runs_held(entries, batch)
    return {payee: _line(held[payee], runs, batch) for payee in batch.lines}


def _runs_held(entries: Sequence[BookEntry], batch: Batch) -> dict[str, list[str]]:
    """The runs that each payee's line comes from.

    An order takes what its runs pay and what earlier orders left (held, too little) or gave back; runs that are in no
    batch yet wait for their own.
    """
    waiting: dict[str, list[str]] = {}
    ordered: dict[tuple[str, str], list[str]] = {}
    runs_of: dict[str, list[str]] = {}
    begun: set[str] = set()  # runs that are in a batch, or were
    for entry in entries:
        payee, said = entry.payee, entry.content
        if entry.currency != batch.currency:
            continue
        if entry.kind == "payment":
            waiting.setdefault(payee, []).append(entry.run)
        elif entry.kind == "batch":
            runs_of[said["batch"]] = said["runs"]
            begun.update(said["runs"])
        elif entry.kind == "ordered":
            left = waiting.pop(payee, [])
            ordered[said["batch"], payee] = [run for run in left if run in begun]
            waiting[payee] = [run for run in left if run not in begun]
        elif entry.kind in ("cancelled", "bounced"):
            name = (said if entry.kind == "cancelled" else entries[said["of"] - 1].content)["batch"]
            waiting[payee] = ordered[name, payee] + waiting.get(payee, [])
            if entry.kind == "cancelled":
                begun.difference_update(runs_of[name])
    return {payee: ordered[batch.id, payee] for payee in batch.lines}


def _line(held: list[str], runs: Mapping[str, RunRecord], batch: Batch) -> str:
    if not held:
        return f"Payout, batch {batch.id}"
    periods = ", ".join(dict.fromkeys(runs[run].period for run in held if runs[run].period))
    return f"Payout{f' {periods}' if periods else ''}, run {', '.join(run[:_SHORT] for run in held)}"
