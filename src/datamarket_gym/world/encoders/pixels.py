"""Image files to pixels: decoded by Pillow, every fault reported with the number of the item."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.extras import require_extra
from datamarket_gym.world.encoders.base import ContentError

LARGEST = 64_000_000  # pixels; a small file may claim to unfold into gigabytes


def open_image(item: Any, row: int = 0) -> Any:
    """An RGB image from the bytes of an image file."""
    require_extra("PIL", "images")
    from PIL import Image, UnidentifiedImageError

    if not isinstance(item, bytes | bytearray):
        raise ContentError(row, f"{type(item).__name__} is no image; give the bytes of an image file")
    try:
        image = Image.open(io.BytesIO(item))
        if image.width * image.height > LARGEST:
            raise ContentError(
                row, f"the image has {image.width} x {image.height} pixels; scale it down"
            )
        return image.convert("RGB")
    except UnidentifiedImageError as error:
        why = f"{len(item)} bytes that are no image; remove the unit"
        if bytes(item[4:8]) == b"ftyp":  # the family of HEIC and AVIF, whatever the file is called
            why = "a photograph in a format that is not read (HEIC or the like); save it as .jpg or .png"
        raise ContentError(row, why) from error
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise ContentError(row, f"the image is corrupt ({error}); remove the unit") from error


def resized(item: Any, row: int, size: int) -> NDArray[np.float32]:
    """Pixels in [0, 1], shape (3, size, size), resized by Pillow's bilinear filter."""
    image = open_image(item, row)
    from PIL import Image

    image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / np.float32(255)


def to_bytes(image: Any) -> bytes:
    """An image as a PNG file."""
    out = io.BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()
