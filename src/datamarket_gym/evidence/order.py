"""Seniority: which of two units was first. By submission time; units of equal time by lot, never by name.

A lot must not be foreseeable, or whoever copies a unit at the same time varies the copy until it wins (a hash that
everybody can compute takes twenty tries). So it is an HMAC of the unit's content under a text that is known only
once submissions have closed: the mechanism's seed and beacon. It stays a function of content: renaming or
reordering units changes nothing. Units alike in time and content cannot be told apart and share one rank.
"""

from __future__ import annotations

import hashlib
import hmac

import numpy as np

from datamarket_gym.core.arrays import Codes
from datamarket_gym.units.submission import Submission


def seniority_ranks(submission: Submission, lot: str) -> Codes:
    """The place of each unit in the order of ownership, from 0; equal only for twins in time and content.

    Every stage asks for it, so it is remembered with the submission, and cannot be written to.
    """
    known: dict[str, Codes] = submission.__dict__.setdefault("seniority", {})
    if lot not in known:
        known[lot] = _ranks(submission, lot)
        known[lot].flags.writeable = False
    return known[lot]


def _ranks(submission: Submission, lot: str) -> Codes:
    times, moment, count = np.unique(submission.times, return_inverse=True, return_counts=True)
    if len(times) == len(submission):
        return moment.astype(np.int64)
    drawn = np.zeros(len(submission), dtype="S32")
    tied = np.flatnonzero(count[moment] > 1)
    drawn[tied] = [lot_of(key, lot) for key in submission.keys[tied].tolist()]
    order = np.lexsort((drawn, moment))
    after, drawn = moment[order], drawn[order]
    new = np.r_[False, (after[1:] != after[:-1]) | (drawn[1:] != drawn[:-1])]
    ranks = np.empty(len(submission), dtype=np.int64)
    ranks[order] = np.cumsum(new)
    return ranks


def lot_of(key: bytes, lot: str) -> bytes:
    """The lot that a unit's content key draws; the smallest comes first."""
    # numpy's fixed-width bytes drop trailing zeros, so the digest ends in a sign that is none.
    return hmac.digest(lot.encode(), key, hashlib.sha256)[:31] + b"."
