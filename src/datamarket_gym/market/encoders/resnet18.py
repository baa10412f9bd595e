"""ResNet-18 trained on ImageNet, without its classifier: 512 pooled numbers per image, not normalised.

Weights are an ``.npz`` with torchvision's keys. Batch norm is folded into the convolutions when they
are loaded: w' = w g / sqrt(var + eps), b' = beta - mean g / sqrt(var + eps). Images are resized to
224 x 224 by Pillow's bilinear filter and standardised by ImageNet's mean and deviation.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import DataMarketError, require_extra
from datamarket_gym.market.datasets import data_file
from datamarket_gym.market.encoders.base import Encoder, file_digest, resized, torch_device
from datamarket_gym.registry import OneOf, register

FILE = "resnet18_imagenet.npz"
SIZE = 224
_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)[:, None, None]
_DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)[:, None, None]
_EPSILON = 1e-5

Convolution = tuple[Any, Any]  # weight and bias


@register("encoder", "resnet18")
@dataclass(frozen=True)
class ResNet18(Encoder):
    """ImageNet ResNet-18, 512 pooled numbers per image, not normalised; needs torch."""

    title = "ResNet-18 features"

    device: Annotated[str, OneOf("auto", "cpu", "cuda")] = "auto"
    kind: ClassVar[str] = "image"
    costly: ClassVar[bool] = True

    @property
    def identity(self) -> str:
        return f"resnet18-{file_digest(data_file(FILE))}"

    def prepare(self, item: Any, row: int) -> NDArray[np.float32]:
        return (resized(item, row, SIZE) - _MEAN) / _DEVIATION

    def forward(self, prepared: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        require_extra("torch", "torch")
        import torch

        where = torch_device(self.device)
        network = _network(data_file(FILE), where)
        with torch.inference_mode():
            pooled = _pooled(network, torch.from_numpy(np.stack(prepared)).to(where))
        out: NDArray[np.float32] = pooled.cpu().numpy()
        return out


@lru_cache(maxsize=2)
def _network(path: Path, where: str) -> dict[str, Convolution]:
    import torch

    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        folded = folded_convolutions(arrays)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataMarketError(
            f"{str(path)!r} is no ResNet-18 in torchvision's layout: {error!r}"
        ) from error
    return {
        name: (torch.from_numpy(weight).to(where), torch.from_numpy(bias).to(where))
        for name, (weight, bias) in folded.items()
    }


def folded_convolutions(
    arrays: Mapping[str, NDArray[Any]],
) -> dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Return weight and bias of every convolution with its batch norm folded in, by torchvision's name."""
    out = {}
    for conv, norm in _convolutions():
        scale = arrays[f"{norm}.weight"] / np.sqrt(arrays[f"{norm}.running_var"] + _EPSILON)
        weight = arrays[f"{conv}.weight"] * scale[:, None, None, None]
        bias = arrays[f"{norm}.bias"] - arrays[f"{norm}.running_mean"] * scale
        out[conv] = (weight.astype(np.float32), bias.astype(np.float32))
    return out


def _convolutions() -> list[tuple[str, str]]:
    names = [("conv1", "bn1")]
    for layer in range(1, 5):
        for block in range(2):
            at = f"layer{layer}.{block}"
            names += [(f"{at}.conv1", f"{at}.bn1"), (f"{at}.conv2", f"{at}.bn2")]
            if layer > 1 and block == 0:
                names.append((f"{at}.downsample.0", f"{at}.downsample.1"))
    return names


def _pooled(network: Mapping[str, Convolution], x: Any) -> Any:
    from torch.nn import functional

    def convolve(name: str, x: Any, stride: int = 1) -> Any:
        weight, bias = network[name]
        return functional.conv2d(x, weight, bias, stride, padding=weight.shape[-1] // 2)

    x = functional.max_pool2d(convolve("conv1", x, 2).relu_(), 3, 2, padding=1)
    for layer in range(1, 5):
        for block in range(2):
            at, stride = f"layer{layer}.{block}", 2 if layer > 1 and block == 0 else 1
            shortcut = convolve(f"{at}.downsample.0", x, stride) if stride == 2 else x
            x = convolve(f"{at}.conv2", convolve(f"{at}.conv1", x, stride).relu_())
            x = (x + shortcut).relu_()
    return x.mean((2, 3))
