"""What a payout run is asked to do, from a TOML file and command-line flags; unknown keys are refused."""

from __future__ import annotations

import datetime
import math
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from datamarket_gym.core.errors import DataMarketError, ParameterError
from datamarket_gym.core.specs import Document, fault
from datamarket_gym.evidence.graph import LAYERS
from datamarket_gym.evidence.lineage import Lineage
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.learners.oracle import RECOMMENDED, Utility
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.worth import Worth, worth_of
from datamarket_gym.pipeline.mechanism import Mechanism, mechanism
from datamarket_gym.pipeline.pipeline import LeakCheck
from datamarket_gym.units.times import looks_like

MOST_CHECKS = 1000
"""Checks of one payee; more are surely a mistake."""


class Columns(Document):
    """Our roles and the names of the columns that hold them; None where the role is not used.

    ``features`` and ``embedding`` name a list column, the stem of numbered columns (``f`` for ``f_0``,
    ``f_1``, ...) or several numeric columns separated by commas. Without a ``label`` the column ``label`` is taken if
    there is one, and else there are no labels (`payout.inputs`).
    """

    id: str | None = None
    identity: str = "identity"
    label: str | None = None
    features: str | None = None
    embedding: str | None = None
    text: str | None = None
    image: str | None = None
    time: str | None = None
    trusted_source: str | None = None
    metadata: str | None = None


class Files(Document):
    """Arrays outside the table (``file.npy``, ``file.npz#name``) and folders of images."""

    features: str | None = None
    embedding: str | None = None
    validation_features: str | None = None
    reference_features: str | None = None
    images: str | None = None
    validation_images: str | None = None
    reference_images: str | None = None
    scores: str | None = None  # of another tool, where these are paid for


class LinkageRule(Document):
    """Which identities belong together: those that confirm one another, or that an edge table ties.

    Keys and splink find claims, which tie nobody. A key is one column, or several joined by ``+``; ``time:3600``
    counts times within the hour as equal.
    """

    keys: list[str] = Field(default_factory=list)
    fuzzy: list[str] = Field(default_factory=list)  # columns splink compares
    confirm: str | None = None  # column in which an identity names those that are the same payee
    edges: str | None = None  # table (id_l, id_r, probability)
    between: Literal["identities", "units"] = "identities"
    probability: float = Field(default=0.95, gt=0, le=1)


class PayoutSpec(Document):
    """A whole payout run."""

    amount: str
    currency: str = "EUR"
    negative: Literal["zero", "carry"] = "carry"
    theta: str = "auto"  # auto, none or a number
    learner: str = (
        RECOMMENDED  # what is paid for: coverage, or the accuracy of knn, ridge, logistic, ...
    )
    encoder: str | None = None
    audit: bool = True
    leak_check: LeakCheck = "drop"  # what becomes of units that are validation rows
    checks: int = Field(
        default=3, ge=0, le=MOST_CHECKS
    )  # units of each payee to look at before approval
    power: float = 0.8  # how often a check finds a unit that is not genuine
    seed: int = Field(default=0, ge=0)
    period: str | None = Field(
        default=None, max_length=100
    )  # what the payday is for, such as "June 2026"
    opens: str | None = None  # when the market began and closed: a date, a date with a time, or seconds
    closes: str | None = None
    beacon: str | None = None  # what units of equal time draw lots under; None: the validation rows
    quarantine: bool = (
        False  # bad rows of the submissions are set aside and listed; else they are errors
    )
    strict: bool = False  # times that say nothing, or cannot be true, are errors
    columns: Columns = Columns()
    files: Files = Files()
    linkage: LinkageRule = LinkageRule()

    @field_validator("theta")
    @classmethod
    def _theta(cls, value: str) -> str:
        if value in ("auto", "none"):
            return value
        try:
            number = float(value)
        except ValueError as error:
            raise ParameterError("theta", value, "choose auto, none or a number below 1") from error
        if not -1 < number <= 1:
            raise ParameterError("theta", value, "choose auto, none or a number in (-1, 1]")
        return repr(number)

    @field_validator("power")
    @classmethod
    def _power(cls, value: float) -> float:
        return Checks(power=value).power  # refuses what is no power, in one place

    @field_validator("period")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        if value is not None and not (value.strip() and value.isprintable()):
            raise ParameterError("period", ascii(value), "write it as plain text, such as June 2026")
        return value

    @field_validator("beacon")
    @classmethod
    def _announced(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ParameterError(
                "beacon",
                value,
                "give the text that was announced, or leave it out: the validation rows then decide",
            )
        if value is not None and not value.isprintable():
            raise ParameterError(
                "beacon", ascii(value), "it holds characters that cannot be read; announce plain text"
            )
        return value

    @field_validator("opens", "closes", mode="before")
    @classmethod
    def _written(cls, value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime.date) else value  # TOML has dates

    @model_validator(mode="after")
    def _in_order(self) -> PayoutSpec:
        opening, closing = self.opening, self.closing
        if opening is not None and closing is not None and opening >= closing:
            raise ParameterError("closes", self.closes, f"it must be later than opens ({self.opens})")
        return self

    @property
    def opening(self) -> float | None:
        """When the market began, in seconds since 1970; a date alone means its first moment."""
        return None if self.opens is None else _seconds("opens", self.opens, 0)

    @property
    def closing(self) -> float | None:
        """When it closed; a date alone means its last moment."""
        return None if self.closes is None else _seconds("closes", self.closes, 1)

    @property
    def money(self) -> Currency:
        """The currency."""
        return Currency(self.currency)

    @property
    def minor(self) -> int:
        """The amount in minor units."""
        return self.money.minor(self.amount)

    @property
    def utility(self) -> Utility:
        """What is paid for: coverage as it is, accuracy over chance, so that labelled noise earns nothing."""
        return Utility.paying(self.learner)

    @property
    def worth(self) -> Worth:
        """The same in words."""
        return worth_of(self.learner)

    @property
    def spot_checks(self) -> Checks:
        """The checks that the run asks for."""
        return Checks(self.checks, self.power)

    def mechanism(self, evidence: str) -> Mechanism:
        """The recommended mechanism with the evidence that may be used, sources and the beacon.

        Leaks that are errors are refused at the door of the run, so that the mechanism has none to refuse.
        """
        check = "off" if self.leak_check == "off" else "drop"
        layer = LAYERS.create(evidence)
        if isinstance(layer, Lineage):
            sources = self.columns.trusted_source is not None
            metadata = "" if self.columns.metadata is None else "metadata"
            layer = replace(layer, sources=sources, metadata=metadata)
        return mechanism(
            "recommended",
            evidence=layer,
            leak_check=check,
            seed=self.seed,
            beacon=self.beacon or "",
        )


def _seconds(name: str, text: str, days: int) -> float:
    """A moment in seconds since 1970, UTC where it names no zone; to a date alone so many days are added."""
    with suppress(ValueError):
        if math.isfinite(seconds := float(text)):
            return seconds
    try:
        moment = datetime.datetime.fromisoformat(text)
        alone = len(text) <= len("2026-05-31")
    except ValueError as error:
        how = "write a date (2026-05-31), a date with a time (2026-05-31T18:00), or seconds"
        raise ParameterError(name, text, looks_like(text) or how) from error
    aware = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    return aware.timestamp() + (86_400 * days if alone else 0)


def payout_spec(config: Path | None, flags: dict[str, Any]) -> PayoutSpec:
    """The spec of a TOML file, with flags (None: not given) on top."""
    data: dict[str, Any] = {}
    if config is not None:
        try:
            data = tomllib.loads(config.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataMarketError(f"{str(config)!r} is not a readable TOML file: {error}") from error
        if "utility" in data:  # as the flag has two spellings
            if "learner" in data:
                raise DataMarketError(
                    f"{str(config)!r} says both utility and learner, which are one setting; keep one"
                )
            data["learner"] = data.pop("utility")
        for name in ("cluster", "device", "memory"):
            if name in data:
                raise ParameterError(
                    name,
                    data[name],
                    f"it changes no result, so it is no setting of a run; say --{name} instead",
                )
    return checked_spec(nested(flags, data))


def nested(flags: Mapping[str, Any], data: dict[str, Any] | None = None) -> dict[str, Any]:
    """Settings by names with points (``columns.id``; None: not given) as the spec nests them, on top of others."""
    data = {} if data is None else data
    for name, value in flags.items():
        if value is None or value == []:
            continue
        *path, last = name.split(".")
        place = data
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return data


def faults_of(flags: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with settings, by their names with points, a line for each that is; empty where all are good."""
    faults = dict[str, str]()
    for name, value in {"amount": None, **flags}.items():
        alone = {"amount": "1", name: value}
        if (
            name == "amount"
        ):  # how many digits it may have is up to the currency, which may be what is wrong
            alone |= (
                {"currency": flags.get("currency")}
                if not _fault({"currency": flags.get("currency")})
                else {}
            )
        if found := _fault(alone):
            faults[name] = found[1]
    if not faults and (found := _fault(flags)):
        faults[found[0]] = found[1]
    return faults


def _fault(flags: Mapping[str, Any]) -> tuple[str, str] | None:
    """Which setting is wrong, as far as it is said, and how."""
    try:
        checked_spec(nested({"amount": "1", **flags}))
    except ParameterError as error:
        return error.parameter, str(error)
    except DataMarketError as error:
        return "", str(error)
    return None


def checked_spec(data: Any) -> PayoutSpec:
    """A spec from plain values; what is wrong is said in one line."""
    try:
        spec = PayoutSpec.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "missing":
            field = ".".join(str(part) for part in first["loc"])
            raise DataMarketError(
                f"there is no {field}; give --{field}, or put it into the TOML file"
            ) from error
        raise fault(error) from error
    spec.minor  # noqa: B018  an impossible amount is refused before anything is read
    spec.utility  # noqa: B018
    return spec
