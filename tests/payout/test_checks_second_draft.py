"""A draft that settles another: units are worth what they are paid, and the certificate speaks of the new amounts."""

import json

import pytest
from checks_files import answered, drawn, paid
from payout_files import cents

from datamarket_gym.payout.checks.plan import paid_payees
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.manifest import read_manifest


@pytest.fixture(scope="module")
def drafts(tmp_path_factory):
    """The first draft, of which a seller failed, and the second, which all passed."""
    first = paid(tmp_path_factory.mktemp("second"))
    drawn(first)
    answered(first, false=("seller 1",))
    new = settle(first, first.parent / "new").run
    drawn(new, "block 2", checks=9)
    answered(new)
    assert settle(new).checked
    return first, new


def test_what_units_of_a_payee_earn_is_what_it_is_paid(drafts):
    """The forfeited amount went to the others: whoever checks sees what a unit earns now."""
    for run in drafts:
        for payee in paid_payees(run, read_manifest(run)):
            assert payee.total == pytest.approx(cents(run)[payee.name] / 100, abs=0.011)
    assert "seller 1" not in {payee.name for payee in paid_payees(drafts[1], read_manifest(drafts[1]))}


def test_the_certificate_has_the_stated_power_and_the_largest_unit_of_the_new_draft(drafts):
    _, new = drafts
    filed = json.loads((new / "certificate.json").read_text(encoding="utf-8"))
    assert filed["power"] == 0.8
    largest = max(p.largest_unit for p in paid_payees(new, read_manifest(new)))
    assert filed["largest_unit"] == largest
