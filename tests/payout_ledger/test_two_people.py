"""Two people approve: not one under two names, nor one who has not seen what the other was asked."""

import pytest
from clerk import Clerk

from datamarket_gym.payout.bank.export import ExportRequest, export_payments
from datamarket_gym.payout.ledger import transactions as money
from datamarket_gym.payout.ledger.disputes import Effects, open_dispute, resolve_dispute
from datamarket_gym.payout.ledger.entries import LedgerError


@pytest.fixture
def clerk(tmp_path):
    found = Clerk(tmp_path / "ledger.sqlite", tmp_path / "runs")
    found.draft("june", "EUR", 1000, {"ann": (600, 0), "ed": (400, 0)}, {})
    return found


@pytest.mark.parametrize(
    "spelling",
    ["Anna\u200b Lee", "\u0410nna Lee", "Anna\u00a0Lee", "ANNA LEE", "\u202eAnna Lee"],
    ids=["zero width", "Cyrillic A", "no-break space", "capitals", "override"],
)
def test_a_look_alike_is_no_second_person(clerk, spelling):
    clerk.rule_people(2, "Anna Lee")
    assert clerk.approve("june", "Anna Lee") == "draft"
    assert clerk.approve("june", spelling) == "draft"
    clerk.rule_people(1, "Anna Lee")
    clerk.rule_people(1, spelling)
    assert clerk.ledger.accounts().rules.approvals == 2


@pytest.mark.parametrize("by", ["\u200b", "\u2060 ", "Anna\nLee"])
def test_who_cannot_be_seen_approves_nothing(clerk, by):
    with pytest.raises(LedgerError, match="no name is given"):
        clerk.approve("june", by)


def test_whoever_approved_before_a_warning_approves_again(clerk):
    clerk.rule_people(2, "A. Lee")
    assert clerk.approve("june", "A. Lee") == "draft"
    open_dispute(clerk.ledger, clerk.run_id("june"), "ann", "two units are missing")
    assert clerk.approve("june", "R. Okafor") == "draft"
    assert clerk.approve("june", "A. Lee") == "approved"


def test_what_is_left_of_one_run_is_not_ordered_for_a_draft(clerk, tmp_path):
    clerk.approve("june", "A. Lee")
    clerk.paid("june", "transfer 1")
    sent = next(e for e in clerk.ledger.read() if e.kind == "sent")
    clerk.bounce(sent.number, sent.payee)
    clerk.draft("july", "EUR", 500, {"ann": (300, 0), "ed": (200, 0)}, {})
    july, out = clerk.run_id("july"), tmp_path / "x.csv"
    with pytest.raises(LedgerError, match="a draft; approve it"):
        export_payments(clerk.ledger, ExportRequest(out=out, form="csv"), july)
    assert not out.exists()
    with (
        pytest.raises(LedgerError, match="approve it before"),
        clerk.ledger.transaction() as transaction,
    ):
        transaction.add("batch", run=july, currency="EUR", content={"batch": "b", "runs": [july]})


def paid_by_two(clerk):
    clerk.rule_people(2, "A. Lee")
    clerk.approve("june", "A. Lee")
    clerk.approve("june", "R. Okafor")
    return next(e.number for e in clerk.ledger.read() if e.kind == "payment" and e.payee == "ed")


def owed(clerk):
    return {who: left for (who, _), left in clerk.ledger.accounts().payable.items()}


def test_one_person_corrects_nothing_where_two_approve(clerk):
    of = paid_by_two(clerk)
    for by in ("A. Lee", "R. Okafor"):
        assert owed(clerk) == {"ann": 600, "ed": 400}
        entry = money.correct(clerk.ledger, "ed", 9_000_000, of, "forgotten", by)
    assert entry.kind == "correction"
    assert owed(clerk) == {"ann": 600, "ed": 9_000_400}
    money.correct(clerk.ledger, "ed", 9_000_000, of, "once more", "A. Lee")
    with pytest.raises(LedgerError, match="another person must"):
        money.correct(clerk.ledger, "ed", 9_000_000, of, "once more", "A. Lee")
    said = {"of": of, "why": "by hand"}
    with pytest.raises(LedgerError, match="2 people decide"), clerk.ledger.transaction() as transaction:
        transaction.add("correction", payee="ed", currency="EUR", amount=5, content=said, by="A. Lee")
    with pytest.raises(LedgerError, match="is not about 'ann'"):
        money.correct(clerk.ledger, "ann", 5, of, "of another's payment", "A. Lee")


def test_one_person_takes_no_fee_where_two_approve(clerk):
    paid_by_two(clerk)
    assert money.charge(clerk.ledger, "ann", 600, "EUR", "handling", "A. Lee").kind == "proposed"
    assert owed(clerk) == {"ann": 600, "ed": 400}
    with pytest.raises(LedgerError, match="2 people decide"), clerk.ledger.transaction() as transaction:
        transaction.add(
            "fee", payee="ann", currency="EUR", amount=5, content={"why": "by hand"}, by="A. Lee"
        )
    assert money.charge(clerk.ledger, "ann", 600, "EUR", "handling", "R. Okafor").kind == "fee"
    assert owed(clerk) == {"ann": 0, "ed": 400}


def test_one_person_ends_no_balance_where_two_approve(clerk):
    clerk.draft("july", "EUR", 100, {"ann": (50, 40), "ed": (50, -40)}, {})
    paid_by_two(clerk)
    clerk.approve("july", "A. Lee")
    clerk.approve("july", "R. Okafor")
    for kind, payee in (("funded", "ann"), ("written_off", "ed")):
        before = dict(clerk.ledger.accounts().balance)
        money.end_balance(clerk.ledger, kind, payee, "EUR", "left", by="A. Lee")
        assert clerk.ledger.accounts().balance == before
        assert money.end_balance(clerk.ledger, kind, payee, "EUR", "left", by="R. Okafor").kind == kind
        assert clerk.ledger.accounts().balance[payee, "EUR"] == 0


def test_one_person_upholds_no_dispute_with_money_where_two_approve(clerk):
    paid_by_two(clerk)
    open_dispute(clerk.ledger, clerk.run_id("june"), "ed", "mine")
    taken = Effects(correction="3.00", taken_from="ann")
    assert resolve_dispute(clerk.ledger, 1, "upheld", "it is", taken, by="A. Lee").open
    assert owed(clerk) == {"ann": 600, "ed": 400}
    assert not resolve_dispute(clerk.ledger, 1, "upheld", "it is", taken, by="R. Okafor").open
    assert owed(clerk) == {"ann": 300, "ed": 700}
