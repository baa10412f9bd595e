"""Small content to try things on: sentences and tiny pictures that say something about their rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.encoders.base import Encoder
from datamarket_gym.encoders.pixels import to_bytes
from datamarket_gym.registry import create
from datamarket_gym.tasks.dataset import Dataset
from datamarket_gym.typing import Features

ENCODERS = {"text": "ngrams", "image": "thumbnail"}
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
    encoder: Encoder = create("encoder", ENCODERS[kind])
    content = samples(kind, dataset.features)
    return replace(
        dataset,
        features=encoder.encode(content.tolist()),
        validation_features=encoder.encode(samples(kind, dataset.validation_features).tolist()),
        content={kind: content},
        encoder=ENCODERS[kind],
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
