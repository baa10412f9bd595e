"""What is asked of the results, as ``lab/questions.toml`` says it: questions, and the ten numbers that matter.

Texts hold fields in braces (``{worst}``, ``{worst.attack}``) which are filled from summary rows; no number
of a result is typed. A question names the experiments that answer it; those that no question names are
listed on the front page as the rest.
"""

from __future__ import annotations

import math
from functools import cache
from importlib import resources
from typing import Literal

from pydantic import Field

from datamarket_gym.core.specs import Document, from_toml
from datamarket_gym.lab.spec import Where

Over = Literal["only", "lowest", "highest"]


class Pick(Document):
    """One number: the row of the experiments that has these labels, or of several the one that ``over`` says.

    Rows of ``without`` are left out. With ``above`` it is a count instead: how many of the rows have a value above
    it. ``at_least`` and ``at_most`` are what the words around the number need: where it is something else, the text
    is not printed.
    """

    experiment: str | list[str]
    where: Where
    without: Where = Field(default_factory=dict)
    over: Over = "only"
    above: float | None = None
    at_least: float = -math.inf
    at_most: float = math.inf
    digits: int = Field(default=2, ge=0, le=4)
    percent: bool = False

    @property
    def experiments(self) -> list[str]:
        """The experiments whose rows are looked at."""
        return [self.experiment] if isinstance(self.experiment, str) else self.experiment


class ShortTable(Document):
    """A table of at most a dozen lines, and the rule that chooses them.

    Rows with the labels of ``where`` go down by ``down`` and across by ``across``; of several rows that fall
    into one cell ``fold`` says which is shown. Lines are in the order of the results, or the ``largest`` first (in
    the column ``by``, or in any); ``most`` of them are shown. ``called`` gives labels shorter names; columns of
    ``counts`` have no decimals.
    """

    title: str
    experiment: str | list[str]
    where: Where
    without: Where = Field(default_factory=dict)
    down: str
    across: str = "mechanism"
    fold: Over = "only"
    order: Literal["given", "largest"] = "given"
    by: str = ""
    most: int = Field(default=12, ge=1, le=12)
    digits: int = Field(default=2, ge=0, le=4)
    percent: bool = False
    called: dict[str, str] = Field(default_factory=dict)
    counts: list[str] = Field(default_factory=list)

    @property
    def experiments(self) -> list[str]:
        """The experiments whose rows are looked at."""
        return [self.experiment] if isinstance(self.experiment, str) else self.experiment


class ResultQuestion(Document):
    """A question, its answer in one line and in a paragraph, its figures and its short tables."""

    slug: str = Field(pattern=r"^[a-z][a-z-]*$")  # it names a file
    asks: str
    short: str
    answer: str
    experiments: list[str] = Field(min_length=1)
    figures: list[str] = Field(default_factory=list)
    more: list[str] = Field(default_factory=list)
    tables: list[ShortTable] = Field(min_length=1)
    numbers: dict[str, Pick] = Field(default_factory=dict)


class Mattering(Document):
    """One of the ten numbers that matter: what is shown, what it is, and the page that says more."""

    shows: str
    means: str
    page: str
    numbers: dict[str, Pick] = Field(default_factory=dict)


class AskedOfResults(Document):
    """Everything that is asked."""

    question: list[ResultQuestion]
    number: list[Mattering]


@cache
def asked() -> AskedOfResults:
    """What ``lab/questions.toml`` asks, read once."""
    file = resources.files("datamarket_gym.lab") / "questions.toml"
    return from_toml(AskedOfResults, file.read_text(encoding="utf-8"), file.name)
