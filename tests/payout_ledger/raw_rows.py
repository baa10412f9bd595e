"""A ledger as a stranger with an SQL shell sees it: rows, and what they add up to. Nothing here is the package's."""

import json
from collections import Counter
from pathlib import Path

from tampering import shell

# What an entry of each kind adds to (payable, outgoing, sent, balance), by docs/ledger.md.
MOVES = {
    "payment": (1, 0, 0, 0),
    "correction": (1, 0, 0, 0),
    "fee": (-1, 0, 0, 0),
    "ordered": (-1, 1, 0, 0),
    "sent": (0, -1, 1, 0),
    "cancelled": (1, -1, 0, 0),
    "bounced": (1, 0, -1, 0),
    "carried_forward": (0, 0, 0, 1),
    "funded": (1, 0, 0, -1),
    "written_off": (0, 0, 0, -1),
}


def rows(where):
    """All rows: (number, body, hash)."""
    with shell(where) as connection:
        return list(connection.execute("SELECT number, body, hash FROM ledger_entries ORDER BY number"))


def said(where):
    """What the rows say, without looking at their hashes."""
    return [json.loads(body) for _, body, _ in rows(where)]


def recounted(bodies):
    """(payable, outgoing, sent, balance) by payee and currency, as the rows add up; zeros are left out."""
    places = [Counter() for _ in range(4)]
    for body in bodies:
        for sign, place in zip(MOVES.get(body["kind"], ()), places, strict=False):
            place[body["payee"], body["currency"]] += sign * body["amount"]
    return [nonzero(place) for place in places]


def nonzero(place):
    return {key: amount for key, amount in place.items() if amount}


def picture(where):
    """All that must not change where a ledger refuses: rows and tip; every byte of a file and its checksum."""
    with shell(where) as connection:
        found = [
            list(connection.execute(f"SELECT * FROM {table}"))
            for table in ("ledger_entries", "ledger_tip")
        ]
    if "://" not in where:
        found += [Path(where).read_bytes(), Path(f"{where}.checksum").read_bytes()]
    return found
