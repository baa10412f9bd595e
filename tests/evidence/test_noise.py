import numpy as np
import pytest

from datamarket_gym.errors import ParameterError
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.registry import create


@pytest.fixture(scope="module")
def copies():
    market = ProviderMarket.from_task(Synthetic(n_providers=6, per_provider=10, validation=30), seed=1)
    return create("attack", "near_duplicate_2x_sybils").apply(0, market.state)


def edges(profile, seed=0, **rates):
    layer = create("evidence", {"name": "noisy_oracle_latent", **rates})
    return EvidenceGraph.build(profile, layer, granularity="identity", seed=seed).edges


def pairs(profile, found, reason):
    """Identity pairs tied for a reason."""
    name, chosen = profile.submission.identity, found.reason == reason
    ends = zip(name[found.left[chosen]], name[found.right[chosen]], strict=True)
    return {frozenset(pair) for pair in ends}


def test_owners_merge_with_all_their_names(copies):
    names = {"provider_0", "provider_0~1", "provider_0~2"}
    seen = set()
    for seed in range(40):
        tied = pairs(copies, edges(copies, seed, p_fm=0.2, pairs="owner"), "false_merge")
        for other in (f"provider_{i}" for i in range(1, 6)):
            with_attacker = {frozenset((name, other)) for name in names} & tied
            assert len(with_attacker) in (0, 3)
            seen.add(len(with_attacker))
    assert seen == {0, 3}


@pytest.mark.parametrize("way", ["node", "owner"])
@pytest.mark.parametrize("prone", ["even", "size", "density"])
def test_the_mean_rates_are_those_asked_for(copies, way, prone):
    draws, merged, lost = 300, 0, 0
    for seed in range(draws):
        found = edges(copies, seed, p_fs=0.3, p_fm=0.1, pairs=way, prone=prone)
        false = pairs(copies, found, "false_merge")
        if way == "owner":
            false = {frozenset(name.split("~")[0] for name in pair) for pair in false}
        merged += len(false)
        lost += 3 - len(pairs(copies, found, "oracle_latent"))
    possible = 25 if way == "node" else 15  # 28 pairs of 8 names, 3 of them true; 15 of 6 owners
    assert merged / (draws * possible) == pytest.approx(0.1, abs=0.012)
    assert lost / (draws * 3) == pytest.approx(0.3, abs=0.05)


def test_errors_fall_where_they_are_prone_to(copies):
    """More units, more false merges; the original name is twice as large as the copies."""
    count = dict.fromkeys(("provider_0", "provider_0~1"), 0)
    for seed in range(400):
        for pair in pairs(copies, edges(copies, seed, p_fm=0.2, prone="size"), "false_merge"):
            for name in count:
                count[name] += name in pair
    assert count["provider_0"] > 1.5 * count["provider_0~1"]
    near, far = [], []
    unit = copies.submission.vectors / np.linalg.norm(copies.submission.vectors, axis=1, keepdims=True)
    rows = {n: np.flatnonzero(copies.submission.identity == n) for n in copies.submission.identities}
    for seed in range(200):
        tied = pairs(copies, edges(copies, seed, p_fm=0.2, prone="density"), "false_merge")
        for i in range(1, 6):
            for j in range(i + 1, 6):
                a, b = f"provider_{i}", f"provider_{j}"
                close = (unit[rows[a]] @ unit[rows[b]].T).max()
                (near if frozenset((a, b)) in tied else far).append(close)
    assert np.mean(near) > np.mean(far)


def test_unknown_kinds_of_noise_are_refused():
    with pytest.raises(ParameterError, match="pairs"):
        create("evidence", "noisy_oracle_latent(pairs=edge)")
    with pytest.raises(ParameterError, match="prone"):
        create("evidence", "noisy_oracle_latent(prone=odd)")
