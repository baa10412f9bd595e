"""BERT's forward pass, written once for NumPy and torch: both have the operators used here.

x0 = LN(word + position + type); per layer x = LN(x + O softmax(Q K' / sqrt(d_h) + mask) V) and
x = LN(x + W2 gelu(W1 x)); the sentence vector is the mean of x over its tokens, scaled to unit norm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.encoders.backends import Backend

Weights = Mapping[str, Any]
HEADS = 12
LAYERS = 6
_EPSILON = 1e-12
_HIDDEN = np.float32(-1e9)  # added to the attention scores of padding


def sentence_vectors(weights: Weights, ids: Sequence[Sequence[int]], on: Backend) -> NDArray[np.float32]:
    """Unit vectors of token sequences, padded to the longest of them."""
    longest = max(len(tokens) for tokens in ids)
    padded = np.zeros((len(ids), longest), dtype=np.int64)
    mask = np.zeros((len(ids), longest), dtype=np.float32)
    for row, tokens in enumerate(ids):
        padded[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1.0
    x = _embedded(weights, on.array(padded), longest)
    hidden = on.array((1 - mask)[:, None, None, :] * _HIDDEN)
    for layer in range(LAYERS):
        x = _layer(weights, f"encoder.layer.{layer}", x, hidden, on)
    seen = on.array(mask[:, :, None])
    mean = on.numpy((x * seen).sum(1) / seen.sum(1))
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def _embedded(weights: Weights, ids: Any, longest: int) -> Any:
    at = "embeddings"
    x = weights[f"{at}.word_embeddings.weight"][ids]
    x = x + weights[f"{at}.position_embeddings.weight"][:longest]
    x = x + weights[f"{at}.token_type_embeddings.weight"][0]
    return _normed(weights, f"{at}.LayerNorm", x)


def _layer(weights: Weights, at: str, x: Any, hidden: Any, on: Backend) -> Any:
    attention = f"{at}.attention"
    query, key, value = (
        _heads(_linear(weights, f"{attention}.self.{name}", x)) for name in ("query", "key", "value")
    )
    scores = query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1]) + hidden
    share = on.exp(scores - _highest(scores))
    share = share / share.sum(-1, keepdims=True)
    mixed = (share @ value).swapaxes(1, 2).reshape(x.shape)
    x = _normed(
        weights,
        f"{attention}.output.LayerNorm",
        x + _linear(weights, f"{attention}.output.dense", mixed),
    )
    inner = _linear(weights, f"{at}.intermediate.dense", x)
    inner = inner * (on.erf(inner / math.sqrt(2)) + 1) / 2
    return _normed(weights, f"{at}.output.LayerNorm", x + _linear(weights, f"{at}.output.dense", inner))


def _heads(x: Any) -> Any:
    return x.reshape(x.shape[0], x.shape[1], HEADS, -1).swapaxes(1, 2)


def _highest(scores: Any) -> Any:
    highest = scores.max(-1, keepdims=True)
    return highest if hasattr(highest, "shape") else highest.values  # torch also returns where it is


def _linear(weights: Weights, name: str, x: Any) -> Any:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _normed(weights: Weights, name: str, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / (variance + _EPSILON) ** 0.5 * weights[f"{name}.weight"] + weights[f"{name}.bias"]
