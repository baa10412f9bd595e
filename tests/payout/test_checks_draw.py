"""The draw: a function of manifest, plan and beacon, drawn once, by what units earn."""

import csv
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
from checks_files import drawn, paid
from payout_files import copied, events, payments, units

from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.payout.checks.draw import (
    DrawnChecks,
    checks_text,
    draw_checks,
    draw_key,
    draw_units,
    read_checks,
)
from datamarket_gym.payout.checks.plan import (
    CheckedPayee,
    CheckPlan,
    EarlierChecks,
    PlanRequest,
    make_plan,
    paid_payees,
)
from datamarket_gym.payout.ledger.account_statements import describe_entry
from datamarket_gym.payout.ledger.runs import run_of
from datamarket_gym.payout.manifest import read_manifest


@pytest.fixture(scope="module")
def payout_run(tmp_path_factory):
    return paid(tmp_path_factory.mktemp("drawn"))


@pytest.fixture
def folder(payout_run, tmp_path):
    return copied(payout_run, tmp_path / "copy")


def named(found):
    return [(d.payee, d.unit) for d in found.draws]


def payee(name, amounts, loss=0.0):
    amounts = np.array(amounts, dtype=float)
    n = len(amounts)
    return CheckedPayee(
        name, 100, [f"{name} {i}" for i in range(n)], [name] * n, np.arange(n), amounts, amounts.sum() - loss
    )  # fmt: skip


def key(number):
    return draw_key("manifest", "plan", f"beacon {number}")


def test_three_units_of_each_payee_are_drawn_and_only_those_that_earn(folder):
    found = drawn(folder)
    paid_out = {name for name, row in payments(folder).items() if float(row["payment"]) > 0}
    assert Counter(d.payee for d in (*found.draws, *found.kept)) == dict.fromkeys(paid_out, 3)
    assert [d.number for d in found.draws] == list(range(1, len(found.draws) + 1))
    earned = {r["unit"]: r for r in pq.read_table(folder / "clusters.parquet").to_pylist()}
    assert all(earned[d.unit]["amount"] > 0 for d in found.draws)
    assert all(earned[d.unit]["row"] == d.row for d in found.draws)
    assert all(earned[d.unit]["identity"] == d.identity for d in found.draws)


def test_what_units_earn_adds_up_to_what_is_paid(folder):
    for each in paid_payees(folder, read_manifest(folder)):
        assert each.share.sum() == pytest.approx(1)
        assert each.amount.sum() >= each.total - 1e-9
        assert each.kappa >= 1


def test_the_draw_is_a_function_of_manifest_plan_and_beacon(payout_run, tmp_path):
    one, two, other, planned = (copied(payout_run, tmp_path / n) for n in ("a", "b", "c", "d"))
    first = drawn(one)
    assert drawn(two).draws == first.draws
    assert named(drawn(other, "block 2")) != named(first)
    assert named(drawn(planned, price="0.50")) != named(first)  # another plan with as many checks
    assert draw_key("a", "b", "c") != draw_key("a", "bc", "")


def test_checks_are_drawn_once(folder):
    first = drawn(folder)
    before = {p: p.read_bytes() for p in (folder / "checks.csv",)}
    assert draw_checks(folder, "block 1").draws == first.draws
    assert {p: p.read_bytes() for p in before} == before
    with pytest.raises(DataMarketError, match="are not drawn again"):
        draw_checks(folder, "block 2")
    with pytest.raises(DataMarketError, match="cannot change after that"):
        make_plan(folder, PlanRequest(checks=9))
    assert read_checks(folder) == first
    assert events(folder) == ["draft", "planned", "drawn"]


def test_there_is_no_draw_without_a_plan_nor_under_a_text_that_says_nothing(folder):
    with pytest.raises(DataMarketError, match="no plan to draw by"):
        draw_checks(folder, "block 1")
    with pytest.raises(DataMarketError, match="no checks are drawn yet"):
        read_checks(folder)
    make_plan(folder, PlanRequest())
    with pytest.raises(ParameterError, match="no beacon was announced"):
        draw_checks(folder, "the value that suits me")
    make_plan(folder, PlanRequest(announce="block 1"))
    for text in ("", "  ", "a\nb"):
        with pytest.raises(ParameterError, match="beacon"):
            draw_checks(folder, text)
    assert not (folder / "checks.csv").exists()


def test_the_history_shows_what_was_announced_before_the_draw(folder):
    drawn(folder)
    _, planned, tossed = run_of(folder).history
    assert (planned.kind, planned.by) == ("planned", "planner")
    assert describe_entry(planned).startswith("the beacon will be: the hash of block 1; plan ")
    assert (tossed.kind, tossed.by, tossed.content) == ("drawn", "drawer", {"beacon": "block 1"})
    assert planned.number < tossed.number


def test_units_are_drawn_by_what_they_earn():
    amounts = np.array([1.0, 2.0, 3.0, 10.0])
    counts = np.zeros(4)
    for number in range(1000):
        found, before = draw_units(key(number), CheckPlan(checks=4, power=0.8), [payee("a", amounts)])
        assert (len(found), before) == (4, [])  # every draw is a look of its own
        assert [d.number for d in found] == [1, 2, 3, 4]
        rows = [d.row for d in found]
        assert sum(a != b for a, b in pairwise(rows)) == len(set(rows)) - 1  # looks at a unit in a row
        for each in found:
            counts[each.row] += 1
    chance = amounts / amounts.sum()
    spread = np.sqrt(4000 * chance * (1 - chance))
    assert (np.abs(counts - 4000 * chance) < 4 * spread).all()


def test_throwaway_names_with_one_fake_each_keep_what_the_theorem_leaves():
    names = [payee(f"name {i}", [1.0]) for i in range(5000)]
    rng, passed = np.random.default_rng(0), dict.fromkeys((p.name for p in names), True)
    for look in draw_units(key(1), CheckPlan(checks=3, power=0.8), names)[0]:
        passed[look.payee] &= bool(rng.random() >= 0.8)
    assert np.mean(list(passed.values())) == pytest.approx(0.2**3, abs=0.005)  # looked at once: 0.2


def test_draws_of_payees_do_not_depend_on_one_another():
    plan = CheckPlan(checks=3, power=0.8)
    alone, _ = draw_units(key(1), plan, [payee("b", [1, 1, 1, 1, 1])])
    both, _ = draw_units(key(1), plan, [payee("a", [1, 2]), payee("b", [1, 1, 1, 1, 1])])
    assert [d.unit for d in both if d.payee == "b"] == [d.unit for d in alone]
    unlike = [draw_units(key(1), plan, [payee(n, [1] * 50)])[0] for n in ("a", "b")]
    assert [d.row for d in unlike[0]] != [d.row for d in unlike[1]]


def test_payees_who_are_carried_are_not_drawn():
    plan = CheckPlan(checks=2, power=0.8, least=200, carried=["a"])
    found, _ = draw_units(key(1), plan, [payee("a", [1, 2]), payee("b", [1, 2])])
    assert {d.payee for d in found} == {"b"}


def test_linked_identities_are_one_payee_with_three_draws(tmp_path):
    columns = units()
    columns["same_as"] = [
        {"seller 0": "seller 1", "seller 1": "seller 0"}.get(name, "") for name in columns["identity"]
    ]
    folder = paid(tmp_path, columns, linkage={"confirm": "same_as"})
    found = drawn(folder, checks=40)
    mine = [d for d in (*found.draws, *found.kept) if d.payee == "seller 0"]
    assert len(mine) == 40
    assert {d.identity for d in mine} == {"seller 0", "seller 1"}
    assert not [d for d in found.draws if d.payee == "seller 1"]


def settled_market(now, before, draws, by="ann"):
    """Draws again of a payee whose units earned ``before``, of whom these places were drawn and looked at."""
    old = payee("a", before)
    share = dict(zip(old.units, old.share.tolist(), strict=True))
    looks = {}
    for number, i in enumerate(draws):
        looks.setdefault(old.units[i], []).append(f"{by} {number}" if by else "")
    standing = EarlierChecks({"a": [old.units[i] for i in draws]}, {"a": share}, looks)
    keep = [i for i, amount in enumerate(now) if amount > 0]
    new = CheckedPayee(
        "a", 100, [old.units[i] for i in keep], ["a"] * len(keep), np.array(keep),
        np.array(now, dtype=float)[keep], float(sum(now)),
    )  # fmt: skip
    return new, standing


def test_what_is_looked_at_again_is_distributed_by_the_new_amounts_with_the_fewest_checks():
    before, now, plan = [4.0, 4.0, 2.0, 0.001], [4.0, 1.0, 2.0, 3.0], CheckPlan(checks=3, power=0.8)
    p, q = np.array(before) / sum(before), np.array(now) / sum(now)
    counts, new_units, looks = np.zeros(4), 0, 0
    for number in range(2000):
        old = [d.row for part in draw_units(key(number), plan, [payee("a", before)]) for d in part]
        new, standing = settled_market(now, before, old)
        fresh, stand = draw_units(draw_key("later", "plan", str(number)), plan, [new], standing)
        assert len(fresh) + len(stand) == 3
        asked, made = Counter(d.row for d in (*fresh, *stand)), Counter(old)
        assert Counter(d.row for d in fresh) == asked - made  # looks count as often as they were made
        for each in (*fresh, *stand):
            counts[each.row] += 1
        new_units += len(fresh)
        looks += len(draw_units(draw_key("later", "plan", str(number)), plan, [new])[0])
    spread = np.sqrt(6000 * q * (1 - q))
    assert (np.abs(counts - 6000 * q) < 4 * spread).all()
    assert new_units < 6000 * np.maximum(q - p, 0).sum()  # what is drawn anew, less what was looked at
    assert looks == 6000
    assert new_units < 0.5 * looks


def test_draws_stand_where_amounts_did_not_change_and_units_that_left_are_drawn_anew():
    plan = CheckPlan(checks=3, power=0.8)
    new, standing = settled_market([2.0, 4.0, 6.0], [1.0, 2.0, 3.0], [2, 2, 0])
    fresh, stand = draw_units(key(1), plan, [new], standing)
    assert (fresh, [d.row for d in stand]) == ([], [2, 2, 0])
    new, standing = settled_market([2.0, 4.0, 0.0], [1.0, 2.0, 3.0], [2, 2, 2])
    fresh, stand = draw_units(key(1), plan, [new], standing)
    assert len(fresh) + len(stand) == 3
    assert {d.row for d in (*fresh, *stand)} == {d.row for d in fresh} <= {0, 1}


def test_looks_of_an_earlier_draft_count_as_often_as_they_were_made():
    plan = CheckPlan(checks=3, power=0.8)
    new, _ = settled_market([2.0], [1.0], [0])
    for made, left in ((["ann"], 2), (["ann", "ben"], 1), (["ann", "ben", "cleo"], 0), ([""], 3)):
        standing = EarlierChecks({"a": ["a 0"] * 3}, {"a": {"a 0": 1.0}}, {"a 0": made})
        fresh, stand = draw_units(key(1), plan, [new], standing)
        assert (len(fresh), len(stand)) == (left, 3 - left)
    standing = EarlierChecks({"a": ["a 0"]}, {"a": {"a 0": 1.0}}, {"a 0": [""]})
    fresh, stand = draw_units(key(1), CheckPlan(checks=1, power=0.8), [new], standing)
    assert (len(fresh), len(stand)) == (0, 1)  # who looked need not be known where nobody looks again


def test_a_payee_of_one_unit_is_looked_at_by_three_people(folder):
    found, _ = draw_units(key(1), CheckPlan(checks=3, power=0.8), [payee("a", [5.0])])
    assert [(d.number, d.unit) for d in found] == [(1, "a 0"), (2, "a 0"), (3, "a 0")]
    text = checks_text(DrawnChecks("run", "beacon", 3, 0.8, found))
    assert [row["look"] for row in csv.DictReader(text.splitlines())] == ["1 of 3", "2 of 3", "3 of 3"]


def test_hostile_names_are_safe_in_the_csv_and_come_back(tmp_path):
    columns = units()
    columns["identity"] = [
        {"seller 0": "=cmd|' /C calc'!A0", "seller 1": 'a,"b"'}.get(n, n) for n in columns["identity"]
    ]
    folder = paid(tmp_path, columns)
    found = drawn(folder)
    with (folder / "checks.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert not [r for r in rows if r["payee"].startswith("=")]
    assert {d.payee for d in found.draws} >= {"=cmd|' /C calc'!A0", 'a,"b"'}
    assert list(rows[0]) == ["number", "payee", "identity", "unit", "look", "amount", "share", "asked"]
    assert [int(r["number"]) for r in rows] == [d.number for d in found.draws]
