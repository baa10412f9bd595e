"""Frozen encoders: texts and images in, embeddings out, with a store keyed by content."""

from datamarket_gym.market.encoders import minilm, resnet18
from datamarket_gym.market.encoders.base import (
    ContentError,
    EmbeddingStore,
    Encoder,
    StoredEncoder,
    stored,
)

__all__ = [
    "ContentError",
    "EmbeddingStore",
    "Encoder",
    "StoredEncoder",
    "minilm",
    "resnet18",
    "stored",
]
