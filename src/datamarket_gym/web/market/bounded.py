"""A memory of answers that is bounded by their bytes: a market may have ten ties or a hundred thousand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import update_wrapper
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Remembered(Generic[P, T]):
    """What a function said, the newest answers up to ``most`` bytes; one is always kept."""

    def __init__(self, function: Callable[P, T], most: int, weigh: Callable[[T], int]) -> None:
        update_wrapper(self, function)
        self.function, self.most, self.weigh = function, most, weigh
        self.cache_clear()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what was said before, or ask."""
        key = (args, *sorted(kwargs.items()))
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][0]
        found = self.function(*args, **kwargs)
        weight = self.weigh(found)
        self._kept[key] = found, weight
        self.size += weight
        while self.size > self.most and len(self._kept) > 1:
            self.size -= self._kept.popitem(last=False)[1][1]
        return found

    def __len__(self) -> int:
        return len(self._kept)

    def cache_clear(self) -> None:
        """Forget everything, as ``functools.lru_cache`` has it."""
        self._kept: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self.size = 0


def bounded(most: int, weigh: Callable[[T], int]) -> Callable[[Callable[P, T]], Remembered[P, T]]:
    """Remember what a function of hashable arguments said, in so many bytes."""
    return lambda function: Remembered(function, most, weigh)
