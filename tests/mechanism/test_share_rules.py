"""Shares through payments: one cluster of everything, so that only the rule decides who gets what."""

import numpy as np
import pytest

from datamarket_gym.data import GroundTruth, Submission
from datamarket_gym.errors import OracleRequiredError
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.utilities.oracle import Utility, UtilityOracle


def shares(paid):
    return {name: amount / paid.grand_value for name, amount in paid.as_dict().items()}


ORACLE = UtilityOracle(np.array([[0.0, 0.0], [5.0, 5.0]]), np.array([0, 1]), Utility("knn@1"))


def submitted(identity, features, label):
    names = [f"u{i}" for i in range(len(label))]
    return Submission(names, identity, np.array(features), label, time=[0.0] * len(label))


def test_what_was_stolen_is_paid_to_all_names_of_its_owner_and_the_rest_where_it_was_submitted():
    submission = submitted(
        ["a1", "attacker", "attacker", "a2", "a1"],
        [[0.0, 0.0], [0.0, 1.0], [5.0, 5.0], [5.0, 4.0], [4.0, 5.0]],
        [0, 0, 1, 1, 1],
    )
    owner = np.array(["A", "A", "T", "A", "A"])
    controller = {"a1": "A", "a2": "A", "attacker": "T"}
    truth = GroundTruth(submission.id, owner, submission.id, controller)
    rule = get_mechanism("uniform", allocation="latent_share")
    # a1 and a2 keep what each submitted, and halve the unit of theirs that the attacker submitted
    assert shares(rule.pay(submission, ORACLE, truth)) == pytest.approx(
        {"a1": 2.5 / 5, "a2": 1.5 / 5, "attacker": 1 / 5}
    )
    with pytest.raises(OracleRequiredError):
        rule.pay(submission, ORACLE)


def test_a_unit_that_two_submitted_at_once_is_half_a_unit_to_each():
    submission = submitted(["a", "a", "b"], [[0.0, 0.0], [5.0, 5.0], [0.0, 0.0]], [0, 1, 0])
    rule = get_mechanism("uniform", allocation="count_canonical", representative="collapse")
    assert shares(rule.pay(submission, ORACLE)) == pytest.approx({"a": 1.5 / 2, "b": 0.5 / 2})


@pytest.mark.parametrize("rule", ["count_canonical", "count_raw", "equal_submitted"])
def test_odd_steps_fall_on_the_same_units_in_whatever_order_rows_come(market, rule):
    honest, oracle = market.honest.submission, market.utility_oracle(Utility("knn"))
    m = get_mechanism("uniform", allocation=rule)
    paid = m.pay(honest, oracle).as_dict()
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(honest))
        assert m.pay(honest.take(order), oracle).as_dict() == paid
