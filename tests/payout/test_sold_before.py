"""What was there before a run, and could be passed over in silence: side by side, renamed, relabelled, rewound."""

import shutil
from dataclasses import replace

import pytest
from acquired_files import again, fresh, july, june, stacked
from logged_files import EVERYBODY, log, paid_by_log
from payout_files import approve, cents, run, spec, units, validation, warned, write

from datamarket_gym.errors import DataMarketError, RunError
from datamarket_gym.execution.files import sha256
from datamarket_gym.payout.acquired_data import AcquiredDataError
from datamarket_gym.payout.ledger import runs
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.runs import ledger_of, ledger_warnings, run_of
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.warnings import read_warnings


def told(folder, name):
    [found] = [warning for warning in read_warnings(folder) if warning.name == name]
    return found


def test_two_drafts_side_by_side_do_not_buy_the_same_twice_unseen(tmp_path):
    """Neither could be named to the other: whoever approves the second is told of the first."""
    ledger = tmp_path / "ledger.sqlite"
    first = run(tmp_path / "june", units(), ledger=ledger)
    second = run(tmp_path / "july", stacked(fresh(), again(units(), [1], "attacker")), ledger=ledger)
    assert cents(second)["attacker"] > 0
    assert ledger_warnings(ledger_of(second).accounts(), run_of(second)) == []
    approve(first)
    [found] = ledger_warnings(ledger_of(second).accounts(), run_of(second))
    assert found.name == "unnamed_earlier_runs"
    with pytest.raises(Exception, match="unnamed_earlier_runs"):
        runs.approve(second, sha256(second / "manifest.json"), "tester", warned(second))
    later = run(tmp_path / "august", fresh(seed=9), ledger=ledger)  # pay itself has told of June
    assert ledger_warnings(ledger_of(later).accounts(), run_of(later)) == []


@pytest.mark.parametrize("action", ["join", "split"])
def test_no_unit_takes_the_name_of_an_earlier_one(tmp_path, action):
    """A submitter who calls a unit RUN:UNIT would be meant by overrides in place of the earlier unit."""
    acquired = june(tmp_path)
    name = f"{run_of(acquired).run[:16]}:u5"
    decoy = {**again(units(), [5], "attacker", noise=0.3), "id": [name]}
    overrides = tmp_path / "o.toml"
    said = f'[[{action}]]\nunits = ["new 3", "{name}"]\nreason = "seen"\nby = "R. Okafor"\ndate = 2026-07-31\n'
    overrides.write_text(said)
    with pytest.raises(AcquiredDataError, match="is a unit of this run and one of an earlier run, too"):
        july(tmp_path, stacked(fresh(), decoy), [acquired], "decoyed", overrides)


def test_a_join_of_earlier_units_alone_says_nothing_and_is_refused(tmp_path):
    acquired = june(tmp_path)
    names = [f"{run_of(acquired).run[:16]}:u{i}" for i in (5, 6)]
    overrides = tmp_path / "o.toml"
    overrides.write_text(f'[[join]]\nunits = {names}\nreason = "seen"\nby = "R."\ndate = 2026-07-31\n')
    with pytest.raises(AcquiredDataError, match="with no unit of this run; name one"):
        july(tmp_path, fresh(), [acquired], "joined", overrides)


def test_labels_that_are_written_otherwise_are_told(tmp_path):
    """What was acquired as cat is no floor under Cat; identical units are recognised all the same."""

    def labelled(columns, names):
        return {**columns, "label": [names[i] for i in columns["label"]]}

    small, large = ("cat", "cow", "dog"), ("Cat", "Cow", "dog")
    first = run(
        tmp_path / "june", labelled(units(), small), labelled(validation(), small), ledger=tmp_path / "ledger.sqlite"
    )  # fmt: skip
    approve(first)
    loot = stacked(fresh(), again(units(), list(range(20)), "attacker"))
    same = july(tmp_path, labelled(loot, small), [first], "same", held=labelled(validation(), small))
    assert (cents(same)["attacker"], "lost_labels" in warned(same)) == (0, False)
    held = labelled(validation(), large)
    other = july(tmp_path, labelled(loot, large), [first], "other", held=held, acquired_discount=True)
    assert cents(other)["attacker"] == 0
    found = told(other, "lost_labels")
    assert found.title.startswith("2 labels of the earlier runs do not occur in this one")
    assert [item.split(":")[0] for item in found.items] == ["“cat”", "“cow”"]


def test_a_log_that_was_rewound_and_grew_otherwise_is_not_paid_by(tmp_path):
    """It is whole, checksum and all; only runs that took their times from it know that it was another."""
    where, kept = tmp_path / "log.sqlite", tmp_path / "kept"
    log(where, order=EVERYBODY[:4])
    kept.mkdir()
    for name in ("log.sqlite", "log.sqlite.checksum"):
        shutil.copy(tmp_path / name, kept / name)
    log(where, order=EVERYBODY[4:])
    first = paid_by_log(tmp_path)
    approve(first)
    log(where, fresh(), ("seller 0", "seller 1"))
    places = replace(write(tmp_path / "in2", fresh()), intake=str(where))
    pay(places, spec(), tmp_path / "good")  # a log that has grown is as it should be
    for name in ("log.sqlite", "log.sqlite.checksum"):
        shutil.copy(kept / name, tmp_path / name)
    log(where, fresh(), ("seller 1", "seller 0"))
    with pytest.raises(
        LedgerError, match=r"does not hold entry 6 as the run in .* took its times from it"
    ):
        pay(places, spec(), tmp_path / "bad")
    elsewhere = str(
        tmp_path / "other" / "ledger.sqlite"
    )  # a ledger that knows of no run; the named one does
    with pytest.raises(LedgerError, match="older copy"):
        pay(replace(places, acquired=(first,)), spec(), tmp_path / "other" / "run", ledger=elsewhere)


def test_what_others_handed_in_before_and_do_not_have_in_the_run_is_told(tmp_path):
    """The log knows whose it was first, though only the attacker's is in the table."""
    where, mine = tmp_path / "log.sqlite", fresh()
    log(where, {**mine, "identity": ["victim"] * 24}, ("victim",))
    log(where, mine, ("seller 0", "seller 1"))
    log(where, units(seed=5), ("seller 2",))
    made = paid_by_log(tmp_path, mine)
    found = told(made, "received_from_others")
    assert found.count == 24
    assert found.items[0] == "“new 0” of “seller 0”: entry 2 has it from “victim”"
    both = stacked(mine, {**mine, "identity": ["victim"] * 24, "id": [f"v{i}" for i in range(24)]})
    whole = paid_by_log(tmp_path, both, out="whole")
    assert "received_from_others" not in warned(whole)
    assert cents(whole) == {"seller 0": 0, "seller 1": 0, "victim": 100_000}


def test_a_killed_run_that_no_longer_knows_its_log_says_so(tmp_path):
    log(tmp_path / "log.sqlite")
    (tmp_path / "run" / "inputs").mkdir(parents=True)
    for said in ("[]", "{}", "null", '{"log": "a", "number": "1", "tip": "b"}'):
        (tmp_path / "run" / "inputs" / "intake.json").write_text(said)
        with pytest.raises(RunError, match="does not say how far the intake log counts"):
            paid_by_log(tmp_path)


def test_a_log_that_was_moved_is_asked_for(tmp_path):
    log(tmp_path / "log.sqlite")
    made = paid_by_log(tmp_path)
    (tmp_path / "log.sqlite").rename(tmp_path / "moved.sqlite")
    (tmp_path / "log.sqlite.checksum").rename(tmp_path / "moved.sqlite.checksum")
    [wrong] = [check for check in verify(made) if not check.good]
    assert "if it was moved, say where it is now: --intake LEDGER" in wrong.detail
    assert all(check.good for check in verify(made, intake=str(tmp_path / "moved.sqlite")))


def test_scores_that_cancel_but_for_rounding_divide_nothing(tmp_path):
    """What is new adds nothing to what was acquired, U(P + S) = U(P): no amount is divided by what rounding left."""
    acquired = june(tmp_path)
    with pytest.raises(DataMarketError, match="do not add up to anything above zero"):
        july(tmp_path, fresh(), [acquired], learner="ridge", acquired_discount=True)
