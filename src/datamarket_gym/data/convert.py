"""From the hub's files to ours: texts as gzipped CSV, images as a blob with offsets, weights as npz."""

from __future__ import annotations

import csv
import gzip
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.errors import DataMarketError

SPLITS = ("train", "test")


def texts(parts: Sequence[Path], target: Path) -> None:
    """Parquet files (train, test) with columns text and label, as ``text,label,split``."""
    with gzip.open(target, "wt", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["text", "label", "split"])
        for split, row in _rows(parts, ("text", "label")):
            writer.writerow([row["text"], row["label"], split])


def images(parts: Sequence[Path], target: Path) -> None:
    """Parquet files (train, test) with an image column and labels, as a blob with offsets."""
    blobs, labels, splits = [], [], []
    for split, row in _rows(parts, ("label",)):
        image = row.get("img") or row.get("image")
        if not image:
            raise DataMarketError(f"{parts[0].name} has no image column; the hub's layout has changed")
        blobs.append(image["bytes"])
        labels.append(row["label"])
        splits.append(SPLITS.index(split))
    write_images(target, blobs, labels, splits)


def write_images(
    target: Path, blobs: Sequence[bytes], labels: Sequence[int], splits: Sequence[int]
) -> None:
    """Image files (any format that Pillow opens) as one array of bytes with offsets."""
    offsets = np.cumsum([0, *(len(blob) for blob in blobs)])
    with target.open("wb") as out:
        np.savez(
            out,
            blob=np.frombuffer(b"".join(blobs), dtype=np.uint8),
            offsets=offsets.astype(np.int64),
            labels=np.asarray(labels, dtype=np.uint8),
            split=np.asarray(splits, dtype=np.uint8),
        )


def weights(parts: Sequence[Path], target: Path) -> None:
    """A safetensors file as npz, with the same keys."""
    try:
        from safetensors.numpy import load_file
    except ImportError as error:
        raise DataMarketError(
            "reading downloaded weights needs safetensors; install datamarket-gym[text]"
        ) from error
    with target.open("wb") as out:
        np.savez(out, **load_file(parts[0]))


def as_is(parts: Sequence[Path], target: Path) -> None:
    """The file itself."""
    shutil.copyfile(parts[0], target)


def _rows(parts: Sequence[Path], needed: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for split, part in zip(SPLITS, parts, strict=True):
        try:
            table = pq.read_table(part)
        except (pa.ArrowException, OSError) as error:
            raise DataMarketError(f"the downloaded {part.name} is not Parquet ({error})") from error
        for name in needed:
            if name not in table.column_names:
                raise DataMarketError(f"the downloaded {part.name} has no column {name!r}")
        for batch in table.to_batches():
            for row in batch.to_pylist():
                yield split, row
