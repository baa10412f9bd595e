"""The evidence layers: content, texts, images, watermarks, accounts, and the oracles of experiments."""

from datamarket_gym.evidence.layers import (
    content,
    hybrids,
    linkage,
    minhash,
    oracles,
    perceptual,
    watermark_image,
    watermark_text,
)

__all__ = [
    "content",
    "hybrids",
    "linkage",
    "minhash",
    "oracles",
    "perceptual",
    "watermark_image",
    "watermark_text",
]
