"""Frozen encoders: texts and images in, embeddings out, with a store keyed by content."""

from datamarket_gym.market.encoders import minilm, resnet18
from datamarket_gym.market.encoders.base import ContentError, Encoder, stored

__all__ = [
    "ContentError",
    "Encoder",
    "minilm",
    "resnet18",
    "stored",
]
