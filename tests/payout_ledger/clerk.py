"""Everything that can happen to a ledger, done by the functions that the commands call, on small made-up runs.

A run here is a folder with a manifest and nothing else: a ledger takes what is entered, whoever worked it out.
"""

import hashlib
from pathlib import Path

from datamarket_gym.execution.files import sha256, write_json
from datamarket_gym.payout.ledger import runs
from datamarket_gym.payout.ledger import transactions as batches
from datamarket_gym.payout.ledger import transactions as money
from datamarket_gym.payout.ledger.entries import Line, RunRecord
from datamarket_gym.payout.ledger.runs import ledger_warnings
from datamarket_gym.payout.ledger.store import open_ledger

MANIFEST = {
    "format": 1, "spec": {}, "inputs": {}, "mechanism": {}, "evidence": {}, "overrides": [], "opening_balances": {},
    "standing_overrides": [], "settles": None, "versions": {}, "seed": 0, "amount": 0, "currency": "EUR",
    "identities": 0, "units": 0, "leaked": 0, "clusters": 0, "outputs": {},
    "contents": {"distinct": 0, "least": []},
}  # fmt: skip


class Clerk:
    """Works on one ledger; `folder` holds the folders of its runs."""

    def __init__(self, where, folder):
        self.where, self.folder = str(where), Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ledger = open_ledger(self.where, new=True)

    def run_folder(self, run):
        return self.folder / run

    def run_id(self, run):
        return hashlib.sha256(run.encode()).hexdigest()

    def manifest(self, run):
        return sha256(self.run_folder(run) / "manifest.json")

    def draft(self, run, currency, amount, lines, opening, edition=0):
        """Enter a run; lines: payee -> (paid, balance after)."""
        folder = self.run_folder(run)
        folder.mkdir(exist_ok=True)
        said = MANIFEST | {"run": self.run_id(run), "edition": edition}
        write_json(folder / "manifest.json", said)
        entered = [Line(who, paid, paid + left, left) for who, (paid, left) in lines.items()]
        return runs.enter_draft(
            self.ledger,
            folder,
            RunRecord(
                run=self.run_id(run), amount=amount, currency=currency, manifest=self.manifest(run), places={},
                checks=0, lines=entered, opening=opening, overrides=[], standing=[], warnings=[], period=run,
                submissions=self.run_id(f"submissions of {run}"), kept=0,
            ),
        )  # fmt: skip

    def approve(self, run, by, manifest=None):
        accounts = self.ledger.accounts()
        found = ledger_warnings(accounts, accounts.required(self.run_id(run)))
        accepted = [warning.name for warning in found]
        return runs.approve(self.run_folder(run), manifest or self.manifest(run), by, accepted)

    def supersede(self, run):
        content = {
            "by_run": "0" * 64,
            "place": str(self.folder),
            "detail": "checks failed",
            "outcomes": "1" * 64,
        }
        with self.ledger.transaction() as transaction:
            transaction.add("superseded", run=self.run_id(run), content=content)

    def paid(self, run, reference):
        return runs.mark_paid(self.run_folder(run), reference)

    def order(self, currency, run=None):
        return batches.order(self.ledger, run=run and self.run_id(run), currency=currency)

    def confirm(self, batch, reference):
        return batches.confirm(self.ledger, batch, reference)

    def cancel(self, batch):
        return batches.cancel(self.ledger, batch, "the bank refused it")

    def bounce(self, number, payee):
        return money.bounced(self.ledger, payee, "account closed", of=number)

    def fee(self, payee, currency, amount):
        return self.decided(
            lambda by: money.charge(self.ledger, payee, amount, currency, "transfer abroad", by)
        )

    def correct(self, number, payee, amount):
        return self.decided(
            lambda by: money.correct(self.ledger, payee, amount, number, "counted wrongly", by)
        )

    def decided(self, asked_by):
        """What people decide, each under a name of their own, as many as it takes."""
        for name in ("R. Okafor", "M. Ito", *(f"clerk {n}" for n in range(8))):
            if (entry := asked_by(name)).kind != "proposed":
                return entry

    def hold(self, payee):
        return money.hold(self.ledger, payee, "account unknown")

    def release(self, payee):
        return money.release(self.ledger, payee, "account known")

    def fund(self, payee, currency, amount):
        return self.decided(
            lambda by: money.end_balance(
                self.ledger, "funded", payee, currency, "the debtor has left", amount, by
            )
        )

    def write_off(self, payee, currency, amount):
        return self.decided(
            lambda by: money.end_balance(
                self.ledger, "written_off", payee, currency, "the debtor has left", amount, by
            )
        )

    def rule_people(self, people, by):
        with self.ledger.transaction() as transaction:
            return transaction.add("rule", content={"approvals": people}, by=by)

    def rule_least(self, currency, least):
        with self.ledger.transaction() as transaction:
            return transaction.add("rule", currency=currency, amount=least, content={"least": True})
