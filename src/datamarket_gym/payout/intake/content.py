"""The digest of a unit: 32 bytes that say what was handed in, and nothing of who did or under which name.

    digest = sha256(tag + length of the label, 8 bytes + label + payload)

The tag says what the payload is. A text is its UTF-8, an image the bytes of its file, features are float32, little
endian, with 0 for -0: a number that went through CSV and one that stayed in Parquet are the same. The label is text,
empty where there is none. No encoder is needed to take a digest, so what a unit is does not depend on one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.narrow import Narrow
from datamarket_gym.payout.book.arrived import What
from datamarket_gym.payout.spec import Columns

LENGTH = 32
"""Bytes of a digest."""
_ROWS = 4096
_LARGEST = float(np.finfo(np.float32).max)


def what_of(columns: Columns) -> What:
    """What is taken as the content of units: texts where a column of them is named, else images, else features.

    What was handed in comes first: features beside a text are what somebody made of it, perhaps later.
    """
    if columns.text is not None:
        return "text"
    return "image" if columns.image is not None else "features"


def unit_digests(
    what: What, label: NDArray[Any], payload: Sequence[str] | Sequence[bytes] | Features
) -> list[bytes]:
    """The digest of each unit: one label and one text, file of an image, or row of features each."""
    if len(label) != len(payload):
        raise SubmissionError(f"{len(payload):,} units and {len(label):,} labels; give each unit one")
    tag = f"datamarket unit 1 {what}\n".encode()
    return [
        hashlib.sha256(b"".join((tag, len(name).to_bytes(8, "little"), name, content))).digest()
        for name, content in zip(_labels(label), _contents(what, payload), strict=True)
    ]


def _labels(label: NDArray[Any]) -> Iterable[bytes]:
    """Labels as text, the same whichever file they come from; moments to the nanosecond, 2.0 as 2.

    Whether 2 stands among whole numbers or beside 2.5 is the file's, and not the unit's.
    """
    if label.dtype.kind == "f":
        return (
            _number(number, text).encode()
            for number, text in zip(label, label.astype(np.str_), strict=True)
        )
    plain = label.astype("datetime64[ns]") if label.dtype.kind == "M" else label
    return (text.encode() for text in plain.astype(np.str_).tolist())


def _number(number: np.floating[Any], text: str) -> str:
    return str(int(number)) if number == np.rint(number) and abs(number) < 2**53 else text


def _contents(what: What, payload: Any) -> Iterable[bytes]:
    if what == "features":
        return _numbers(payload if isinstance(payload, Narrow) else np.asarray(payload))
    return (text.encode() for text in payload) if what == "text" else payload


def _numbers(features: Features | Narrow) -> Iterable[bytes]:
    for at in range(0, len(features), _ROWS):  # a few rows at a time: no second copy of a large matrix
        some = features[at : at + _ROWS]
        if not (np.abs(some) <= _LARGEST).all():
            row, entry = np.argwhere(~(np.abs(some) <= _LARGEST))[0].tolist()
            raise SubmissionError(
                f"row {at + row} has {some[row, entry]:g} as entry {entry} of its features; the intake log takes "
                f"numbers of at most {_LARGEST:.3g} in size"
            )
        rows = np.ascontiguousarray(some.astype("<f4") + np.float32(0))  # -0 + 0 is 0
        yield from (row.tobytes() for row in rows)
