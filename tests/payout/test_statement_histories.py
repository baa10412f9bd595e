"""Random histories: every statement of every payee adds up, over any days, and all of them to what the runs paid."""

import datetime
import random

import pytest
from ledger_files import HandBook

from datamarket_gym.payout.ledger.account_statements import Owed, account_statement
from datamarket_gym.payout.ledger.balances import EFFECTS

PAYEES, CURRENCIES = ("ann", "ben", "cem"), ("EUR", "JPY")


def history(seed, steps=40):
    """A ledger after random entries, each of which can follow."""
    rng, ledger = random.Random(seed), HandBook()
    day = datetime.date(2026, 1, 1)
    for step in range(steps):
        day += datetime.timedelta(days=rng.choice([0, 0, 1, 9]))
        ledger.day(str(day))
        rng.choice((pays, pays, sends, returns, charges, corrects, ends, disputes))(rng, ledger, step)
    return ledger


def pays(rng, ledger, step):
    currency = rng.choice(CURRENCIES)
    opening = ledger.accounts.balances(currency)
    left = dict(opening)
    if rng.random() < 0.5:
        moved = rng.randrange(500)
        left["ann"], left["ben"] = left.get("ann", 0) + moved, left.get("ben", 0) - moved
    lines = {who: (rng.randrange(1, 9999), left.get(who, 0)) for who in PAYEES}
    ledger.draft(f"{step:064d}", currency, lines, opening, f"month {step}")
    if rng.random() < 0.8:
        ledger.approve(f"{step:064d}")


def owing(rng, ledger):
    owed = [(key, amount) for key, amount in ledger.accounts.payable.items() if amount > 0]
    return rng.choice(owed) if owed else (None, 0)


def sends(rng, ledger, step):
    key, owed = owing(rng, ledger)
    if key is None or key[0] in ledger.accounts.holds:
        return
    amount, batch = rng.randint(1, owed), {"batch": f"b{step}"}
    ledger.add("batch", currency=key[1], content={**batch, "runs": []})
    ledger.add("ordered", payee=key[0], currency=key[1], amount=amount, content=batch)
    ended = rng.choice(("sent", "cancelled", None))
    if ended:
        said = {**batch, "reference": f"t{step}", "why": "no"}
        ledger.add(ended, payee=key[0], currency=key[1], amount=amount, content=said)


def returns(rng, ledger, step):
    sent = [
        e
        for e in ledger.accounts.entries
        if e.kind == "sent" and not ledger.accounts.came_back(e.number)
    ]
    if sent:
        e = rng.choice(sent)
        said = {"of": e.number, "why": "closed"}
        ledger.add("bounced", payee=e.payee, currency=e.currency, amount=e.amount, content=said)


def charges(rng, ledger, step):
    key, owed = owing(rng, ledger)
    if key is not None:
        amount = rng.randint(1, owed)
        ledger.add("fee", payee=key[0], currency=key[1], amount=amount, content={"why": "bank"})


def corrects(rng, ledger, step):
    payments = [e for e in ledger.accounts.entries if e.kind == "payment"]
    if payments:
        e = rng.choice(payments)
        amount = rng.choice((-1, 1)) * rng.randint(1, 300)
        said = {"of": e.number, "why": "late"}
        ledger.add(
            "correction", run=e.run, payee=e.payee, currency=e.currency, amount=amount, content=said
        )


def ends(rng, ledger, step):
    left = [(key, amount) for key, amount in ledger.accounts.balance.items() if amount]
    if left:
        (payee, currency), amount = rng.choice(left)
        kind = rng.choice(("funded", "written_off")) if amount > 0 else "written_off"
        ledger.add(kind, payee=payee, currency=currency, amount=amount, content={"why": "gone"})


def disputes(rng, ledger, step):
    runs = list(ledger.accounts.runs)
    if runs:
        number = ledger.accounts.disputes.next_number
        said = {"number": number, "about": "x", "units": [], "against": "", "holds": []}
        ledger.add("dispute", run=rng.choice(runs), payee=rng.choice(PAYEES), content=said)


@pytest.mark.parametrize("seed", range(25))
def test_statements_add_up(seed):
    ledger = history(seed)
    accounts, rng = ledger.accounts, random.Random(seed)
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
            everything[account.currency] = Owed.total((everything[account.currency], account.closing))
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
        assert closing.carried == total["carried_forward"] - total["funded"] - total["written_off"]


def test_the_histories_hold_everything():
    kinds = {entry.kind for seed in range(25) for entry in history(seed).accounts.entries}
    assert {*EFFECTS, "dispute", "draft", "approved"} <= kinds
