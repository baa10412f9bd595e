"""The plan of checks: how many checks, what they cost, what they leave, and who is carried instead."""

import json
from datetime import UTC, datetime, time, timedelta

import numpy as np
import pytest
from checks_files import answered, paid
from payout_files import cents, copied, events

from datamarket_gym.analysis.theorems.deterrence import Checks, deterrence_gap
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.payout.checks.draw import draw_checks, draw_key, draw_units
from datamarket_gym.payout.checks.plan import (
    PlanRequest,
    make_plan,
    next_drand_round,
    paid_payees,
    read_check_plan,
)
from datamarket_gym.payout.checks.settle import sample_checks, settle
from datamarket_gym.payout.ledger.account_statements import describe_entry
from datamarket_gym.payout.ledger.runs import run_of
from datamarket_gym.payout.manifest import read_manifest


@pytest.fixture(scope="module")
def payout_run(tmp_path_factory):
    return paid(tmp_path_factory.mktemp("planned"))


@pytest.fixture
def folder(payout_run, tmp_path):
    return copied(payout_run, tmp_path / "copy")


def paid_to(folder):
    return {name: value for name, value in cents(folder).items() if value > 0}


def test_the_runs_own_settings_decide_where_nothing_is_asked(folder):
    found = make_plan(folder, PlanRequest())
    assert (found.plan.checks, found.plan.power) == (3, 0.8)
    assert found.payees == len(paid_to(folder))
    assert found.in_all == 3 * found.payees
    assert found.paid == 100_000
    assert found.kappa == max(p.kappa for p in paid_payees(folder, read_manifest(folder)))
    payees = paid_payees(folder, read_manifest(folder))
    anew = [deterrence_gap(Checks(3, 0.8), p.kappa) for p in payees]
    once = [deterrence_gap(Checks(3, 0.8), p.kappa, largest_unit=p.share.max()) for p in payees]
    assert found.most == max(anew)
    for told, gaps in ((found.gap, anew), (found.once, once)):
        mean = sum(g * p.paid for g, p in zip(gaps, payees, strict=True)) / 100_000
        assert told == pytest.approx(mean)
    assert found.gap < found.once
    assert found.payees < found.units <= found.in_all


def test_the_plan_says_how_many_second_looks_there_will_be(folder):
    found = make_plan(folder, PlanRequest(checks=6))
    payees = paid_payees(folder, read_manifest(folder))
    plan, again = read_check_plan(folder), []
    for number in range(300):
        draws, _ = draw_units(draw_key("m", "p", str(number)), plan, payees)
        again.append(len(draws) - len({d.unit for d in draws}))
    assert np.mean(again) == pytest.approx(found.again, abs=4 * np.std(again) / 300**0.5)


def test_what_was_promised_is_the_least(folder):
    with pytest.raises(ParameterError, match="3 for each payee were promised"):
        make_plan(folder, PlanRequest(checks=2))


def test_cost_in_money(folder):
    found = make_plan(folder, PlanRequest(price="2.50"))
    assert found.cost == 250 * 3 * found.payees
    assert found.below_price == 0
    dear = make_plan(folder, PlanRequest(price="90.00"))
    assert dear.below_price == sum(value < 27_000 for value in paid_to(folder).values()) > 0


def test_who_is_paid_less_than_least_is_carried(folder):
    amounts = sorted(paid_to(folder).values())
    limit = f"{amounts[1] / 100:.2f}"  # the second is not less than itself
    found = make_plan(folder, PlanRequest(least=limit))
    assert [cents(folder)[name] for name in found.plan.carried] == [amounts[0]]
    assert found.carried == amounts[0]
    assert found.payees == len(amounts) - 1
    with pytest.raises(DataMarketError, match="lower --least"):
        make_plan(folder, PlanRequest(least="100000"))


@pytest.mark.parametrize(
    "wishes",
    [
        {"checks": 0}, {"price": "two"}, {"least": "-1"}, {"announce": "a\tb"},
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_nothing_is_entered(folder, wishes):
    with pytest.raises(ParameterError):
        make_plan(folder, PlanRequest(**wishes))
    assert events(folder) == ["draft"]
    assert not (folder / "checks").exists()


def test_planning_again_replaces_the_plan_and_the_history_keeps_both(folder):
    make_plan(folder, PlanRequest(announce="block 1"), "A")
    make_plan(folder, PlanRequest(checks=5, announce="block 2"), "B")
    make_plan(folder, PlanRequest(checks=5, announce="block 2"), "C")  # the same: nothing to note
    assert read_check_plan(folder).checks == 5
    assert read_check_plan(folder).announced == "block 2"
    assert make_plan(folder, PlanRequest(checks=5)).plan.announced == "block 2"  # not taken back
    told = [(e.by, describe_entry(e)) for e in run_of(folder).history if e.kind == "planned"]
    assert [by for by, _ in told] == ["A", "B"]
    assert [detail.split(": ")[1].split(";")[0] for _, detail in told] == ["block 1", "block 2"]


def test_a_run_without_checks_can_be_checked_too(tmp_path):
    folder = paid(tmp_path, checks=0)
    assert make_plan(folder, PlanRequest()).plan.checks == 1
    assert make_plan(folder, PlanRequest(checks=2)).plan.checks == 2


def test_the_proposed_round_of_drand_is_that_of_tomorrow_noon():
    """Round 1 was published at genesis, and one every 30 seconds since."""
    genesis = datetime(2020, 7, 22, 15, 17, 30, tzinfo=UTC)
    assert genesis.timestamp() == 1595431050
    for now in (
        genesis,
        datetime(2026, 11, 19, 23, 59, 59, tzinfo=UTC),
        datetime(2026, 11, 20, tzinfo=UTC),
    ):
        number, published = next_drand_round(now)
        assert published == genesis + timedelta(seconds=30 * (number - 1))
        noon = datetime.combine(now.date() + timedelta(days=1), time(12), UTC)
        assert timedelta(0) <= published - noon < timedelta(seconds=30)


def test_a_round_that_was_announced_stays_and_its_value_is_64_digits(folder):
    first = make_plan(folder, PlanRequest(announce="drand")).plan.announced
    assert first.startswith(f"drand round {next_drand_round(datetime.now(UTC))[0]} ")
    assert make_plan(folder, PlanRequest(announce="drand", checks=4)).plan.announced == first
    with pytest.raises(ParameterError, match="64 digits"):
        draw_checks(folder, "drand 8f0c")
    with pytest.raises(DataMarketError, match="cannot change any more"):
        sample_checks(folder, PlanRequest(price="2.00"), "8F0C" * 16)
    assert draw_checks(folder, "8F0C" * 16).announced == first
    answered(folder)
    settle(folder)
    words = json.loads((folder / "certificate.json").read_text())["words"]
    assert "was changed 1 time before the draw" in words
