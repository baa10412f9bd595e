"""What units hold, as somebody who checks them looks at it: a text, a picture, or numbers; and as a page shows it."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.payout.images import image_bytes
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.stages import Places
from datamarket_gym.units.readers.tables import Table
from datamarket_gym.world.encoders import ContentError
from datamarket_gym.world.encoders.pixels import open_image

FEW = 12  # numbers that are written out; more are drawn
_POINTS, _WIDTH, _HEIGHT = 64, 256, 40
_SIDES = ((400, 360), (2000, 224))  # up to so many pictures, so many pixels a side
_LEAST_SIDE = 96


@dataclass(frozen=True)
class UnitContent:
    """A unit's label (empty where it has none) and payload; the first of text, picture and numbers is shown."""

    label: str
    numbers: Values
    text: str | None = None
    image: bytes | None = None


def unit_contents(results: Results, places: Places, rows: Iterable[int]) -> dict[int, UnitContent]:
    """The content of some units of a run, by their places among the units that played."""
    submission, wanted = results.inputs.submission, sorted(set(rows))
    text = submission.metadata.get("text")
    images: dict[int, bytes] = {}
    if shows_images(results, places):
        images = unit_images(results.spec, results.inputs.ids, places.submissions, wanted)
    return {
        row: UnitContent(
            str(submission.label[row]),
            submission.features[row],
            None if text is None else str(text[row]),
            images.get(row),
        )
        for row in wanted
    }


def shows_images(results: Results, places: Places) -> bool:
    """Whether the units of a run are pictures."""
    spec = results.spec
    return places.submissions.is_dir() or (
        spec.columns.image is not None and spec.files.images is not None
    )


def shown(content: UnitContent, longest: int, side: int) -> dict[str, Any]:
    """A content as plain values for a page: ``text``, ``image`` (a data URI), ``figures`` or ``path`` (a curve)."""
    label = visible(content.label)
    if content.text is not None:
        return {"label": label, "text": visible_text(content.text, longest)}
    if content.image is not None:
        return {"label": label, **_picture(content.image, side)}
    numbers = content.numbers
    if len(numbers) <= FEW:
        return {"label": label, "figures": [f"{v:.4g}" for v in numbers]}
    return {"label": label, "path": curve(numbers), "count": f"{len(numbers):,}"}


def visible_text(text: str, longest: int) -> str:
    """A text as people may see it: lines stay, what cannot be seen or reorders is spelled out, long ones are cut."""
    some = text[:longest].replace("\r\n", "\n").expandtabs(4)
    lines = "\n".join(visible(line, longest + 1) for line in some.split("\n"))
    return lines if len(text) <= longest else f"{lines}… ({len(text):,} characters)"


def side_for(pictures: int) -> int:
    """How many pixels a side pictures may have, so that a page with so many stays light."""
    return next((side for most, side in _SIDES if pictures <= most), _LEAST_SIDE)


def curve(numbers: Values) -> str:
    """Numbers as the path of a small drawing, at most 64 points: neighbouring ones are averaged."""
    start = np.arange(min(len(numbers), _POINTS)) * len(numbers) // min(len(numbers), _POINTS)
    heights = np.add.reduceat(numbers, start) / np.diff(np.r_[start, len(numbers)])
    span = heights.max() - heights.min()
    level = np.full(len(heights), 0.5) if not span > 0 else (heights - heights.min()) / span
    y = (2 + (1 - level) * (_HEIGHT - 4)).round().astype(int).tolist()
    return "M" + "L".join(map("{} {}".format, _across(len(level)), y))


@cache
def _across(points: int) -> list[int]:
    """So many points from the left to the right."""
    across: list[int] = np.linspace(0, _WIDTH, points).round().astype(int).tolist()
    return across


def _picture(image: bytes, side: int) -> dict[str, str]:
    """The picture drawn anew: nothing of the file but its pixels gets into the page."""
    try:
        opened = open_image(image)
    except ContentError as error:
        return {"text": f"The picture cannot be shown: {visible(error.why, 200)}."}
    from PIL import Image

    small = max(opened.size) <= 64
    opened.thumbnail((side, side))
    out = io.BytesIO()
    drawn = Image.fromarray(
        np.asarray(opened)
    )  # comments, positions and profiles of the file stay behind
    drawn.save(out, format="PNG" if small else "JPEG", **({} if small else {"quality": 72}))
    kind = "png" if small else "jpeg"
    return {"image": f"data:image/{kind};base64,{base64.b64encode(out.getvalue()).decode()}"}


def unit_images(
    spec: PayoutSpec, ids: Sequence[str], submissions: Path, rows: Sequence[int]
) -> dict[int, bytes]:
    """The image files of some of the units, whose names are ``ids``, of a run that is paid for images."""
    if submissions.is_dir():
        names, folder = [ids[row] for row in rows], submissions
    else:
        file_of = _image_names(spec, submissions)
        names, folder = [file_of[ids[row]] for row in rows], Path(str(spec.files.images))
    return dict(zip(rows, image_bytes(folder, names), strict=True))


def _image_names(spec: PayoutSpec, submissions: Path) -> dict[str, str]:
    """The name of each unit's image file, by the unit's name."""
    table, columns = Table.open(submissions), spec.columns
    image = table.require("image", str(columns.image))
    identifier = columns.id or ("id" if "id" in table.names else None)
    single, _ = table.read([image, *([identifier] if identifier else [])])
    files = single[image].optional()
    ids = single[identifier].optional() if identifier else [f"row {i}" for i in range(len(files))]
    return {unit: file for unit, file in zip(ids, files, strict=True) if unit and file}
