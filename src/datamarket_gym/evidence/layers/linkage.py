"""Linkage: who is who, from account, payout address, device, licence and time, not from content.

A key is a column, or several joined by ``+`` that must agree together; ``time:3600`` counts submissions
within the same hour as agreeing. Text is compared without regard to case and surrounding spaces, a
blank says nothing, and neither does a value that more than ``most`` identities share (a default, a
public computer, the platform's own address).

Linkage ties *people*, so as evidence it belongs with granularity ``identity``, or to the grouping of
payees: tied units would be taken for copies of one another where units play.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.core.errors import ParameterError, SubmissionError, require_count
from datamarket_gym.core.registry import register
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View, star
from datamarket_gym.units.submission import Submission

MOST = 20
Column = Sequence[str | None]


@register("evidence", "linkage")
@dataclass(frozen=True)
class Linkage(EvidenceLayer):
    """Ties units that share a key: columns joined by ``+``, several keys separated by ``;``."""

    keys: str = "licence"
    most: int = MOST

    def __post_init__(self) -> None:
        require_count("most", self.most, at_least=2)
        if not self.keys.strip():
            raise ParameterError("keys", self.keys, "name a column, such as payout or device+licence")

    def edges(self, view: View) -> Edges:
        """A star per key value."""
        submission = view.submission
        found = [Edges.none()]
        for key in self.keys.split(";"):
            values = {name: _column(submission, name) for name in key_columns(key)}
            codes = agreeing(key, values, submission.times, submission.identity_codes, self.most)[0]
            known = np.flatnonzero(codes >= 0)
            tied = star(codes[known], f"linkage {key.strip()}")
            found.append(Edges(known[tied.left], known[tied.right], tied.score, tied.reason))
        return Edges.concat(found)


def key_columns(key: str) -> list[str]:
    """The columns of a key, without its time window."""
    parts = [part.strip() for part in key.split("+")]
    if not all(parts):
        raise ParameterError("linkage key", key, "write a column, or several joined by +")
    return [part for part in parts if not part.startswith("time:")]


def agreeing(
    key: str, columns: Mapping[str, Column], times: Values, owner: Codes, most: int = MOST
) -> tuple[Codes, list[tuple[str, int]]]:
    """A code per unit (-1: says nothing) equal where the key agrees, and the values that were too common."""
    parts = [[_folded(value) for value in columns[name]] for name in key_columns(key)]
    for part in (part.strip() for part in key.split("+")):
        if part.startswith("time:"):
            parts.append([str(int(t // _window(key, part))) for t in times.tolist()])
    joined = [
        None if any(p is None for p in values) else "\x1f".join(p or "" for p in values)
        for values in zip(*parts, strict=True)
    ]
    number: dict[str, int] = {}
    codes = np.array(
        [-1 if v is None else number.setdefault(v, len(number)) for v in joined], dtype=np.int64
    )
    pairs = np.unique(np.stack([codes, owner]), axis=1)
    shared = np.bincount(pairs[0][pairs[0] >= 0], minlength=len(number))
    common = [
        (value.replace("\x1f", " + "), int(shared[code]))
        for value, code in number.items()
        if shared[code] > most
    ]
    codes[np.isin(codes, np.flatnonzero(shared > most))] = -1
    return codes, common


def _window(key: str, part: str) -> float:
    try:
        window = float(part.removeprefix("time:"))
    except ValueError:
        window = 0.0
    if not 0 < window < float("inf"):
        raise ParameterError(
            "linkage key", key, "write the time window in seconds, as in device+time:3600"
        )
    return window


def _folded(value: str | None) -> str | None:
    text = "" if value is None else str(value).strip().casefold()
    return text or None


def _column(submission: Submission, name: str) -> Column:
    if name in ("licence", "source", "batch") and getattr(submission, name) is not None:
        return list(getattr(submission, name).tolist())
    if name in submission.metadata:
        return list(submission.metadata[name].tolist())
    raise SubmissionError(f"linkage needs a column {name!r}, which the submission does not have; add it")
