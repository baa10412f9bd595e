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

    In order of what the pattern offers: another number in the last place where one has a number, the last word of
    another, the second half of another.
    """
    plain = [name for name in names if visible(name) == name] or ["payee 1"]
    for attempt in range(_TRIES):
        name, other = (plain[int(i)] for i in rng.integers(len(plain), size=2))
        made = _varied(name, other, attempt, rng)
        if made.strip() and made not in taken and not look_alikes_of(made, taken):
            return made
    raise DataMarketError("no name could be made up that is unlike all names of the run; plant no fakes")


def made_up_unit(
    like: str, owner: str, payee: str, taken: Collection[str], rng: np.random.Generator
) -> str:
    """The name of a unit that is not there, by the pattern of another one's, whose owner's name goes out of it."""
    base = re.sub(rf"(?<!\w){re.escape(owner)}(?!\w)", lambda _: payee, like)
    for attempt in range(_TRIES):
        made = _varied(base, base[::-1], attempt, rng)
        if made.strip() and made not in taken:
            return made
    raise DataMarketError("no name of a unit could be made up that is not taken; plant no fakes")


def look_alikes_of(name: str, names: Collection[str]) -> list[str]:
    """Which of some names look like this one."""
    return [
        other
        for group in look_alikes([*names, name])
        if name in group
        for other in group
        if other != name
    ]


def _varied(name: str, other: str, attempt: int, rng: np.random.Generator) -> str:
    found = list(_DIGITS.finditer(name))
    if found:
        last = found[-1]
        length = min(len(last.group()) + attempt // 50, 12)  # where all numbers of that length are taken
        low = 0 if last.group().startswith("0") else 10 ** (length - 1) if length > 1 else 1
        number = f"{int(rng.integers(low, 10**length)):0{length}d}"
        return name[: last.start()] + number + name[last.end() :]
    words, others = name.split(" "), other.split(" ")
    if len(words) > 1 and len(others) > 1:
        return " ".join([*words[:-1], others[-1]])
    if attempt < _TRIES // 2:
        return name[: (len(name) + 1) // 2] + other[len(other) // 2 :]
    return f"{name} {int(rng.integers(2, 100))}"
