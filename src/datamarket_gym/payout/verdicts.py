"""What `verify` says: one line for each thing that was looked at, in the book, in a run's folder or between the two."""

from __future__ import annotations

from typing import NamedTuple

from datamarket_gym.core.screen import Screen


class Check(NamedTuple):
    """One thing that was looked at, whether it is good, and a word on it."""

    what: str
    good: bool
    detail: str

    def __repr__(self) -> str:
        return Screen.of_fields("Check", self._asdict()).text()

    def _repr_html_(self) -> str:
        return Screen.of_fields("Check", self._asdict()).html()
