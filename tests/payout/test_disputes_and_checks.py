"""Checks and disputes of one draft: what a payee is told of a failed check, and what a decision does to draws."""

import pytest
from checks_files import answered, drawn, paid
from payout_files import cents, copied, spec

from datamarket_gym.payout.checks.settle import sample_checks, settle
from datamarket_gym.payout.ledger.account_statements import account_statement
from datamarket_gym.payout.ledger.disputes import (
    DisputeRequest,
    Effects,
    open_dispute,
    open_on_run,
    resolve_at,
    resolve_dispute,
)
from datamarket_gym.payout.ledger.runs import (
    dispute_warnings,
    ledger_of,
    ledger_warnings,
    run_of,
)
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.unit_payments import FALSE, read_units


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    return paid(tmp_path_factory.mktemp("disputed"))


@pytest.fixture
def folder(draft, tmp_path):
    return copied(draft, tmp_path / "copy")


def told(folder, payee):
    return [event.words for event in account_statement(ledger_of(folder).accounts(), payee).events]


def test_a_failed_check_is_told_with_what_it_cost(folder, tmp_path):
    drawn(folder)
    answered(folder, false=["seller 1"])
    open_dispute(ledger_of(folder), run_of(folder).run, "seller 2", "too little")
    settled = settle(folder, tmp_path / "second")
    assert not settled.checked
    text = f"{cents(folder)['seller 1'] / 100:.2f}"
    (words,) = told(folder, "seller 1")
    assert words.startswith(
        f"A check was failed: EUR {text} of the draft {run_of(folder).run[:16]} are forfeit"
    )
    assert told(folder, "seller 3") == []
    (warning,) = dispute_warnings(ledger_of(folder).accounts(), run_of(tmp_path / "second").run)
    assert "whose place it takes" in warning.items[0]


def test_a_unit_that_failed_a_check_can_be_disputed(folder, tmp_path):
    drawn(folder)
    answered(folder, false=["seller 1"])
    settle(folder, tmp_path / "second")
    rows = {row.unit: row for row in read_units(folder / "units.csv")}
    false = next(r.unit for r in read_units(tmp_path / "second" / "units.csv") if r.reason == FALSE)
    asked = DisputeRequest(payee="seller 1", about="it is genuine", units=(false,))
    opened, messages = open_on_run(tmp_path / "second", asked)
    earned = f"{rows[false].amount / 100:.2f}"
    assert messages == [
        f"{false} of seller 1 earned nothing: {FALSE}; in the draft before the checks it earned EUR {earned}; "
        f"all that its payee forfeited is EUR {cents(folder)['seller 1'] / 100:.2f}",
        "the run is approved only with --accept disputes",
    ]
    resolve_dispute(ledger_of(folder), 1, "withdrawn", "opened on the first draft instead")
    by_the_first, again = open_on_run(folder, asked)  # another draft has taken its place
    assert by_the_first.run == opened.run == run_of(tmp_path / "second").run
    assert again == messages


def test_a_decision_says_what_a_matched_unit_would_have_earned(folder):
    rows = read_units(folder / "units.csv")
    copy = next(row for row in rows if row.matched_to and not row.amount)
    cents = sum(row.amount for row in rows if row.cluster == copy.cluster)
    owner = next(row.payee for row in rows if row.unit == copy.matched_to)
    open_on_run(folder, DisputeRequest(payee=copy.payee, about="mine", units=(copy.unit,)))
    where = ledger_of(folder).where  # the folder of the run is found by the ledger
    _, _, messages = resolve_at(where, 1, "rejected", "it is not", Effects(), None)
    assert cents > 0
    assert messages == [
        f"{copy.unit} of {copy.payee} earned nothing: {copy.reason}; in the place of {copy.matched_to} of {owner} "
        f"it would have earned EUR {cents / 100:,.2f}"
    ]


@pytest.mark.parametrize("decided", [False, True])
def test_draws_stand_unless_a_dispute_was_decided_meanwhile(folder, tmp_path, decided):
    least = f"{min(c for c in cents(folder).values() if c > 0) / 100 + 0.01:.2f}"
    drawn(folder, least=least)
    answered(folder)
    if decided:
        open_dispute(ledger_of(folder), run_of(folder).run, "attacker", "u60 is mine", units=["u60"])
        resolve_dispute(ledger_of(folder), 1, "upheld", "it is", Effects(separate_units=("u60",)))
    settled = settle(folder, tmp_path / "second")
    assert settled.carried
    assert settled.checked is not decided
    assert run_of(tmp_path / "second").state == ("draft" if decided else "checked")
    assert "Not checked, and so not paid" in told(folder, settled.carried[0])[0 if not decided else -1]


def test_paying_again_to_draw_again_is_a_warning_to_accept(tmp_path):
    """The same submissions under another seed are another run, with another draw: whoever approves is told."""
    first = paid(tmp_path)
    sample_checks(first, by="drawer")
    places = places_of(first)
    pay(places, spec(checks=3, seed=1), tmp_path / "again", ledger=ledger_of(first).where)
    found = {w.name: w for w in ledger_warnings(ledger_of(first).accounts(), run_of(tmp_path / "again"))}
    assert run_of(first).run[:16] in found["drawn_before"].items[0]
    assert "drawn_before" not in {
        w.name for w in ledger_warnings(ledger_of(first).accounts(), run_of(first))
    }
    pay(places, spec(checks=3), tmp_path / "elsewhere", ledger=ledger_of(first).where)  # the same run
    drawn_there = sample_checks(tmp_path / "elsewhere", by="drawer").drawn
    assert drawn_there.beacon == run_of(first).beacon
    answered(first, false=["seller 1"])
    later = settle(first).run
    names = {w.name for w in ledger_warnings(ledger_of(first).accounts(), run_of(later))}
    assert "drawn_before" not in names  # it takes the place of the draft that was drawn
