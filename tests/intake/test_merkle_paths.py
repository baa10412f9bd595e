"""Trees of hashes are those of RFC 9162, and a path shows one digest at one place and nothing else."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.payout.intake import merkle
from datamarket_gym.payout.intake.merkle import PathError, path, root, root_of

SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 31, 32, 33]


def some(n):
    return [hashlib.sha256(bytes([i % 256, i // 256])).digest() for i in range(n)]


def by_definition(data):
    """MTH of RFC 9162, 2.1.1, word for word."""
    if len(data) == 1:
        return hashlib.sha256(b"\x00" + data[0]).digest()
    k = 1
    while 2 * k < len(data):
        k *= 2
    return hashlib.sha256(b"\x01" + by_definition(data[:k]) + by_definition(data[k:])).digest()


def path_by_definition(m, data):
    """PATH of RFC 9162, 2.1.3.1."""
    if len(data) == 1:
        return []
    k = 1
    while 2 * k < len(data):
        k *= 2
    if m < k:
        return [*path_by_definition(m, data[:k]), by_definition(data[k:])]
    return [*path_by_definition(m - k, data[k:]), by_definition(data[:k])]


def test_the_roots_are_those_of_other_programs():
    """The tree that implementations of Certificate Transparency are tried with."""
    data = [
        bytes.fromhex(h)
        for h in (
            "",
            "00",
            "10",
            "2021",
            "3031",
            "40414243",
            "5051525354555657",
            "606162636465666768696a6b6c6d6e6f",
        )
    ]
    roots = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ]
    for n, said in enumerate(roots, 1):
        assert root(data[:n]).hex() == said


@pytest.mark.parametrize("n", SIZES)
def test_roots_and_paths_are_those_of_the_definition(n):
    data = some(n)
    assert root(data) == by_definition(data)
    for place in range(n):
        assert path(data, place) == path_by_definition(place, data)
        assert root_of(data[place], place, n, path(data, place)) == root(data)


def leads_there(digest, place, n, steps, whole):
    try:
        return root_of(digest, place, n, steps) == whole
    except PathError:
        return False


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 40), st.data())
def test_no_other_digest_place_or_path_leads_to_the_root(n, data):
    digests = some(n)
    place, whole = data.draw(st.integers(0, n - 1)), root(digests)
    digest, steps = digests[place], path(digests, place)
    assert leads_there(digest, place, n, steps, whole)
    other = data.draw(st.binary(min_size=32, max_size=32))
    assert not leads_there(other, place, n, steps, whole)
    assert not any(leads_there(digest, p, n, steps, whole) for p in range(-2, n + 2) if p != place)
    for at in range(len(steps)):
        bit = data.draw(st.integers(0, 255))
        changed = bytearray(steps[at])
        changed[bit // 8] ^= 1 << bit % 8
        assert not leads_there(digest, place, n, [*steps[:at], bytes(changed), *steps[at + 1 :]], whole)
        assert not leads_there(digest, place, n, steps[:at] + steps[at + 1 :], whole)
        assert not leads_there(digest, place, n, [*steps[:at], other, *steps[at:]], whole)
        assert not leads_there(digest, place, n, [*steps[:at], other], whole)
    assert not leads_there(digest, place, n, [*steps, other], whole)
    if len(set(steps)) > 1:
        assert not leads_there(digest, place, n, steps[::-1], whole)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 11])
def test_no_node_passes_for_a_unit(n):
    """The second preimage of trees that hash leaves and nodes alike: a tree of fewer, larger leaves."""
    digests = some(n)
    whole = root(digests)
    level = [merkle.leaf(digest) for digest in digests]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        if all(len(pair) == 2 for pair in pairs):
            assert root([a + b for a, b in pairs]) != whole
        level = [merkle.node(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
        assert root(level) != whole
        for place, inner in enumerate(level):
            assert not leads_there(inner, place, len(level), path(level, place), whole)


def test_an_empty_batch_and_places_that_are_none_are_refused():
    with pytest.raises(PathError, match="at least one"):
        root([])
    with pytest.raises(PathError, match="no place 0 among 0"):
        path([], 0)
    for place in (-1, 3):
        with pytest.raises(PathError, match=f"no place {place} among 3"):
            path(some(3), place)
    with pytest.raises(PathError, match="too short"):
        root_of(some(1)[0], 0, 2, [])
    with pytest.raises(PathError, match="1 hashes too many"):
        root_of(some(1)[0], 0, 1, some(1))
