"""What all validators share: the error they raise, the small market they try things on, and its content.

Payments may promise budget balance and individual rationality besides. Budget balance: payments sum to the value
created, v(all). Shapley keeps it, and any semivalue once it is normalised; raw Banzhaf, Beta and leave-one-out do not.
Individual rationality: no identity is paid less than nothing. A semivalue breaks it where a unit lowers the value;
`floored` repairs it. Both can be checked of any payments that have ``totals`` and ``grand_value``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.arrays import Features
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.encoders.base import ENCODERS, to_bytes
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks.base import TASKS, Dataset
from datamarket_gym.mechanism.allocation import PaidTotals
from datamarket_gym.mechanism.own_mechanism import Payer
from datamarket_gym.mechanism.pipeline import as_mechanism
from datamarket_gym.registry import create, written
from datamarket_gym.utilities.oracle import Utility


class ConformanceError(DataMarketError):
    """A component broke a promise of its plug point."""


def promise(holds: Any, broken: str) -> None:
    if not holds:
        raise ConformanceError(broken)


def check_written(kind: str, component: Any) -> None:
    promise(
        create(kind, written(component)) == component,
        f"{component!r} does not survive being written as {written(component)!r}",
    )


_COLUMNS = (
    "id", "identity", "features", "label", "embedding", "source", "batch", "time", "licence",
)  # fmt: skip


def changed(one: Submission, other: Submission) -> str:
    """Return the first column in which two submissions differ, row by row; "" where they are the same."""
    a, b = ({**{n: getattr(s, n) for n in _COLUMNS}, **s.metadata} for s in (one, other))
    both = a.keys() & b.keys()
    return next((n for n in {**a, **b} if n not in both or not np.array_equal(a[n], b[n])), "")


@cache
def small_market(content: str = "", labels: bool = True) -> ProviderMarket:
    """Return a `fresh_market` that is made once; not for tests that might write into it."""
    return fresh_market(content, labels)


def fresh_market(content: str = "", labels: bool = True) -> ProviderMarket:
    """Make four providers with ten units each; ``content`` ("text" or "image") lets units carry some."""
    task = "synthetic(n_providers=4, per_provider=10, validation=40)"
    draw = TASKS.create(task if labels else {"name": "without_labels", "of": task}).draw(7)
    dataset = with_content(draw.dataset, content) if content else draw.dataset
    return ProviderMarket(dataset, draw.provider_partition, seed=7)


SAMPLE_ENCODERS = {"text": "ngrams", "image": "thumbnail"}
_WORDS = (
    "market", "game", "movie", "company", "police", "season", "price", "story", "world", "team",
    "computer", "space", "show", "minister", "phone", "money", "city", "child", "report", "victory",
)  # fmt: skip


def samples(kind: str, features: Features) -> NDArray[Any]:
    make = _text if kind == "text" else _image
    return np.array([make(row) for row in features], dtype=object)


def with_content(dataset: Dataset, kind: str) -> Dataset:
    name = SAMPLE_ENCODERS[kind]
    content, validation = (samples(kind, x) for x in (dataset.features, dataset.validation_features))
    features, rows = (ENCODERS.create(name).encode(items.tolist()) for items in (content, validation))
    return replace(
        dataset, features=features, validation_features=rows, content={kind: content}, encoder=name
    )


def _text(row: Features) -> str:
    words = [_WORDS[i % len(_WORDS)] for i in np.argsort(row)]
    figures = [f"{words[i]} number {abs(row[i]) * 100:.0f}." for i in range(0, len(row), 3)]
    return " ".join([*words, *figures]).capitalize()


def _image(row: Features) -> bytes:
    from PIL import Image

    x, y = np.meshgrid(np.linspace(0, 3, 24), np.linspace(0, 3, 24))
    waves = [np.sin(row[i] * x + row[i + 1] * y + row[i + 2]) for i in (0, 3, 6)]
    pixels = np.stack(waves, axis=-1) * 100 + 128
    return to_bytes(Image.fromarray(pixels.astype(np.uint8)))


TOLERANCE = 1e-9
"""Of the value of all data, or of 1 where that is smaller: what rounding may leave."""

_TRIED = ("honest", "near_duplicate_2x_sybils@0.001", "label_poisoning")


def budget_gap(payments: PaidTotals) -> float:
    """Compute the sum of payments less v(all); above zero more is paid out than was created.

    Parameters
    ----------
    payments
        The payments.

    Returns
    -------
    float
    """
    return float(payments.totals.sum()) - payments.grand_value


def budget_balanced(payments: PaidTotals, tolerance: float = TOLERANCE) -> bool:
    """Tell if payments sum to v(all).

    Parameters
    ----------
    payments, tolerance
        The payments, and by how much they may differ.

    Returns
    -------
    bool
    """
    return abs(budget_gap(payments)) <= tolerance * max(1.0, abs(payments.grand_value))


def individually_rational(payments: PaidTotals, tolerance: float = TOLERANCE) -> bool:
    """Tell if no identity is paid less than nothing.

    Parameters
    ----------
    payments, tolerance
        The payments, and by how much they may be below zero.

    Returns
    -------
    bool
    """
    return bool((payments.totals >= -tolerance * max(1.0, abs(payments.grand_value))).all())


def validate_budget_balance(mechanism: Payer, tolerance: float = TOLERANCE) -> None:
    """Validate that on a small market, honest, copied and poisoned, the payments sum to v(all).

    Parameters
    ----------
    mechanism, tolerance
        The mechanism, and by how much they may differ.
    """
    for attack, paid in _trials(mechanism):
        promise(
            budget_balanced(paid, tolerance),
            f"after {attack} the payments sum to {paid.totals.sum():.6g}, all data are worth "
            f"{paid.grand_value:.6g}; use Shapley, or normalize",
        )


def validate_individual_rationality(mechanism: Payer, tolerance: float = TOLERANCE) -> None:
    """Validate that on a small market, honest, copied and poisoned, no identity is paid below zero.

    Parameters
    ----------
    mechanism, tolerance
        The mechanism, and by how much payments may be below zero.
    """
    for attack, paid in _trials(mechanism):
        promise(
            individually_rational(paid, tolerance),
            f"after {attack} an identity is paid {paid.totals.min():.6g}, less than by staying away; "
            "raise negative scores to zero (floored)",
        )


def _trials(mechanism: Payer) -> list[tuple[str, PaidTotals]]:
    market = small_market()
    oracle = market.utility_oracle(Utility("knn@3", "chance"))
    profiles = [(name, ATTACKS.create(name).apply(0, market.state)) for name in _TRIED]
    payer = as_mechanism(mechanism)
    return [(name, payer.pay(p.submission, oracle, p.truth)) for name, p in profiles]
