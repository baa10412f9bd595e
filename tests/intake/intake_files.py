"""Logs, batches and digests for the tests of the intake."""

import hashlib

from datamarket_gym.payout.book.store import open_book
from datamarket_gym.payout.intake.log import committed, received, revealed
from datamarket_gym.payout.intake.sealing import sealed_root

SECRET = bytes(range(32))


def digest(number):
    return hashlib.sha256(f"unit {number}".encode()).digest()


def digests(*numbers):
    return [digest(number) for number in numbers]


def story(where):
    """Alice hands in five units; Bob seals three, Cem hands in two of these, Bob reveals; Dee has sealed one."""
    book = open_book(where, new=True)
    received(book, "alice", digests(0, 1, 2, 3, 4), "text", by="R. Okafor")
    committed(book, "bob", sealed_root(digests(5, 6, 7), SECRET, "bob"), 3, by="R. Okafor")
    received(book, "cem", digests(7, 5), "text", by="R. Okafor")
    revealed(book, "bob", digests(5, 6, 7), "text", SECRET, by="R. Okafor")
    committed(book, "dee", sealed_root(digests(8), SECRET, "dee"), 1, by="R. Okafor")
    return book
