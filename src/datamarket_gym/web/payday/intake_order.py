"""What a page asks to be paid: files by what each is for, settings, earlier runs; and the request that it comes to.

Files are named by ids (`intake_files`), never by paths, and nothing in the settings names a file: what is not in a
folder that was named on the command line, or was not uploaded, cannot be read.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from datamarket_gym.core.errors import DataMarketError, ParameterError
from datamarket_gym.core.specs import Document
from datamarket_gym.payout.request import PayRequest
from datamarket_gym.payout.spec import PayoutSpec, checked_spec, faults_of, nested
from datamarket_gym.web.payday.intake_settings import form

TABLES = ("submissions", "validation", "reference")
ASIDE = ("overrides",)
SETTINGS = (
    "linkage.edges", "files.scores", "files.features", "files.embedding", "files.validation_features",
    "files.reference_features",
)  # fmt: skip
_DOTTED = re.compile(r"\.(?!\d)")  # a point that is in no number
_CALLED = {"submissions": "submissions", "validation": "validation rows"}
ROLES = (*TABLES, *ASIDE, *SETTINGS)
"""What a file can be for; the last are settings whose values are files."""


class AskedPayday(Document):
    """What stands on the page, as it is sent; settings by their names with points, as the command line has them."""

    files: dict[str, str] = Field(default_factory=dict)
    settings: dict[str, str | int | float | bool | list[str]] = Field(default_factory=dict)
    prior: list[str] = Field(default_factory=list, max_length=100)
    intake: str = ""


class ChosenFile(Document):
    """A file: what it is for, where it is, what people call it, and what tells whether it changed."""

    role: str
    path: Path
    name: str
    stamp: str
    uploaded: bool = False

    def named(self, words: str) -> str:
        """What an error says, with the file called as people know it, and not where it is kept."""
        return words.replace(str(self.path), self.name)


class PaydayOrder(Document):
    """The same with all files found."""

    files: tuple[ChosenFile, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)
    prior: tuple[Path, ...] = ()
    intake: str | None = None

    def file(self, role: str) -> ChosenFile | None:
        """The file of a role, if one was chosen."""
        return next((each for each in self.files if each.role == role), None)

    def path(self, role: str) -> Path | None:
        """Where it is."""
        found = self.file(role)
        return None if found is None else found.path

    @property
    def flags(self) -> dict[str, Any]:
        """The settings of the run; those that are files are paths."""
        given = {role: self.path(role) for role in SETTINGS}
        return self.settings | {role: str(path) for role, path in given.items() if path is not None}

    def faults(self) -> dict[str, str]:
        """What is wrong with settings, by their names."""
        return {name: _plain(name, words) for name, words in faults_of(self.flags).items()}

    def spec(self) -> PayoutSpec:
        """The settings, checked."""
        return checked_spec(nested(self.flags))

    def lenient_spec(self) -> PayoutSpec:
        """The settings that are good, for a look at the tables: an amount is not needed for that."""
        good = {name: value for name, value in self.flags.items() if name not in self.faults()}
        return checked_spec(nested({"amount": "1", **good}))

    def request(self, out: Path, book: str | None) -> PayRequest:
        """The payday that is asked for."""
        submissions, validation = (self._needed(role) for role in TABLES[:2])
        return PayRequest(
            str(submissions), str(validation), out, self.spec(), self.path("overrides"), _text(self.path("reference")),
            book, self.prior, self.intake,
        )  # fmt: skip

    def named(self, words: str) -> str:
        """The same for all files."""
        for each in sorted(self.files, key=lambda each: -len(str(each.path))):
            words = each.named(words)
        return words

    def _needed(self, role: str) -> Path:
        found = self.path(role)
        if found is None:
            raise DataMarketError(f"there is no file of {_CALLED[role]}; choose one above")
        return found


def require_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a page without those that are empty; refused where one names a file."""
    offered = _offered()
    for name in settings:
        if name.startswith("files.") or name == "linkage.edges":
            raise ParameterError(name, settings[name], "choose a file for it, instead of naming one")
        if name not in offered:  # a link could hold what nobody sees on the page
            raise ParameterError(
                name, settings[name], "it is no setting of this page; use the command line"
            )
    _require_no_module(str(settings.get("learner", "")))
    kept = {name: value for name, value in settings.items() if value not in ("", [])}
    return kept | ({"columns.label": ""} if settings.get("columns.label") == "" else {})


@cache
def _offered() -> frozenset[str]:
    """The settings that the page shows."""
    return frozenset(field["name"] for group in form() for field in group["fields"])


def _require_no_module(learner: str) -> None:
    """Refuse a utility that names a class of some module: a link holds settings, and would import it."""
    if _DOTTED.search(learner):
        raise ParameterError(
            "learner",
            learner,
            "it names a module, and pages import none; name a classifier of scikit-learn without its module, or use "
            "the command line",
        )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _plain(name: str, words: str) -> str:
    """What is wrong, without the name and the value, which stand beside it."""
    if words.startswith("there is no amount"):
        return "say how much is to be divided"
    head, mark, rest = words.partition(": ")
    return rest if mark and " = " in head else words
