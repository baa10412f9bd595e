"""What a best response is searched in: copies turned away, small thefts, and additions that came first."""

import numpy as np
import pytest

from datamarket_gym.analysis.redteam import Space, attack_grid
from datamarket_gym.analysis.redteam.best_response import SPACE, starts
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.registry import create


@pytest.fixture(scope="module")
def state():
    return ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=20, validation=40), 2).state


def dial(family, name):
    return next(d for d in SPACE[family] if d.name == name)


def test_turned_copies_are_searched_at_angles_below_any_threshold(state):
    cosine = dial("turn", "cosine")
    assert cosine.value(0.0, 1.0) < 0.5 < 0.95 < cosine.value(1.0, 1.0)
    attacks = [Space.of(state).attack(family, dials) for family, dials in starts()]
    assert sum(attack.startswith("turn") for attack in attacks) == 3


@pytest.mark.parametrize(
    ("family", "name"),
    [("composite", "steal"), ("turn", "fraction"), ("synthetic_laundering", "ratio")],
)
def test_a_third_of_a_dial_is_spent_on_the_least_parts(family, name):
    """Where units are checked a little that is false pays more than much, so it has to be found."""
    found = dial(family, name)
    values = [found.value(at, 1.0) for at in np.linspace(0, 1, 101)]
    assert values == sorted(values)
    assert np.mean(np.array(values) <= 0.055 * found.high) > 0.33


def test_a_search_begins_with_a_little_of_the_best_and_with_curation_besides(state):
    space = Space.of(state)
    first = [create("attack", space.attack(family, dials)) for family, dials in starts()][:4]
    assert [(a.steal, a.keep, a.pick, a.first) for a in first] == [
        (1.0, 1.0, "random", False),
        (0.051, 1.0, "rewards", False),
        (0.051, 0.902, "rewards", False),
        (0.0, 1.0, "random", True),
    ]
    assert first[1].steal_sigma == pytest.approx(space.scale, rel=0.02)
    assert any("steal=0.05," in attack for attack in attack_grid(state))


@pytest.mark.parametrize(
    "attack",
    [
        "synthetic_laundering(ratio=2.0, first=true)",
        "synthetic_laundering(how=mix, first=true)",
        "junk_padding(ratio=2.0, identities=2, first=true)",
        "composite(split=1, copy=1.0, steal=0.0, first=true)",
    ],
)
def test_what_is_made_of_ones_own_units_can_come_first(state, attack):
    chosen = create("attack", attack)
    assert chosen.assumes == ""  # nobody's future was seen
    profile = chosen.apply(1, state)
    submission, honest = profile.submission, state.honest.submission
    made = ~np.isin(submission.id, honest.id)
    assert made.any()
    assert submission.times[made].max() < honest.times.min()
    late = create("attack", attack.replace("first=true", "first=false")).apply(1, state).submission
    assert late.times[~np.isin(late.id, honest.id)].min() > honest.times.max()
    assert (late.features == submission.features).all()  # nothing else differs


def test_what_is_stolen_cannot_come_first(state):
    both = create("attack", "composite(copy=0.5, steal=0.5, first=True)").apply(0, state)
    submission, honest = both.submission, state.honest.submission
    copies = ~np.isin(submission.id, honest.id)
    stolen = both.truth.aligned(submission).owner != "provider_0"
    assert submission.times[copies & stolen].min() > honest.times.max()
    assert submission.times[copies & ~stolen].max() < honest.times.min()
