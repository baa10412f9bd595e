"""Names that nobody has, written like those that somebody has: for planted fakes, which must not stand out."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout.names import look_alikes, visible

_TRIES = 500
_DIGITS = re.compile(r"\d+")


def made_up_name(names: Sequence[str], taken: Collection[str], rng: np.random.Generator) -> str:
    """A name by the pattern of the given ones that is none of them, nor looks like one.

    In order of what the pattern offers: another number in the last place where one has a number, within the range of
    the others' or little beyond; the last word of another, the second half of another.
    """
    plain = [name for name in names if visible(name) == name] or ["payee 1"]
    for attempt in range(_TRIES):
        name, other = (plain[int(i)] for i in rng.integers(len(plain), size=2))
        made = _varied(name, other, plain, attempt, rng)
        if made.strip() and made not in taken and not look_alikes_of(made, taken):
            return made
    raise DataMarketError("no name could be made up that is unlike all names of the run; plant no fakes")


def made_up_unit(
    like: str, owner: str, payee: str, taken: Collection[str], rng: np.random.Generator
) -> str:
    """The name of a unit that is not there, by the pattern of another one's, whose owner's name goes out of it."""
    base = re.sub(_named(owner), lambda _: payee, like)
    for attempt in range(_TRIES):
        made = base if attempt == 0 and base != like else _varied(base, base[::-1], [base], attempt, rng)
        if made.strip() and made not in taken:
            return made
    raise DataMarketError("no name of a unit could be made up that is not taken; plant no fakes")


def named_after(unit: str, owner: str) -> bool:
    """Whether its owner's name stands in a unit's."""
    return re.search(_named(owner), unit) is not None


def _named(owner: str) -> str:
    return rf"(?<!\w){re.escape(owner)}(?!\w)"


def look_alikes_of(name: str, names: Collection[str]) -> list[str]:
    """Which of some names look like this one."""
    return [
        other
        for group in look_alikes([*names, name])
        if name in group
        for other in group
        if other != name
    ]


def _number(name: str, before: str, after: str) -> str:
    """The digits of a name between what it begins and what it ends with; none where it is another pattern."""
    middle = name[len(before) : len(name) - len(after)]
    fits = name == f"{before}{middle}{after}" and middle.isascii() and middle.isdigit()
    return middle if fits else ""


def _varied(name: str, other: str, names: Sequence[str], attempt: int, rng: np.random.Generator) -> str:
    found = list(_DIGITS.finditer(name))
    if found:
        last = found[-1]
        before, after = name[: last.start()], name[last.end() :]
        written = [_number(known, before, after) for known in names]
        numbers = [number for number in written if number]
        width = (
            max(len(number) for number in numbers)
            if any(n[0] == "0" and len(n) > 1 for n in numbers)
            else 1
        )
        low, high = (limit(int(number[-12:]) for number in numbers) for limit in (min, max))
        # within the range of the others; where all of it is taken, as little beyond as will do
        number = int(rng.integers(low, high + 2 + attempt // 10 * (1 + attempt // 100)))
        return f"{before}{number:0{width}d}{after}"
    words, others = name.split(" "), other.split(" ")
    if len(words) > 1 and len(others) > 1:
        return " ".join([*words[:-1], others[-1]])
    if attempt < _TRIES // 2:
        return name[: (len(name) + 1) // 2] + other[len(other) // 2 :]
    return f"{name} {int(rng.integers(2, 100))}"
