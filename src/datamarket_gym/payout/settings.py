"""What a payout run is asked to do, from a TOML file and command-line flags; unknown keys are refused."""

from __future__ import annotations

import datetime
import math
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.data.times import looks_like
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.evidence.graph import LAYERS
from datamarket_gym.evidence.lineage import Lineage
from datamarket_gym.mechanism.mechanism import Mechanism, get_mechanism
from datamarket_gym.mechanism.pipeline import LeakCheck
from datamarket_gym.payout.explain import Worth, worth_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.registry import Document, fault
from datamarket_gym.utilities.oracle import RECOMMENDED, Utility

MOST_CHECKS = 1000
"""Checks of one payee; more are surely a mistake."""


@dataclass(frozen=True)
class Setting:
    """Describe a field of the settings once: for the command line, the explorer and written commands."""

    help: str
    panel: str
    option: str = ""
    """The option's name without dashes; the field's name if left out."""
    kind: type = str

    @property
    def flag(self) -> str:
        """Return the option that sets it."""
        return f"--{self.option}"

    @property
    def off(self) -> str:
        """Return the option that turns it off, if it is true or false."""
        return f"--no-{self.option}"


_MONEY, _UTILITY, _CHECKS, _TIMES = "Amount", "What is paid for", "Checks", "Times"
_COLUMNS, _FILES, _LINKAGE = "Columns", "Units and features in other files", "Who is one payee"


class Columns(Document):
    """Our roles and the names of the columns that hold them; None where the role is not used.

    ``features`` and ``embedding`` name a list column, the stem of numbered columns (``f`` for ``f_0``,
    ``f_1``, ...) or several numeric columns separated by commas. Without a ``label`` the column ``label`` is taken if
    there is one, and else there are no labels (`payout.inputs`).
    """

    id: Annotated[str | None, Setting("Column with unit ids.", _COLUMNS)] = None
    identity: Annotated[str, Setting("Column with payees; identity if left out.", _COLUMNS, "payee")] = (
        "identity"
    )
    label: Annotated[
        str | None,
        Setting(
            "Column with labels, in all tables; if left out the column label, and no labels where there is none.",
            _COLUMNS,
        ),
    ] = None
    features: Annotated[
        str | None,
        Setting("List column, stem of numbered columns, or columns a,b,c; in all tables.", _COLUMNS),
    ] = None
    embedding: Annotated[
        str | None,
        Setting("Columns that similarity compares, named likewise; the features if left out.", _COLUMNS),
    ] = None
    time: Annotated[
        str | None,
        Setting(
            "Column with when you received each unit, by your clock and not the submitter's: the earliest of "
            "several copies is paid for all.",
            _COLUMNS,
        ),
    ] = None
    text: Annotated[str | None, Setting("Column with texts, which the encoder embeds.", _COLUMNS)] = None
    image: Annotated[
        str | None, Setting("Column with image files, which the encoder embeds.", _COLUMNS)
    ] = None
    trusted_source: Annotated[
        str | None,
        Setting(
            "Column naming the unit each unit derives from. It counts where that unit came earlier; blank, "
            "unknown, its own id or a later one: the clock decides as without.",
            _COLUMNS,
        ),
    ] = None
    metadata: Annotated[
        str | None,
        Setting(
            "Column that you fill in, such as a watermark id, a licence or a device: a unit that agrees in it with "
            "an earlier unit descends from the first such one. Blank: it says nothing.",
            _COLUMNS,
        ),
    ] = None


class Files(Document):
    """Arrays outside the table (``file.npy``, ``file.npz#name``) and folders of images."""

    features: Annotated[
        str | None,
        Setting("Features of the table as .npy or .npz#name, row by row.", _FILES, "features-file"),
    ] = None
    embedding: Annotated[
        str | None, Setting("Embeddings of the table, likewise.", _FILES, "embedding-file")
    ] = None
    validation_features: Annotated[
        str | None,
        Setting("Features of the validation rows, likewise.", _FILES, "validation-features-file"),
    ] = None
    reference_features: Annotated[
        str | None,
        Setting("Features of the reference rows, likewise.", _FILES, "reference-features-file"),
    ] = None
    images: Annotated[str | None, Setting("Folder of those image files.", _FILES)] = None
    validation_images: str | None = None
    reference_images: str | None = None
    scores: Annotated[
        str | None,
        Setting(
            "What another tool says each unit is worth on each validation row, for --utility scores: a table "
            "unit, row, score, or a matrix (.npy, .npz), units by validation rows. See docs/scores.md.",
            _UTILITY,
        ),
    ] = None


class LinkageRule(Document):
    """Which identities belong together: those that confirm one another, or that an edge table matches.

    Keys and splink find claims, which match nobody. A key is one column, or several joined by ``+``; ``time:3600``
    counts times within the hour as equal.
    """

    keys: Annotated[
        list[str],
        Setting(
            "Column(s) whose shared values are listed as claims of who is who: payout, device+licence, "
            "device+time:3600; repeatable. A claim alone matches nobody: see --confirm and --edges.",
            _LINKAGE,
            "link",
        ),
    ] = Field(default_factory=list)
    fuzzy: Annotated[
        list[str],
        Setting(
            "Column that splink compares, for claims likewise (needs the extra linkage); repeatable.",
            _LINKAGE,
            "link-fuzzy",
        ),
    ] = Field(default_factory=list)
    confirm: Annotated[
        str | None,
        Setting(
            "Column in which payees name those that are the same payee (several: a; b). Two that name each "
            "other are paid as one.",
            _LINKAGE,
        ),
    ] = None
    edges: Annotated[
        str | None,
        Setting(
            "Your own table id_l, id_r, probability of who is one payee; it stands alone.", _LINKAGE
        ),
    ] = None
    between: Annotated[
        Literal["identities", "units"],
        Setting("What that table matches: identities or units.", _LINKAGE, "edges-between"),
    ] = "identities"
    probability: float = Field(default=0.95, gt=0, le=1)


class PayoutSpec(Document):
    """A whole payout run."""

    amount: Annotated[str, Setting("Amount to divide, such as 10000.00.", _MONEY)]
    currency: Annotated[str, Setting("Its currency; EUR if left out.", _MONEY)] = "EUR"
    period: Annotated[
        str | None, Setting('What the run pays for, such as "June 2026"; stands on pages.', _MONEY)
    ] = Field(default=None, max_length=100)
    negative: Annotated[
        Literal["zero", "carry"],
        Setting(
            "Scores below zero, which accuracy has and coverage has not: carry (to the next run; if left out) or "
            "zero (count as nothing).",
            _MONEY,
        ),
    ] = "carry"
    learner: Annotated[
        str,
        Setting(
            "What is paid for: coverage of the validation rows (if left out; coverage@0.9: only what is much more "
            "alike than strangers counts; coverage(similarity=standardised): for tables), which needs no labels; "
            "or the accuracy over chance of knn, ridge, logistic, ...; scores of another tool (--scores); a "
            "function of your own (--load); see: list utility.",
            _UTILITY,
            "utility",
        ),
    ] = RECOMMENDED
    theta: Annotated[
        str,
        Setting(
            "Similarity threshold: auto (if left out), none, or a number, which may cost the honest at most 1 %.",
            _UTILITY,
        ),
    ] = "auto"
    encoder: Annotated[
        str | None, Setting("Encoder of texts or images; see: list encoder.", _COLUMNS)
    ] = None
    checks: Annotated[
        int,
        Setting(
            "How many units of each payee are to be checked before the run can be approved: 3 if left out, 0 for "
            "none. See: check --help.",
            _CHECKS,
        ),
    ] = Field(default=3, ge=0, le=MOST_CHECKS)
    power: Annotated[
        float, Setting("How often a check finds a unit that is not genuine; 0.8 if left out.", _CHECKS)
    ] = 0.8
    leak_check: Annotated[
        LeakCheck,
        Setting(
            "Units that are validation rows, or nearly: drop (they earn nothing; if left out), error, or off "
            "(they are paid).",
            _CHECKS,
        ),
    ] = "drop"
    quarantine: Annotated[
        bool,
        Setting(
            "Set bad rows of the submissions aside, list them in quarantine.csv and go on, instead of stopping. "
            "Validation rows are never set aside.",
            _CHECKS,
        ),
    ] = False
    audit: Annotated[bool, Setting("Attack a sample of the market for the report.", _CHECKS)] = True
    opens: Annotated[
        str | None,
        Setting("When the market began (2026-05-01, or with a time): earlier units are listed.", _TIMES),
    ] = None
    closes: Annotated[
        str | None,
        Setting(
            "When it closed, likewise: later units are listed. If left out: those later than now.",
            _TIMES,
        ),
    ] = None
    beacon: Annotated[
        str | None,
        Setting(
            "Text that breaks ties between units of equal time: announce beforehand what it will "
            "be, such as tomorrow's public random number. If left out: a digest of the validation rows.",
            _TIMES,
        ),
    ] = None
    strict: Annotated[
        bool,
        Setting(
            "Stop, instead of warning, where times are missing, equal, too early or in the future.",
            _TIMES,
        ),
    ] = False
    seed: int = Field(default=0, ge=0)
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
        return get_mechanism(
            "recommended",
            evidence=layer,
            leak_check=check,
            seed=self.seed,
            beacon=self.beacon or "",
        )


def _settings(model: type[BaseModel], before: str = "") -> Iterator[tuple[str, Setting]]:
    for name, field in model.model_fields.items():
        kind = get_origin(field.annotation) or field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _settings(kind, f"{name}.")
        for found in field.metadata:
            if isinstance(found, Setting):
                option = found.option or name.replace("_", "-")
                plain: Any = kind if kind in (bool, int, float, list) else str
                yield f"{before}{name}", replace(found, option=option, kind=plain)


SETTINGS = dict(_settings(PayoutSpec))
"""Every setting that has an option, by its name with points (``columns.id``)."""


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
        if "utility" in data:  # as the option is called
            if "learner" in data:
                raise DataMarketError(
                    f"{str(config)!r} says both utility and learner, which are one setting; keep utility"
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
