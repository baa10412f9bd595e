"""The suite: tasks, attacks, what attackers know, and how a best response is searched; fixed, and known by its hash.

Which markets are drawn follows from a key. The public one is the suite's name. With a private key an organiser plays
markets that cannot be prepared for; results then carry a commitment to the key and never the key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path

from pydantic import Field

from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.experiments.spec import TaskEntry, UtilityEntry
from datamarket_gym.registry import Document

_KEY_CHARACTERS = 64
"""Of a private key: 32 bytes in hexadecimal, so that it cannot be found by trying."""

_LONGEST_FILE = 1_000
"""Bytes that are read of a key's file, which may be a device without an end."""


class SuiteTask(Document):
    """A market and the utility by which providers are paid in it."""

    name: str
    market: TaskEntry
    utility: UtilityEntry


class SuiteAttack(Document):
    """An attack, with noise in standard deviations, and the share of each other provider's units that it sees."""

    name: str
    attack: str
    knowledge: float = Field(default=1.0, ge=0.0, le=1.0)


class OpposedMechanism(Document):
    """A mechanism that submitted attacks are played against, and how many units of each payee are checked."""

    mechanism: str
    checks: int = Field(default=0, ge=0)

    @property
    def label(self) -> str:
        return named(self.mechanism, self.checks)


class Quick(Document):
    """The part of the suite that ``--quick`` plays."""

    tasks: list[str] = Field(min_length=1)
    draws: int = Field(ge=1)
    trials: int = Field(ge=1)


class Suite(Document):
    """All that decides the results of a submission but the key of the draws.

    ``hash`` is the sha256 of what the file says; spaces, comments and the order of keys are not part of it.
    """

    hash: str
    name: str
    draws: int = Field(ge=1)
    trials: int = Field(ge=1)
    power: float = Field(gt=0.0, le=1.0)
    most_checks: int = Field(ge=0)
    tasks: list[SuiteTask] = Field(min_length=1)
    attacks: list[SuiteAttack] = Field(min_length=1)
    opponents: list[OpposedMechanism] = Field(min_length=1)
    quick: Quick

    def part(self, quick: bool) -> Suite:
        """Return the whole suite, or what of it is played in a quick look."""
        if not quick:
            return self
        tasks = [task for task in self.tasks if task.name in self.quick.tasks]
        return self.model_copy(
            update={"tasks": tasks, "draws": self.quick.draws, "trials": self.quick.trials}
        )

    @property
    def cells(self) -> list[tuple[str, int]]:
        """Return (task, draw) of every market that is drawn."""
        return [(task.name, draw) for task in self.tasks for draw in range(self.draws)]

    def task(self, name: str) -> SuiteTask:
        return next(task for task in self.tasks if task.name == name)


@cache
def suite() -> Suite:
    """Return DataMarket-v1."""
    file = resources.files("datamarket_gym.benchmark") / "datamarket-v1.toml"
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return Suite(hash=digest, **content)


def named(what: str, checks: int) -> str:
    """Name a mechanism with how many units of each payee are checked, where some are."""
    return f"{what}, {checks} checks" if checks else what


class Draws(Document):
    """The key from which the seeds of a suite's markets follow."""

    key: str

    @property
    def private(self) -> bool:
        return self.key != suite().name

    @property
    def commitment(self) -> str:
        """Return a hash that tells keys apart and does not reveal them; empty for the public one."""
        if not self.private:
            return ""
        return hashlib.sha256(f"commitment|{self.key}".encode()).hexdigest()

    def seed(self, task: str, draw: int, purpose: str) -> int:
        """Return a seed of 63 bits, too many to be guessed from results."""
        message = f"{suite().hash}|{task}|{draw}|{purpose}".encode()
        return int.from_bytes(hmac.digest(self.key.encode(), message, "sha256")[:8], "big") >> 1


def public() -> Draws:
    return Draws(key=suite().name)


def private(file: Path) -> Draws:
    try:
        with file.open("rb") as stream:
            key = stream.read(_LONGEST_FILE).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataMarketError(f"the private key {str(file)!r} cannot be read: {error}") from error
    if len(key) != _KEY_CHARACTERS or not set(key) <= set("0123456789abcdef"):
        raise ParameterError(
            "--private-key", str(file),
            f"it must hold {_KEY_CHARACTERS} hexadecimal digits; make one with datamarket benchmark key {str(file)!r}",
        )  # fmt: skip
    return Draws(key=key)


def make_key(file: Path) -> Draws:
    """Make a private key in a file that only its owner may read; one that is there is never overwritten."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:  # made with its rights, in one step: at no moment can others read it, and of two makers one is refused
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        remedy = "there is a file already; a key is not overwritten"
        raise ParameterError("FILE", str(file), remedy) from error
    with os.fdopen(made, "w", encoding="ascii") as stream:
        stream.write(secrets.token_hex(_KEY_CHARACTERS // 2) + "\n")
    return private(file)
