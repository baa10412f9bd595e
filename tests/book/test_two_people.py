"""Two people approve: not one under two names, nor one who has not seen what the other was asked."""

import pytest
from clerk import Clerk

from datamarket_gym.payout.bank.export import export_payments
from datamarket_gym.payout.book.disputing import open_dispute
from datamarket_gym.payout.book.entry import BookError


@pytest.fixture
def clerk(tmp_path):
    found = Clerk(tmp_path / "book.sqlite", tmp_path / "runs")
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
    assert clerk.book.accounts().rules.approvals == 2


@pytest.mark.parametrize("by", ["\u200b", "\u2060 ", "Anna\nLee"])
def test_who_cannot_be_seen_approves_nothing(clerk, by):
    with pytest.raises(BookError, match="nobody is named"):
        clerk.approve("june", by)


def test_whoever_approved_before_a_warning_approves_again(clerk):
    clerk.rule_people(2, "A. Lee")
    assert clerk.approve("june", "A. Lee") == "draft"
    open_dispute(clerk.book, clerk.run_id("june"), "ann", "two units are missing")
    assert clerk.approve("june", "R. Okafor") == "draft"
    assert clerk.approve("june", "A. Lee") == "approved"


def test_what_is_left_of_one_run_is_not_ordered_for_a_draft(clerk, tmp_path):
    clerk.approve("june", "A. Lee")
    clerk.paid("june", "transfer 1")
    sent = next(e for e in clerk.book.read() if e.kind == "sent")
    clerk.bounce(sent.number, sent.payee)
    clerk.draft("july", "EUR", 500, {"ann": (300, 0), "ed": (200, 0)}, {})
    july, out = clerk.run_id("july"), tmp_path / "x.csv"
    with pytest.raises(BookError, match="a draft; approve it"):
        export_payments(clerk.book, None, None, out, run=july, form="csv")
    assert not out.exists()
    with pytest.raises(BookError, match="approved runs alone"), clerk.book.page() as page:
        page.add("batch", run=july, currency="EUR", content={"batch": "b", "runs": [july]})
