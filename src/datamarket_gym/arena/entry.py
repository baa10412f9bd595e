"""What somebody submits: a mechanism or an attack, under which name, by whom."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from datamarket_gym.arena.suite import named, suite
from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.specs import Document, fault
from datamarket_gym.peers.peer import Peer
from datamarket_gym.pipeline.mechanism import MECHANISMS, Mechanism, as_mechanism
from datamarket_gym.pipeline.own import OwnMechanism

LONGEST_NAME = 60
LONGEST_TEXT = 4000


def _readable(text: str) -> str:
    """Text without control characters and without marks that turn the direction of writing."""
    if text != text.strip() or not text.isprintable():
        raise ValueError("use printable characters, and no spaces around them")
    return text


Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_readable)]
Line = Annotated[str, Field(max_length=200), AfterValidator(_readable)]
Spec = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_readable)]


class ArenaEntry(Document):
    """A submission as it stands in a manifest; of a program the command is kept, for people to read."""

    track: Literal["mechanism", "attack"] = "mechanism"
    name: Name
    authors: Line = ""
    spec: Spec = ""
    command: Spec = ""
    checks: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _one_thing(self) -> ArenaEntry:
        """One thing is submitted: a spec, or the command of a program, which is no attack and cannot be checked."""
        if bool(self.spec) == bool(self.command):
            raise ValueError("name a spec or a command, and not both")
        if self.command and (self.track == "attack" or self.checks):
            raise ValueError("a program is a mechanism without checks; leave them out")
        return self

    @classmethod
    def of_spec(cls, spec: str, *, checks: int = 0, name: str = "", authors: str = "") -> ArenaEntry:
        """A mechanism by its written form."""
        found = as_mechanism(MECHANISMS.create(spec))
        if checks and not isinstance(found, Mechanism):
            raise ParameterError(
                "--checks", checks, f"{found.name} does not say what each unit earns; leave checks out"
            )
        if checks > suite().most_checks:
            raise ParameterError("--checks", checks, f"choose at most {suite().most_checks}")
        if isinstance(found, OwnMechanism) and found.asks_oracle:
            raise ParameterError("mechanism", spec, "it asks for the ground truth; no market knows that")
        called = name or _short(named(found.name, checks))
        return _made(name=called, authors=authors, spec=spec, checks=checks)

    @classmethod
    def of_command(cls, command: str, *, name: str = "", authors: str = "") -> ArenaEntry:
        """An external program that speaks the file protocol."""
        made = {"name": "program", "command": command}
        as_mechanism(MECHANISMS.create(made))  # refuses what cannot be called
        return _made(name=name or _short(command), authors=authors, command=command)

    @classmethod
    def of_attack(cls, spec: str, *, name: str = "", authors: str = "") -> ArenaEntry:
        """An attack by its written form; its noise may be in spreads, as ``{0.5}``."""
        return _made(track="attack", name=name or _short(spec), authors=authors, spec=spec)

    def mechanism(self) -> Mechanism | OwnMechanism:
        """What is to be played."""
        if self.command:
            return as_mechanism(
                MECHANISMS.create({"name": "program", "command": self.command}), self.name
            )
        return as_mechanism(MECHANISMS.create(self.spec))

    @property
    def versions(self) -> dict[str, str]:
        """The version of the peer that pays, where one does; an error where it is not installed."""
        found = None if self.track == "attack" or self.command else MECHANISMS.create(self.spec)
        return {found.package: found.version} if isinstance(found, Peer) else {}

    @property
    def what(self) -> str:
        """The command, or the written form."""
        return self.command or self.spec


def _made(**fields: Any) -> ArenaEntry:
    try:
        return ArenaEntry(**fields)
    except ValidationError as error:
        raise fault(error, "submission: ") from error


def _short(text: str) -> str:
    """A default name."""
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 3] + "..."
