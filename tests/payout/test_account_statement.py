"""A payee's statement: lines, sums, openings and closings, from histories made by hand."""

import csv
import datetime
import io
import random

import pytest
from ledger_files import HandBook
from payout_files import run

from datamarket_gym.errors import ParameterError, UnknownNameError
from datamarket_gym.payout.ledger.account_statements import (
    Owed,
    account_statement,
    statement_csv,
    statement_html,
)
from datamarket_gym.payout.ledger.disputes import open_dispute
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.runs import ledger_of, run_of
from datamarket_gym.payout.names import from_csv


@pytest.fixture
def ledger():
    """Three months, two currencies, and one of everything that can happen to a payee."""
    ledger = HandBook()
    ledger.draft("june" * 16, "EUR", {"alice": (6000, 500), "bob": (4000, -500)}, period="June 2026")
    ledger.day("2026-07-02")
    ledger.approve("june" * 16)
    ledger.send("june" * 16, "alice", "EUR", 6000, "transfer <7>")
    ledger.day("2026-07-20")
    sent = next(e for e in ledger.accounts.entries if e.kind == "sent")
    ledger.add(
        "bounced",
        payee="alice",
        currency="EUR",
        amount=6000,
        content={"of": sent.number, "why": "closed"},
    )
    ledger.add("fee", payee="alice", currency="EUR", amount=150, content={"why": "bank's charge"})
    ledger.day("2026-08-01")
    opening = {"alice": 500, "bob": -500}
    ledger.draft("july" * 16, "EUR", {"alice": (3000, 0), "bob": (2000, 0)}, opening, "July 2026")
    ledger.approve("july" * 16)
    ledger.draft("yen0" * 16, "JPY", {"alice": (24791, 0)}, period="July 2026")
    ledger.approve("yen0" * 16)
    payment = next(e for e in ledger.accounts.entries if e.kind == "payment" and e.payee == "alice")
    said = {"of": payment.number, "why": "=counted twice"}
    ledger.add("correction", run="june" * 16, payee="alice", currency="EUR", amount=-250, content=said)
    ledger.day("2026-09-01")
    ledger.draft("augu" * 16, "EUR", {"alice": (700, 0), "carol": (300, 0)}, period="August 2026")
    return ledger


def euro(statement):
    return next(account for account in statement.accounts if account.currency == "EUR")


def test_everything_is_there_and_adds_up(ledger):
    account = euro(account_statement(ledger.accounts, "alice"))
    kinds = [line.entry.kind for line in account.lines]
    assert kinds == [
        "payment",
        "carried_forward",
        "ordered",
        "sent",
        "bounced",
        "fee",
        "payment",
        "carried_forward",
        "correction",
    ]
    assert account.opening == Owed()
    assert account.closing == Owed(6000 - 150 + 3000 - 250, 0, 0, 0)
    assert [line.after.payable for line in account.lines] == [
        6000,
        6000,
        0,
        0,
        6000,
        5850,
        8850,
        8850,
        8600,
    ]
    assert [line.after.carried for line in account.lines] == [0, 500, 500, 500, 500, 500, 500, 0, 0]
    assert [(run.period, run.earned, run.paid, run.carried) for run in account.runs] == [
        ("June 2026", 6500, 6000, 500),
        ("July 2026", 2500, 3000, -500),
    ]
    assert account.lines[-1].words == "Correction of entry 5: =counted twice"
    assert ledger.accounts.entries[5 - 1].kind == "payment"


def test_currencies_stand_apart(ledger):
    statement = account_statement(ledger.accounts, "alice")
    assert [(a.currency, a.closing.payable) for a in statement.accounts] == [
        ("EUR", 8600),
        ("JPY", 24791),
    ]


def test_drafts_stand_apart_and_owe_nothing(ledger):
    statement = account_statement(ledger.accounts, "alice")
    assert [(run.period, run.state, run.paid) for run in statement.drafts] == [
        ("August 2026", "draft", 700)
    ]
    carol = account_statement(ledger.accounts, "carol")
    assert carol.accounts == ()
    assert "drafts alone" in carol.notes[0]
    assert "drafts alone" in statement_html(carol)


def test_days_are_taken_out_and_the_sums_go_on(ledger):
    since, until = datetime.date(2026, 7, 20), datetime.date(2026, 7, 31)
    account = euro(account_statement(ledger.accounts, "alice", since, until))
    assert account.opening == Owed(0, 0, 6000, 500)
    assert [line.entry.kind for line in account.lines] == ["bounced", "fee"]
    assert account.closing == Owed(5850, 0, 0, 500)
    assert account.runs == ()
    with pytest.raises(ParameterError, match="later than --to"):
        account_statement(ledger.accounts, "alice", until, since)


def test_any_two_days_cut_the_account_into_parts_that_fit(ledger):
    days = [datetime.date(2026, 6, 1) + datetime.timedelta(days=n) for n in range(100)]
    whole = account_statement(ledger.accounts, "alice")
    for day in random.Random(0).sample(days, 20):
        before = account_statement(ledger.accounts, "alice", None, day)
        after = account_statement(ledger.accounts, "alice", day + datetime.timedelta(days=1))
        for one, two, three in zip(before.accounts, after.accounts, whole.accounts, strict=True):
            assert one.closing == two.opening
            assert two.closing == three.closing
            assert one.lines + tuple(two.lines) == three.lines
            assert one.runs + two.runs == three.runs


def test_accounts_that_say_something_else_are_an_error(ledger):
    ledger.accounts.payable["alice", "EUR"] += 1
    with pytest.raises(LedgerError, match="does not add up"):
        account_statement(ledger.accounts, "alice")


def test_an_unknown_payee_is_told_who_comes_close(ledger):
    with pytest.raises(UnknownNameError, match="did you mean alice"):
        account_statement(ledger.accounts, "alicia")


def test_the_clock_is_told_where_it_ran_backwards(ledger):
    ledger.day("2026-08-15")
    ledger.add("fee", payee="alice", currency="EUR", amount=1, content={"why": "late"})
    assert "ran backwards" in account_statement(ledger.accounts, "alice").notes[0]


def test_csv_can_be_summed_and_runs_no_formula(ledger):
    statement = account_statement(ledger.accounts, "alice")
    rows = list(csv.DictReader(io.StringIO(statement_csv(statement))))
    for currency, digits in (("EUR", 100), ("JPY", 1)):
        lines = [row for row in rows if row["row"] == "line" and row["currency"] == currency]
        closing = next(r for r in rows if r["row"] == "closing" and r["currency"] == currency)
        for place in ("owed", "on_its_way", "sent", "carried"):
            total = sum(round(float(row[f"{place}_change"]) * digits) for row in lines)
            assert total == round(float(closing[place]) * digits)
    assert rows[-1]["row"] == "tip"
    assert (rows[-1]["entry"], rows[-1]["what"]) == (str(ledger.accounts.number), ledger.accounts.tip)
    assert [row["amount"] for row in rows if row["row"] == "draft"] == ["7.00"]


def test_names_are_data(tmp_path):
    ledger, evil = HandBook(), "=cmd|'x'<script>alert(1)</script>"
    ledger.draft("r" * 64, "EUR", {evil: (5, 0)}, period="=1+1;@x<b>")
    ledger.approve("r" * 64)
    statement = account_statement(ledger.accounts, evil)
    rows = list(csv.DictReader(io.StringIO(statement_csv(statement))))
    assert all(row["payee"].startswith("'=") for row in rows)
    assert from_csv(rows[0]["payee"]) == evil
    assert {row["period"] for row in rows if row["row"] == "line"} == {"'=1+1;'@x<b>"}
    page = statement_html(statement)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<b>" not in page


def test_the_page_asks_nothing_of_the_network(ledger):
    page = statement_html(account_statement(ledger.accounts, "alice"))
    assert "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")
    assert f"{ledger.accounts.number} {ledger.accounts.tip} {ledger.accounts.at}" in page
    for words in (
        "June 2026",
        "transfer &lt;7&gt;",
        "Not approved yet",
        "Correction of entry 5",
        "86.00",
    ):
        assert words in page


def test_the_other_side_of_a_dispute_is_not_named_unless_it_is_asked_for(tmp_path):
    folder = run(tmp_path)
    open_dispute(ledger_of(folder), run_of(folder).run, "attacker", "mine", against="seller 3")
    accounts = ledger_of(folder).accounts()
    for name, hidden, shown in (
        ("attacker", "opened by attacker against another payee", "opened by attacker against seller 3"),
        ("seller 3", "opened by another payee against seller 3", "opened by attacker against seller 3"),
    ):
        other = {"attacker", "seller 3"} - {name}
        statement = account_statement(accounts, name)
        for text in (statement_html(statement), statement_csv(statement)):
            assert hidden in text
            assert not any(each in text for each in other)
        assert shown in statement_html(account_statement(accounts, name, show_names=True))
