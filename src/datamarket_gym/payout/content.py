"""Raw content, embedded by a frozen encoder: a text column, or images in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import DataMarketError, ParameterError, SubmissionError
from datamarket_gym.world.data.sources import IMAGES
from datamarket_gym.world.encoders import ContentError, stored

DEFAULTS = {"text": "minilm", "image": "resnet18"}


def embed(items: Sequence[Any], kind: str, encoder: str | None, ids: Sequence[str]) -> Features:
    """One vector per item; an item that cannot be embedded is named by its unit."""
    chosen = stored(encoder or DEFAULTS[kind])
    if chosen.kind != kind:
        raise ParameterError(
            "encoder", encoder, f"it reads {chosen.kind}s, the submission holds {kind}s"
        )
    try:
        return chosen.encode(items)
    except ContentError as error:
        raise SubmissionError(f"unit {ids[error.row]!r}: {error.why}") from error


def image_bytes(folder: Path, names: Sequence[str]) -> list[bytes]:
    """The files of an image column; a name that leads out of the folder is refused."""
    root = folder.resolve()
    if not root.is_dir():
        raise SubmissionError(f"there is no folder {str(folder)!r}; check the path")
    found = []
    for row, name in enumerate(names):
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise SubmissionError(f"row {row}: the image {name!r} is outside the folder {str(folder)!r}")
        if not path.is_file():
            raise SubmissionError(f"row {row}: there is no image {name!r} in {str(folder)!r}")
        found.append(path.read_bytes())
    return found


def image_tree(folder: Path, levels: int) -> list[tuple[str, ...]]:
    """Images as (relative path, folder names): ``identity/label/file`` or ``label/file``."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in IMAGES and path.is_file():
            parts = path.relative_to(folder).parts
            if len(parts) == levels + 1:
                found.append(("/".join(parts), *parts[:levels]))
    if not found:
        shape = "identity/label/file" if levels == 2 else "label/file"
        raise DataMarketError(f"{str(folder)!r} holds no images laid out as {shape}")
    return found
