"""The leak check in blocks: what a comparison of all pairs finds, without hashing every unit."""

import numpy as np

from datamarket_gym import Submission
from datamarket_gym.evidence import leak_check as leak
from datamarket_gym.evidence.leak_check import ValidationContent, find_leaks
from datamarket_gym.execution.arrays import LowPrecisionRows, directions


def units_of(features):
    names = [f"u{i}" for i in range(len(features))]
    return Submission(id=names, identity=names, features=features, label=None)


def market():
    rng = np.random.default_rng(0)
    held, features = rng.normal(size=(120, 12)), rng.normal(size=(500, 12))
    held[7] = held[8] * (1 + 1e-9)  # as near to whatever is near to one of them
    features[5], features[6] = held[3], 2.0 * held[9]
    features[10:40] = held[8] + 1e-6 * rng.normal(size=(30, 12))
    features[50, :6] = held[4, :6]  # begins like a row, and is none
    return features, held


def test_blocks_find_what_all_pairs_have(monkeypatch):
    features, held = market()
    level = leak.near_copy_level(held)
    cosine = directions(features) @ directions(held).T
    near = np.flatnonzero(cosine.max(axis=1) >= level)
    assert len(near) == 32
    for size in (7, 8192):
        monkeypatch.setattr(leak, "_BLOCK", size)
        found = find_leaks(units_of(features), ValidationContent(held))
        assert found.unit.tolist() == near.tolist()
        assert (np.abs(found.likeness - np.minimum(cosine[near, found.row], 1)) < 1e-12).all()
        assert (cosine[near, found.row] >= cosine[near].max(axis=1) - 1e-15).all()
        assert found.by[:2].tolist() == ["identical", "features"]


def test_only_units_that_begin_like_a_row_are_hashed(monkeypatch):
    features, held = market()
    hashed, keys = [], leak.feature_keys
    monkeypatch.setattr(leak, "feature_keys", lambda some: hashed.append(len(some)) or keys(some))
    find_leaks(units_of(features), ValidationContent(held))
    assert sum(hashed) <= len(held) + 2  # units 5 and 50


def test_units_that_lie_in_a_shorter_kind_of_number_are_found_too():
    features, held = market()
    held = held.astype(np.float16).astype(np.float64)
    features[5] = held[3]
    short = features.astype(np.float16)
    plain = find_leaks(units_of(short.astype(np.float64)), ValidationContent(held))
    unit, row, _ = leak._identical(LowPrecisionRows([short]), held)
    assert unit.tolist() == [5, *range(10, 40)]  # nearly the same is the same in half the digits
    assert row.tolist() == [3] + [7] * 30
    near = leak._near(LowPrecisionRows([short]), directions(held), leak.near_copy_level(held))
    assert near[0].tolist() == plain.unit.tolist()
