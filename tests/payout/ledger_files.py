"""A ledger by hand: small histories without runs, entered as the program enters them."""

from datetime import UTC, datetime

from datamarket_gym.payout.ledger.balances import FORMAT, Accounts
from datamarket_gym.payout.ledger.store import Transaction, open_ledger


class HandBook:
    """A ledger in memory whose clock is set by hand; one of a file has its `page` too."""

    def __init__(self):
        self.accounts = Accounts()
        self.day("2026-01-01")
        self.add("opened", content={"format": FORMAT, "id": "0" * 32})

    def day(self, text):
        self.at = datetime.fromisoformat(text).replace(hour=12, tzinfo=UTC)

    def add(self, kind, **fields):
        return Transaction(self.accounts, self.at).add(kind, **{"by": "R. Okafor", **fields})

    def draft(self, run, currency, lines, opening=None, period=""):
        """A draft that pays ``lines`` (identity: paid, balance)."""
        add_draft(self.add, run, currency, lines, opening, period)

    def approve(self, run):
        add_approval(self.add, self.accounts, run)

    def send(self, run, payee, currency, amount, reference="transfer 1", batch="b1"):
        self.add("batch", currency=currency, content={"batch": batch, "runs": []})
        self.add("ordered", payee=payee, currency=currency, amount=amount, content={"batch": batch})
        said = {"batch": batch, "reference": reference}
        return self.add("sent", payee=payee, currency=currency, amount=amount, content=said)


def add_draft(add, run, currency, lines, opening=None, period="", standing=()):
    rows = [[who, paid, paid + left, left] for who, (paid, left) in lines.items()]
    content = {
        "manifest": "m" * 64, "places": {}, "checks": 0, "period": period, "lines": rows, "opening": opening or {},
        "submissions": run, "kept": 0, "overrides": [], "standing": list(standing), "warnings": [],
    }  # fmt: skip
    add("draft", run=run, currency=currency, amount=sum(row[1] for row in rows), content=content)


def add_approval(add, accounts, run):
    record = accounts.runs[run]
    add("approval", run=run, content={"manifest": record.manifest})
    add("approved", run=run, currency=record.currency, amount=record.amount, content={})
    for line in record.lines:
        carried = line.balance - record.opening.get(line.identity, 0)
        for kind, amount in (("payment", line.paid), ("carried_forward", carried)):
            if amount:
                add(kind, run=run, payee=line.identity, currency=record.currency, amount=amount)


def file_ledger(folder):
    """A ledger in a file with one approved run (alice 60.00, bob 40.00, carol nothing) and one draft."""
    ledger = open_ledger(folder / "ledger.sqlite", new=True)
    with ledger.transaction() as transaction:
        lines = {"alice": (6000, 0), "bob": (4000, 0), "carol": (0, 0)}
        add_draft(transaction.add, "a" * 64, "EUR", lines, period="June 2026")
        add_approval(transaction.add, transaction.accounts, "a" * 64)
        add_draft(transaction.add, "d" * 64, "EUR", lines, period="July 2026")
    return ledger
