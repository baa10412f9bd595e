"""A payday to be checked, approved and paid, for the tests of its pages."""

import time

from datamarket_gym.payout.run import pay
from payout.bank_files import iban, write_accounts
from payout.payout_files import spec, units, write


def market(folder, checks=2, submitted=None, **changes):
    """A folder that holds a run ``june`` which asks for checks, its tables and its book; the run's folder."""
    places = write(folder / "in", submitted or units(48, 3))
    pay(places, spec(checks=checks, period="June 2026", **changes), folder / "june")
    return folder / "june"


def accounts_of(folder, payees):
    """A table of bank accounts."""
    return write_accounts(folder / "accounts.csv", [(who, who, iban(who)) for who in payees])


def done(client, answer, seconds=120):
    """The answer to a question, whenever it is there."""
    until = time.monotonic() + seconds
    while answer.status_code == 202 and time.monotonic() < until:
        time.sleep(0.05)
        answer = client.get(f"/api/jobs/{answer.json()['job']}")
    return answer


def told(client, answer):
    """The same, which must be good."""
    found = done(client, answer)
    assert found.status_code == 200, found.text
    return found.json()


def entries(book):
    """All entries of a book, without what no two stories share: times, hashes, ids, and folders."""
    return [
        (e.number, e.kind, e.by, e.payee, e.currency, e.amount, _plain(e.content)) for e in book.read()
    ]


_OWN = (
    "id", "batch", "batches", "manifest", "places", "outcomes", "place", "by_run", "runs", "run", "seal", "of",
)  # fmt: skip


def _plain(content):
    return {name: value for name, value in content.items() if name not in _OWN}
