"""The evidence layers: content, texts, images, accounts, and the oracles of experiments."""

from datamarket_gym.evidence.layers import content, hybrids, linkage, minhash, oracles, perceptual

__all__ = ["content", "hybrids", "linkage", "minhash", "oracles", "perceptual"]
