"""What the times of a payday are worth: whether they say who was first, and whether they can be true.

The mechanism pays the earliest, so the clock must be the operator's. Times that are missing, equal, later than
the market's end or earlier than its beginning are told with their number; ``strict`` makes each an error.
"""

from __future__ import annotations

import datetime

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import SubmissionError
from datamarket_gym.evidence.graph import describe_missing_times
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.payout.inputs import Inputs
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.payout.warnings import MOST_ITEMS, UnresolvedWarning

MANY_EQUAL = 0.01
"""So large a share of units that carry the time of somebody else's unit is told: seconds do coincide."""


def time_warnings(inputs: Inputs, spec: PayoutSpec) -> list[UnresolvedWarning]:
    """What is wrong with the times of a run; a function of its inputs, not of when it is asked."""
    found = [_order(inputs)]
    if inputs.has_time:
        times = inputs.submission.times
        if spec.closing is not None:
            found.append(_late(inputs, times > spec.closing, f"after the market closed ({spec.closes})"))
        if spec.opening is not None:
            found.append(_early(inputs, times < spec.opening, f"before the market began ({spec.opens})"))
    return [each for each in found if each is not None]


def time_messages(inputs: Inputs, spec: PayoutSpec) -> str:
    """Where the times of a run are from, and who thereby decides who was first; nothing where there are none."""
    if inputs.received is not None:
        return (
            "Times are from the operator's intake log: a unit came when the operator received it, by the operator's "
            f"clock, whatever anybody wrote ({inputs.received.upto.words})."
        )
    if not inputs.has_time:
        return ""
    return (
        f"Times are from the column “{visible(spec.columns.time or 'time')}” of the submissions: whoever writes it "
        "decides who was first, and the earliest of several copies is paid for all. Unless that is you alone, write "
        "down what arrives when it arrives (datamarket intake), and pay by that (pay --intake LEDGER)."
    )


def later_than(inputs: Inputs, spec: PayoutSpec, now: float) -> UnresolvedWarning | None:
    """Units dated later than now (seconds since 1970), where the run was not told when the market closed.

    Only for whoever runs it now: a run's results do not depend on when it was made.
    """
    if spec.closing is not None or not inputs.has_time:
        return None
    return _late(inputs, inputs.submission.times > now, "in the future")


def require_sound(found: list[UnresolvedWarning]) -> None:
    """Refuse to pay where anything is wrong with the times."""
    if found:
        said = " ".join(f"{each.name}: {each.title}. {each.words}" for each in found)
        raise SubmissionError(f"stopped, as --strict asks. {said}")


_PARTS = ((1e3, "milliseconds"), (1e6, "microseconds"), (1e9, "nanoseconds"))
_FIRST, _LAST = 9e8, 4.1e9  # 1998 to 2099, in seconds since 1970
_DAYS = 86_400
_SPREADSHEET = 25_569
"""1970-01-01 in the days of a spreadsheet."""


def seems(times: Values) -> str:
    """What numbers that cannot be seconds since 1970 look like, and how to write them; empty where they may be that.

    They are taken as they are, for who was first is the same: what must be seconds is what is compared with dates.
    """
    low, high = float(times.min()), float(times.max())
    for parts, called in _PARTS:
        if _FIRST * parts <= low and high <= _LAST * parts:
            return (
                f"The times look like {called} since 1970 ({_day(low / parts)} to {_day(high / parts)}): divide them "
                f"by {parts:,.0f}, or write dates."
            )
    if low >= 19_700_101 and high <= 21_001_231 and _all_days(times):
        return (
            "The times look like dates written as one number (20260531): write them with hyphens, as 2026-05-31, with "
            "the time of day where you have it."
        )
    if low >= 36_526 and high <= 73_050:  # 2000 to 2099
        days = [(each - _SPREADSHEET) * _DAYS for each in (low, high)]
        return (
            f"The times look like a spreadsheet's days since 1900 ({_day(days[0])} to {_day(days[1])}): format the "
            "column as a date, 2026-05-31 12:00:00, and save it again."
        )
    return ""


def _day(seconds: float) -> str:
    return str(datetime.datetime.fromtimestamp(seconds, datetime.UTC).date())


def _all_days(times: Values) -> bool:
    whole = times.astype(np.int64)
    month, day = whole // 100 % 100, whole % 100
    return bool(
        (whole == times).all() and ((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all()
    )


def _order(inputs: Inputs) -> UnresolvedWarning | None:
    """Nobody was first, or many units carry the time of somebody else's unit."""
    submission, n = inputs.submission, len(inputs.ids)
    if describe_missing_times(submission) is not None:
        name, have = (
            ("equal_times", "all carry the same time")
            if inputs.has_time
            else ("undated", "carry no times")
        )
        return _warning(
            inputs,
            name,
            f"Nobody was first: the {n:,} units {have}",
            "Copies cannot be told from originals: k copies of a unit take k / (k + 1) of its pay, whatever the rule. "
            "Name the column that says when you received each unit (--time; a folder has none: list its images in a "
            "table), or pay only people you trust.",
            np.arange(n),
        )
    when = np.unique(submission.times, return_inverse=True)[1]
    held = np.unique(np.stack([when, inputs.owner]), axis=1)
    equal = np.flatnonzero(np.bincount(held[0])[when] > 1)
    if len(equal) <= MANY_EQUAL * n:
        return None
    return _warning(
        inputs,
        "equal_times",
        f"{len(equal):,} of {n:,} units carry the same time as a unit of somebody else",
        "Between these a lot decides who was first, so k copies that carry the time of their original take k / (k + 1) "
        "of its pay on average. Give the time at which you received each unit as exactly as you have it.",
        equal,
    )


def _late(inputs: Inputs, late: NDArray[np.bool_], when: str) -> UnresolvedWarning | None:
    return _outside(
        inputs,
        "future_times",
        late,
        when,
        "Times that cannot be true are not from your clock, and the clock decides who was first. Use the time at which "
        "you received each unit, in seconds (not milliseconds) or as a date.",
    )


def _early(inputs: Inputs, early: NDArray[np.bool_], when: str) -> UnresolvedWarning | None:
    return _outside(
        inputs,
        "early_times",
        early,
        when,
        "The earliest of several copies is paid for all, so whoever can date units back takes the pay of those "
        "they copied. Use the time at which you received each unit.",
    )


def _outside(
    inputs: Inputs, name: str, which: NDArray[np.bool_], when: str, words: str
) -> UnresolvedWarning | None:
    units = np.flatnonzero(which)
    if not len(units):
        return None
    noun = "1 unit is" if len(units) == 1 else f"{len(units):,} units are"
    return _warning(inputs, name, f"{noun} dated {when}", words, units)


def _warning(inputs: Inputs, name: str, title: str, words: str, units: Codes) -> UnresolvedWarning:
    """A warning that lists some of the units, unless it is about all of them."""
    listed = units[:MOST_ITEMS].tolist() if len(units) < len(inputs.ids) else []
    if inputs.has_time and (hint := seems(inputs.submission.times)):
        words = f"{hint} {words}"
    items = [
        f"“{visible(inputs.ids[u])}” of “{visible(inputs.identities[inputs.owner[u]])}”" for u in listed
    ]
    return UnresolvedWarning.of(name, title, words, items, len(units))
