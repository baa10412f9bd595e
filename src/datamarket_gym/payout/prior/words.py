"""What is said of earlier runs, and of what they have bought, on screens."""

from __future__ import annotations

from typing import Any

from datamarket_gym.core.screen import counted, listed
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.run_record import APPROVED
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.prior.runs import ROLE

_FEW = 5


def prior_words(manifest: dict[str, Any], accounts: Accounts) -> str:
    """What a run is priced given; where it names nothing, what its book has bought and it does not look at."""
    given = manifest.get(ROLE, ())
    if given:
        names = listed((run_called(each["period"], each["run"]) for each in given), _FEW)
        known = counted(manifest["known"], "unit was", "units were")
        return (
            f"Priced given what was bought before ({names}): {known} bought then and earn nothing now."
        )
    bought = [
        run for run in accounts.runs.values() if run.state in APPROVED and run.run != manifest["run"]
    ]
    if not bought:
        return ""
    names = listed((run_called(run.period, run.run) for run in bought), _FEW)
    return (
        f"Not priced given what the book has bought before ({names}): whoever submits that again is paid again. "
        "See: pay --help, --prior."
    )


def run_called(period: str, run: str) -> str:
    """A run as people know it: what it was for, else its id."""
    return visible(period) or f"run {run[:16]}"


def bought_words(row: dict[str, Any], identity: str) -> str:
    """What became of a unit that was bought before."""
    whose = "itself" if row["old_owner"] == identity else visible(row["old_owner"])
    return (
        f"{visible(row['unit'])} was bought in {run_called(row['period'], row['run'])} from {whose} as "
        f"{visible(row['old_unit'])} ({row['reason']} {row['score']:.3f})"
    )
