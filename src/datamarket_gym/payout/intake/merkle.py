"""Merkle trees as of RFC 9162 (2.1): the root stands for a list of digests, a path shows one of them.

    leaf = sha256(00 + digest),    node = sha256(01 + left + right)

A list of n > 1 is split after the largest power of two below n; an odd node goes up as it is and is never doubled.
Leaves and nodes are hashed apart, so that no node can be shown as a leaf.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from datamarket_gym.core.errors import DataMarketError


class PathError(DataMarketError):
    """A path through a tree of hashes is none: its place or its length cannot be."""


def leaf(digest: bytes) -> bytes:
    """The hash of a digest as a leaf."""
    return hashlib.sha256(b"\0" + digest).digest()


def node(left: bytes, right: bytes) -> bytes:
    """The hash of two nodes."""
    return hashlib.sha256(b"\1" + left + right).digest()


def root(digests: Sequence[bytes]) -> bytes:
    """The root of the tree of these digests, of which there is at least one."""
    level = _leaves(digests)
    while len(level) > 1:
        level = _above(level)
    return level[0]


def path(digests: Sequence[bytes], place: int) -> list[bytes]:
    """The hashes by which the digest at a place leads to the root, from below."""
    _require_place(place, len(digests))
    level, found = _leaves(digests), []
    while len(level) > 1:
        if (beside := place ^ 1) < len(level):
            found.append(level[beside])
        level, place = _above(level), place >> 1
    return found


def root_of(digest: bytes, place: int, n: int, path: Sequence[bytes]) -> bytes:
    """The root to which a path leads from a digest at a place of n."""
    _require_place(place, n)
    here, last, left = leaf(digest), n - 1, list(path)
    while last > 0:
        if place % 2 or place < last:  # there is a node beside it
            if not left:
                raise PathError(f"the path of place {place} of {n} is too short")
            beside = left.pop(0)
            here = node(beside, here) if place % 2 else node(here, beside)
        place, last = place >> 1, last >> 1
    if left:
        raise PathError(f"the path has {len(left)} hashes too many for a tree of {n}")
    return here


def _leaves(digests: Sequence[bytes]) -> list[bytes]:
    if not digests:
        raise PathError("there are no units; a batch has at least one")
    return [leaf(digest) for digest in digests]


def _above(level: list[bytes]) -> list[bytes]:
    odd = level[-1:] if len(level) % 2 else []
    return [node(a, b) for a, b in zip(level[::2], level[1::2], strict=False)] + odd


def _require_place(place: int, n: int) -> None:
    if not 0 <= place < n:
        raise PathError(f"there is no place {place} among {n}")
