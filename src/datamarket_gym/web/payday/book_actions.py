"""What is entered into a book by hand: each as the command line enters it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError, require_choice
from datamarket_gym.core.progress import Progress
from datamarket_gym.core.specs import Document
from datamarket_gym.payout.book import batches, money, typed
from datamarket_gym.payout.book.disputed_runs import open_on_run, resolve_at, revoke_at
from datamarket_gym.payout.book.disputing import Effects
from datamarket_gym.payout.book.place import book_at
from datamarket_gym.payout.book.store import Book
from datamarket_gym.payout.book.words import entered_words, rule_words, what_follows
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.verify import verify_book
from datamarket_gym.web.payday.run_inputs import require_log_on_show
from datamarket_gym.web.places import NamedPlaces

FREE = ("hold",)
"""What needs no token: it keeps money back, and moves none."""
KINDS = (*FREE, "release", "correct", "fee", "bounced", "fund", "write-off", "sent", "cancel", "rules")


class BookAction(Document):
    """What is typed; fields that an action has no use for stay empty."""

    action: str
    by: str
    payee: str = ""
    amount: str = ""
    of: int | None = None
    why: str = ""
    currency: str = ""
    batch: str = ""
    reference: str = ""
    approvals: int | None = None
    least: str = ""


class Decision(Document):
    """How a dispute is decided."""

    number: int
    outcome: str
    why: str
    correction: str = ""
    taken_from: str = ""
    separate: tuple[str, ...] = ()
    separate_payee: tuple[str, ...] = ()
    join: tuple[str, ...] = ()
    join_payee: tuple[str, ...] = ()


class NewDispute(Document):
    """What a payee says is wrong."""

    payee: str
    about: str
    units: tuple[str, ...] = ()
    against: str = ""
    hold: bool = False
    hold_against: bool = False


def act(where: str, asked: BookAction, *, progress: Progress) -> dict[str, Any]:
    """Enter something by hand; what was entered, in words."""
    require_choice("action", asked.action, KINDS)
    progress.stage("entering it into the book")
    return {"words": _entered(book_at(where), asked)}


def _entered(book: Book, asked: BookAction) -> list[str]:
    payee, why, by = asked.payee, asked.why, asked.by
    match asked.action:
        case "hold":
            entry = money.hold(book, payee, why, by)
        case "release":
            entry = money.release(book, payee, why, by)
        case "correct":
            if asked.of is None:
                raise DataMarketError("a correction names the entry that it corrects; give its number")
            entry = typed.correct(book, payee, asked.amount, asked.of, why, by)
        case "fee":
            entry = typed.charge(book, payee, asked.amount, asked.currency, why, by)
        case "bounced":
            entry = money.bounced(book, payee, why, asked.of, by)
        case "fund" | "write-off":
            kind = {"fund": "funded", "write-off": "written_off"}[asked.action]
            entry = typed.end_credit(book, kind, payee, asked.amount or None, asked.currency, why, by)
        case "sent":
            found = batches.confirm(book, asked.batch, asked.reference, by)
            amount = Currency(found.currency).shown(sum(found.lines.values()))
            return [f"batch {found.id}: {found.currency} {amount} sent to {len(found.lines):,} payees"]
        case "cancel":
            found = batches.cancel(book, asked.batch, why, by)
            return [f"batch {found.id}: cancelled; all of it is owed again"]
        case _:
            after = typed.set_rules(book, asked.approvals, asked.least or None, asked.currency, by)
            return rule_words(after.rules)
    return entered_words(entry)


def open_dispute(run: Path, asked: NewDispute, by: str, *, progress: Progress) -> dict[str, Any]:
    """Enter a dispute about a run."""
    progress.stage("entering the dispute")
    found = open_on_run(
        run, asked.payee, asked.about, asked.units, asked.against, asked.hold, asked.hold_against, by
    )
    return {"words": [f"dispute {found.dispute.number} is open", *found.told]}


def resolve(where: str, asked: Decision, by: str, *, progress: Progress) -> dict[str, Any]:
    """Decide a dispute."""
    progress.stage("entering the decision")
    effects = Effects(
        asked.correction, asked.taken_from, asked.separate, asked.separate_payee, asked.join, asked.join_payee
    )  # fmt: skip
    book, dispute = resolve_at(where, asked.number, asked.outcome, asked.why, effects, by)
    words = [f"dispute {asked.number} is {dispute.state}"]
    if dispute.open:
        words.append(
            "the book asks for several people: it is decided when somebody else says the same, correction and all"
        )
    return {"words": [*words, *what_follows(dispute, book.read())]}


def revoke(where: str, number: int, why: str, by: str, *, progress: Progress) -> dict[str, Any]:
    """End what a dispute changes in later runs."""
    progress.stage("entering that it ends")
    revoke_at(where, number, why, by)
    return {"words": [f"what dispute {number} changes ends with the next run; corrections stay"]}


def verify(on_show: NamedPlaces, where: str, anchors: str, *, progress: Progress) -> dict[str, Any]:
    """Look at a book, its chain and its runs' files; ``anchors`` are lines that somebody kept of it."""
    progress.stage("looking at every entry and every file")
    book = book_at(where)
    if all(check.good for check in book.examined()):
        for record in book.accounts().runs.values():
            require_log_on_show(on_show, record)
    with tempfile.TemporaryDirectory(prefix="datamarket-anchors-") as folder:
        path = None
        if anchors.strip():
            path = Path(folder) / "anchors.txt"
            path.write_text(anchors.strip() + "\n", encoding="utf-8")
        checks = verify_book(book, path)
    return {
        "good": all(check.good for check in checks),
        "checks": [{"what": check.what, "good": check.good, "detail": check.detail} for check in checks],
    }
