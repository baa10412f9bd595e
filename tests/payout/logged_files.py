"""Batches entered into an intake log, one for each identity of a table, and a run that takes its times from there."""

from dataclasses import replace

import pyarrow.parquet as pq
from payout_files import rows, spec, table, units, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.payout.intake import enter_batch, read_batch
from datamarket_gym.payout.ledger.store import open_ledger
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.verify import verify

ACCEPTED = ("--accept", "loses_half")  # the attacker does
EVERYBODY = ("seller 0", "seller 1", "seller 2", "seller 3", "attacker")


def of(columns, *names):
    """The rows of some identities."""
    return rows(columns, [i for i, who in enumerate(columns["identity"]) if who in names])


def log(where, submitted=None, order=EVERYBODY, folder=None, **changes):
    """Enter what each identity has, in an order; the numbers of the entries by name."""
    submitted, chosen, ledger = submitted or units(), spec(**changes), open_ledger(where, new=True)
    numbers = {}
    for who in order:
        path = (folder or where.parent) / "batch.parquet"
        pq.write_table(table(of(submitted, who)), path)
        batch = read_batch(path, chosen.columns, chosen.files)
        numbers[who] = enter_batch(ledger, batch.owner(who), batch.digests, batch.what).number
    return numbers


def grown(where):
    """Enter one more batch, of units that are in no run; the number of its entry."""
    before = open_ledger(where).accounts().number
    (number,) = log(where, units(seed=5), ("seller 1",)).values()
    assert number == before + 1
    return number


def paid_by_log(folder, submitted=None, held=None, where=None, out="run", **changes):
    """Pay a table by the log; the folder of the run."""
    places = replace(write(folder / "in", submitted, held), intake=str(where or folder / "log.sqlite"))
    pay(places, spec(**changes), folder / out)
    return folder / out


def call(*arguments):
    """What a command says."""
    return CliRunner().invoke(app, [str(each) for each in arguments])


def bad(folder, **options):
    """What is found to be wrong with a run."""
    return [check for check in verify(folder, **options) if not check.good]
