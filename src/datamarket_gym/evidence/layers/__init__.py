"""The evidence layers: content and metadata, texts, images, accounts, and the oracles of experiments."""

from datamarket_gym.evidence.layers import content, linkage, minhash, oracle, perceptual

__all__ = ["content", "linkage", "minhash", "oracle", "perceptual"]
