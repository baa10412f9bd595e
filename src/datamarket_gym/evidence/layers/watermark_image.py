"""Watermarks in images: a spread-spectrum pattern in the middle frequencies of the luminance.

On a 64 x 64 thumbnail, two noise patterns drawn from the secret are added with equal weight: a pilot, and a
message shifted cyclically against it by a multiple of two pixels down and right. The shift is the number.
The detector correlates the phases of the image with both patterns (phases alone, so that what is in the
picture weighs little): the pilot's peak says where the pattern lies, also in a window cut out of the image and
in its mirror images, and the message's peak, counted from there, the number. Under random phases each correlation is a
standard normal, and the two peaks' sum over sqrt 2 is the score that a mark must reach. The pattern is made
as strong as the image needs for a score of ``TARGET``: busy images take more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.parameters import Range
from datamarket_gym.core.registry import register
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View
from datamarket_gym.evidence.layers.content import raw_content
from datamarket_gym.evidence.layers.marks import KEY, keyed, require_number, same_mark, secret
from datamarket_gym.world.encoders.base import ContentError
from datamarket_gym.world.encoders.pixels import open_image, to_bytes

IMAGE_NUMBERS = 1024
TARGET = 12.0
SCORE = 7.6

_SIDE = 64
_CELL = 2  # pixels between the shifts of two numbers
_GRID = _SIDE // _CELL
_LOWEST, _NARROW, _WIDE = 4, 15, 28  # cycles per image
_LARGE = 48  # pixels: a smaller image holds no more than the narrow band
_WINDOWS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75)  # shares of a side that a cut may have left
_FIRST, _STEP, _MOST = 3.0, 1.2, 16.0  # strengths tried, in grey levels

_BACK = -np.arange(_SIDE) % _SIDE

Spectrum = NDArray[np.complex128]


@dataclass(frozen=True)
class ImageMark:
    """The best reading of an image: a number, and the score that says whether it is one at all."""

    number: int
    score: float


def mark_image(image: bytes, key: bytes, number: int) -> bytes:
    """The image as a PNG file, hardly changed, with a number under the operator's secret."""
    from PIL import Image

    require_number(number, IMAGE_NUMBERS)
    opened = open_image(image)
    pixels = np.asarray(opened, dtype=np.float64)
    pilot, message = _patterns(key)
    shift = (number // _GRID * _CELL, number % _GRID * _CELL)
    moved = np.fft.fft2(np.roll(np.fft.ifft2(message).real, shift, axis=(0, 1)))
    wave = np.fft.ifft2(np.where(_bands(opened)[-1], pilot + moved, 0)).real
    small = Image.fromarray((wave / wave.std()).astype(np.float32))
    pattern = np.asarray(small.resize(opened.size, Image.Resampling.BICUBIC))[..., None]
    strength = _FIRST
    while True:
        marked = Image.fromarray(np.clip(np.round(pixels + strength * pattern), 0, 255).astype(np.uint8))
        found = read_mark(marked, key)
        if found.number == number and found.score >= TARGET:
            return to_bytes(marked)
        if strength >= _MOST:
            break
        strength *= _STEP
    if found.number != number or found.score < SCORE:
        width, height = opened.size
        raise SubmissionError(
            f"this image of {width} x {height} pixels is too small or too busy to bear a mark; leave it out"
        )
    return to_bytes(marked)


def mark_in_image(image: bytes, key: bytes, score: float = SCORE) -> int | None:
    """The number of the mark that was made with the secret; None where there is none."""
    found = read_mark(open_image(image), key)
    return found.number if found.score >= score else None


def read_mark(image: Any, key: bytes) -> ImageMark:
    """The best reading over windows, bands and mirror images, left to right and upside down."""
    pilot, message = (np.conj(pattern) for pattern in _patterns(key))
    best = ImageMark(0, -np.inf)
    for window in _WINDOWS:
        spectrum = np.fft.fft2(_thumbnail(image, window))
        phase = spectrum / np.maximum(np.abs(spectrum), 1e-9)
        # The spectrum of a mirror image is the mirrored spectrum; the shift between the two is the pilot's.
        for view in (phase, phase[:, _BACK], phase[_BACK], np.conj(phase)):
            for band in _bands(image):
                found = _reading(np.where(band, view, 0), pilot, message, int(band.sum()))
                best = max(best, found, key=lambda mark: mark.score)
    return best


def _reading(phase: Spectrum, pilot: Spectrum, message: Spectrum, size: int) -> ImageMark:
    scale = _SIDE * _SIDE / np.sqrt(size)
    where = np.fft.ifft2(phase * pilot).real * scale
    what = np.fft.ifft2(phase * message).real * scale
    row, column = divmod(int(where.argmax()), _SIDE)
    shifts = np.roll(what, (-row, -column), axis=(0, 1))[::_CELL, ::_CELL]
    number = int(shifts.argmax())
    return ImageMark(number, float((where[row, column] + shifts.flat[number]) / np.sqrt(2)))


def _thumbnail(image: Any, window: float) -> NDArray[np.float64]:
    """Luminance about its mean; of a window, at the size it had in the whole, the rest blank."""
    from PIL import Image

    side = round(_SIDE * window)
    small = image.convert("L").resize((side, side), Image.Resampling.BICUBIC)
    out = np.zeros((_SIDE, _SIDE))
    out[:side, :side] = np.asarray(small, dtype=np.float64)
    out[:side, :side] -= out[:side, :side].mean()
    return out


@cache
def _band(highest: int) -> NDArray[np.bool_]:
    cycles = np.fft.fftfreq(_SIDE) * _SIDE
    radius = np.hypot(cycles[:, None], cycles[None, :])
    return (radius >= _LOWEST) & (radius <= highest)


def _bands(image: Any) -> list[NDArray[np.bool_]]:
    wide = [_band(_WIDE)] if min(image.size) >= _LARGE else []
    return [_band(_NARROW), *wide]


@cache
def _patterns(key: bytes) -> tuple[Spectrum, Spectrum]:
    """Spectra of magnitude one and random phases, drawn from the secret."""
    found = []
    for name in ("pilot", "message"):
        seed = int.from_bytes(keyed(key, "image", name), "big")
        spectrum = np.fft.fft2(np.random.default_rng(seed).normal(size=(_SIDE, _SIDE)))
        found.append(spectrum / np.abs(spectrum))
    return found[0], found[1]


@register("evidence", "watermark_image")
@dataclass(frozen=True)
class WatermarkImage(EvidenceLayer):
    """Ties images that bear the same number of the operator's, read with a score of at least ``score``.

    ``key`` names the environment variable of the secret.
    """

    score: Annotated[float, Range(0, open_low=True)] = SCORE
    key: str = KEY
    needs_content: ClassVar[str] = "image"

    def edges(self, view: View) -> Edges:
        """A star per number."""
        key = secret(self.key)
        rows, images = raw_content(view.submission, "image", "watermark_image")
        found = []
        for row, image in zip(rows.tolist(), images.tolist(), strict=True):
            try:
                number = mark_in_image(image, key, self.score)
            except ContentError as error:
                raise SubmissionError(f"unit {str(view.submission.id[row])!r}: {error.why}") from error
            found.append(set() if number is None else {number})
        return same_mark(rows, found, "watermark_image")
