"""What all checkers share: the error they raise, and the small market they try things on."""

from __future__ import annotations

from functools import cache
from typing import Any

from datamarket_gym.conformance.samples import with_content
from datamarket_gym.errors import DataMarketError
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.registry import create, written
from datamarket_gym.tasks.synthetic import Synthetic


class ConformanceError(DataMarketError):
    """A component broke a promise of its plug point."""


def promise(kept: Any, broken: str) -> None:
    """Raise unless the promise was kept."""
    if not kept:
        raise ConformanceError(broken)


def check_written(kind: str, component: Any) -> None:
    """The component's written form reads back as an equal component."""
    promise(
        create(kind, written(component)) == component,
        f"{component!r} does not survive being written as {written(component)!r}",
    )


@cache
def small_market(content: str = "") -> ProviderMarket:
    """Four providers with ten units each; ``content`` ("text" or "image") lets units carry some."""
    draw = Synthetic(n_providers=4, per_provider=10, validation=40).draw(7)
    dataset = with_content(draw.dataset, content) if content else draw.dataset
    return ProviderMarket(dataset, draw.provider_partition, seed=7)
