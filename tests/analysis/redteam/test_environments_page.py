"""The environments describe their spaces once: docs/environments.md shows what the spaces are."""

import doctest
import re

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from datamarket_gym.analysis.redteam import Space
from datamarket_gym.analysis.redteam.best_response import SPACE
from datamarket_gym.envs import AttackEnv, ParallelMarketEnv, parallel_env
from datamarket_gym.registry import create
from repository import ROOT

PAGE = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")


def rows(table):
    """The cells of one of the page's tables, without its head."""
    block = re.search(f"<!-- {table} -->\n(.*?)\n<!-- /{table} -->", PAGE, re.S)[1]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]]


def spaces():
    single, several = AttackEnv(), ParallelMarketEnv()
    yield "actions", AttackEnv.action_fields, single.action_space
    yield "observations", AttackEnv.observation_fields, single.observation_space
    for agent in several.possible_agents:
        yield "actions", ParallelMarketEnv.action_fields, several.action_space(agent)
        yield "observations", ParallelMarketEnv.observation_fields, several.observation_space(agent)


def test_names_shapes_and_ranges_of_the_tables_are_those_of_the_spaces():
    for table, fields, space in spaces():
        shown = rows(table)
        assert [row[1] for row in shown] == [field.name for field in fields]
        at = 0
        for index, _, shape, limits, meaning in shown:
            first, last = (int(end) for end in (index.split(" to ")[0], index.split(" to ")[-1]))
            low, high = (float(end) for end in limits.split(" to "))
            assert (first, shape) == (at, f"({last - first + 1},)")
            assert set(space.low[first : last + 1]) == {np.float32(low)}
            assert set(space.high[first : last + 1]) == {np.float32(high)}
            assert meaning
            at = last + 1
        assert space.shape == (at,)


def test_an_observation_holds_what_its_fields_say():
    env = AttackEnv(identity_cost=0.1, perturbation_cost=0.2, checks=2, power=0.7, knowledge=0.5)
    observation, _ = env.reset(seed=0)
    found = dict(
        zip([field.name for field in env.observation_fields], observation.tolist(), strict=True)
    )
    honest, payments = env._target.state.honest, env._target.honest.payments
    assert found == pytest.approx(
        {
            "providers": 4,
            "own_units": (honest.truth.owner == "provider_0").mean(),
            "own_pay": payments.total(["provider_0"]) / payments.grand_value,
            "total_value": payments.grand_value,
            "identity_cost": 0.1,
            "perturbation_cost": 0.2,
            "checks": 2,
            "power": 0.7,
            "knowledge": 0.5,
        }
    )


def test_the_families_of_the_table_are_those_that_actions_choose():
    env = AttackEnv()
    env.reset(seed=0)
    space = Space.of(env._target.state)
    shown = rows("families")
    assert [row[1] for row in shown] == list(env.families) == list(SPACE)
    for limits, name, _, parameters in shown:
        low, high = (float(end) for end in limits.split(" to "))
        for at in (low + 1e-3, high - 1e-3):
            attack = create("attack", space.attack_at(np.array([at] + [0.5] * 10)))
            assert type(attack) is type(
                create("attack", space.attack(name, dict.fromkeys(names(parameters), 0.5)))
            )


def names(parameters):
    return re.findall(r"`?(\w+)`: ", parameters)


@pytest.mark.parametrize("environment", [AttackEnv, ParallelMarketEnv, parallel_env])
def test_the_examples_of_the_docstrings_run(environment):
    test = doctest.DocTestFinder().find(environment, environment.__name__)[0]
    ran = doctest.DocTestRunner().run(test)
    assert ran.failed == 0 < ran.attempted
