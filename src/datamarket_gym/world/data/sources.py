"""A user's own content: a table with texts, or a folder of images with one sub-folder per class."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.units.tables import Table
from datamarket_gym.world.data.corpus import Corpus

IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def read_source(path: Path) -> Corpus:
    """Content from a table (columns text and, where there is one, label) or a folder of images."""
    if path.is_dir():
        return _folder(path)
    table = Table.open(path)
    labelled = ["label"] if "label" in table.names else []
    columns, _ = table.read([table.require("text", "text")], labelled)
    content = np.array([text or "" for text in columns["text"].optional()], dtype=object)
    named = columns["label"].values().tolist() if labelled else [0] * len(content)
    label = np.unique([str(each) for each in named], return_inverse=True)[1]
    return Corpus("text", content, label.astype(np.int64), np.ones(len(content), dtype=bool))


def _folder(path: Path) -> Corpus:
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in IMAGES)
    if not files:
        raise DataMarketError(
            f"there are no images in {str(path)!r}; known endings: {', '.join(IMAGES)}"
        )
    content = np.empty(len(files), dtype=object)
    content[:] = [file.read_bytes() for file in files]
    label = np.unique([file.parent.name for file in files], return_inverse=True)[1]
    return Corpus("image", content, label.astype(np.int64), np.ones(len(files), dtype=bool))
