"""The evidence layers: content, texts, images, metadata, accounts, and the oracles of experiments."""

from datamarket_gym.evidence.layers import content, hybrids, linkage, metadata, minhash, perceptual
from datamarket_gym.evidence.layers import oracle as oracles

__all__ = [
    "content",
    "hybrids",
    "linkage",
    "metadata",
    "minhash",
    "oracles",
    "perceptual",
]
