"""A draft that settles another: units are worth what they are paid, and fakes of both drafts measure the power."""

import json

import pytest
from checks_files import answered, drawn, paid
from payout_files import cents

from datamarket_gym.judge.guarantees import power_bound
from datamarket_gym.payout.checks.payees import paid_payees
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.manifest import read_manifest


@pytest.fixture(scope="module")
def drafts(tmp_path_factory):
    """The first draft, of which a seller failed, and the second; fakes are planted in both, and all are found."""
    first = paid(tmp_path_factory.mktemp("second"))
    fakes = [len({d.unit for d in drawn(first, plant=4).draws if d.planted})]
    answered(first, false=("seller 1",))
    new = settle(first, first.parent / "new").run
    # More checks than before, so that something is drawn among which to plant.
    second = drawn(new, "block 2", checks=9, plant=4)
    fakes.append(len({d.unit for d in second.draws if d.planted}))
    answered(new)
    assert settle(new).checked
    return first, new, fakes


def test_what_units_of_a_payee_earn_is_what_it_is_paid(drafts):
    """The forfeited amount went to the others: whoever checks sees what a unit earns now."""
    for run in drafts[:2]:
        for payee in paid_payees(run, read_manifest(run)):
            assert payee.total == pytest.approx(cents(run)[payee.name] / 100, abs=0.011)
    assert "seller 1" not in {payee.name for payee in paid_payees(drafts[1], read_manifest(drafts[1]))}


def test_the_power_is_measured_by_the_fakes_of_both_drafts(drafts):
    _, new, fakes = drafts
    assert min(fakes) >= 4
    filed = json.loads((new / "certificate.json").read_text(encoding="utf-8"))
    assert filed["planted"]["planted"] == filed["planted"]["found"] == sum(fakes)
    assert filed["power"] == power_bound(sum(fakes), sum(fakes))
    largest = max(p.largest_unit for p in paid_payees(new, read_manifest(new)))
    assert filed["largest_unit"] == largest
