"""Entries of the book in words, for screens and pages."""

from __future__ import annotations

from collections.abc import Sequence

from datamarket_gym.core.screen import counted
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.arrived import KIND
from datamarket_gym.payout.book.disputes import Dispute
from datamarket_gym.payout.book.entry import BookEntry
from datamarket_gym.payout.book.rules import Rules
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible

_SAID = ("detail", "title", "why", "reference", "beacon", "manifest", "outcomes")


def moment_of(entry: BookEntry) -> str:
    """When an entry was made, to the second; the book keeps UTC."""
    return entry.at[:19].replace("T", " ")


def detail_of(entry: BookEntry) -> str:
    """What an entry says beyond its kind, in a line."""
    said = entry.content
    if entry.kind == "answers":
        return f"{said['new']} new; outcomes {said['outcomes']}"
    if entry.kind == "despite":
        return f"{said['warning']}: {said['title']}"
    if entry.kind == "dispute":
        return f"dispute {said['number']}: {said['about']}"
    if entry.kind in ("resolved", "revoked"):
        return f"dispute {said['number']} {said.get('outcome', entry.kind)}: {said['why']}"
    if entry.kind == KIND:
        return f"{counted(said['units'], 'unit')}, sha256 {said['sha256'][:16]}"
    if entry.kind == "asked":
        return f"for {said['for']}: {said['why']}"
    if entry.kind == "superseded":
        return f"{said['detail']}; by run {said['by_run']}"
    found = [
        f"{name} {str(said[name])[:16]}" if name in _SAID[5:] else str(said[name])
        for name in _SAID
        if name in said
    ]
    if "of" in said:
        found.append(f"of entry {said['of']}")
    if "clock" in said:
        found.append(str(said["clock"]))
    return "; ".join(found)


def entered_words(entry: BookEntry) -> list[str]:
    """What was entered by hand, in a line; and that others must say so, too, where they must."""
    amount = f" {entry.currency} {Currency(entry.currency).text(entry.amount)}" if entry.currency else ""
    said = [f"entry {entry.number}: {entry.kind}{amount}, {visible(entry.payee)}"]
    if entry.kind == "asked":
        said.append(
            "The book asks for several people: it moves once others have entered the same, under their names."
        )
    return said


def rule_words(rules: Rules) -> list[str]:
    """The rules of a book, and who asks for others."""
    least = ", ".join(
        f"{code} {Currency(code).text(least)}" for code, least in rules.least.items() if least
    )
    people = "1 person approves" if rules.approvals == 1 else f"{rules.approvals} people approve"
    said = [f"{people} a run; {f'at least {least} are sent' if least else 'any amount is sent'}."]
    for wanted, asking in rules.asking.items():
        names = ", ".join(visible(name) for name in asking)
        said.append(
            f"Asked for by {names}: {wanted}. It stands once {rules.approvals} people have asked."
        )
    return said


def what_follows(dispute: Dispute, entries: Sequence[BookEntry]) -> list[str]:
    """What follows from a dispute."""
    decided = dispute.resolution
    if decided is None:
        return [f"held: {', '.join(visible(name) for name in dispute.holds)}"] if dispute.holds else []
    lines = []
    for number in decided.corrections:
        entry = entries[number - 1]
        text = Currency(entry.currency).text(entry.amount)
        lines.append(f"correction of {entry.currency} {text} to {visible(entry.payee)} (entry {number})")
    for each in decided.overrides:
        names = ", ".join(visible(name) for name in each.units or each.identities)
        kind = "units" if each.units else "payees"
        ended = ", ended" if dispute.revoked else ", in every run to come"
        lines.append(f"{each.action} {kind} {names}{ended}")
    return lines


def money_of_payees(accounts: Accounts) -> tuple[list[str], dict[tuple[str, str], list[int]]]:
    """Where the money of each payee is, by payee and currency, and the names of the places.

    Places where there is nothing of anybody's are left out, owed never.
    """
    places = {
        "carried": accounts.balance, "owed": accounts.payable, "ordered": accounts.outgoing, "sent": accounts.sent,
    }  # fmt: skip
    places = {name: place for name, place in places.items() if name == "owed" or any(place.values())}
    keys = sorted({key for place in places.values() for key, amount in place.items() if amount})
    return list(places), {key: [place.get(key, 0) for place in places.values()] for key in keys}
