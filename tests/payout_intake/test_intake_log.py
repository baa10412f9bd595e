"""The log: who was first, what cannot follow, and ledgers that never saw a batch; on both databases."""

from datetime import UTC, datetime, timedelta

import pytest
from intake_files import digest, digests, story

from datamarket_gym.payout.intake import enter_batch, read_arrivals
from datamarket_gym.payout.ledger import store
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.store import Transaction, open_ledger
from tampering import found, shell


def kinds(ledger):
    return [(entry.kind, entry.payee) for entry in ledger.read()[1:]]


def test_units_have_the_time_of_their_earliest_batch(where):
    ledger = story(where)
    entries = ledger.read()
    seconds = [datetime.fromisoformat(entry.at).timestamp() for entry in entries]
    enter_batch(ledger, "alice", digests(9, 1), "text")
    known = read_arrivals(ledger)
    asked = [("alice", 1), ("alice", 9), ("bob", 7), ("cem", 7), ("bob", 1), ("eve", 0)]
    times = known.time_of([who for who, _ in asked], [digest(unit) for _, unit in asked])
    last = datetime.fromisoformat(ledger.read()[-1].at).timestamp()
    assert times == [seconds[1], last, seconds[2], seconds[3], None, None]
    assert [batch.number for batch in known.batches] == [2, 3, 4, 5]
    assert found(where) == ""


def test_many_at_once_are_still_in_order(where):
    ledger = open_ledger(where, new=True)
    for number in range(12):
        enter_batch(ledger, "alice", digests(number), "features")
    times = read_arrivals(ledger).time_of(["alice"] * 12, digests(*range(12)))
    assert times == sorted(set(times))


class Clock(datetime):
    """A clock that says what it is told to, one after another, then the last for ever."""

    said: list

    @classmethod
    def now(cls, tz=None):
        return cls.said.pop(0) if len(cls.said) > 1 else cls.said[0]


def test_two_within_a_millisecond_wait_for_the_next(tmp_path, monkeypatch):
    ledger = open_ledger(tmp_path / "ledger.sqlite", new=True)
    noon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    Clock.said = [noon]
    monkeypatch.setattr(store, "datetime", Clock)
    first = enter_batch(ledger, "alice", digests(0), "text")
    Clock.said = [noon, noon + timedelta(microseconds=900), noon + timedelta(microseconds=1100)]
    second = enter_batch(ledger, "bob", digests(0), "text")
    assert (first.at[-10:], second.at[-10:]) == (".000+00:00", ".001+00:00")


def test_a_clock_that_is_behind_is_refused_with_both_times(where, monkeypatch):
    ledger = story(where)
    last = ledger.read()[-1]
    Clock.said = [datetime.now(UTC) - timedelta(days=1)]
    monkeypatch.setattr(store, "datetime", Clock)
    with pytest.raises(LedgerError) as refused:
        enter_batch(ledger, "eve", digests(0), "text")
    said = Clock.said[0].isoformat(timespec="milliseconds")
    assert said in str(refused.value)
    assert last.at in str(refused.value)
    assert ledger.read()[-1] == last


def test_an_entry_of_any_kind_with_a_later_time_counts(tmp_path, monkeypatch):
    """The clock was ahead when something else was entered, then set right: no batch comes before that."""
    ledger = open_ledger(tmp_path / "ledger.sqlite", new=True)
    Clock.said = [datetime.now(UTC) + timedelta(days=1)]
    monkeypatch.setattr(store, "datetime", Clock)
    with ledger.transaction() as transaction:
        transaction.add("rule", content={"approvals": 2})
    monkeypatch.undo()
    with ledger.transaction() as transaction:
        transaction.add("rule", content={"approvals": 3})
    with pytest.raises(LedgerError, match="the clock says"):
        enter_batch(ledger, "alice", digests(0), "text")


def test_the_same_batch_again_is_not_entered_again(where):
    ledger = story(where)
    before = ledger.read()
    assert enter_batch(ledger, "alice", digests(0, 1, 2, 3, 4), "text") == before[1]
    assert ledger.read() == before
    enter_batch(ledger, "alice", digests(4, 3, 2, 1, 0), "text")  # in another order it is another batch
    assert len(ledger.read()) == len(before) + 1


def rogue(ledger, **fields):
    with ledger.transaction() as transaction:
        transaction.wait()
        transaction.add("received", **fields)


GOOD = {"sha256": "0" * 64, "units": 3, "what": "text"}


@pytest.mark.parametrize(
    ("payee", "content", "wrong"),
    [
        ("alice", {**GOOD, "more": 1}, "no entry of a batch"),
        ("alice", {"sha256": "0" * 64, "units": 3}, "no entry of a batch"),
        ("alice", {**GOOD, "units": 0}, "at least one unit"),
        ("alice", {**GOOD, "units": "3"}, "at least one unit"),
        ("alice", {**GOOD, "units": True}, "at least one unit"),
        ("alice", {**GOOD, "what": "sound"}, "not 'sound'"),
        ("alice", {**GOOD, "sha256": "0" * 63}, "64 digits"),
        ("alice", {**GOOD, "sha256": "G" * 64}, "64 digits"),
        ("alice", {**GOOD, "sha256": None}, "64 digits"),
        ("", GOOD, "the owner of a batch"),
        ("a\nb", GOOD, "the owner of a batch"),
    ],
)
def test_entries_that_cannot_follow_are_refused(tmp_path, payee, content, wrong):
    ledger = story(tmp_path / "ledger.sqlite")
    before = ledger.read()
    with pytest.raises(LedgerError, match=wrong):
        rogue(ledger, payee=payee, content=content)
    assert ledger.read() == before


@pytest.mark.parametrize("field", [{"run": "x"}, {"currency": "EUR"}, {"amount": 1}])
def test_a_batch_moves_no_money(tmp_path, field):
    ledger = story(tmp_path / "ledger.sqlite")
    with pytest.raises(LedgerError, match="no entry of a batch"):
        rogue(ledger, payee="alice", content=GOOD, **field)


def test_a_time_that_does_not_move_on_is_refused_whoever_wrote_it(tmp_path):
    ledger = story(tmp_path / "ledger.sqlite")
    transaction = Transaction(ledger.accounts())
    transaction.wait()
    transaction.add("received", payee="alice", content=GOOD)
    with pytest.raises(LedgerError, match="not later than that of an entry before"):
        transaction.add("received", payee="bob", content=GOOD)
    transaction._at = "2999-01-01 00:00"
    with pytest.raises(LedgerError, match="no entry of a batch"):
        transaction.add("received", payee="bob", content=GOOD)


def test_a_ledger_without_batches_takes_its_first_one(where):
    ledger = open_ledger(where, new=True)
    with ledger.transaction() as transaction:
        transaction.add("rule", content={"approvals": 2})
    assert found(where) == ""
    assert ledger.changed_rules() == []
    assert read_arrivals(ledger).time_of(["alice"], digests(0)) == [None]
    enter_batch(ledger, "alice", digests(0), "text")
    assert found(where) == ""
    assert ledger.changed_rules() == []
    with shell(where) as connection:
        assert len(list(connection.execute("SELECT * FROM ledger_digests"))) == 1


def test_other_commands_do_not_read_the_digests(tmp_path, monkeypatch):
    ledger = story(tmp_path / "ledger.sqlite")
    monkeypatch.setattr(store.Ledger, "digests", lambda self, numbers: pytest.fail("they were read"))
    assert ledger.accounts().number == 4
    with ledger.transaction() as transaction:
        transaction.add("rule", content={"approvals": 2})
    assert kinds(ledger)[-1] == ("rule", "")


def test_verify_says_how_many_there_are(where):
    checks = {check.what: check for check in story(where).examined()}
    assert checks["batches"].good
    assert checks["batches"].detail == "3 batches, 10 units, as they arrived"


def test_of_others_no_digests_are_read(where, monkeypatch):
    ledger = story(where)
    known, read = read_arrivals(ledger), []
    real = store.Ledger.digests
    monkeypatch.setattr(
        store.Ledger, "digests", lambda self, some: read.append(some) or real(self, some)
    )
    assert known.time_of(["cem"], digests(7))[0] is not None
    assert read == [[4]]
