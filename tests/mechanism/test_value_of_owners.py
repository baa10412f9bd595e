"""The table of owners: each value stands beside its owner, and whole numbers are in the order of numbers."""

import numpy as np
import pytest

from datamarket_gym import value


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (np.arange(12), [str(i) for i in range(12)]),
        ([f"o{i}" for i in range(12)], sorted(f"o{i}" for i in range(12))),
    ],
)
def test_owners_are_in_order(names, order):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(36, 2)), np.arange(36) // 2 % 2
    owner = np.repeat(np.asarray(names), 3)[rng.permutation(36)]
    found = value(X[::2], y[::2], X[1::2], y[1::2], owner=owner[::2], utility="coverage").by_owner()
    letters = {str(name): chr(97 + i) for i, name in enumerate(names)}  # the same owners by other names
    renamed = [letters[name] for name in owner[::2].astype(str)]
    other = value(X[::2], y[::2], X[1::2], y[1::2], owner=renamed, utility="coverage").by_owner()
    assert found["owner"].tolist() == [name for name in order if name in owner[::2].astype(str)]
    for column in ("units", "value"):
        beside = dict(zip(other["owner"], other[column], strict=True))
        assert found[column].tolist() == [beside[letters[name]] for name in found["owner"]]
    assert (np.diff(found["value"][np.argsort(found["rank"])]) <= 0).all()
