"""What is said on screens of the earlier runs that a run is priced given."""

from __future__ import annotations

from typing import Any

from datamarket_gym.core.screen import counted, listed
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.run_record import APPROVED
from datamarket_gym.payout.names import run_called
from datamarket_gym.payout.prior.price import price_words
from datamarket_gym.payout.prior.runs import ROLE

_FEW = 5


def prior_words(manifest: dict[str, Any], accounts: Accounts) -> str:
    """What a run is priced given; where it names nothing, what its book has bought and it does not look at."""
    given = manifest.get(ROLE, ())
    if given:
        names = listed((run_called(each["period"], each["run"]) for each in given), _FEW)
        known = counted(manifest["known"], "unit was", "units were")
        said = (
            f"Priced given what was bought before ({names}): {known} bought then and earn nothing now."
        )
        price = price_words(manifest["given"], manifest["amount"], manifest["currency"])
        return f"{said} {price}".strip()
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
