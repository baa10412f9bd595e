"""Image augmentation by rule, at three strengths; deterministic given the generator.

Sizes are relative to the image's, so that small and large images change alike to the eye.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from datamarket_gym.world.encoders.pixels import open_image, to_bytes

Rule = Callable[[Any, int, np.random.Generator], Any]


def augmented(image: bytes, how: str, strength: int, rng: np.random.Generator) -> bytes:
    """An image file with one rule applied, as a PNG file."""
    return to_bytes(RULES[how](open_image(image), strength, rng))


def flip(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Mirror left to right, top to bottom, or both."""
    from PIL import ImageOps

    mirrored = ImageOps.flip(image) if strength == 2 else ImageOps.mirror(image)
    return ImageOps.flip(mirrored) if strength == 3 else mirrored


def crop(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Keep a random window of 90, 75 or 50 percent of each side, scaled back up."""
    keep = (0.9, 0.75, 0.5)[strength - 1]
    width, height = round(keep * image.width), round(keep * image.height)
    left = int(rng.integers(image.width - width + 1))
    top = int(rng.integers(image.height - height + 1))
    return _back(image.crop((left, top, left + width, top + height)), image)


def colour(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Change brightness, contrast and saturation, each up or down by 10, 30 or 60 percent."""
    from PIL import ImageEnhance

    for change in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        factor = 1 + (0.1, 0.3, 0.6)[strength - 1] * (1 if rng.uniform() < 0.5 else -1)
        image = change(image).enhance(factor)
    return image


def jpeg(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Compress as JPEG of quality 75, 40 or 10."""
    out = io.BytesIO()
    image.save(out, format="JPEG", quality=(75, 40, 10)[strength - 1])
    return open_image(out.getvalue())


def blur(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Gaussian blur of radius 2, 4 or 8 percent of the width."""
    from PIL import ImageFilter

    return image.filter(ImageFilter.GaussianBlur((0.02, 0.04, 0.08)[strength - 1] * image.width))


def noise(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Gaussian noise of 5, 15 or 40 grey levels on every pixel."""
    from PIL import Image

    pixels = np.asarray(image, dtype=np.float64)
    noisy = pixels + rng.normal(scale=(5, 15, 40)[strength - 1], size=pixels.shape)
    return Image.fromarray(np.clip(np.round(noisy), 0, 255).astype(np.uint8))


def rotate(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Rotate by 3, 8 or 20 degrees and cut the corners away."""
    from PIL import Image

    angle = (3, 8, 20)[strength - 1] * (1 if rng.uniform() < 0.5 else -1)
    turned = image.rotate(angle, resample=Image.Resampling.BILINEAR)
    radians = np.deg2rad(abs(angle))
    keep = 1 / (np.cos(radians) + np.sin(radians))  # the square that fits into the turned square
    x, y = (1 - keep) / 2 * image.width, (1 - keep) / 2 * image.height
    return _back(
        turned.crop((round(x), round(y), round(image.width - x), round(image.height - y))), image
    )


def mixed(image: Any, strength: int, rng: np.random.Generator) -> Any:
    """Crop, colour, rotation, noise and JPEG at once, each at this strength."""
    for rule in (crop, colour, rotate, noise, jpeg):
        image = rule(image, strength, rng)
    return image


def _back(part: Any, image: Any) -> Any:
    from PIL import Image

    return part.resize(image.size, Image.Resampling.BICUBIC)


RULES: dict[str, Rule] = {
    rule.__name__: rule for rule in (flip, crop, colour, jpeg, blur, noise, rotate, mixed)
}
"""All rules by name."""
