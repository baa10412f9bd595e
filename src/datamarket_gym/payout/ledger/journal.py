"""The ledger for accountants: all entries as a journal in CSV, or in the double entry of beancount.

An entry adds to the four places of money (`payout.ledger.balances.EFFECTS`), or takes from them. Owed, ordered and
carried are liabilities, what is sent leaves the bank, and what no second place balances has an account of its own:
payments and corrections are expenses, fees and balances written off are income. So every transaction sums to zero, and
the file ends with what each account must come to.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections import Counter

from datamarket_gym.payout.ledger.account_statements import day_of, describe_entry
from datamarket_gym.payout.ledger.balances import EFFECTS, Accounts
from datamarket_gym.payout.ledger.entries import LedgerEntry, LedgerError
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_text, visible

COLUMNS = (
    "entry", "time", "kind", "run", "period", "payee", "currency", "amount", "owed", "ordered", "sent", "carried",
    "by", "detail", "hash",
)  # fmt: skip
_NUMBERS = ("amount", "owed", "ordered", "sent", "carried")
_PLACES = ("Liabilities:Owed", "Liabilities:Ordered", "Assets:Bank", "Liabilities:Carried")
_OTHERS = {
    "payment": "Expenses:Payouts", "correction": "Expenses:Corrections", "fee": "Income:Fees",
    "carried_forward": "Equity:Carried", "written_off": "Income:Written-Off",
}  # fmt: skip
_KEPT = ("Equity:Kept-From-Forfeits", "Equity:Pot")
_LONGEST = 500  # characters of a text that a person wrote


def amount_of(entry: LedgerEntry, accounts: Accounts) -> tuple[str, int]:
    """Return what an entry is about, in its currency: of a draft that another run took the place of, its amount."""
    if entry.kind == "superseded":
        return accounts.runs[entry.run].currency, accounts.runs[entry.run].amount
    return entry.currency, entry.amount


def journal_csv(accounts: Accounts) -> str:
    """Write all entries with the amount of each, and what it adds to the places of money."""
    rows = []
    for entry in accounts.entries:
        code, amount = amount_of(entry, accounts)
        changes = [sign * amount for sign in EFFECTS.get(entry.kind, (0, 0, 0, 0))]
        text = Currency(code).text if code else str
        amounts = [text(amount) if code else "", *(text(each) if each else "" for each in changes)]
        period = accounts.runs[entry.run].period if entry.run in accounts.runs else ""
        rows.append(
            (str(entry.number), entry.at, entry.kind, entry.run, period, entry.payee, code, *amounts, entry.by,
             describe_entry(entry), entry.hash)
        )  # fmt: skip
    return csv_text(COLUMNS, rows, _NUMBERS)


def journal_beancount(accounts: Accounts) -> str:
    """Write the entries that move money, and what is kept from forfeits, as transactions of beancount.

    Raises
    ------
    LedgerError
        If a transaction does not sum to zero, or accounts do not come to what the ledger says.
    """
    opened: dict[str, datetime.date] = {}
    balance: Counter[tuple[str, str]] = Counter()
    blocks = []
    for entry in accounts.entries:
        postings = _postings(entry)
        if not postings:
            continue
        if sum(postings.values()):
            raise LedgerError(f"the postings of entry {entry.number} do not sum to zero")
        day, text = day_of(entry), Currency(entry.currency).text
        for account, amount in postings.items():
            opened[account] = min(opened.get(account, day), day)
            balance[account, entry.currency] += amount
        period = accounts.runs[entry.run].period if entry.run in accounts.runs else ""
        texts = (entry.kind.replace("_", " "), visible(period), visible(describe_entry(entry), _LONGEST))
        words = ", ".join(filter(None, texts))
        lines = [f"{day} * {_string(visible(entry.payee) or 'market')} {_string(words)}"]
        lines += [f"  entry: {entry.number}", f"  by: {_string(visible(entry.by))}"]
        lines += [f"  run: {_string(entry.run)}"] if entry.run else []
        lines += [
            f"  {account}  {text(amount)} {entry.currency}" for account, amount in postings.items()
        ]
        blocks.append("\n".join(lines))
    _require_as_accounts(accounts, balance)
    last = max((day_of(entry) for entry in accounts.entries), default=datetime.date.min)
    head = [f'option "operating_currency" "{code}"' for code in accounts.currencies]
    head += [f"{day} open {account}" for account, day in sorted(opened.items())]
    end = [
        f"{last + datetime.timedelta(days=1)} balance {account}  {Currency(code).text(amount)} {code}"
        for (account, code), amount in sorted(balance.items())
    ]
    title = (
        f'option "title" "Ledger {accounts.id[:16]}, {accounts.number} entries, tip {accounts.tip[:16]}"'
    )
    return "\n\n".join(["\n".join([title, *head]), *blocks, "\n".join(end)]).rstrip() + "\n"


def _postings(entry: LedgerEntry) -> dict[str, int]:
    if entry.kind == "forfeited":
        return dict(zip(_KEPT, (entry.amount, -entry.amount), strict=True))
    signs = EFFECTS.get(entry.kind, ())
    postings = {
        place if place == "Assets:Bank" else f"{place}:{account_name(entry.payee)}": -sign * entry.amount
        for sign, place in zip(signs, _PLACES, strict=False)
        if sign
    }
    if sum(signs):
        postings[_OTHERS[entry.kind]] = sum(signs) * entry.amount
    return postings


def _require_as_accounts(accounts: Accounts, balance: Counter[tuple[str, str]]) -> None:
    """Refuse a journal whose accounts do not come to what the ledger says is owed, ordered, sent and carried."""
    places = (accounts.payable, accounts.outgoing, accounts.sent, accounts.balance)
    due: Counter[tuple[str, str]] = Counter()
    for name, place in zip(_PLACES, places, strict=True):
        for (payee, code), amount in place.items():
            account = name if name == "Assets:Bank" else f"{name}:{account_name(payee)}"
            due[account, code] -= amount
    entered = {key: amount for key, amount in balance.items() if key[0].startswith(_PLACES)}
    if {key: amount for key, amount in due.items() if amount} != {k: v for k, v in entered.items() if v}:
        raise LedgerError(
            "the journal does not come to what the ledger says; run: datamarket verify LEDGER"
        )


def account_name(payee: str) -> str:
    """Return a payee as part of a beancount account: letters, digits and hyphens; a hash tells altered names apart."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", payee).strip("-")[:40]
    name = plain[:1].upper() + plain[1:]
    if name == payee and not re.search(r"-[0-9a-f]{8}$", name):
        return name
    return f"{name or 'Payee'}-{hashlib.sha256(payee.encode()).hexdigest()[:8]}"


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
