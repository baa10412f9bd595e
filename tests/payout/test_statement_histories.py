"""Random histories: every statement of every payee adds up, over any days, and all of them to what the runs paid."""

import datetime
import random

import pytest
from book_files import HandBook

from datamarket_gym.payout.ledger.balances import EFFECTS
from datamarket_gym.payout.ledger.statements import Owed, account_statement

PAYEES, CURRENCIES = ("ann", "ben", "cem"), ("EUR", "JPY")


def history(seed, steps=40):
    """A book after random entries, each of which can follow."""
    rng, book = random.Random(seed), HandBook()
    day = datetime.date(2026, 1, 1)
    for step in range(steps):
        day += datetime.timedelta(days=rng.choice([0, 0, 1, 9]))
        book.day(str(day))
        rng.choice((pays, pays, sends, returns, charges, corrects, ends, disputes))(rng, book, step)
    return book


def pays(rng, book, step):
    currency = rng.choice(CURRENCIES)
    opening = book.accounts.balances(currency)
    left = dict(opening)
    if rng.random() < 0.5:
        moved = rng.randrange(500)
        left["ann"], left["ben"] = left.get("ann", 0) + moved, left.get("ben", 0) - moved
    lines = {who: (rng.randrange(1, 9999), left.get(who, 0)) for who in PAYEES}
    book.draft(f"{step:064d}", currency, lines, opening, f"month {step}")
    if rng.random() < 0.8:
        book.approve(f"{step:064d}")


def owing(rng, book):
    owed = [(key, amount) for key, amount in book.accounts.payable.items() if amount > 0]
    return rng.choice(owed) if owed else (None, 0)


def sends(rng, book, step):
    key, owed = owing(rng, book)
    if key is None or key[0] in book.accounts.holds:
        return
    amount, batch = rng.randint(1, owed), {"batch": f"b{step}"}
    book.add("batch", currency=key[1], content={**batch, "runs": []})
    book.add("ordered", payee=key[0], currency=key[1], amount=amount, content=batch)
    ended = rng.choice(("sent", "cancelled", None))
    if ended:
        said = {**batch, "reference": f"t{step}", "why": "no"}
        book.add(ended, payee=key[0], currency=key[1], amount=amount, content=said)


def returns(rng, book, step):
    sent = [
        e for e in book.accounts.entries if e.kind == "sent" and not book.accounts.came_back(e.number)
    ]
    if sent:
        e = rng.choice(sent)
        said = {"of": e.number, "why": "closed"}
        book.add("bounced", payee=e.payee, currency=e.currency, amount=e.amount, content=said)


def charges(rng, book, step):
    key, owed = owing(rng, book)
    if key is not None:
        amount = rng.randint(1, owed)
        book.add("fee", payee=key[0], currency=key[1], amount=amount, content={"why": "bank"})


def corrects(rng, book, step):
    payments = [e for e in book.accounts.entries if e.kind == "payment"]
    if payments:
        e = rng.choice(payments)
        amount = rng.choice((-1, 1)) * rng.randint(1, 300)
        said = {"of": e.number, "why": "late"}
        book.add(
            "correction", run=e.run, payee=e.payee, currency=e.currency, amount=amount, content=said
        )


def ends(rng, book, step):
    left = [(key, amount) for key, amount in book.accounts.balance.items() if amount]
    if left:
        (payee, currency), amount = rng.choice(left)
        kind = rng.choice(("funded", "written_off")) if amount > 0 else "written_off"
        book.add(kind, payee=payee, currency=currency, amount=amount, content={"why": "gone"})


def disputes(rng, book, step):
    runs = list(book.accounts.runs)
    if runs:
        number = book.accounts.disputes.next_number
        said = {"number": number, "about": "x", "units": [], "against": "", "holds": []}
        book.add("dispute", run=rng.choice(runs), payee=rng.choice(PAYEES), content=said)


@pytest.mark.parametrize("seed", range(25))
def test_statements_add_up(seed):
    book = history(seed)
    accounts, rng = book.accounts, random.Random(seed)
    named = [entry for entry in accounts.entries if entry.payee]
    everything, shown = {currency: Owed() for currency in CURRENCIES}, set()
    for payee in PAYEES:
        if not accounts.runs:
            return
        cut = datetime.date(2026, 1, 1) + datetime.timedelta(days=rng.randrange(120))
        whole = account_statement(accounts, payee)
        early, late = (
            account_statement(accounts, payee, None, cut),
            account_statement(accounts, payee, cut),
        )
        today = account_statement(accounts, payee, cut, cut)
        for account in whole.accounts:
            everything[account.currency] = everything[account.currency].plus(account.closing)
            a, b, c = (
                next(x for x in s.accounts if x.currency == account.currency)
                for s in (early, late, today)
            )
            assert c.opening == b.opening
            assert c.closing == a.closing
            assert len(a.lines) + len(b.lines) - len(c.lines) == len(account.lines)
        for statement in (early, late):
            shown |= {line.entry.number for account in statement.accounts for line in account.lines}
            shown |= {event.entry.number for event in statement.events}
    assert shown == {entry.number for entry in named}
    for currency, closing in everything.items():
        total = {kind: accounts.totals[kind, currency] for kind in EFFECTS}
        paid = sum(
            r.amount for r in accounts.runs.values() if r.currency == currency and r.state == "approved"
        )
        assert total["payment"] == paid
        assert closing.payable + closing.outgoing + closing.sent == (
            paid + total["correction"] + total["funded"] - total["fee"]
        )
        assert closing.carried == total["carried"] - total["funded"] - total["written_off"]


def test_the_histories_hold_everything():
    kinds = {entry.kind for seed in range(25) for entry in history(seed).accounts.entries}
    assert {*EFFECTS, "dispute", "draft", "approved"} <= kinds
