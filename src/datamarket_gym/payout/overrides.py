"""Overrides: splits and joins that an operator signs off, listed in the report and the ledger.

A TOML file::

    [[split]]                      # these units are not copies: untie them from all others
    units = ["u17", "u18"]
    reason = "two photographs of one building, rights checked"
    by = "R. Okafor"
    date = 2026-05-31

    [[join]]                       # these are the same person
    identities = ["anna", "anna.m"]
    reason = "same bank account, confirmed by phone"
    by = "R. Okafor"
    date = 2026-05-31

``units`` unties or ties units (evidence), ``identities`` unties or ties payees (linkage). A split
cuts every tie between the listed ones and all others, and between the listed ones themselves.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from datamarket_gym.core.arrays import Codes
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.evidence.graph import Edges, components, star


class Override(BaseModel):
    """One split or join, who signed it off, when and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Literal["split", "join"]
    units: list[str] = []
    identities: list[str] = []
    reason: str = Field(min_length=1)
    by: str = Field(min_length=1)
    date: datetime.date

    @model_validator(mode="after")
    def _one_kind(self) -> Override:
        if bool(self.units) == bool(self.identities):
            raise ValueError("name either units or identities")
        if self.action == "join" and len(set(self.units or self.identities)) < 2:
            raise ValueError("a join needs two different names")
        return self

    def without(self, units: frozenset[str]) -> Override:
        """The override without units that play no part."""
        return self.model_copy(update={"units": [name for name in self.units if name not in units]})


def read_overrides(path: Path | None) -> list[Override]:
    """The overrides of a file, in its order."""
    if path is None:
        return []
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataMarketError(f"{str(path)!r} is not a readable TOML file: {error}") from error
    unknown = set(data) - {"split", "join"}
    if unknown:
        raise DataMarketError(
            f"{str(path)!r} holds [[{sorted(unknown)[0]}]]; write [[split]] or [[join]]"
        )
    out = []
    for action in ("split", "join"):
        entries = data.get(action, [])
        for number, entry in enumerate(entries if isinstance(entries, list) else [entries], 1):
            try:
                out.append(Override.model_validate({"action": action, **entry}))
            except (ValidationError, TypeError) as error:
                raise DataMarketError(
                    f"{str(path)!r}, {action} {number}: {_first(error)}; "
                    "give units or identities, a reason, by whom, and the date"
                ) from error
    return out


def overridden(edges: Edges, overrides: Sequence[Override], ids: Sequence[str], kind: str) -> Edges:
    """Edges after the overrides of a kind (``units`` or ``identities``): first splits, then joins."""
    place = {name: i for i, name in enumerate(ids)}
    for each in (o for o in overrides if o.action == "split"):
        edges = _without(edges, _places(getattr(each, kind), place, kind), len(ids))
    joined = [edges]
    for each in (o for o in overrides if o.action == "join"):
        tied = _places(getattr(each, kind), place, kind)
        if len(tied):
            joined.append(Edges.of(np.repeat(tied[:1], len(tied) - 1), tied[1:], "override"))
    return Edges.concat(joined)


def _without(edges: Edges, apart: Codes, n: int) -> Edges:
    """Edges that do not touch some nodes.

    Certain ties come as stars around one of the group, so the others are tied anew if it leaves.
    """
    cut = np.isin(edges.left, apart) | np.isin(edges.right, apart)
    kept = [edges.where(~cut)]
    for reason in np.unique(edges.reason[cut & (edges.score >= 1.0)]):
        same = edges.where((edges.reason == reason) & (edges.score >= 1.0))
        group = components(np.arange(n), same)
        left = np.setdiff1d(np.flatnonzero(np.isin(group, group[apart])), apart)
        tied = star(group[left], str(reason))
        kept.append(Edges(left[tied.left], left[tied.right], tied.score, tied.reason))
    return Edges.concat(kept)


def _places(names: Sequence[str], place: dict[str, int], kind: str) -> Codes:
    unknown = [name for name in names if name not in place]
    if unknown:
        raise DataMarketError(
            f"an override names {unknown[0]!r}, which is not among the {kind}; correct the file"
        )
    return np.array([place[name] for name in dict.fromkeys(names)], dtype=np.int64)


def _first(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return "it is not a table"
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'entry'}: {first['msg']}"
