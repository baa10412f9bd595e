"""A payout run to be checked, approved and paid, for the tests of its pages."""

import csv

from job_answers import followed

from datamarket_gym.payout.bank.export import ExportRequest, export_from
from datamarket_gym.payout.checks.outcomes import record_answers
from datamarket_gym.payout.checks.plan import PlanRequest
from datamarket_gym.payout.checks.settle import sample_checks, settle
from datamarket_gym.payout.ledger.runs import current_warnings, ledger_of, mark_paid, run_of
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.verify import approve_recomputed
from payout.bank_files import DEBTOR, iban, write_accounts
from payout.payout_files import spec, units, write

PEOPLE = ("planner", "drawer", "recorder", "settler", "boss", "banker")


def market(folder, checks=2, submitted=None, **changes):
    """A folder that holds a run ``june`` which asks for checks, its tables and its ledger; the run's folder."""
    places = write(folder / "in", submitted or units(48, 3))
    pay(places, spec(checks=checks, period="June 2026", **changes), folder / "june")
    return folder / "june"


def accounts_of(folder, payees):
    """A table of bank accounts."""
    return write_accounts(folder / "accounts.csv", [(who, who, iban(who)) for who in payees])


def looker(look, before):
    """Who makes a look: somebody else each time, in every draft."""
    return f"looker {look} of {'-'.join(before) or 'all'}"


def by_library(folder, false, accounts, people=PEOPLE, looker=looker):
    """The whole story with one failure, as the command line tells it; the run that is paid, and the bank's file."""
    planner, drawer, recorder, settler, boss, banker = people
    run, failed = market(folder), list(false)
    for out, beacon in ((folder / "june-2", "block 1"), (None, "block 2")):
        sample_checks(run, PlanRequest(announce=f"the hash of {beacon}"), by=planner)
        drawn = sample_checks(run, None, beacon, drawer).drawn
        outcomes = folder.parent / "outcomes.csv"
        with outcomes.open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["number", "outcome", "note", "by"])
            for draw in drawn.draws:
                by = looker(
                    drawn.check_numbers[draw.unit].index(draw.number) + 1,
                    drawn.before.get(draw.unit, []),
                )
                table.writerow([draw.number, "false" if draw.payee in failed else "genuine", "seen", by])
        if drawn.draws:
            record_answers(run, outcomes, by=recorder)
        run, failed = settle(run, out, settler).run, []
    now = ledger_of(run).accounts()
    accepted = [warning.name for warning in current_warnings(now, run_of(run, now))]
    assert approve_recomputed(run, boss, accepted).words == "approved"
    file = folder.parent / "out.xml"
    export_from(
        str(run), ExportRequest(out=file, accounts=accounts, name="Market", account=DEBTOR), banker
    )
    mark_paid(run, "transfer 7", banker)
    return run, file.read_text()


def told(client, answer):
    """The answer to a question, which must be good."""
    found = followed(client, answer)
    assert found.status_code == 200, found.text
    return found.json()


def entries(ledger):
    """All entries of a ledger, without what no two stories share: times, hashes, ids, and folders."""
    return [
        (e.number, e.kind, e.by, e.payee, e.currency, e.amount, _plain(e.content)) for e in ledger.read()
    ]


_OWN = (
    "id", "batch", "batches", "manifest", "places", "outcomes", "place", "by_run", "runs", "run", "seal", "of",
)  # fmt: skip


def _plain(content):
    return {name: value for name, value in content.items() if name not in _OWN}
