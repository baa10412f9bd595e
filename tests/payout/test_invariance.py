"""Payments are a function of content: order, names and splits decide nothing beyond the rounding."""

import numpy as np
import pytest
from payout_files import cents, payments, rows, run, spec, units, validation, write

from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.utilities.oracle import UtilityOracle

COVERED, CARRIED, FLOORED = {}, {"learner": "knn"}, {"learner": "knn", "negative": "zero"}


def latent(policy):
    """The column that names decide nothing about: what one is due, or where none is carried, what one is paid."""
    return "payment" if policy == FLOORED else "entitled"


@pytest.fixture(scope="module", params=[COVERED, CARRIED, FLOORED], ids=["coverage", "carry", "zero"])
def policy(request):
    return request.param


@pytest.fixture(scope="module")
def honest(policy, tmp_path_factory):
    return run(tmp_path_factory.mktemp("honest"), **policy)


def test_permuting_rows_changes_nothing(policy, honest, tmp_path):
    rng = np.random.default_rng(5)
    held = validation()
    order = rng.permutation(len(units()["id"]))
    moved = run(
        tmp_path, rows(units(), order), rows(held, rng.permutation(len(held["label"]))), **policy
    )
    assert payments(moved) == payments(honest)


def test_renaming_identities_changes_no_amount(policy, honest, tmp_path):
    columns = units()
    names = {
        "seller 0": "zz",
        "seller 1": "a",
        "seller 2": "=1+1",
        "seller 3": "m",
        "attacker": "Attacker",
    }
    columns["identity"] = [names[name] for name in columns["identity"]]
    columns["id"] = [f"other-{i}" for i in reversed(range(len(columns["id"])))]
    renamed = run(tmp_path, columns, **policy)
    for column in ("payment", "entitled", "balance", "low", "high", "without_evidence"):
        assert cents(renamed, column) == {names[n]: v for n, v in cents(honest, column).items()}


@pytest.mark.parametrize("pieces", [2, 7])
def test_splitting_an_identity_moves_no_more_than_the_rounding(policy, honest, pieces, tmp_path):
    columns = units()
    mine = [i for i, name in enumerate(columns["identity"]) if name == "seller 1"]
    for k, i in enumerate(mine):
        columns["identity"][i] = f"pseudonym {k % pieces}"
    before, after = (
        cents(honest, latent(policy)),
        cents(run(tmp_path, columns, **policy), latent(policy)),
    )
    together = sum(value for name, value in after.items() if name.startswith("pseudonym"))
    assert abs(together - before["seller 1"]) <= pieces
    for name in before.keys() - {"seller 1"}:
        assert abs(after[name] - before[name]) <= 1


def test_payments_are_those_of_the_mechanism(tmp_path):
    places = write(tmp_path)
    inputs = read_inputs(places, spec())
    mechanism = spec().mechanism("exact_hash")
    utility = inputs.utility_oracle(spec())
    assert isinstance(utility, UtilityOracle)
    paid = mechanism.pay(inputs.submission, utility)
    found = cents(run(tmp_path / "paid"), "entitled")
    total = paid.totals.sum()
    for name, amount in zip(inputs.identities, paid.totals, strict=True):
        assert abs(found[name] - 100_000 * amount / total) < 1


def test_the_attacker_is_paid_for_nothing_that_was_stolen(honest):
    paid = payments(honest)["attacker"]
    assert float(paid["without_evidence"]) > float(paid["payment"])
