"""What all checkers share: the error they raise, the small market they try things on, and its content:
sentences and tiny pictures that say something about their rows.

What payments may promise besides: budget balance and individual rationality.

Budget balance: payments sum to the value created, v(all). Shapley keeps it, and any semivalue once it is
normalised; raw Banzhaf, Beta and leave-one-out do not. Individual rationality: nobody is paid less than by
staying away, which is nothing. A semivalue breaks it where a unit lowers the value; `floored` repairs it.
Both can be asked of any payments that have ``totals`` and ``grand_value``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.arrays import Features, Values
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.encoders.base import ENCODERS, to_bytes
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks.base import TASKS, Dataset
from datamarket_gym.mechanism.external import Payer
from datamarket_gym.mechanism.pipeline import as_mechanism
from datamarket_gym.registry import create, written
from datamarket_gym.utilities.oracle import Utility


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


_COLUMNS = (
    "id", "identity", "features", "label", "embedding", "source", "batch", "time", "licence",
)  # fmt: skip


def changed(one: Submission, other: Submission) -> str:
    """The first column in which two submissions differ, row by row; nothing where they are the same."""
    for name in _COLUMNS:
        if not np.array_equal(getattr(one, name), getattr(other, name)):
            return name
    names = [*one.metadata, *(name for name in other.metadata if name not in one.metadata)]
    both = one.metadata.keys() & other.metadata.keys()
    return next(
        (n for n in names if n not in both or not np.array_equal(one.metadata[n], other.metadata[n])), ""
    )


@cache
def small_market(content: str = "", labels: bool = True) -> ProviderMarket:
    """A `fresh_market` that is made once; not for whoever might write into it."""
    return fresh_market(content, labels)


def fresh_market(content: str = "", labels: bool = True) -> ProviderMarket:
    """Four providers with ten units each; ``content`` ("text" or "image") lets units carry some."""
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
    """A text or an image (as bytes) per row."""
    out = np.empty(len(features), dtype=object)
    out[:] = [_text(row) if kind == "text" else _image(row) for row in features]
    return out


def with_content(dataset: Dataset, kind: str) -> Dataset:
    """The dataset with content of a kind, and the content's embeddings for features."""
    encoder = ENCODERS.create(SAMPLE_ENCODERS[kind])
    content = samples(kind, dataset.features)
    return replace(
        dataset,
        features=encoder.encode(content.tolist()),
        validation_features=encoder.encode(samples(kind, dataset.validation_features).tolist()),
        content={kind: content},
        encoder=SAMPLE_ENCODERS[kind],
    )


def _text(row: Features) -> str:
    order = np.argsort(row)
    words = [_WORDS[i % len(_WORDS)] for i in order]
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


class HasTotals(Protocol):
    """Payments: an amount per identity, and what all data together are worth."""

    @property
    def totals(self) -> Values:
        """Amount per identity."""

    @property
    def grand_value(self) -> float:
        """v(all)."""


def budget_gap(payments: HasTotals) -> float:
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


def budget_balanced(payments: HasTotals, tolerance: float = TOLERANCE) -> bool:
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


def individually_rational(payments: HasTotals, tolerance: float = TOLERANCE) -> bool:
    """Tell if nobody is paid less than nothing.

    Parameters
    ----------
    payments, tolerance
        The payments, and by how much they may be below zero.

    Returns
    -------
    bool
    """
    lowest = float(np.min(payments.totals, initial=0.0))
    return lowest >= -tolerance * max(1.0, abs(payments.grand_value))


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
    """Validate that on a small market, honest, copied and poisoned, nobody is paid below zero.

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


def _trials(mechanism: Payer) -> list[tuple[str, HasTotals]]:
    market = small_market()
    oracle = market.utility_oracle(Utility("knn@3", "chance"))
    profiles = [(name, ATTACKS.create(name).apply(0, market.state)) for name in _TRIED]
    payer = as_mechanism(mechanism)
    return [(name, payer.pay(p.submission, oracle, p.truth)) for name, p in profiles]
