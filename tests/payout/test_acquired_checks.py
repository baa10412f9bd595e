"""Spot checks of a run that is priced given another, and what of it a later run finds acquired."""

import pyarrow.parquet as pq
import pytest
from acquired_files import again, fresh, july, june, stacked
from checks_files import answered, drawn
from payout_files import approve, cents, units

from datamarket_gym.execution.runs import read_record
from datamarket_gym.payout.acquired_data import AcquiredDataError, RunUnits
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.ledger.runs import run_of
from datamarket_gym.payout.manifest import KNOWN, OWNED
from datamarket_gym.payout.verify import verify


def test_a_settled_draft_is_priced_given_the_same_runs(tmp_path):
    first = june(tmp_path)
    submitted = stacked(fresh(), again(units(), [0, 1], "attacker"))
    draft = july(tmp_path, submitted, [first], checks=3)
    drawn(draft)
    answered(draft, false=["seller 1"])
    settled = settle(draft, tmp_path / "settled", by="settler")
    assert settled.failed == ["seller 1"]
    found = [unit.unit for unit in settled.found]
    assert run_of(settled.run).acquired == [run_of(first).run]
    assert pq.read_table(settled.run / KNOWN)["unit"].to_pylist() == ["again 0", "again 1"]
    assert {who: paid for who, paid in cents(settled.run).items() if paid}.keys() == {"seller 0"}
    assert all(check.good for check in verify(settled.run, recompute=True))
    kept = read_record(settled.run / OWNED, RunUnits)
    people = list(kept.people)
    assert not set(found) & set(kept.unit)
    sold = {people[i] for i in kept.owner}
    assert "seller 0" in sold
    assert not any(
        people[who] == "seller 1" and root == i
        for i, (who, root) in enumerate(zip(kept.submitter, kept.root, strict=True))
    ), "who failed has sold nothing"
    with pytest.raises(
        AcquiredDataError, match=r"is superseded, so that nothing of it is acquired; .*settled"
    ):
        july(tmp_path, fresh(seed=9), [first, draft], "august")
    drawn(settled.run, beacon="block 2")
    assert settle(settled.run, by="settler").checked
    approve(settled.run)
    last = stacked(fresh(seed=9), again(fresh(), [1, 3, 5], "seller 1", prefix="handed in again"))
    made = july(tmp_path, last, [settled.run, first], "august")
    assert pq.read_table(made / KNOWN).num_rows == 0  # they were never acquired
