"""A memory of answers that is bounded by their bytes: a market may have ten ties or a hundred thousand."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def bounded(most: int, weigh: Callable[[T], int]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Remember what a function of positional arguments said, the newest up to so many bytes; one is always kept."""

    def remembering(function: Callable[P, T]) -> Callable[P, T]:
        kept: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        size = 0

        @wraps(function)
        def remembered(*args: P.args, **kwargs: P.kwargs) -> T:
            nonlocal size
            key = (args, *sorted(kwargs.items()))
            if key in kept:
                kept.move_to_end(key)
                return kept[key][0]
            found = function(*args, **kwargs)
            weight = weigh(found)
            kept[key] = found, weight
            size += weight
            while size > most and len(kept) > 1:
                size -= kept.popitem(last=False)[1][1]
            return found

        return remembered

    return remembering
