"""Disputes in the ledger: who may open them, what they stop, what they change, and that each is decided once."""

import pytest
from ledger_files import add_approval, add_draft, file_ledger

from datamarket_gym.errors import ParameterError, UnknownNameError
from datamarket_gym.payout.ledger.account_statements import account_statement
from datamarket_gym.payout.ledger.balances import DisputeError
from datamarket_gym.payout.ledger.disputes import (
    Effects,
    open_dispute,
    resolve_dispute,
    revoke_dispute,
)
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.runs import dispute_warnings, ledger_warnings
from datamarket_gym.payout.ledger.transactions import confirm, order, to_send
from datamarket_gym.payout.overrides import Override, select_overrides
from datamarket_gym.payout.warnings import AcceptedWarningError, require_answered

APPROVED, DRAFT = "a" * 64, "d" * 64
UNITS = {f"u{i}" for i in range(10)}


@pytest.fixture
def ledger(tmp_path):
    return file_ledger(tmp_path)


def owed(ledger, payee):
    return ledger.accounts().payable[payee, "EUR"]


def kinds(ledger):
    return [entry.kind for entry in ledger.read()]


def test_numbers_count_from_one_and_the_chain_holds_them(ledger):
    first = open_dispute(
        ledger, APPROVED, "alice", "u7 is mine", units=["u7", "u7"], against="bob", by="desk"
    )
    second = open_dispute(ledger, DRAFT, "bob", "I sent\n more")
    assert (first.number, first.units, first.against, first.by) == (1, ("u7",), "bob", "desk")
    assert (second.number, second.about) == (2, "I sent more")
    assert list(ledger.accounts().disputes.by_number) == [1, 2]
    assert [d.number for d in ledger.accounts().disputes.open] == [1, 2]
    assert ledger.accounts().runs[DRAFT].history[-1].kind == "dispute"


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ({"payee": "alica"}, UnknownNameError, "did you mean alice"),
        ({"against": "dora"}, UnknownNameError, "unknown payee of this run 'dora'"),
        ({"against": "alice"}, ParameterError, "the payee itself"),
        ({"about": " \n"}, ParameterError, "write 1 to"),
        ({"about": "a\x07b"}, ParameterError, r"U\+0007"),
        ({"hold_against": True}, ParameterError, "--against NAME"),
        ({"run": "b" * 64}, LedgerError, "holds no run"),
    ],
)
def test_what_cannot_be_disputed(ledger, asked, error, says):
    before = len(ledger.read())
    with pytest.raises(error, match=says):
        open_dispute(ledger, **{"run": APPROVED, "payee": "alice", "about": "wrong", **asked})
    assert len(ledger.read()) == before


def test_a_unit_is_not_paid_for_by_two_disputes(ledger):
    def again(**changed):
        asked = {"run": APPROVED, "payee": "alice", "about": "wrong", "units": ["u7", "u8"], **changed}
        return open_dispute(ledger, **asked)

    again()
    with pytest.raises(DisputeError, match=r"dispute 1 of 'alice' is about 'u8', too, and is open"):
        again(units=["u8"], against="bob")
    for other in ({"payee": "bob"}, {"run": DRAFT}, {"units": ["u9"]}, {"units": []}):
        again(**other)
    resolve_dispute(ledger, 1, "rejected", "no")
    number = again().number
    resolve_dispute(ledger, number, "upheld", "it is", Effects(correction="1.00"))
    before = owed(ledger, "alice")
    with pytest.raises(DisputeError, match=r"upheld with a correction; .* datamarket ledger correct"):
        again()
    assert owed(ledger, "alice") == before


def test_an_open_dispute_stands_before_the_approval_of_its_run_alone(ledger):
    open_dispute(ledger, DRAFT, "alice", "u7 is mine", units=["u7"], against="bob")
    accounts = ledger.accounts()
    (warning,) = ledger_warnings(accounts, accounts.runs[DRAFT])
    assert (warning.name, warning.title) == ("disputes", "1 dispute is open")
    assert warning.items == ("dispute 1 of “alice” against “bob”, about it: u7 is mine",)
    assert dispute_warnings(accounts, APPROVED) == []
    with pytest.raises(AcceptedWarningError, match="--accept disputes"):
        require_answered([warning], [])
    require_answered([warning], ["disputes"])
    resolve_dispute(ledger, 1, "rejected", "u7 is bob's")
    assert dispute_warnings(ledger.accounts(), DRAFT) == []
    open_dispute(ledger, DRAFT, "bob", "ten units of mine are missing")
    resolve_dispute(ledger, 2, "upheld", "they are")
    (warning,) = dispute_warnings(ledger.accounts(), DRAFT)  # the draft is wrong, and stays so
    assert warning.items == ("dispute 2 of “bob” was upheld after this run was worked out",)
    with ledger.transaction() as transaction:
        add_draft(transaction.add, "e" * 64, "EUR", {"alice": (1, 0), "bob": (1, 0)}, period="July 2026")
    assert dispute_warnings(ledger.accounts(), "e" * 64) == []


def test_a_decision_that_is_newer_than_a_draft_stands_before_it(ledger):
    open_dispute(ledger, APPROVED, "alice", "u7 is mine", units=["u7"])
    resolve_dispute(ledger, 1, "upheld", "so", Effects(separate_units=("u7",)))
    (warning,) = dispute_warnings(ledger.accounts(), DRAFT)
    assert warning.items == (
        "dispute 1 of “alice” was upheld after this run was worked out (split of u7)",
    )
    with ledger.transaction() as transaction:
        plain = [o.model_dump(mode="json") for o in transaction.accounts.disputes.overrides]
        add_draft(
            transaction.add, "e" * 64, "EUR", {"alice": (1, 0)}, period="July 2026", standing=plain
        )
    assert dispute_warnings(ledger.accounts(), "e" * 64) == []
    revoke_dispute(ledger, 1, "wrong")
    (warning,) = dispute_warnings(ledger.accounts(), "e" * 64)
    assert "was revoked after" in warning.items[0]
    assert (
        dispute_warnings(ledger.accounts(), DRAFT) == []
    )  # it never had the override, and is right again
    with pytest.raises(LedgerError, match="does not stand there"), ledger.transaction() as transaction:
        add_draft(transaction.add, "f" * 64, "EUR", {"alice": (1, 0)}, standing=plain)


@pytest.mark.parametrize(
    "forged", [{"units": ["u7", "u8"]}, {"dispute": 2}, {"action": "join", "units": ["u7", "u9"]}]
)
def test_a_draft_takes_nothing_that_no_dispute_decided(ledger, forged):
    open_dispute(ledger, APPROVED, "alice", "u7 is mine")
    resolve_dispute(ledger, 1, "upheld", "so", Effects(separate_units=("u7", "u9")), units=UNITS)
    plain = ledger.accounts().disputes.overrides[0].model_dump(mode="json")
    with pytest.raises(LedgerError, match="does not stand there"), ledger.transaction() as transaction:
        add_draft(transaction.add, "f" * 64, "EUR", {"alice": (1, 0)}, standing=[{**plain, **forged}])
    with ledger.transaction() as transaction:  # what a run has of it
        add_draft(
            transaction.add, "f" * 64, "EUR", {"alice": (1, 0)}, standing=[{**plain, "units": ["u9"]}]
        )


def test_paying_again_is_no_way_around_a_dispute(ledger):
    open_dispute(ledger, DRAFT, "alice", "u7 is mine")
    with ledger.transaction() as transaction:
        lines = {"alice": (1, 0), "bob": (9999, 0)}
        add_draft(transaction.add, "e" * 64, "EUR", lines, period="July 2026")
        add_draft(transaction.add, "f" * 64, "EUR", lines, period="August 2026")
        add_draft(transaction.add, "9" * 64, "JPY", lines, period="July 2026")
        add_draft(transaction.add, "8" * 64, "EUR", {"bob": (5, 0)}, period="July 2026")
        said = {"by_run": "8" * 64, "place": "x", "forfeited": [], "unchecked": []}
        transaction.add("superseded", run="f" * 64, content=said)
    accounts = ledger.accounts()
    (warning,) = dispute_warnings(accounts, "e" * 64)
    assert "about the draft dddddddddddddddd, whose place it takes" in warning.items[0]
    assert all(dispute_warnings(accounts, run * 64) == [] for run in "f98a")
    with pytest.raises(DisputeError, match="has taken its place"):
        open_dispute(ledger, "f" * 64, "alice", "late")


def test_drafts_that_supersede_each_other_end(ledger):
    open_dispute(ledger, DRAFT, "alice", "u7 is mine")
    with ledger.transaction() as transaction:
        add_draft(transaction.add, "e" * 64, "EUR", {"alice": (1, 0)})
        for run, other in ((DRAFT, "e" * 64), ("e" * 64, DRAFT)):
            said = {"by_run": other, "place": "x", "forfeited": [], "unchecked": []}
            transaction.add("superseded", run=run, content=said)
    assert dispute_warnings(ledger.accounts(), APPROVED) == []


def test_a_dispute_goes_with_the_draft_that_supersedes(ledger):
    open_dispute(ledger, DRAFT, "alice", "u7 is mine")
    with ledger.transaction() as transaction:
        add_draft(transaction.add, "e" * 64, "EUR", {"alice": (1, 0)}, period="")
        said = {"by_run": "e" * 64, "place": "x", "forfeited": ["bob", "carol"], "unchecked": []}
        transaction.add("superseded", run=DRAFT, content=said)
    assert [w.title for w in dispute_warnings(ledger.accounts(), "e" * 64)] == ["1 dispute is open"]
    told = [event.words for event in account_statement(ledger.accounts(), "bob").events]
    assert len(told) == 1
    assert "A check was failed: EUR 40.00" in told[0]
    assert (
        account_statement(ledger.accounts(), "carol").events == ()
    )  # it cost her nothing in this draft
    told = account_statement(ledger.accounts(), "alice").events
    assert [event.entry.kind for event in told] == ["dispute"]


def test_upheld_moves_money_from_one_to_the_other(ledger):
    open_dispute(ledger, APPROVED, "alice", "u7 is mine", against="bob")
    done = resolve_dispute(
        ledger,
        1,
        "upheld",
        "the file is hers",
        Effects(correction="12.34", taken_from="bob"),
        by="R. Okafor",
    )
    assert (owed(ledger, "alice"), owed(ledger, "bob")) == (7234, 2766)
    one, two = (ledger.read()[n - 1] for n in done.resolution.corrections)
    assert (one.payee, one.amount, two.payee, two.amount) == ("alice", 1234, "bob", -1234)
    named = ledger.read()[one.content["of"] - 1]
    assert (named.kind, named.payee, named.run) == ("payment", "alice", APPROVED)
    assert two.content["why"].endswith("(given to alice)")
    line = account_statement(ledger.accounts(), "alice").accounts[0].lines[-1]
    assert line.words == (
        f"Correction of entry {named.number}: dispute 1, upheld: the file is hers (taken from bob)"
    )


def test_the_market_can_pay_and_says_so(ledger):
    open_dispute(ledger, APPROVED, "carol", "I sent ten units")
    done = resolve_dispute(ledger, 1, "upheld", "they were lost", Effects(correction="5"))
    (number,) = done.resolution.corrections
    entry = ledger.read()[number - 1]
    assert (entry.amount, owed(ledger, "carol")) == (500, 500)
    assert entry.content["why"].endswith("(paid by the market)")
    assert (
        ledger.read()[entry.content["of"] - 1].kind == "approved"
    )  # she was paid nothing that could be named


@pytest.mark.parametrize(
    ("run", "outcome", "effects", "says"),
    [
        (DRAFT, "upheld", Effects(correction="1.00"), "pay again"),
        (APPROVED, "rejected", Effects(correction="1.00"), "no effect"),
        (APPROVED, "withdrawn", Effects(separate_units=("u7",)), "no effect"),
        (APPROVED, "upheld", Effects(correction="40.01", taken_from="bob"), "cannot be taken back"),
        (APPROVED, "upheld", Effects(correction="1.00", taken_from="alice"), "name another one"),
        (APPROVED, "upheld", Effects(correction="1.00", taken_from="dora"), "unknown payee of this run"),
        (APPROVED, "upheld", Effects(correction="", taken_from="bob"), "say how much"),
        (APPROVED, "upheld", Effects(correction="-1"), "a positive number"),
        (APPROVED, "upheld", Effects(correction="1.001"), "EUR has 2 digits"),
        (APPROVED, "upheld", Effects(separate_units=("u77",)), "unknown unit 'u77'"),
        (APPROVED, "upheld", Effects(join_payees=("alice", "alice")), "two different names"),
        (APPROVED, "upheld", Effects(join_payees=("alice", "bobb")), "did you mean bob"),
        (APPROVED, "settled", Effects(), "choose one of upheld"),
    ],
)
def test_what_cannot_follow_is_refused_and_nothing_is_entered(ledger, run, outcome, effects, says):
    open_dispute(ledger, run, "alice", "u7 is mine")
    before = ledger.read()
    with pytest.raises((DisputeError, ParameterError, UnknownNameError), match=says):
        resolve_dispute(ledger, 1, outcome, "because", effects, units=UNITS)
    assert ledger.read() == before


def test_corrections_before_count_when_money_is_taken(ledger):
    for _ in range(2):
        open_dispute(ledger, APPROVED, "alice", "mine", against="bob")
    resolve_dispute(ledger, 1, "upheld", "so", Effects(correction="30.00", taken_from="bob"))
    with pytest.raises(DisputeError, match=r"EUR 10.00, corrections counted"):
        resolve_dispute(ledger, 2, "upheld", "so", Effects(correction="10.01", taken_from="bob"))
    resolve_dispute(ledger, 2, "upheld", "so", Effects(correction="10.00", taken_from="bob"))
    assert owed(ledger, "alice") + owed(ledger, "bob") == 10000


def test_a_second_decision_is_an_error_that_shows_the_first(ledger):
    open_dispute(ledger, APPROVED, "alice", "u7 is mine")
    resolve_dispute(ledger, 1, "rejected", "it is bob's", by="R. Okafor")
    with pytest.raises(DisputeError, match=r"rejected by R\. Okafor on .* it is bob's"):
        resolve_dispute(ledger, 1, "upheld", "no")
    with pytest.raises(DisputeError, match="there are 1 to 1"):
        resolve_dispute(ledger, 2, "upheld", "no")


def test_payments_are_held_while_it_is_open(ledger):
    open_dispute(ledger, APPROVED, "alice", "u7 is mine", against="bob", hold=True, hold_against=True)
    assert to_send(ledger.accounts(), "EUR") == {}
    assert account_statement(ledger.accounts(), "bob").held == "dispute 1: u7 is mine"
    resolve_dispute(ledger, 1, "withdrawn", "they agreed")
    assert to_send(ledger.accounts(), "EUR") == {"alice": 6000, "bob": 4000}


def test_a_hold_for_another_reason_goes_on(ledger):
    with ledger.transaction() as transaction:
        transaction.add("hold", payee="alice", content={"why": "no bank account"})
    open_dispute(ledger, APPROVED, "alice", "u7 is mine", hold=True)
    resolve_dispute(ledger, 1, "rejected", "no")
    assert ledger.accounts().holds == {"alice": "no bank account"}


def test_of_two_disputes_the_second_keeps_the_hold(ledger):
    open_dispute(ledger, APPROVED, "alice", "first", hold=True)
    open_dispute(ledger, APPROVED, "alice", "second", hold=True)
    resolve_dispute(ledger, 1, "rejected", "no")
    assert ledger.accounts().holds == {"alice": "dispute 2: second"}
    resolve_dispute(ledger, 2, "rejected", "no")
    assert ledger.accounts().holds == {}


def test_a_hold_that_was_released_by_hand_stays_released(ledger):
    open_dispute(ledger, APPROVED, "alice", "first", hold=True)
    with ledger.transaction() as transaction:
        transaction.add("release", payee="alice", content={"why": "she needs it"})
    resolve_dispute(ledger, 1, "rejected", "no")
    assert kinds(ledger).count("release") == 1


def test_what_is_paid_cannot_be_held(ledger):
    confirm(ledger, order(ledger, run=APPROVED).id, "transfer 7")
    assert ledger.accounts().runs[APPROVED].state == "paid"
    with pytest.raises(DisputeError, match="owed nothing that could be held"):
        open_dispute(ledger, APPROVED, "alice", "late", hold=True)
    open_dispute(ledger, APPROVED, "alice", "late")
    assert resolve_dispute(ledger, 1, "upheld", "so", Effects(correction="1.00")).resolution.corrections


def test_overrides_stand_until_they_are_revoked(ledger):
    open_dispute(ledger, DRAFT, "alice", "u7 is mine", units=["u7"])
    effects = Effects(separate_units=("u7", "u9"), join_payees=("bob", "carol"))
    resolve_dispute(ledger, 1, "upheld", "two photographs", effects, units=UNITS, by="R. Okafor")
    split, join = ledger.accounts().disputes.overrides
    assert (split.action, split.units, split.by) == ("split", ["u7", "u9"], "R. Okafor")
    assert split.reason == "dispute 1 of alice, upheld: two photographs"
    assert (join.action, join.identities) == ("join", ["bob", "carol"])
    revoke_dispute(ledger, 1, "the second photograph was withdrawn", by="desk")
    assert ledger.accounts().disputes.overrides == []
    with pytest.raises(DisputeError, match="revoked by desk"):
        revoke_dispute(ledger, 1, "again")
    open_dispute(ledger, DRAFT, "bob", "no")
    with pytest.raises(DisputeError, match="no override that could be revoked"):
        revoke_dispute(ledger, 2, "why not")


def test_units_are_looked_up_or_are_those_of_the_dispute(ledger):
    open_dispute(ledger, DRAFT, "alice", "u7 is mine", units=["u7"])
    with pytest.raises(DisputeError, match="give the folder of the run"):
        resolve_dispute(ledger, 1, "upheld", "so", Effects(separate_units=("u7", "u9")))
    resolve_dispute(ledger, 1, "upheld", "so", Effects(separate_units=("u7",)))
    assert ledger.accounts().disputes.overrides[0].units == ["u7"]


def test_a_run_takes_what_it_has_of_standing_overrides():
    said = {"reason": "dispute 3 of alice", "by": "x", "date": "2026-07-01", "dispute": 3}
    split = Override(action="split", units=["u1", "u2"], **said)
    join = Override(action="join", identities=["a", "b", "c"], **said)
    assert select_overrides([split, join], ["u1", "u2"], ["a", "b", "c"]) == ([split, join], [])
    kept, told = select_overrides([split, join], ["u2"], ["c"])
    assert [each.units for each in kept] == [["u2"]]
    assert told == [
        "dispute 3: the split of units leaves out u1, not in this run",
        "dispute 3: the join of identities leaves out a, b, not in this run",
    ]
    assert select_overrides([split], ["u3"], []) == (
        [],
        ["dispute 3: the split of units leaves out u1, u2, not in this run"],
    )


@pytest.mark.parametrize(
    ("kind", "content", "says"),
    [
        ("dispute", {"number": 5, "about": "x", "units": [], "against": "", "holds": []}, "opens dispute 5"),
        ("resolved", {"number": 1, "outcome": "settled", "why": "x", "overrides": [], "corrections": []}, "no effect"),
        ("resolved", {"number": 1, "outcome": "upheld", "why": "x", "overrides": [], "corrections": [2]}, "no corr"),
        ("resolved", {"number": 1, "outcome": "upheld", "why": "x", "overrides": [{}], "corrections": []}, "none that"),
        ("revoked", {"number": 1, "why": "x"}, "no override"),
    ],
)  # fmt: skip
def test_the_ledger_refuses_what_no_dispute_enters(ledger, kind, content, says):
    open_dispute(ledger, APPROVED, "alice", "first")
    with pytest.raises(LedgerError, match=says), ledger.transaction() as transaction:
        transaction.add(kind, run=APPROVED, payee="alice", content=content)
    with pytest.raises(LedgerError, match="no payee of run"), ledger.transaction() as transaction:
        transaction.add(kind, run=APPROVED, payee="dora", content=content)


def test_a_decision_is_about_the_run_and_the_payee_of_its_dispute(ledger):
    open_dispute(ledger, APPROVED, "alice", "first")
    said = {"number": 1, "outcome": "upheld", "why": "x", "overrides": [], "corrections": []}
    for run, payee in ((DRAFT, "alice"), (APPROVED, "bob")):
        with pytest.raises(LedgerError, match="is not about run"), ledger.transaction() as transaction:
            transaction.add("resolved", run=run, payee=payee, content=said)


def test_approved_accepted_a_dispute_and_corrected_later(ledger):
    open_dispute(ledger, DRAFT, "alice", "u7 is mine")
    with ledger.transaction() as transaction:
        add_approval(transaction.add, transaction.accounts, DRAFT)
    resolve_dispute(ledger, 1, "upheld", "so", Effects(correction="1.00"))
    assert owed(ledger, "alice") == 12100
