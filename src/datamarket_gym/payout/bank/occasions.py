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
    return {payee: _line(held.get(payee, []), runs, batch) for payee in batch.lines}


def _runs_held(entries: Sequence[BookEntry], batch: Batch) -> dict[str, list[str]]:
    """The runs that each payee's line comes from. An order takes all that is payable; what comes back waits again."""
    waiting: dict[str, list[str]] = {}
    ordered: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        if entry.currency != batch.currency:
            continue
        payee = entry.payee
        if entry.kind == "payment":
            waiting.setdefault(payee, []).append(entry.run)
        elif entry.kind == "ordered":
            ordered[entry.content["batch"], payee] = waiting.pop(payee, [])
        elif entry.kind in ("cancelled", "bounced"):
            named = entry if entry.kind == "cancelled" else entries[entry.content["of"] - 1]
            waiting[payee] = ordered[named.content["batch"], payee] + waiting.get(payee, [])
    return {payee: ordered[batch.id, payee] for payee in batch.lines}


def _line(held: list[str], runs: Mapping[str, RunRecord], batch: Batch) -> str:
    if not held:
        return f"Payout, batch {batch.id}"
    periods = ", ".join(dict.fromkeys(runs[run].period for run in held if runs[run].period))
    return f"Payout{f' {periods}' if periods else ''}, run {', '.join(run[:_SHORT] for run in held)}"
