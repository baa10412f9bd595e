"""Logs, batches and digests for the tests of the intake."""

import hashlib

from datamarket_gym.payout.intake import enter_batch
from datamarket_gym.payout.ledger.store import open_ledger


def digest(number):
    return hashlib.sha256(f"unit {number}".encode()).digest()


def digests(*numbers):
    return [digest(number) for number in numbers]


def story(where):
    """Alice hands in five units, Bob three, and Cem two of these."""
    ledger = open_ledger(where, new=True)
    enter_batch(ledger, "alice", digests(0, 1, 2, 3, 4), "text", by="R. Okafor")
    enter_batch(ledger, "bob", digests(5, 6, 7), "text", by="R. Okafor")
    enter_batch(ledger, "cem", digests(7, 5), "text", by="R. Okafor")
    return ledger
