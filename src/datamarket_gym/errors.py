"""Errors that users can meet. Each names the bad input and says what to do about it.

Optional dependencies: what a function needs beyond the core, and how it is installed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any, SupportsIndex

from datamarket_gym.display import listed

_NAMED = 50  # names in an error: a ledger may know of many


class DataMarketError(Exception):
    """Base of every error this package raises on bad input; the command line exits 2 on it."""

    def __reduce__(self) -> tuple[Callable[..., DataMarketError], tuple[Any, ...]]:
        # Errors come back from worker processes as they were, whatever their constructors take.
        return _as_it_was, (type(self), self.args, self.__dict__)


def _as_it_was(cls: type[DataMarketError], args: Any, attributes: dict[str, Any]) -> DataMarketError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(attributes)
    return error


class PluginWarning(UserWarning):
    """A plugin could not be loaded: names it and the reason; everything else works without it."""


class SubmissionError(DataMarketError):
    """A table that was handed over is not usable: names the file, the column, the row and the remedy."""


class NothingNewError(SubmissionError):
    """Every unit matches one that was acquired before, so that nothing is left to pay for."""


class RunError(DataMarketError):
    """The folder of a run cannot be worked in: it holds another, is taken, damaged or not writable."""


class ClusterError(DataMarketError):
    """Workers on other machines cannot do the work: not reachable, not like this process, or gone; says what to do."""


class ParameterError(DataMarketError):
    """A parameter has a value outside its range."""

    def __init__(self, parameter: str, value: object, remedy: str) -> None:
        super().__init__(f"{parameter} = {value!r}: {remedy}")
        self.parameter, self.remedy = parameter, remedy


class InputTypeError(DataMarketError, TypeError):
    """An argument is of a type that cannot be used there: says what was given and what is wanted."""

    def __init__(self, parameter: str, value: object, wanted: str) -> None:
        super().__init__(f"{parameter} is {describe(value)}; pass {wanted}")
        self.parameter = parameter


class MissingExtraError(DataMarketError, ImportError):
    """An optional dependency is not installed: names it and the command that installs it."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} is not installed; run: pip install 'datamarket-gym[{extra}]'")
        self.name = module


class UnknownNameError(DataMarketError):
    """A name that is not known, with those that come close or the first that are, and what may be why it is missing."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *why: str) -> None:
        known = sorted(known)
        close = close_names(name, known)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known: {listed(known, _NAMED)}"
        super().__init__("; ".join([f"unknown {kind} {name!r}", hint, *why]))


def close_names(name: str, known: Iterable[str]) -> list[str]:
    folded: dict[str, list[str]] = {}
    for each in known:
        folded.setdefault(each.casefold(), []).append(each)
    wanted = name.casefold()
    close = get_close_matches(wanted, folded, n=3) or [
        each for each in folded if len(wanted) > 2 and each.startswith(wanted)
    ]
    return [each for key in close for each in folded[key]][:3]


class UnclearPayError(DataMarketError):
    """A provider earns so little when honest that a multiplicative gain means nothing."""


class TooManyPlayersError(DataMarketError):
    """Enumeration was asked for with more players than it can handle."""


class OracleRequiredError(DataMarketError):
    """An oracle layer was used where there is no ground truth to ask."""


class LeakError(DataMarketError):
    """Submitted units are validation rows, or nearly: names them and the rows."""


class ProgramError(DataMarketError):
    """A program that pays for others to see did not do so: it failed, or what it wrote is no payment; says where."""


class MissingBaselineError(DataMarketError):
    """The environment of a baseline is not there; the text is the line that installs it."""


class UtilityError(DataMarketError):
    """A learner failed on a coalition; the message names the coalition."""


class FitFailedWarning(UserWarning):
    """An estimator could not be fitted on some coalitions: says on how many, why, and what they count as."""


class LongValuationWarning(UserWarning):
    """A valuation will take more than a minute: says how many evaluations, how long, and how to make it shorter."""


def warn_user(warning: Warning) -> None:
    """Warn at the line outside this package that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("datamarket_gym."):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


class MarketWarning(UserWarning):
    """What is paid rests on something that does not hold in this market: names the mechanism, says what to do."""

    what = ""
    """What happened, in a clause."""

    def __init__(self, mechanism: str, words: str) -> None:
        super().__init__(f"{mechanism}: {words}")
        self.mechanism, self.words = mechanism, words


class CollapsedMarketWarning(MarketWarning):
    """Similarity evidence matched much of a market into one cluster; says how much, and what to do."""

    what = "the market collapsed"


class NegativeValueWarning(MarketWarning):
    """Clusters are worth less than nothing, and a pot that is divided once counts them as zero; says how much."""

    what = "negative values count as zero"


class UndatedMarketWarning(MarketWarning):
    """Units carry no times, or all the same, under a mechanism that pays the earliest: nobody was first."""

    what = "nobody was first"


class MissingBaselineWarning(MarketWarning):
    """The environment of a baseline is not there, and what it would pay was left out; says which line installs it."""

    what = "a baseline was left out"


class FutureTimesWarning(MarketWarning):
    """Units are dated later than now: their times are not from a clock that can be believed."""

    what = "units are dated in the future"


class LeftOutWarning(MarketWarning):
    """What disputes decided names units or identities that a run does not have, and is left out; says which."""

    what = "decisions of disputes are left out"


class LeakedRowsWarning(MarketWarning):
    """Units equal validation rows, or nearly, and were set aside; says which, and what to do."""

    what = "units equal validation rows"


def describe(value: object) -> str:
    """Name a value for an error: its type, and its shape or length rather than its contents."""
    kind = type(value).__name__
    shape = getattr(value, "shape", None)
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(shape, tuple):
        return f"a {kind} of shape {shape}" if shape else f"a {kind} without dimensions"
    if isinstance(value, list | tuple | dict | set):
        return f"a {kind} of {len(value)}"
    return f"an object of type {kind}"


def require_instance(parameter: str, value: object, kind: type | tuple[type, ...], wanted: str) -> None:
    """Refuse a value of another type; ``wanted`` says what to pass in its stead."""
    if not isinstance(value, kind):
        raise InputTypeError(parameter, value, wanted)


def require_in(parameter: str, value: float, low: float, high: float, *, open_low: bool = False) -> None:
    """Refuse a value outside [low, high], or (low, high] with ``open_low``; NaN and words are outside."""
    inside = not isinstance(value, str) and (value > low if open_low else value >= low) and value <= high
    if not inside:
        bracket = "(" if open_low else "["
        raise ParameterError(parameter, value, f"choose a value in {bracket}{low:g}, {high:g}]")


def require_count(parameter: str, value: int, at_least: int = 1) -> None:
    """Refuse anything but a whole number of at least ``at_least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise ParameterError(parameter, value, f"choose a whole number of at least {at_least}")


def require_whole(parameter: str, value: SupportsIndex, at_least: int = 1) -> int:
    """Return a whole number, NumPy's too, as an int; refuse anything but one of at least ``at_least``."""
    number = value.__index__() if hasattr(value, "__index__") and not isinstance(value, bool) else value
    require_count(parameter, number, at_least)  # type: ignore[arg-type]  # what is no number is refused there
    return number  # type: ignore[return-value]


def require_choice(parameter: str, value: str, choices: Iterable[str]) -> None:
    choices = list(choices)
    if value not in choices:
        raise ParameterError(parameter, value, f"choose one of {', '.join(choices)}")


def require_known(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise UnknownNameError(kind, name, known)


def require_extra(module: str, extra: str) -> None:
    """Raise `MissingExtraError` where a module of an extra is not installed; nothing is imported."""
    if find_spec(module) is None:
        raise MissingExtraError(module, extra)
