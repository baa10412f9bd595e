"""What the ledger refuses whoever writes it, with hashes that fit: each entry here is one that cannot follow.

No file and no database: a page over accounts in memory takes an entry, or refuses it and stays as it was.
"""

import json

import pytest

from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import (
    START,
    LedgerError,
    hash_entry,
    read_entries,
)
from datamarket_gym.payout.ledger.runs import dispute_warnings
from datamarket_gym.payout.ledger.store import Transaction

JUNE, JULY, YEN = "a" * 64, "b" * 64, "c" * 64


def drafted(lines, opening=None, **said):
    """What a draft says; lines: payee, paid, balance after."""
    return {
        "manifest": "m", "places": {}, "checks": 0, "period": "", "submissions": "s", "kept": 0, "overrides": [],
        "standing": [], "warnings": [], "opening": opening or {},
        "lines": [[who, paid, paid + left, left] for who, paid, left in lines],
    } | said  # fmt: skip


class InMemory(Transaction):
    """A page over a ledger that lies nowhere."""

    def __init__(self):
        super().__init__(Accounts())
        self.add("opened", content={"format": 1, "id": "1"})

    def draft(self, run, lines, amount, currency="EUR", opening=None, **said):
        content = drafted(lines, opening, **said)
        return self.add("draft", run=run, currency=currency, amount=amount, content=content)

    def approve(self, run, by="anna"):
        self.add("approval", run=run, content={"manifest": "m"}, by=by)
        return self.approved(run)

    def approved(self, run):
        record = self.accounts.runs[run]
        named = {"run": run, "currency": record.currency}
        self.add("approved", amount=record.amount, **named)
        for line in record.lines:
            carried = line.balance - record.opening.get(line.identity, 0)
            for kind, amount in (("payment", line.paid), ("carried_forward", carried)):
                if amount:
                    self.add(kind, payee=line.identity, amount=amount, **named)

    def batch(self, name, run=JUNE, currency="EUR", runs=None):
        self.add("batch", run=run, currency=currency, content={"batch": name, "runs": runs or [run]})

    def line(self, kind, name, payee, amount, currency="EUR", **said):
        content = {"batch": name, **said}
        return self.add(kind, payee=payee, currency=currency, amount=amount, content=content)


@pytest.fixture
def page():
    """June pays alice 6000 and bob 4000; carol carries a debt of 700 and alice a credit of 700. Nothing is ordered."""
    page = InMemory()
    page.draft(JUNE, [("alice", 6000, 700), ("bob", 4000, 0), ("carol", 0, -700)], 10000)
    page.approve(JUNE)
    return page


def refused(page, match, kind, **entry):
    """The entry is refused in words, and nothing of it is taken up."""
    a = page.accounts
    before = (a.number, a.tip, dict(a.payable), dict(a.outgoing), dict(a.sent), dict(a.balance))
    with pytest.raises(LedgerError, match=match):
        page.add(kind, **entry)
    places = ({k: v for k, v in x.items() if v} for x in (a.payable, a.outgoing, a.sent, a.balance))
    assert (a.number, a.tip, *places) == (
        *before[:2],
        *({k: v for k, v in x.items() if v} for x in before[2:]),
    )


def test_what_each_kind_does_to_the_money_of_a_payee(page):
    a, alice, carol = page.accounts, ("alice", "EUR"), ("carol", "EUR")

    def found():
        return a.payable[alice], a.outgoing[alice], a.sent[alice], a.balance[alice], a.balance[carol]

    assert found() == (6000, 0, 0, 700, -700)
    page.add("fee", payee="alice", currency="EUR", amount=35)
    assert found() == (5965, 0, 0, 700, -700)
    paid = next(e.number for e in a.entries if e.kind == "payment" and e.payee == "alice")
    page.add("correction", payee="alice", currency="EUR", amount=-65, content={"of": paid})
    assert found() == (5900, 0, 0, 700, -700)
    page.add("funded", payee="alice", currency="EUR", amount=200)
    assert found() == (6100, 0, 0, 500, -700)
    page.add("written_off", payee="carol", currency="EUR", amount=-700)
    page.add("written_off", payee="alice", currency="EUR", amount=500)
    assert found() == (6100, 0, 0, 0, 0)
    page.batch("1")
    page.line("ordered", "1", "alice", 6000)
    assert found() == (100, 6000, 0, 0, 0)
    page.line("cancelled", "1", "alice", 6000)
    assert found() == (6100, 0, 0, 0, 0)
    page.batch("2")
    page.line("ordered", "2", "alice", 6100)
    sent = page.line("sent", "2", "alice", 6100, reference="r")
    assert found() == (0, 0, 6100, 0, 0)
    page.add("bounced", payee="alice", currency="EUR", amount=6100, content={"of": sent.number})
    assert found() == (6100, 0, 0, 0, 0)


def test_a_ledger_is_opened_once_and_by_this_version(page):
    refused(page, "begins with", "opened", content={"format": 1, "id": "2"})
    with pytest.raises(LedgerError, match="begins with"):
        Transaction(Accounts()).add("hold", payee="alice", content={"why": "x"})
    with pytest.raises(LedgerError, match="another version"):
        Transaction(Accounts()).add("opened", content={"format": 2, "id": "1"})
    refused(page, "no kind of entry", "gift", payee="alice", currency="EUR", amount=1)


@pytest.mark.parametrize(
    ("lines", "amount", "opening"),
    [
        ([("alice", 50, 0), ("alice", 50, 0)], 100, {}),  # a payee twice
        ([("alice", 99, 0)], 100, {}),  # not all of it
        ([("alice", 100, 7)], 100, {}),  # a credit from nowhere
        ([("alice", 100, 0)], 100, {"carol": -7}),  # a debt is dropped
        ([("alice", 100, 0), ("bob", 0, -7)], 100, {"carol": -7}),  # a debt becomes another's
        ([("alice", 107, 0), ("bob", -7, 0)], 100, {}),  # less than nothing
    ],
)
def test_a_draft_adds_up(page, lines, amount, opening):
    with pytest.raises(LedgerError, match="do not add up"):
        page.draft(JULY, lines, amount, opening=opening)
    assert JULY not in page.accounts.runs


def test_what_a_payee_is_entitled_to_is_paid_or_carried(page):
    said = drafted([]) | {"lines": [["alice", 100, 101, 0]]}
    refused(page, "do not add up", "draft", run=YEN, currency="JPY", amount=100, content=said)


def test_a_run_that_was_never_entered_is_none(page):
    strange = {"run": "f" * 64, "content": {"manifest": "m"}}
    refused(page, "the ledger holds no run ffffffffffffffff", "approval", by="anna", **strange)


def test_a_run_is_entered_once(page):
    lines = [("alice", 6000, 700), ("bob", 4000, 0), ("carol", 0, -700)]
    with pytest.raises(LedgerError, match="in the ledger already"):
        page.draft(JUNE, lines, 10000)


@pytest.fixture
def july(page):
    page.draft(
        JULY,
        [("alice", 100, 700), ("carol", 0, -700)],
        100,
        opening={"alice": 700, "carol": -700},
    )
    return page


def test_who_approves_and_what(july):
    refused(july, "needs 1 approvals and has 0", "approved", run=JULY, currency="EUR", amount=100)
    refused(july, "another manifest", "approval", run=JULY, content={"manifest": "n"}, by="ben")
    july.add("approval", run=JULY, content={"manifest": "m"}, by="Anna B")
    refused(
        july, "approved the run before", "approval", run=JULY, content={"manifest": "m"}, by=" anna  b "
    )
    refused(july, "another amount", "approved", run=JULY, currency="EUR", amount=99)
    refused(july, "another amount", "approved", run=JULY, currency="JPY", amount=100)
    july.approved(JULY)
    july.accounts.require_whole()
    refused(july, "cannot be approved", "approved", run=JULY, currency="EUR", amount=100)


def test_balances_that_changed_since_the_draft_are_not_taken_up(july):
    july.add("written_off", payee="carol", currency="EUR", amount=-1)
    july.add("approval", run=JULY, content={"manifest": "m"}, by="anna")
    refused(july, "balances that the run takes up", "approved", run=JULY, currency="EUR", amount=100)


def test_a_run_that_asks_for_checks_is_not_approved_without(page):
    page.draft(YEN, [("alice", 100, 0)], 100, "JPY", checks=3)
    refused(page, "cannot be approved", "approval", run=YEN, content={"manifest": "m"}, by="anna")
    page.add("planned", run=YEN, content={"plan": "p"})
    page.add("drawn", run=YEN, content={"beacon": "b"})
    refused(page, "drawn once", "drawn", run=YEN, content={"beacon": "c"})
    refused(page, "cannot change after", "planned", run=YEN, content={"plan": "q"})
    page.add("checked", run=YEN)
    page.approve(YEN)


def test_checks_that_were_begun_are_ended_before_the_approval(page):
    page.draft(YEN, [("alice", 100, 0)], 100, "JPY")
    page.add("planned", run=YEN, content={"plan": "p"})
    page.add("drawn", run=YEN, content={"beacon": "b"})
    refused(page, "cannot be approved", "approval", run=YEN, content={"manifest": "m"}, by="anna")


def test_payments_are_those_of_the_approved_run_each_once(july):
    refused(july, "no approved run", "payment", run=JUNE, payee="alice", currency="EUR", amount=6000)
    refused(july, "no approved run", "payment", run=JULY, payee="alice", currency="EUR", amount=100)
    july.add("approval", run=JULY, content={"manifest": "m"}, by="anna")
    july.add("approved", run=JULY, currency="EUR", amount=100)
    with pytest.raises(LedgerError, match="not all of its payments"):
        july.accounts.require_whole()
    with pytest.raises(LedgerError, match="in EUR, not in JPY"):
        july.add("payment", run=JULY, payee="alice", currency="JPY", amount=100)


def test_forfeits_are_what_the_run_keeps(page):
    page.draft(
        JULY,
        [("alice", 100, 700), ("carol", 0, -700)],
        100,
        opening={"alice": 700, "carol": -700},
        kept=40,
    )
    page.approve(JULY)
    with pytest.raises(LedgerError, match="keeps 40, not 41"):
        page.add("forfeited", run=JULY, currency="EUR", amount=41)


def test_corrections_name_what_was_paid_to_the_same_payee_in_the_same_currency(page):
    number = {(e.kind, e.payee): e.number for e in page.accounts.entries}
    paid = number["payment", "alice"]
    refused(
        page, "of nothing", "correction", payee="alice", currency="EUR", amount=0, content={"of": paid}
    )
    refused(
        page,
        "not about 'bob'",
        "correction",
        payee="bob",
        currency="EUR",
        amount=1,
        content={"of": paid},
    )
    refused(page, "in JPY", "correction", payee="alice", currency="JPY", amount=1, content={"of": paid})
    for of in (0, page.accounts.number + 1, True, -1):
        refused(
            page,
            "there is no entry",
            "correction",
            payee="alice",
            currency="EUR",
            amount=1,
            content={"of": of},
        )
    carried = number["carried_forward", "alice"]
    refused(
        page,
        "no payment",
        "correction",
        payee="alice",
        currency="EUR",
        amount=1,
        content={"of": carried},
    )
    approved = number["approved", ""]
    refused(
        page,
        "not about 'zoe'",
        "correction",
        payee="zoe",
        currency="EUR",
        amount=1,
        content={"of": approved},
    )
    page.add("correction", payee="carol", currency="EUR", amount=1, content={"of": approved})


def test_fees_are_above_zero_and_at_most_what_is_owed(page):
    for amount in (0, -1, 6001):
        refused(page, "a fee is above zero", "fee", payee="alice", currency="EUR", amount=amount)
    page.add("fee", payee="alice", currency="EUR", amount=6000)


def test_balances_end_on_their_own_side_and_no_further(page):
    for amount in (0, -1, 701):
        refused(page, "cannot be paid", "funded", payee="alice", currency="EUR", amount=amount)
        refused(page, "cannot end", "written_off", payee="alice", currency="EUR", amount=amount)
    refused(page, "cannot be paid", "funded", payee="carol", currency="EUR", amount=-700)
    for amount in (700, -701):
        refused(page, "cannot end", "written_off", payee="carol", currency="EUR", amount=amount)


def test_orders_are_of_what_is_owed_in_one_currency_to_whoever_is_not_held(page):
    page.batch("1")
    with pytest.raises(LedgerError, match="a batch 1 already"):
        page.batch("1")
    with pytest.raises(LedgerError, match="only a part"):
        page.accounts.require_whole()
    said = {"batch": "1"}
    refused(page, "is owed 6000", "ordered", payee="alice", currency="EUR", amount=6001, content=said)
    refused(page, "is owed 6000", "ordered", payee="alice", currency="EUR", amount=0, content=said)
    page.add("hold", payee="alice", content={"why": "account"})
    refused(page, "is held", "ordered", payee="alice", currency="EUR", amount=6000, content=said)
    page.add("release", payee="alice", content={})
    refused(page, "is not held", "release", payee="alice", content={})
    page.line("ordered", "1", "alice", 3000)
    refused(
        page, "in the batch already", "ordered", payee="alice", currency="EUR", amount=3000, content=said
    )
    page.line("sent", "1", "alice", 3000, reference="r")
    refused(page, "is owed 4000", "ordered", payee="bob", currency="EUR", amount=4000, content=said)


def test_a_batch_is_of_one_currency(page):
    page.draft(YEN, [("alice", 100, 0)], 100, "JPY")
    page.approve(YEN)
    page.batch("1")
    refused(
        page, "is owed 100", "ordered", payee="alice", currency="JPY", amount=100, content={"batch": "1"}
    )


def test_a_line_is_sent_or_cancelled_once_as_it_was_ordered(page):
    page.batch("1")
    page.line("ordered", "1", "alice", 6000)
    page.line("ordered", "1", "bob", 4000)
    said = {"batch": "1", "reference": "r"}
    refused(page, "no open batch", "sent", payee="alice", currency="EUR", amount=5999, content=said)
    refused(page, "no open batch", "sent", payee="carol", currency="EUR", amount=1, content=said)
    refused(page, "no open batch", "sent", payee="alice", currency="JPY", amount=6000, content=said)
    refused(page, "no batch that was sent", "paid", run=JUNE, content=said)
    sent = page.line("sent", "1", "alice", 6000, reference="r")
    refused(page, "no batch that was sent", "paid", run=JUNE, content=said)
    refused(page, "no open batch", "sent", payee="alice", currency="EUR", amount=6000, content=said)
    refused(page, "no open batch", "cancelled", payee="bob", currency="EUR", amount=4000, content=said)
    page.line("sent", "1", "bob", 4000, reference="r")
    with pytest.raises(LedgerError, match="only a part"):  # the run that it pays is not marked
        page.accounts.require_whole()
    page.add("paid", run=JUNE, content=said)
    page.accounts.require_whole()
    refused(page, "approve it before", "paid", run=JUNE, content=said)
    of = {"of": sent.number}
    refused(
        page,
        "is no payment that was sent",
        "bounced",
        payee="alice",
        currency="EUR",
        amount=5999,
        content=of,
    )
    refused(
        page,
        "is no payment that was sent",
        "bounced",
        payee="bob",
        currency="EUR",
        amount=6000,
        content=of,
    )
    page.add("bounced", payee="alice", currency="EUR", amount=6000, content=of)
    refused(page, "come back before", "bounced", payee="alice", currency="EUR", amount=6000, content=of)


def test_what_was_ordered_or_paid_cannot_bounce(page):
    paid = next(e for e in page.accounts.entries if e.kind == "payment")
    said = {"of": paid.number}
    refused(
        page,
        "is no payment that was sent",
        "bounced",
        payee=paid.payee,
        currency="EUR",
        amount=paid.amount,
        content=said,
    )


def test_a_run_is_paid_by_a_batch_that_holds_it(july):
    july.approve(JULY)
    july.batch("1")
    july.line("ordered", "1", "bob", 4000)
    july.line("sent", "1", "bob", 4000, reference="r")
    refused(july, "holds the payments", "paid", run=JULY, content={"batch": "1", "reference": "r"})
    july.batch("2", JULY)
    july.line("ordered", "2", "alice", 100)
    july.line("cancelled", "2", "alice", 100)
    refused(july, "holds the payments", "paid", run=JULY, content={"batch": "2", "reference": "r"})


def ruled(page, people, by):
    page.add("rule", content={"approvals": people}, by=by)
    return page.accounts.rules.approvals


def test_fewer_approvals_are_a_matter_of_as_many_people_as_approve_now(page):
    refused(page, "approved by 1 to 10", "rule", content={"approvals": 0})
    refused(page, "approved by 1 to 10", "rule", content={"approvals": 11})
    refused(page, "approved by 1 to 10", "rule", content={"approvals": True})
    refused(page, "below zero", "rule", currency="EUR", amount=-1, content={"least": True})
    assert ruled(page, 3, "anna") == 3
    assert [ruled(page, 1, who) for who in ("anna", "ANNA", "ben", "cleo")] == [3, 3, 3, 1]
    assert ruled(page, 2, "anna") == 2
    assert ruled(page, 1, "anna") == 2
    assert ruled(page, 2, "ben") == 2  # whoever asked before has to ask again
    assert [ruled(page, 1, who) for who in ("ben", "anna")] == [2, 1]


def disputed(page, number, payee="alice", run=JUNE):
    said = {"number": number, "about": "x", "units": [], "against": "", "holds": []}
    return page.add("dispute", run=run, payee=payee, content=said)


def decision(number, outcome="upheld", **more):
    return {"number": number, "outcome": outcome, "why": "w", "overrides": [], "corrections": []} | more


SPLIT = {
    "action": "split", "units": ["u1"], "reason": "dispute 1", "by": "anna", "date": "2026-06-01", "dispute": 1,
}  # fmt: skip


def test_disputes_are_of_payees_numbered_and_decided_once(july):
    with pytest.raises(LedgerError, match="no payee of run"):
        disputed(july, 1, "zoe")
    with pytest.raises(LedgerError, match="the next one is 1"):
        disputed(july, 2)
    disputed(july, 1)
    bob = {"run": JUNE, "payee": "bob"}
    alice = {"run": JUNE, "payee": "alice"}
    refused(july, "is not about run", "resolved", content=decision(1), **bob)
    refused(july, "is not about run", "resolved", run=JULY, payee="alice", content=decision(1))
    for outcome in ("rejected", "withdrawn", "won"):
        refused(
            july, "has no effect", "resolved", content=decision(1, outcome, overrides=[SPLIT]), **alice
        )
    paid = next(e.number for e in july.accounts.entries if e.kind == "payment")
    refused(july, "is no correction", "resolved", content=decision(1, corrections=[paid]), **alice)
    july.add(
        "correction",
        payee="alice",
        run=JUNE,
        currency="EUR",
        amount=5,
        content={"of": paid, "dispute": 2},
    )
    other = decision(1, corrections=[july.accounts.number])
    refused(july, "is no correction", "resolved", content=other, **alice)
    july.add("resolved", content=decision(1, overrides=[SPLIT]), **alice)
    refused(july, "a decision stands", "resolved", content=decision(1), **alice)
    assert [o.units for o in july.accounts.disputes.overrides] == [["u1"]]


def test_a_draft_takes_what_disputes_decided_and_no_more(page):
    disputed(page, 1)
    alice = {"run": JUNE, "payee": "alice"}
    page.add("resolved", content=decision(1, overrides=[SPLIT]), **alice)
    with pytest.raises(LedgerError, match="does not stand there"):
        page.draft(YEN, [("alice", 100, 0)], 100, "JPY", standing=[{**SPLIT, "units": ["u1", "u2"]}])
    with pytest.raises(LedgerError, match="does not stand there"):
        page.draft(YEN, [("alice", 100, 0)], 100, "JPY", standing=[{**SPLIT, "dispute": 2}])
    page.add("revoked", content={"number": 1, "why": "forged"}, **alice)
    refused(page, "already", "revoked", content={"number": 1, "why": "forged"}, **alice)
    assert page.accounts.disputes.overrides == []
    with pytest.raises(LedgerError, match="does not stand there"):
        page.draft(YEN, [("alice", 100, 0)], 100, "JPY", standing=[SPLIT])


@pytest.mark.parametrize("state", ["draft", "approved"])
def test_a_dispute_stands_before_later_drafts_for_the_period_of_a_draft_alone(state):
    page = InMemory()
    page.draft(JUNE, [("alice", 100, 0)], 100, period="June")
    disputed(page, 1)
    if state == "approved":
        page.approve(JUNE)
    page.draft(JULY, [("alice", 100, 0)], 100, period="June")
    assert bool(dispute_warnings(page.accounts, JULY)) == (state == "draft")


@pytest.mark.parametrize(
    ("field", "value"), [("amount", 1.5), ("amount", True), ("amount", "1"), ("by", 7)]
)
def test_fields_of_another_type_are_none_that_this_version_has_written(page, field, value):
    fields = json.loads(page.accounts.entries[0].body) | {field: value}
    body = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    with pytest.raises(LedgerError, match="none that this version has written"):
        list(read_entries([(1, body, hash_entry(START, body))]))
