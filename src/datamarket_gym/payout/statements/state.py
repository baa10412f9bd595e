"""Where a payout stands, for those who are paid, by its book: draft, approved, sent, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.entry import BookEntry
from datamarket_gym.payout.book.place import book_of, run_of
from datamarket_gym.payout.book.run_record import APPROVED, RunRecord

_NOT_APPROVED = {
    "draft": "A draft: it is not approved yet, and may still change. Nothing is owed to you by it.",
    "checked": "A draft whose spot checks are done: it is not approved yet. Nothing is owed to you by it.",
    "superseded": "Replaced by a later draft: this one will not be paid.",
}


@dataclass(frozen=True)
class RunState:
    """A run in its book."""

    accounts: Accounts
    record: RunRecord

    @property
    def period(self) -> str:
        """What the payday is for."""
        return self.record.period

    @property
    def as_of(self) -> str:
        """The last entry of the book that this was written from, and its day."""
        return f"entry {self.accounts.number:,} of {self.accounts.at[:10]}"

    def words(self, payee: str, paid: int) -> str:
        """What a payee is told of the state of its payment; ``paid`` is what the run pays it."""
        if self.record.state not in APPROVED:
            return _NOT_APPROVED[self.record.state]
        approved = f"Approved on {self._approval.at[:10]}"
        key = (payee, self.record.currency)
        sent = self._sent.get(payee)
        if not paid:
            return f"{approved}; nothing is paid to you."
        if self.accounts.outgoing[key] > 0:
            return f"{approved}; ordered at the bank, and on its way to you."
        if self.accounts.payable[key] <= 0 and sent is not None:
            return f"Sent on {sent.at[:10]}."
        if payee in self.accounts.holds:
            return f"{approved}; held back for now: ask whoever runs the market why."
        if sent is not None and self.accounts.came_back(sent.number):
            return f"Sent on {sent.at[:10]}, and came back from the bank: check your account details."
        if self.record.state == "paid":
            return f"{approved}; too little to be sent alone, and sent with a later payment."
        return f"{approved}; not sent yet."

    def waiting(self, payee: str) -> bool:
        """Whether something stands between an approved payment and its payee: a hold, or what came back."""
        if self.record.state not in APPROVED or self.accounts.payable[payee, self.record.currency] <= 0:
            return False
        sent = self._sent.get(payee)
        came_back = sent is not None and self.accounts.came_back(sent.number)
        return payee in self.accounts.holds or bool(came_back)

    def corrected(self, payee: str) -> int:
        """By how much the payment was corrected after its approval."""
        return self._corrections.get(payee, 0)

    @cached_property
    def _approval(self) -> BookEntry:
        return next(entry for entry in self.record.history if entry.kind == "approved")

    @cached_property
    def _sent(self) -> dict[str, BookEntry]:
        """What was last sent to each payee since the approval."""
        since = self.accounts.entries[self._approval.number :]
        return {e.payee: e for e in since if e.kind == "sent" and e.currency == self.record.currency}

    @cached_property
    def _corrections(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for entry in self.accounts.entries:
            if entry.kind == "correction" and entry.run == self.record.run:
                found[entry.payee] = found.get(entry.payee, 0) + entry.amount
        return found


def state_of(folder: Path) -> RunState:
    """The state of a run in its book."""
    accounts = book_of(folder).accounts()
    return RunState(accounts, run_of(folder, accounts))
