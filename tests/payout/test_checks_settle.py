"""Settling checks: everybody passed, or the pot is paid again; who fails is paid nothing and its other units stay."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from checks_files import answered, drawn, looker, paid
from payout_files import approve, cents, copied, events, payments, run, units, validation, warned

from datamarket_gym.analysis.theorems.deterrence import Deterrence
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.execution.files import sha256
from datamarket_gym.payout.checks.draw import draw_checks, read_checks
from datamarket_gym.payout.checks.outcomes import record_answers
from datamarket_gym.payout.checks.plan import PlanRequest, make_plan, paid_payees
from datamarket_gym.payout.checks.settle import SettleRequest, settle
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.ledger.runs import ledger_of, mark_paid, run_of
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.verify import verify

DIVIDE = SettleRequest(forfeited="divide")


@pytest.fixture(scope="module")
def payout_run(tmp_path_factory):
    folder = paid(tmp_path_factory.mktemp("settled"))
    drawn(folder)
    return folder


@pytest.fixture
def folder(payout_run, tmp_path):
    return copied(payout_run, tmp_path / "copy")


@pytest.fixture(scope="module")
def settled(payout_run, tmp_path_factory):
    """A draft of which a seller failed, and the new one, which keeps what was forfeited; neither is to be changed."""
    old = copied(payout_run, tmp_path_factory.mktemp("failed") / "copy")
    answered(old, false=("seller 1",))
    return old, settle(old, old.parent / "new").run


def state(folder):
    return run_of(folder).state


def bad(folder, **options):
    return [check.what for check in verify(folder, **options) if not check.good]


def certificate(folder):
    plain = json.loads((folder / "certificate.json").read_text())
    words, announced = plain.pop("words"), plain.pop("announced")
    found = Deterrence.model_validate(plain)
    assert words == found.words if announced else words.startswith(found.words)
    return found


def test_a_run_that_asks_for_checks_is_approved_only_when_checked(folder, payout_run):
    with pytest.raises(DataMarketError, match="check record"):
        approve(folder)
    answered(folder)
    with pytest.raises(DataMarketError, match="check settle"):
        approve(folder)
    found = settle(folder, by="settler")
    assert (found.run, found.checked, found.failed) == (folder, True, [])
    assert state(folder) == "checked"
    assert bad(folder) == []
    assert not (folder.parent / "new").exists()
    assert settle(folder) == found  # a second time nothing changes
    said = certificate(folder)
    assert (said.per_payee, said.power, said.examined) == (3, 0.8, "anew")
    assert said.gap == pytest.approx((1 - 0.8 / said.kappa) ** 3)
    assert said.paid == pytest.approx(1000)
    assert said.payment == pytest.approx(max(cents(folder).values()) / 100)
    assert said.payees == sum(value > 0 for value in cents(folder).values())
    assert approve(folder) == "approved"
    assert mark_paid(folder, "transfer 1")
    said = len(warned(folder))
    assert events(folder) == [
        "draft",
        "planned",
        "drawn",
        "answers",
        "checked",
        *["accepted"] * said,
        "approval",
        "approved",
        "paid",
    ]


def test_before_a_plan_approval_names_the_next_command(tmp_path):
    folder = paid(tmp_path)
    with pytest.raises(DataMarketError, match=r"asks for 3 checks.*datamarket check sample"):
        approve(folder)
    assert state(folder) == "draft"
    free = paid(tmp_path / "free", checks=0)
    assert approve(free) == "approved"


def test_a_run_without_checks_whose_checks_were_drawn_must_be_settled(tmp_path):
    folder = paid(tmp_path, checks=0)
    drawn(folder)
    with pytest.raises(DataMarketError, match="drawn and not settled"):
        approve(folder)


def test_looks_that_stand_are_told_to_the_next_draft_and_the_certificate_says_how_units_were_examined(
    folder,
):
    answered(folder, false=("seller 1",))
    new = settle(folder, folder.parent / "new").run
    said = json.loads((new / "manifest.json").read_text())["settles"]
    real = [d for d in read_checks(folder).draws if d.payee != "seller 1"]
    first = read_checks(folder)
    assert [(x["unit"], x["by"]) for x in said["looks"]] == [
        (d.unit, looker(folder, first, d)) for d in real
    ]
    found = drawn(new, "block 2", checks=12)
    assert found.before
    number, names = next(
        (d.number, found.before[d.unit]) for d in found.draws if found.before.get(d.unit)
    )
    path = folder.parent / "again.csv"
    path.write_text(f"number,outcome,by\n{number},genuine,{names[0]}\n")
    with pytest.raises(DataMarketError, match=r"in an earlier draft.*--check-once"):
        record_answers(new, path)
    record_answers(new, path, check_once=True)
    path.write_text("number,outcome,by\n" + "".join(f"{d.number},genuine,me\n" for d in found.draws))
    record_answers(new, path, check_once=True)
    assert settle(new).checked
    assert certificate(new).examined == "once"
    assert certificate(new).gap > 0.2**12
    assert certificate(new).power == 0.8
    payees = {each: paid_payees(each, read_manifest(each)) for each in (folder, new)}
    assert certificate(new).largest_unit == max(p.largest_unit for p in payees[new])
    for draft, own in payees.items():  # a unit is worth what it is paid, in each draft
        for payee in own:
            assert payee.total == pytest.approx(cents(draft)[payee.name] / 100, abs=0.011)
    assert "seller 1" not in {payee.name for payee in payees[new]}
    assert bad(new) == []


def test_missing_answers_wait_unless_the_operator_says_otherwise(folder):
    number = read_checks(folder).draws[0].number
    answered(folder, unanswered=(number,))
    with pytest.raises(DataMarketError, match=rf"1 of \d+ checks are not answered \(number {number}\)"):
        settle(folder)
    assert state(folder) == "draft"
    found = settle(folder, folder.parent / "new", request=SettleRequest(unanswered="false"))
    assert found.failed == [read_checks(folder).draws[0].payee]
    assert found.found[0].note.startswith("not answered")


def test_who_fails_is_paid_nothing_and_the_pot_goes_to_the_others(folder):
    answered(folder, false=("seller 1",))
    found = settle(folder, folder.parent / "new", request=DIVIDE)
    new = folder.parent / "new"
    assert (found.run, found.checked, found.failed) == (new, False, ["seller 1"])
    assert sum(cents(new).values()) == 100_000
    assert cents(new)["seller 1"] == cents(new, "balance")["seller 1"] == 0
    for name in cents(folder):
        if name not in ("seller 1", "attacker"):
            assert cents(new)[name] > cents(folder)[name]
    assert (state(folder), state(new)) == ("superseded", "draft")
    said = json.loads((new / "manifest.json").read_text())["settles"]
    assert said["run"] == run_of(folder).run
    assert said["manifest"] == sha256(folder / "manifest.json")
    assert said["forfeited"] == ["seller 1"]
    false = {d.unit for d in read_checks(folder).draws if d.payee == "seller 1"}
    assert {f["unit"] for f in said["found"]} == false
    assert bad(folder) == bad(new) == []


def test_what_was_forfeited_can_be_kept_in_every_draft(folder):
    answered(folder, false=("seller 1",))
    lost = cents(folder)["seller 1"]
    new = settle(folder, folder.parent / "new").run
    assert sum(cents(new).values()) == 100_000 - lost
    assert json.loads((new / "manifest.json").read_text())["settles"]["kept"] == lost
    drawn(new, "block 2", checks=8)  # more checks, so that there are new ones
    answered(new, false=("seller 2",))
    more = cents(new)["seller 2"]
    third = settle(new, folder.parent / "third").run
    said = json.loads((third / "manifest.json").read_text())["settles"]
    assert said["forfeited"] == ["seller 1", "seller 2"]
    assert said["kept"] == lost + more
    assert len({f["payee"] for f in said["found"]}) == 2
    assert cents(third)["seller 1"] == cents(third)["seller 2"] == 0
    assert sum(cents(third).values()) == 100_000 - lost - more
    assert bad(folder) == bad(new) == bad(third, recompute=True) == []
    with pytest.raises(ParameterError, match="8 for each payee were promised"):
        make_plan(third, PlanRequest(checks=3))


def test_a_name_made_to_fail_gains_nothing_for_another_where_forfeits_are_kept(tmp_path):
    """Sacrifice: noisy units of the others dilute them alone; found out, they go on diluting, unpaid."""
    columns = units(copies=0)
    label = np.asarray(columns["label"])
    columns["identity"] = [f"seller {0 if c == 0 else i % 3 + 1}" for i, c in enumerate(label)]
    honest = cents(paid(tmp_path / "honest", columns))["seller 0"]
    others = np.repeat(np.flatnonzero(label != 0), 5)
    near = columns["features"][others] + np.random.default_rng(2).normal(0, 0.3, (len(others), 6))
    folder = paid(
        tmp_path / "flooded",
        {
            "id": columns["id"] + [f"flood {i}" for i in range(len(others))],
            "identity": columns["identity"] + ["lost name"] * len(others),
            "label": np.concatenate([label, label[others]]),
            "time": np.concatenate([columns["time"], 1000.0 + np.arange(len(others))]),
            "features": np.concatenate([columns["features"], near]),
        },
    )
    drawn(folder)
    answered(folder, false=("lost name",))
    copy = copied(folder, tmp_path / "copy")
    kept = settle(copy, tmp_path / "kept").run  # first: a copy that is behind enters nothing
    divided = settle(folder, tmp_path / "divided", request=DIVIDE).run
    assert cents(divided)["seller 0"] > 1.2 * honest
    assert cents(kept)["seller 0"] <= honest


def test_only_what_was_found_leaves_the_game_and_the_new_draft_is_explained(settled):
    folder, new = settled
    gone = {d.unit for d in read_checks(folder).draws if d.payee == "seller 1"}
    before, after = (
        set(pq.read_table(f / "clusters.parquet")["unit"].to_pylist()) for f in (folder, new)
    )
    assert before - after == gone
    assert payments(new)["seller 1"]["units"] == payments(folder)["seller 1"]["units"]
    assert json.loads((new / "manifest.json").read_text())["removed"] == len(gone)
    assert bad(new, recompute=True) == []
    assert explain(new, "seller 2").paid == cents(new)["seller 2"]
    assert explain(new, "seller 1").paid == 0


def test_a_copy_under_another_name_does_not_inherit_from_who_fails(tmp_path):
    """Insurance: later copies of one's own units, under another name, stay copies if the first name fails."""
    columns = units(copies=0)
    mine = [i for i, name in enumerate(columns["identity"]) if name == "seller 1"]
    for column in ("label", "features"):
        columns[column] = np.concatenate([columns[column], columns[column][mine]])
    columns["id"] += [f"copy {i}" for i in mine]
    columns["identity"] += ["insurance"] * len(mine)
    columns["time"] = np.concatenate([columns["time"], 1000.0 + np.arange(len(mine))])
    folder = paid(tmp_path, columns)
    assert cents(folder)["insurance"] == 0
    found = drawn(folder)
    one = next(d.unit for d in found.draws if d.payee == "seller 1")
    answered(folder, false=(one,))
    settle(folder, tmp_path / "new")
    # the copy of the unit that was found plays now; the others are still copies of units that stay
    earned = {
        r["unit"]: r["amount"] for r in pq.read_table(tmp_path / "new" / "clusters.parquet").to_pylist()
    }
    assert {u for u, a in earned.items() if u.startswith("copy") and a} <= {f"copy {one[1:]}"}


def test_a_superseded_run_is_neither_approved_nor_settled_elsewhere(settled):
    folder, new = settled
    with pytest.raises(DataMarketError, match="taken the place"):
        approve(folder)
    with pytest.raises(DataMarketError, match="approve it before"):
        mark_paid(folder, "transfer 1")
    with pytest.raises(DataMarketError, match="was settled into"):
        settle(folder, folder.parent / "another")
    assert not (folder.parent / "another").exists()
    with pytest.raises(DataMarketError, match="only drafts can be given outcomes"):
        answered(folder)
    assert settle(folder, new).run == new
    accounts = ledger_of(folder).accounts()
    assert not accounts.payable  # nor is anybody owed anything by it
    assert not accounts.balance


def test_the_new_draft_is_drawn_again_under_another_beacon_until_nobody_fails(folder):
    answered(folder, false=("seller 1",))
    new = settle(folder, folder.parent / "new").run
    with pytest.raises(DataMarketError, match=r"asks for 3 checks"):
        approve(new)
    make_plan(new, PlanRequest(announce="block 2"))
    with pytest.raises(ParameterError, match="announce another"):
        draw_checks(new, "block 1")
    found = draw_checks(new, "block 2")
    payees = {name for name, value in cents(new).items() if value > 0}
    looked = [d.payee for d in (*found.draws, *found.kept)]
    assert {name: looked.count(name) for name in payees} == dict.fromkeys(payees, 3)
    assert "seller 1" not in looked
    assert found.kept  # most amounts hardly changed
    genuine = {(d.payee, d.unit) for d in read_checks(folder).draws}
    assert {(d.payee, d.unit) for d in found.kept} <= genuine
    if found.draws:
        answered(new)
    assert settle(new).checked
    assert bad(new) == []
    assert approve(new) == "approved"


def test_who_is_too_small_to_be_checked_is_not_paid_and_can_hand_in_again(payout_run, tmp_path):
    folder = run(tmp_path / "june", checks=3)
    smallest = min(value for value in cents(folder).values() if value)
    name = next(n for n, value in cents(folder).items() if value == smallest)
    drawn(folder, least=f"{(smallest + 1) / 100:.2f}")
    assert name not in {d.payee for d in read_checks(folder).draws}
    answered(folder)
    found = settle(folder, tmp_path / "carried", request=DIVIDE)
    new = tmp_path / "carried"
    assert (found.checked, found.carried, found.failed) == (True, [name], [])
    assert state(new) == "checked"
    assert (
        cents(new)[name] == cents(new, "balance")[name] == 0
    )  # nothing that a later run would pay unseen
    assert sum(cents(new).values()) == 100_000
    assert not any(cents(new, "balance").values())
    for other, value in cents(folder).items():  # the others are paid in the same proportions
        if other != name:
            assert abs(cents(new)[other] - value * 100_000 / (100_000 - smallest)) <= 1
    with (new / "carried.csv").open(encoding="utf-8", newline="") as file:
        listed = {(row["unit"], row["identity"]) for row in csv.DictReader(file)}
    earned = pq.read_table(folder / "clusters.parquet").to_pylist()
    assert listed == {
        (row["unit"], name) for row in earned if row["identity"] == name and row["amount"] > 0
    }
    assert certificate(new).carried_forward == 1
    assert bad(new, recompute=True) == []
    (new / "carried.csv").write_text("unit,identity\n")
    assert bad(new) == ["carried.csv"]
    assert settle(folder, new, request=DIVIDE).checked
    assert bad(new) == []
    assert approve(new) == "approved"
    after = run(tmp_path / "july", units(seed=4), validation(seed=5), ledger=ledger_of(new).path)
    plain = run(tmp_path / "plain", units(seed=4), validation(seed=5))
    assert cents(after) == cents(plain)


def test_what_is_not_paid_to_the_small_can_be_kept_for_the_next_pot(tmp_path):
    folder = run(tmp_path / "june", checks=3)
    smallest = min(value for value in cents(folder).values() if value)
    drawn(folder, least=f"{(smallest + 1) / 100:.2f}")
    answered(folder)
    new = settle(folder, tmp_path / "kept").run
    paid_before = {name: value for name, value in cents(folder).items() if value != smallest}
    assert {
        name: cents(new)[name] for name in paid_before
    } == paid_before  # units that nobody saw move nothing
    assert sum(cents(new).values()) == 100_000 - smallest
    assert bad(new, recompute=True) == []


def test_small_names_earn_nothing_however_often_they_come_back(tmp_path):
    """Ten names of one person, each below the limit, twice in a row: nothing is paid that could not be drawn."""
    columns = units(copies=0)
    mine = [i for i, name in enumerate(columns["identity"]) if name == "seller 1"]
    for place, i in enumerate(mine):
        columns["identity"][i] = f"name {place % 10}"
    ledger = tmp_path / "ledger.sqlite"
    for month in ("june", "july"):
        folder = run(tmp_path / month, columns, checks=3, ledger=ledger, period=month)
        limit = max(value for name, value in cents(folder).items() if name.startswith("name")) + 1
        drawn(folder, least=f"{limit / 100:.2f}")
        answered(folder)
        found = settle(folder, tmp_path / f"{month}-2").run
        names = {name: value for name, value in cents(found).items() if name.startswith("name")}
        assert len(names) == 10
        assert not any(names.values())
        assert not any(cents(found, "balance").values())
        assert approve(found) == "approved"


def test_everybody_fails_and_nobody_can_be_paid(folder):
    answered(folder, false=tuple(cents(folder)))
    with pytest.raises(DataMarketError, match=r"none is left to be paid.*stays a draft.*--correct"):
        settle(folder, folder.parent / "new")
    assert state(folder) == "draft"
    assert not (folder.parent / "new").exists()
