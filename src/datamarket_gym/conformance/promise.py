"""What all checkers share: the error they raise, the small market they try things on, and its content:
sentences and tiny pictures that say something about their rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.registry import create, written
from datamarket_gym.units.submission import Submission
from datamarket_gym.world.encoders.base import ENCODERS
from datamarket_gym.world.encoders.pixels import to_bytes
from datamarket_gym.world.market import ProviderMarket
from datamarket_gym.world.tasks.base import TASKS, Dataset


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
