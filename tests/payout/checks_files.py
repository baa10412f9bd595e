"""A payout_run with checks, and the answers to them, for the tests of spot checks."""

import csv

from payout_files import run

from datamarket_gym.payout.checks.draw import read_checks
from datamarket_gym.payout.checks.outcomes import record_answers
from datamarket_gym.payout.checks.plan import PlanRequest, make_plan
from datamarket_gym.payout.checks.settle import sample_checks


def paid(folder, submitted=None, **changes):
    """The folder of a run that asks for three checks of each payee."""
    return run(folder, submitted, **{"checks": 3, **changes})


def drawn(folder, beacon="block 1", **wishes):
    """Plan and draw; what was drawn."""
    make_plan(folder, PlanRequest(**{"announce": "the hash of block 1", **wishes}), "planner")
    return sample_checks(folder, None, beacon, "drawer").drawn


def looker(folder, found, draw):
    """Who makes a look."""
    return f"{folder.name} looker {found.check_numbers[draw.unit].index(draw.number)}"


def answered(folder, false=(), unanswered=()):
    """Record an answer to every check: false for units, or payees, that are named.

    Each look at a unit is made by somebody else, in every run.
    """
    path = folder.parent / f"{folder.name}-outcomes.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["number", "outcome", "note", "by"])
        found = read_checks(folder)
        for draw in found.draws:
            if draw.number in unanswered:
                continue
            bad = draw.unit in false or draw.payee in false
            out.writerow(
                [draw.number, "false" if bad else "genuine", "seen", looker(folder, found, draw)]
            )
    return record_answers(folder, path, by="recorder")
