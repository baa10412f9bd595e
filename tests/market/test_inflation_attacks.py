"""Published ways to inflate scores: how far units move, and what for."""

import numpy as np
import pytest

from datamarket_gym.errors import ParameterError
from datamarket_gym.market.attacks.base import Own
from datamarket_gym.market.attacks.inflation import _Proxy, reach
from datamarket_gym.registry import create


def attacked(market, text, provider=0):
    return create("attack", text).apply(provider, market.state)


@pytest.fixture(scope="module")
def own(market):
    honest = market.honest
    rows = np.flatnonzero(honest.truth.owner == "provider_0")
    return Own("provider_0", honest.submission, honest.truth.owner, rows, market.state)


def test_the_gradient_of_the_proxy_is_that_of_its_score(own):
    proxy = _Proxy.train(own)
    x, y = own.honest.features[own.rows], own.honest.label[own.rows]
    slope, step = proxy.score(x, y)[1], 1e-5
    for feature in range(0, x.shape[1], 5):
        up, down = x.copy(), x.copy()
        up[:, feature] += step
        down[:, feature] -= step
        by_hand = (proxy.score(up, y)[0] - proxy.score(down, y)[0]) / (2 * step)
        assert slope[:, feature] == pytest.approx(by_hand, rel=1e-4, abs=1e-9)


def test_the_score_is_what_a_unit_adds_to_the_proxy(own):
    """Adding a unit of little weight w changes the sum of p(z) by w times its score."""
    proxy, little = _Proxy.train(own), 1e-6
    x, y = own.honest.features[own.rows[:1]] + 0.3, own.honest.label[own.rows[:1]]
    kernel = np.exp(-((x - proxy.rows) ** 2).sum(axis=1) / proxy.width)
    right = (proxy.right * proxy.mass + little * kernel * (proxy.label == y[0])) / (
        proxy.mass + little * kernel
    )
    assert (right.sum() - proxy.right.sum()) / little == pytest.approx(proxy.score(x, y)[0][0], rel=1e-3)


def test_shadow_units_score_higher_within_the_budget(market, own):
    proxy, label = _Proxy.train(own), own.honest.label[own.rows]
    before = proxy.score(own.honest.features[own.rows], label)[0]
    tops = []
    for budget in (0.2, 0.5):
        profile = attacked(market, f"shadow(budget={budget})")
        mine = profile.submission.identity == "provider_0"
        moved = profile.submission.features[mine]
        assert (profile.submission.id[mine] == own.honest.id[own.rows]).all()
        far = np.linalg.norm(moved - own.honest.features[own.rows], axis=1)
        assert 0 < far.max() <= reach(own, budget) * (1 + 1e-9)
        after = proxy.score(moved, label)[0]
        assert (after >= before).all()
        tops.append(after.sum())
    assert before.sum() < tops[0] < tops[1]
    besides = attacked(market, "shadow(besides=true)")
    assert len(besides.submission) == len(own.honest) + len(own.rows)
    assert set(besides.truth.owner[besides.submission.identity == "provider_0"]) == {"provider_0"}


def test_a_small_shadow_moves_straight_up_the_gradient(market, own):
    mine, label = own.honest.features[own.rows], own.honest.label[own.rows]
    profile = attacked(market, "shadow(budget=0.01)")
    moved = profile.submission.features[profile.submission.identity == "provider_0"] - mine
    slope = _Proxy.train(own).score(mine, label)[1]
    cosine = (moved * slope).sum(axis=1) / np.linalg.norm(moved, axis=1) / np.linalg.norm(slope, axis=1)
    assert cosine.min() > 0.99
    assert np.linalg.norm(moved, axis=1) == pytest.approx(reach(own, 0.01))


def test_outliers_go_toward_the_loneliest_leaked_rows(market, own):
    profile = attacked(market, "outlier(budget=1e9, ratio=0.25)")  # no budget: they arrive
    made = profile.submission.features[-3:]
    leaked, label = market.state.leaked_features, market.state.leaked_label
    others = own.owner != "provider_0"
    lonely = [((own.honest.features[others] - row) ** 2).sum(axis=1).min() for row in leaked]
    wanted = np.argsort(lonely)[::-1][:3]
    assert np.allclose(made, leaked[wanted])
    assert (profile.submission.label[-3:] == label[wanted]).all()
    near = attacked(market, "outlier(budget=0.5, ratio=0.25)")
    start = [own.honest.id.tolist().index(s) for s in near.truth.source[-3:]]
    far = np.linalg.norm(near.submission.features[-3:] - own.honest.features[start], axis=1)
    assert (far <= reach(own, 0.5) * (1 + 1e-9)).all()
    assert set(near.truth.owner[-3:]) == {"provider_0"}


def test_dials_outside_their_range_are_refused():
    for text in ("shadow(budget=0)", "shadow(steps=0)", "outlier(ratio=0)", "outlier(knows=all)"):
        with pytest.raises(ParameterError):
            create("attack", text)
