"""The file in which the running sums of a long estimation are kept.

The file is whole at every moment. It carries a key made of
everything the result depends on; a file with another key is refused, never silently mixed in.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.files import replacing
from datamarket_gym.semivalues.sampling import Moments

ARRAYS = ("total", "squares", "lowest", "highest", "weight")


class Checkpoint:
    """Where `Moments` are kept between batches; without a path, nowhere."""

    def __init__(self, path: str | None, *parts: object) -> None:
        self.path = None if path is None else Path(path)
        self.key = hashlib.sha256(repr(parts).encode()).hexdigest()

    def load(self, rng: np.random.Generator) -> tuple[Moments, int] | None:
        """The sums and evaluations so far, and the generator set; None without a file."""
        if self.path is None or not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as kept:
                fields = {name: kept[name] for name in kept.files}
            key, evaluations = str(fields["key"]), int(fields["evaluations"])
            kept_moments = Moments(**{name: fields[name] for name in ARRAYS}, count=int(fields["count"]))
            state = json.loads(str(fields["generator"]))
        except (OSError, ValueError, KeyError, BadZipFile) as error:
            raise ParameterError(
                "checkpoint",
                str(self.path),
                f"not a checkpoint ({error}); delete it or name another",
            ) from error
        if key != self.key:
            raise ParameterError(
                "checkpoint",
                str(self.path),
                "it belongs to another game, seed, budget or parameters; delete it or name another",
            )
        rng.bit_generator.state = state
        return kept_moments, evaluations

    def save(self, moments: Moments, rng: np.random.Generator, evaluations: int) -> None:
        """Write the sums to the file."""
        if self.path is None:
            return
        with replacing(self.path) as part, part.open("wb") as file:
            np.savez(
                file,
                key=self.key,
                **{name: getattr(moments, name) for name in ARRAYS},
                count=moments.count,
                evaluations=evaluations,
                generator=json.dumps(rng.bit_generator.state),
            )
