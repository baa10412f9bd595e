"""What the ledger refuses of runs, whoever asks: other manifests, drafts as a source, second thoughts."""

import getpass
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from forged_ledger import redrafted, rewritten, sealed_again, without_rules
from payout_files import (
    approve,
    cents,
    copied,
    events,
    payments,
    run,
    run_by_accuracy,
    units,
    validation,
    warned,
)

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import sha256
from datamarket_gym.payout.ledger import runs
from datamarket_gym.payout.ledger.entries import LedgerError, Line, RunRecord
from datamarket_gym.payout.ledger.runs import enter_draft, ledger_of, mark_paid, run_of
from datamarket_gym.payout.ledger.store import open_ledger
from datamarket_gym.payout.ledger.transactions import end_balance
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.warnings import AcceptedWarningError

SIGNED = '[[join]]\nunits = ["u0", "u1"]\nreason = "checked"\nby = "R. Okafor"\ndate = 2026-05-31\n'


def in_debt():
    """One seller's labels are wrong: its score is below zero, and it carries a debt."""
    columns = units()
    wrong = np.array([name == "seller 2" for name in columns["identity"]])
    columns["label"] = np.where(wrong, (columns["label"] + 1) % 3, columns["label"])
    return columns


@pytest.fixture(scope="module")
def payout_run(tmp_path_factory):
    """A draft with a debt and an override."""
    place = tmp_path_factory.mktemp("payout_runs")
    signed = place / "overrides.toml"
    signed.write_text(SIGNED, encoding="utf-8")
    return run_by_accuracy(place, in_debt(), overrides=signed)


@pytest.fixture
def first(payout_run, tmp_path):
    return copied(payout_run, tmp_path / "first")


def refused(folder, change, match):
    """Entries that cannot follow are an error for whoever reads the ledger, though chain and checksum fit them."""
    rewritten(folder, change)
    with pytest.raises(LedgerError, match=match):
        ledger_of(folder).accounts()
    assert "ledger" in [check.what for check in verify(folder) if not check.good]
    with pytest.raises(LedgerError, match=match):
        mark_paid(folder, "transfer 1")


def with_entry(kind, **fields):
    """The same entries, and after them one that somebody made up."""

    def change(entries):
        made_up = {**entries[-1], "kind": kind, "payee": "", "currency": "", "amount": 0, "content": {}}
        run_id = next(e["run"] for e in entries if e["kind"] == "draft")
        return [*entries, {**made_up, "run": run_id, **fields}]

    return change


def test_the_same_run_with_another_manifest_is_not_entered(first):
    record, ledger = run_of(first), ledger_of(first)
    assert enter_draft(ledger, first, record) == "draft"  # the very same: nothing to do
    assert events(first) == ["draft"]
    with pytest.raises(DataMarketError, match=r"holds the run in .* with another manifest"):
        enter_draft(ledger, first, replace(record, manifest="0" * 64))
    assert run_of(first) == record
    approve(first)
    assert enter_draft(ledger, first, record) == "approved"


def test_a_run_is_entered_once_with_its_payments(first):
    record = run_of(first)
    enter_draft(ledger_of(first), first, replace(record, lines=[Line("stranger", 1, 1, 0)]))
    assert run_of(first) == record
    for column in ("paid", "entitled", "balance"):
        named = "payment" if column == "paid" else column
        assert {line.identity: getattr(line, column) for line in record.lines} == cents(first, named)


def test_a_run_whose_payments_do_not_add_up_is_not_entered_at_all(first, tmp_path):
    record, ledger = run_of(first), open_ledger(tmp_path / "another.sqlite", new=True)
    one, *others = record.lines
    for lines in (
        [*record.lines, one],
        others,
        [replace(one, paid=one.paid + 1, entitled=one.entitled + 1), *others],
        [replace(one, entitled=one.entitled + 1), *others],
        [replace(one, balance=one.balance + 1), *others],
        [replace(one, balance=one.balance + 1, entitled=one.entitled + 1), *others],
    ):
        with pytest.raises(LedgerError, match="do not add up"):
            enter_draft(ledger, first, replace(record, lines=lines))
    assert [entry.kind for entry in ledger.read()] == ["opened"]
    assert enter_draft(ledger, first, record) == "draft"
    assert run_of(first).lines == record.lines


def test_only_the_manifest_that_was_entered_is_approved(first):
    with pytest.raises(DataMarketError, match="not the one the run was entered with"):
        runs.approve(first, "0" * 64, accept=warned(first))
    assert events(first) == ["draft"]


def test_balances_are_taken_up_from_approved_runs_only(first, tmp_path):
    ledger = ledger_of(first).path
    tables = units(seed=4), validation(seed=5)
    before = run(tmp_path / "before", *tables, ledger=ledger)
    assert run_of(before).opening == {}
    approve(first)
    mark_paid(first, "transfer 1")
    owed = {name: value for name, value in cents(first, "balance").items() if value}
    after = run(tmp_path / "after", *tables, ledger=ledger)
    assert run_of(after).opening == owed  # paid is later than approved
    assert json.loads((after / "manifest.json").read_text())["opening_balances"] == owed


def test_balances_are_of_one_currency(first, tmp_path):
    ledger = ledger_of(first).path
    approve(first)
    yen = run(
        tmp_path / "yen",
        units(seed=4),
        validation(seed=5),
        ledger=ledger,
        currency="JPY",
        amount="90000",
    )
    assert run_of(yen).opening == {}
    assert approve(yen) == "approved"
    accounts = ledger_of(yen).accounts()
    assert accounts.balances("JPY") == {}
    assert accounts.balances("EUR")["seller 2"] == cents(first, "balance")["seller 2"]


def test_what_is_carried_stays_carried(first, tmp_path):
    """The same run in a second folder is the same run: it brings no second balance, and is not paid again."""
    approve(first)
    second = copied(first, tmp_path / "moved")
    ledger = ledger_of(first).path
    (second / "ledger.json").unlink()
    again = open_ledger(ledger)
    assert enter_draft(again, second, run_of(first)) == "approved"
    before = again.read()
    assert approve(second) == "approved"
    assert again.read() == before


def test_the_same_submissions_are_not_approved_again_unseen(first, tmp_path):
    """Under balances that have changed it is another run; whoever approves it is told that it was paid before."""
    approve(first)
    signed = Path(run_of(first).places["overrides"])
    again = run_by_accuracy(
        tmp_path / "again", in_debt(), ledger=ledger_of(first).path, overrides=signed
    )
    assert run_of(again).run != run_of(first).run
    with pytest.raises(AcceptedWarningError, match="--accept same_submissions"):
        runs.approve(again, sha256(again / "manifest.json"), "tester", warned(again))
    assert events(again) == ["draft"]


def test_a_run_that_was_approved_is_not_worked_out_elsewhere(tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    approve(run(tmp_path / "one", ledger=ledger))
    before = ledger.read_bytes()
    with pytest.raises(DataMarketError, match="this run is in the ledger already, and is approved"):
        run(tmp_path / "two", ledger=ledger)
    assert not (tmp_path / "two" / "run").exists()
    assert ledger.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (with_entry("approved"), "needs 1 approvals and has 0"),
        (with_entry("paid", content={"reference": "mine", "batch": "mine"}), "none that this version"),
        (
            with_entry("payment", payee="seller 1", currency="EUR", amount=5),
            "no approved run makes this",
        ),
        (
            with_entry("carried_forward", payee="seller 1", currency="EUR", amount=5),
            "no approved run makes this",
        ),
        (with_entry("draft"), "in the ledger already"),
        (with_entry("lost"), "no kind of entry"),
        (with_entry("opened"), "no second one"),
        (with_entry("fee", payee="seller 1", currency="EUR", amount=5), "at most what"),
    ],
)
def test_no_state_is_skipped_and_no_money_is_made(first, change, match):
    refused(first, change, match)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (with_entry("approval"), "is approved and cannot be approved"),
        (with_entry("approved"), "balances that the run takes up have changed"),
        (with_entry("checked"), "only drafts can be checked"),
        (
            with_entry("superseded", content={"by_run": "x", "place": "x"}),
            "only drafts can be superseded",
        ),
        (with_entry("planned", content={"plan": "{}"}), "only drafts can be planned"),
        (
            with_entry("payment", payee="seller 1", currency="EUR", amount=5),
            "no approved run makes this",
        ),
    ],
)
def test_no_state_is_repeated_or_undone(first, change, match):
    approve(first)
    rewritten(first, change)
    with pytest.raises(LedgerError, match=match):
        ledger_of(first).accounts()


@pytest.mark.parametrize("kind", ["payment", "carried_forward"])
def test_an_approval_without_all_of_its_payments_is_none(first, kind):
    approve(first)
    refused(first, lambda entries: [e for e in entries if e["kind"] != kind], "not all of its payments")


@pytest.mark.parametrize("field", ["amount", "currency", "manifest"])
def test_an_approval_is_of_what_was_drafted(first, field):
    approve(first)
    other = {"amount": 1, "currency": "USD", "manifest": "x"}[field]

    def change(entries):
        for entry in entries:
            if field == "manifest" and entry["kind"] == "approval":
                entry["content"]["manifest"] = other
            elif field != "manifest" and entry["kind"] == "approved":
                entry[field] = other
        return entries

    refused(first, change, "another (amount|manifest)")


@pytest.mark.parametrize("state", ["draft", "approved", "paid"])
@pytest.mark.parametrize("what", ["lines", "overrides", "opening", "places"])
def test_what_a_run_was_entered_with_is_fixed(first, state, what):
    """Drafts too: triggers taken out and put back, the head left alone, with a checksum that fits."""
    if state != "draft":
        approve(first)
    if state == "paid":
        mark_paid(first, "transfer 1")
    assert f'"{what}":' in run_of(first).history[0].body
    without_rules(
        first,
        f"""UPDATE ledger_entries SET body = replace(body, '"{what}":', '"{what}" :') WHERE number = 2""",
    )
    sealed_again(first)
    with pytest.raises(LedgerError, match="entry 2 of the ledger was changed"):
        run_of(first)
    assert [check.what for check in verify(first) if not check.good] == ["ledger"]


def test_nobody_is_paid_less_than_nothing(first):
    one, two, *others = (
        [x.identity, x.paid, x.entitled, x.balance]
        for x in sorted(run_of(first).lines, key=lambda x: x.paid)
    )
    one[1:3], two[1:3] = [-1, one[2] - one[1] - 1], [one[1] + two[1] + 1, one[1] + two[2] + 1]
    redrafted(first, lines=[one, two, *others])
    with pytest.raises(LedgerError, match="do not add up"):
        run_of(first)


def test_overrides_are_kept_as_they_were_signed(first):
    (said,) = run_of(first).overrides
    kept = Override.model_validate(said)
    assert (kept.action, kept.units, kept.by) == ("join", ["u0", "u1"], "R. Okafor")


def test_history_says_who_did_what_when(first):
    started = datetime.now(UTC)
    approve(first, by="K. Ito")
    mark_paid(first, "transfer 7")
    told = [e for e in run_of(first).history if e.kind not in ("payment", "carried_forward", "accepted")]
    manifest = sha256(first / "manifest.json")
    assert [(e.kind, e.by) for e in told] == [
        ("draft", getpass.getuser()),
        ("approval", "K. Ito"),
        ("approved", "K. Ito"),
        ("paid", getpass.getuser()),
    ]
    assert [e.content.get("manifest") for e in told] == [manifest, manifest, manifest, None]
    assert told[-1].content["reference"] == "transfer 7"
    assert abs((datetime.fromisoformat(told[1].at) - started).total_seconds()) < 60


def test_a_balance_edited_by_hand_is_found_before_the_next_run_takes_it_up(first, tmp_path):
    approve(first)
    ledger = ledger_of(first).path
    (entry,) = [
        e for e in run_of(first).history if e.kind == "carried_forward" and e.payee == "seller 2"
    ]
    without_rules(
        first,
        f"UPDATE ledger_entries SET body = replace(body, '{entry.amount}', '{entry.amount + 500}') "
        f"WHERE number = {entry.number}",
    )
    assert [check.what for check in verify(first) if not check.good] == ["ledger"]
    with pytest.raises(LedgerError, match=f"entry {entry.number} of the ledger was changed"):
        run(tmp_path / "july", units(seed=4), validation(seed=5), ledger=ledger)
    assert not (tmp_path / "july" / "run").exists()


def brought(place, balances):
    """A ledger whose balances are these: a run carried them, and what it takes to make them zero was written off."""
    ledger = open_ledger(place, new=True)
    carried = {**balances, "nobody": -sum(balances.values())}
    lines = [Line("payee", 1, 1, 0), *(Line(who, 0, left, left) for who, left in carried.items())]
    draft = RunRecord("0" * 64, 1, "EUR", "0" * 64, {}, 0, lines, {}, [], [], [], submissions="0" * 64)
    with ledger.transaction() as transaction:
        about = {"run": draft.run, "currency": "EUR"}
        transaction.add("draft", **about, amount=1, content=draft.to_content())
        transaction.add("approval", run=draft.run, content={"manifest": draft.manifest})
        transaction.add("approved", **about, amount=1)
        transaction.add("payment", **about, payee="payee", amount=1)
        for who, left in carried.items():
            transaction.add("carried_forward", **about, payee=who, amount=left)
    end_balance(ledger, "written_off", "nobody", "EUR", "left")
    assert ledger.accounts().balances("EUR") == balances
    return place


def test_a_balance_that_was_brought_in_is_neither_lost_nor_made(first, tmp_path):
    old = {name: value for name, value in cents(first, "balance").items() if value}
    old["seller 1"] = old.get("seller 1", 0) + 500
    ledger = brought(tmp_path / "ledger.sqlite", old)
    found = run(tmp_path, units(seed=4), validation(seed=5), ledger=ledger)
    assert sum(cents(found).values()) == 100_000
    assert sum(cents(found, "entitled").values()) == 100_000 + 500
    assert sum(cents(found, "balance").values()) == 500
    assert [check.what for check in verify(found, recompute=True) if not check.good] == []
    assert old["seller 2"] < 0
    assert approve(found) == "approved"
    assert sum(ledger_of(found).accounts().balances("EUR").values()) == 500
    assert [check.what for check in verify(found) if not check.good] == []


def test_old_balances_are_in_the_intervals_too(tmp_path):
    ledger = brought(
        tmp_path / "ledger.sqlite", {"seller 1": -10_000_000, "retired": 2_000_000, "absent": -1}
    )
    found = payments(run(tmp_path, units(seed=4), validation(seed=5), ledger=ledger))
    owing, retired = found["seller 1"], found["retired"]
    # no validation rows could have settled the debt
    assert (owing["payment"], owing["low"], owing["high"]) == ("0.00", "0.00", "0.00")
    # the credit is most of what everyone is due together, and no validation rows decide about it
    assert float(retired["payment"]) > 900
    assert 900 < float(retired["low"]) < float(retired["payment"]) < float(retired["high"]) < 1000
    assert (retired["units"], retired["clusters"], retired["score"]) == (0, 0, 0.0)
    assert [*found][-2:] == ["absent", "seller 1"]  # paid nothing, in the order of their names
