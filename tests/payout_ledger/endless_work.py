"""Payout runs one after the other, for processes that are killed at it: each step, and what a ledger then holds.

Step n is the same for everybody, so that whoever comes after a kill knows what was under way.
"""

import os

from clerk import Clerk
from market_model import Market
from raw_rows import nonzero, recounted, said

from datamarket_gym.payout.ledger.store import open_ledger

STEPS = ("draft", "approve", "fee", "order", "confirm", "bounce", "hold", "correct", "release", "fund")
AGAIN = (
    "draft",
    "approve",
    "order",
    "confirm",
)  # done twice they are done once; the others are new entries each time


def step(number):
    """(payout_run, currency, what) of a step."""
    payout_run, which = divmod(number, len(STEPS))
    return payout_run, ("EUR", "JPY")[payout_run % 2], STEPS[which]


def modelled(steps):
    """The market after so many steps."""
    market = Market()
    for number in range(steps):
        payout_run, currency, what = step(number)
        run, amount = f"payout_run {payout_run}", 10_000 + payout_run
        if what == "draft":
            opening = market.balances(currency)
            market.draft(run, currency, amount, lines(payout_run, opening), opening, "as made")
        elif what == "approve":
            market.approve(run, "R. Okafor", "as made")
        elif what == "fee":
            market.fee("ed", currency, 3)
        elif what == "order":
            market.order(currency, run)
        elif what == "confirm":
            market.confirm(len(market.batches) - 1, f"transfer {payout_run}")
        elif what == "bounce":
            market.bounce(len(market.batches) - 1, "ann")
        elif what == "hold":
            market.hold("ed")
        elif what == "correct":
            market.correct({"ann", "ed"}, currency, "ann", -7)
        elif what == "release":
            market.release("ed")
        elif what == "fund":
            market.fund("ann", currency, 20)
    return market


def lines(payout_run, opening):
    """Two payees; the second owes the first twenty more, and the first was paid that the month before."""
    amount = 10_000 + payout_run
    left = {who: opening.get(who, 0) for who in ("ann", "ed")}
    return {"ann": (amount // 2, left["ann"] + 20), "ed": (amount - amount // 2, left["ed"] - 20)}


def do(clerk, number):
    """One step on the ledger."""
    payout_run, currency, what = step(number)
    run = f"payout_run {payout_run}"
    if what == "draft":
        before = modelled(number)
        opening = before.balances(currency)
        clerk.draft(run, currency, 10_000 + payout_run, lines(payout_run, opening), opening)
    elif what == "approve":
        clerk.approve(run, "R. Okafor")
    elif what == "fee":
        clerk.fee("ed", currency, 3)
    elif what == "order":
        clerk.order(currency, run)
    elif what == "confirm":
        batches = clerk.ledger.accounts().batches.values()
        batch = [b.id for b in batches if b.run == clerk.run_id(run)][-1]
        clerk.confirm(batch, f"transfer {payout_run}")
    elif what == "bounce":
        clerk.bounce(
            [e.number for e in clerk.ledger.read() if e.kind == "sent" and e.payee == "ann"][-1], "ann"
        )
    elif what == "hold":
        clerk.hold("ed")
    elif what == "correct":
        clerk.correct([e.number for e in clerk.ledger.read() if e.kind == "approved"][-1], "ann", -7)
    elif what == "release":
        clerk.release("ed")
    elif what == "fund":
        clerk.fund("ann", currency, 20)


def work(where, folder, start, log, until=1_000_000):
    """Steps from one on, each noted in a file before it is begun."""
    clerk = Clerk(where, folder)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(start, until):
        os.write(file, f"{number}\n".encode())
        do(clerk, number)


def begun(log, start):
    """The step that was under way; the first one if none was noted."""
    try:
        with open(log, encoding="ascii") as file:
            return int(file.read().split()[-1])
    except (FileNotFoundError, IndexError):
        return start


def done_by_now(where, number):
    """How many steps a ledger holds, all of them whole: `number`, or the one under way as well; else an error."""
    ledger = open_ledger(where)
    wrong = [finding for finding in ledger.examined() if not finding[1]]
    assert not wrong, wrong
    with (
        ledger.transaction() as transaction
    ):  # whoever was killed has let go: what it had sent to a server is done, or undone
        states = {run.period: run.state for run in transaction.accounts.runs.values()}
    entries = said(where)
    for steps in (number, number + 1):
        market = modelled(steps)
        market.require_whole()
        places = [nonzero(x) for x in (market.payable, market.outgoing, market.sent, market.balance)]
        same = {run: known["state"] for run, known in market.runs.items()} == states
        held = sum({"hold": 1, "release": -1}.get(e["kind"], 0) for e in entries) == len(market.holds)
        if recounted(entries) == places and same and held:
            return steps
    raise AssertionError(
        f"after step {number} ({step(number)}) the ledger holds a part of it: {entries[-4:]}"
    )


def next_step(where, number):
    """Where to go on: the same step again where that is safe, or where it is not there."""
    steps = done_by_now(where, number)
    return number if step(number)[2] in AGAIN else steps
