"""What a ledger refuses, whoever asks, and what it does not mistake; each was once a way to pay twice."""

from datetime import UTC, datetime, timedelta

import pytest
from clerk import Clerk
from raw_rows import picture

from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.ledger import store
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.disputes import open_dispute, resolve_dispute
from datamarket_gym.payout.ledger.entries import LedgerError, chain_entry
from datamarket_gym.payout.ledger.store import open_ledger


@pytest.fixture
def clerk(where, tmp_path):
    """June is approved and pays ann 600 and ed 400."""
    clerk = Clerk(where, tmp_path / "runs")
    clerk.draft("june", "EUR", 1000, {"ann": (600, 0), "ed": (400, 0)}, {})
    clerk.approve("june", "R. Okafor")
    return clerk


def july(clerk):
    clerk.draft("july", "EUR", 50, {"ann": (50, 0)}, {})
    clerk.approve("july", "R. Okafor")


def owed(clerk):
    return {who: amount for (who, _), amount in clerk.ledger.accounts().payable.items() if amount}


def sent(clerk):
    return {who: amount for (who, _), amount in clerk.ledger.accounts().sent.items() if amount}


def test_a_run_is_paid_by_the_batch_that_holds_its_money(clerk):
    batch = clerk.order("EUR")
    assert clerk.paid("june", "transfer 1")
    assert clerk.ledger.accounts().batches[batch.id].state == "sent"
    assert sent(clerk) == {"ann": 600, "ed": 400}
    with pytest.raises(LedgerError, match="no payee is owed"):
        clerk.order("EUR")


def test_marking_a_run_as_paid_does_not_send_a_batch_that_was_ordered_before_it(clerk):
    batch = clerk.order("EUR")
    july(clerk)
    assert clerk.paid("july", "transfer 2")
    assert sent(clerk) == {"ann": 50}
    assert clerk.ledger.accounts().batches[batch.id].state == "ordered"


def test_marking_a_run_as_paid_does_not_send_what_other_runs_pay_the_same_people(clerk):
    july(clerk)
    assert clerk.paid("june", "transfer 1")
    assert sent(clerk) == {"ann": 600, "ed": 400}
    assert owed(clerk) == {"ann": 50}


def test_marking_a_run_as_paid_after_its_batch_was_sent_sends_nothing_more(clerk):
    batch = clerk.order("EUR")
    clerk.confirm(batch.id, "transfer 1")
    july(clerk)
    assert not clerk.paid("june", "transfer 1")
    assert owed(clerk) == {"ann": 50}


def test_nothing_is_ordered_for_a_draft(clerk):
    """Or the batch, confirmed after the run was approved, would mark it as paid without holding any of its money."""
    clerk.paid("june", "transfer 1")
    clerk.bounce(next(e.number for e in clerk.ledger.read() if e.kind == "sent"), "ann")
    clerk.draft("july", "EUR", 50, {"ann": (50, 0)}, {})
    with pytest.raises(LedgerError, match="approve it before"):
        clerk.order("EUR", "july")


def test_a_run_in_one_currency_is_not_ordered_in_another(clerk):
    clerk.draft("tokyo", "JPY", 9, {"ann": (9, 0)}, {})
    clerk.approve("tokyo", "R. Okafor")
    with pytest.raises(LedgerError, match="in EUR, not in JPY"):
        clerk.order("JPY", "june")


def test_a_dispute_is_resolved_once_and_its_hold_loses_nothing(clerk):
    dispute = open_dispute(clerk.ledger, clerk.run_id("june"), "ann", "two units are missing", hold=True)
    batch = clerk.order("EUR")
    assert batch.lines == {"ed": 400}
    assert owed(clerk) == {"ann": 600}
    resolve_dispute(clerk.ledger, dispute.number, "rejected", "they are not", by="M. Ito")
    before = picture(clerk.where)
    for outcome in ("rejected", "upheld"):
        with pytest.raises(DataMarketError):
            resolve_dispute(clerk.ledger, dispute.number, outcome, "once more", by="M. Ito")
    with pytest.raises(DataMarketError):
        resolve_dispute(clerk.ledger, 99, "rejected", "there is none", by="M. Ito")
    assert picture(clerk.where) == before
    clerk.cancel(batch.id)
    assert clerk.order("EUR").lines == {"ann": 600, "ed": 400}


def test_one_person_under_two_spellings_is_one_person(clerk):
    clerk.rule_people(2, "R. Okafor")
    clerk.draft("july", "EUR", 50, {"ann": (50, 0)}, {})
    for spelling in ("R. Okafor", "r. okafor", " R.  OKAFOR ", "\uff32. Okafor"):
        assert clerk.approve("july", spelling) == "draft"
    assert clerk.approve("july", "M. Ito") == "approved"


def test_fewer_approvals_are_not_asked_for_by_one_person_twice(clerk):
    clerk.rule_people(2, "R. Okafor")
    clerk.rule_people(1, "R. Okafor")
    clerk.rule_people(1, "r. okafor")
    assert clerk.ledger.accounts().rules.approvals == 2
    clerk.rule_people(1, "M. Ito")
    assert clerk.ledger.accounts().rules.approvals == 1


def test_nobody_is_no_approver(clerk):
    clerk.draft("july", "EUR", 50, {"ann": (50, 0)}, {})
    with pytest.raises(LedgerError, match="no name is given"):
        clerk.approve("july", " ")


class YesterdaysClock(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) - timedelta(days=1)


def test_a_clock_that_runs_backwards_is_noted_and_told(clerk, monkeypatch):
    assert "backwards" not in told(clerk)["times"]
    monkeypatch.setattr(store, "datetime", YesterdaysClock)
    clerk.rule_least("EUR", 500)  # and refuses nothing
    assert clerk.ledger.accounts().rules.least == {"EUR": 500}
    noted = clerk.ledger.read()[-1]
    assert "the clock ran backwards" in noted.content["clock"]
    assert f"the clock ran backwards before entry {noted.number}" in told(clerk)["times"]


def told(clerk):
    return {what: words for what, good, words in clerk.ledger.examined() if good}


def test_a_ledger_that_is_gone_is_not_begun_anew_in_its_place(tmp_path):
    place = tmp_path / "ledger.sqlite"
    clerk = Clerk(place, tmp_path / "runs")
    clerk.draft("june", "EUR", 1000, {"ann": (600, 0), "ed": (400, 0)}, {})
    whole = place.read_bytes()
    for left in (None, b"", whole[:100]):
        place.unlink()
        if left is not None:
            place.write_bytes(left)
        with pytest.raises(LedgerError):
            open_ledger(place, new=True)
        if left is None:
            place.touch()
    place.write_bytes(whole)
    assert len(open_ledger(place, new=True).read()) == 2


def test_a_link_to_a_ledger_is_the_ledger(tmp_path):
    clerk = Clerk(tmp_path / "ledger.sqlite", tmp_path / "runs")
    (tmp_path / "link").symlink_to(tmp_path / "ledger.sqlite")
    other = Clerk(tmp_path / "link", tmp_path / "runs")
    other.draft("june", "EUR", 1000, {"ann": (600, 0), "ed": (400, 0)}, {})
    assert clerk.approve("june", "R. Okafor") == "approved"
    assert all(good for _, good, _ in other.ledger.examined())


def rechained(entries):
    """The same entries with hashes that fit, as a forger makes them."""
    last, out = "0" * 64, []
    for number, entry in enumerate(entries, 1):
        fields = {
            name: getattr(entry, name)
            for name in ("at", "by", "kind", "run", "payee", "currency", "amount")
        }
        out.append(chain_entry(last, number=number, content=entry.content, **fields))
        last = out[-1].hash
    return out


def test_part_of_a_batch_is_not_sent(clerk):
    batch = clerk.order("EUR")
    clerk.confirm(batch.id, "transfer 1")
    entries = clerk.ledger.read()
    assert Accounts.from_entries(rechained(entries)).tip == clerk.ledger.accounts().tip
    for cut in (1, 2):  # without its last lines: that the run is paid, what ed was sent
        with pytest.raises(LedgerError, match="only a part"):
            Accounts.from_entries(rechained(entries[:-cut]))
    Accounts.from_entries(rechained(entries[:-3]))  # ordered, and nothing sent


def test_a_line_of_a_batch_is_not_sent_twice(clerk):
    first = clerk.order("EUR")
    july(clerk)
    clerk.draft("august", "EUR", 600, {"ann": (600, 0)}, {})
    clerk.approve("august", "R. Okafor")
    clerk.order("EUR", "august")
    clerk.confirm(first.id, "transfer 1")
    entries = clerk.ledger.read()
    ann, ed = (next(e for e in entries if e.kind == "sent" and e.payee == who) for who in ("ann", "ed"))
    twice = [ann if entry is ed else entry for entry in entries]
    with pytest.raises(LedgerError, match="no open batch"):
        Accounts.from_entries(rechained(twice))


def test_times_are_utc_and_to_the_millisecond(clerk):
    for entry in clerk.ledger.read():
        assert abs(datetime.now(UTC) - datetime.fromisoformat(entry.at)) < timedelta(minutes=5)
        assert entry.at.endswith("+00:00")
