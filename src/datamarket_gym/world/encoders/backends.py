"""The array library a model runs on: torch where it is installed (CPU or GPU), NumPy otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.errors import ParameterError, require_choice
from datamarket_gym.world.encoders.base import missing

DEVICES = ("auto", "cpu", "cuda", "numpy")


@dataclass(frozen=True)
class Backend:
    """The few operations that differ between libraries; everything else is written the same."""

    array: Callable[[NDArray[Any]], Any]
    numpy: Callable[[Any], NDArray[Any]]
    exp: Callable[[Any], Any]
    erf: Callable[[Any], Any]


def backend(device: str) -> Backend:
    """The backend of a device: ``auto`` takes a GPU if there is one, and NumPy without torch."""
    require_choice("device", device, DEVICES)
    if device == "numpy" or (device == "auto" and find_spec("torch") is None):
        from scipy.special import erf

        return Backend(np.asarray, np.asarray, np.exp, erf)
    import_torch()
    import torch

    where = torch_device(device)
    return Backend(
        lambda a: torch.from_numpy(np.ascontiguousarray(a)).to(where),
        lambda t: t.detach().cpu().numpy(),
        torch.exp,
        torch.special.erf,
    )


def torch_device(device: str) -> str:
    """``cpu`` or ``cuda``; an error where a GPU was asked for and there is none."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise ParameterError("device", device, "there is no GPU here; use cpu")
    return "cuda" if device in ("auto", "cuda") and torch.cuda.is_available() else "cpu"


def import_torch() -> None:
    """An error that says what to install where torch is missing."""
    if find_spec("torch") is None:
        raise missing("torch", "torch")


@cache
def file_digest(path: Path) -> str:
    """Sha256 of a weights file, shortened: part of an encoder's identity."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
