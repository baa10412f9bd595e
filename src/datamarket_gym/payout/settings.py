"""The settings of a payout run: one model for the TOML file, the command line's options and the explorer's form.

What is paid for stands beside it in words (`Worth`), for reports, screens and errors.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticUndefined

from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.data.columns import time_hint
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.evidence.graph import LAYERS
from datamarket_gym.evidence.lineage import Lineage
from datamarket_gym.market.encoders import minilm
from datamarket_gym.market.encoders.base import WORDS
from datamarket_gym.mechanism.pipeline import LeakCheck, Mechanism, get_mechanism
from datamarket_gym.payout.money import Currency
from datamarket_gym.registry import D, Document, fault
from datamarket_gym.utilities.base import LEARNERS, UtilityFunction
from datamarket_gym.utilities.count import Count
from datamarket_gym.utilities.coverage import RECOMMENDED, Coverage
from datamarket_gym.utilities.custom import FunctionUtility
from datamarket_gym.utilities.imported_scores import ImportedScores
from datamarket_gym.utilities.oracle import Utility

MOST_CHECKS = 1000
"""Checks of one payee; more are surely a mistake."""


@dataclass(frozen=True)
class Setting:
    """Hold what the command line and the explorer say of a field of a model."""

    help: str
    option: str
    annotation: Any
    default: Any  # None where the field is required or has none
    panel: str | None = None
    common: bool = True  # whether it is in the short help
    is_file: bool = False  # whether its value names a file
    in_file: bool = False  # whether market.toml may have it

    @property
    def flag(self) -> str:
        """Return the option that sets it."""
        return f"--{self.option}"

    @property
    def off(self) -> str:
        """Return the option that turns it off, if it is true or false."""
        return f"--no-{self.option}"

    @property
    def kind(self) -> type:
        """Return bool, int, float, list or tuple, or str for all else."""
        kinds = (self.annotation, get_origin(self.annotation), *get_args(self.annotation))
        return next((each for each in kinds if each in (bool, int, float, list, tuple)), str)


def option(
    help: str,
    default: Any = None,
    *,
    panel: str | None = None,
    option: str = "",
    common: bool = True,
    is_file: bool = False,
    in_file: bool = False,
    **limits: Any,
) -> Any:
    """Declare a field of a model that has an option, named like the field unless said otherwise."""
    extra: Any = {
        "panel": panel, "option": option, "common": common, "is_file": is_file, "in_file": in_file
    }  # fmt: skip
    value = {"default_factory" if default is list else "default": default}
    return Field(**value, description=help, json_schema_extra=extra, **limits)


_setting = partial(option, common=False, in_file=True)
_money = partial(_setting, panel="Amount")
_utility = partial(_setting, panel="What is paid for")
_check = partial(_setting, panel="Checks")
_time = partial(_setting, panel="Times")
_column = partial(_setting, panel="Columns")
_file = partial(_setting, panel="Units and features in other files", is_file=True)
_link = partial(_setting, panel="Who is one payee")
_earlier = partial(_setting, panel="Earlier runs and the ledger")
_payer = partial(option, in_file=True)


INTAKE_OPTION = option(
    "Ledger with your intake log. Submission times are then those of the log, not of the table; units that the log "
    "does not have are refused. See: datamarket intake --help.",
    common=False,
    is_file=True,
    in_file=True,
)
CONTACT_OPTION = option(
    "Where payees write to, for statements and for letters of spot checks.", in_file=True
)
BY_OPTION = option("Your name, for the ledger; the user's name if left out.", in_file=True)


class Columns(Document):
    """Name the columns by role; None where the role is not used.

    Without a ``label`` the column ``label`` is taken if there is one, and else there are no labels.
    """

    id: str | None = _column("Column with unit ids.")
    identity: str = _column(
        "Column with the payees' names; the column identity if left out.", "identity", option="payee"
    )
    label: str | None = _column(
        "Column with labels, in all tables; the column label if left out, or no labels if there is none."
    )
    features: str | None = _column(
        "Columns with features, in all tables: a list column, the stem of numbered columns (f for f_0, f_1, ...), or "
        "columns a,b,c."
    )
    embedding: str | None = _column(
        "Columns with embeddings, by which units are compared, named like features; the features if left out."
    )
    time: str | None = _column(
        "Column with the time at which you received each unit, by your clock: of several copies the earliest is paid."
    )
    text: str | None = _column("Column with texts, which the encoder embeds.")
    image: str | None = _column("Column with names of image files, which the encoder embeds.")
    trusted_source: str | None = _column(
        "Column with the id of the unit that each unit derives from, which counts if that unit came earlier. Only for "
        "sources that you have verified."
    )
    metadata: str | None = _column(
        "Column that you fill in, such as a watermark id, a licence or a device: units that agree in it are matched, "
        "unless it is blank."
    )


class Files(Document):
    """Arrays outside the table (``file.npy``, ``file.npz#name``) and folders of images."""

    features: str | None = _file(
        "Features of the units in another file, row by row (.npy, or .npz#name).", option="features-file"
    )
    embedding: str | None = _file(
        "Embeddings of the units in another file, row by row.", option="embedding-file"
    )
    validation_features: str | None = _file(
        "Features of the validation rows in another file, row by row.", option="validation-features-file"
    )
    reference_features: str | None = _file(
        "Features of the reference rows in another file, row by row.", option="reference-features-file"
    )
    images: str | None = _file("Folder of the image files.")
    validation_images: str | None = _file(
        "Folder of the validation rows' images; --images if left out.", option="validation-images"
    )
    reference_images: str | None = _file(
        "Folder of the reference rows' images; --images if left out.", option="reference-images"
    )
    scores: str | None = _utility(
        "For --utility scores: the scores of another tool, of each unit on each validation row. A table with columns "
        "unit, row, score, or a matrix (.npy, .npz) of units by validation rows. See docs/scores.md.",
        is_file=True,
    )


class LinkageRule(Document):
    """Say which identities belong together: those that confirm one another, or that an edge table matches.

    Keys and splink find claims, which match no identities.
    """

    keys: list[str] = _link(
        "Column, or columns joined by +, of which equal values are listed in the report as claims that payees are the "
        "same: payout, device+licence, device+time:3600 (times within an hour). Repeatable. A claim changes no "
        "payment: see --confirm and --edges.",
        list,
        option="link",
    )
    fuzzy: list[str] = _link(
        "Column that splink compares, for further claims (needs the extra linkage). Repeatable.",
        list,
        option="link-fuzzy",
    )
    confirm: str | None = _link(
        "Column in which payees name others that are the same payee (a; b). Two that name each other are paid as one."
    )
    edges: str | None = _link(
        "Table with the columns id_l, id_r, probability, of which payees are the same; no confirmation counts then.",
        is_file=True,
    )
    between: Literal["identities", "units"] = _link(
        "What that table names: identities (if left out) or units.", "identities", option="edges-between"
    )
    probability: float = _link(
        "Least probability of pairs, in the edge table and of splink, that count; 0.95 if left out.",
        0.95,
        option="link-probability",
        gt=0,
        le=1,
    )


class PayoutSpec(Document):
    """The settings of a payout run.

    Every setting, its default and its help are listed by ``datamarket pay --help``.

    Parameters
    ----------
    seed
        Seed of what is drawn.
    columns
        Names of the columns by role.
    files
        Further files by role.
    linkage
        Which columns splink compares to link accounts.
    """

    amount: str = _money("Amount to divide, such as 10000.00.", ..., common=True, strict=True)
    currency: str = _money("Currency of the amount, three letters; EUR if left out.", "EUR")
    period: str | None = _money(
        'Name of the period that the run pays for, such as "June 2026", for reports and statements.',
        common=True,
        max_length=100,
    )
    negative: Literal["zero", "carry"] = _money(
        "Scores below zero (of accuracy; coverage has none): carry (the default) carries them forward to the next run, "
        "zero counts them as zero.",
        "carry",
    )
    learner: str = _utility(
        "What is paid for. recommended (if left out): how near units come to validation rows, which needs no labels; "
        "coverage(...) says how nearness is measured. count: every distinct unit alike. knn, ridge, logistic, ...: how "
        "accurate a model becomes. scores: of another tool (--scores). Or a function of your own (--load). See: "
        "datamarket list utility.",
        RECOMMENDED,
        option="utility",
    )
    theta: str = _utility(
        "Similarity at which units count as copies: auto (if left out), none (identical units only), or a number; "
        "it is refused if false matches would cost honest payees more than 1 %.",
        "auto",
    )
    encoder: str | None = _column(
        "Encoder of texts or images (see: datamarket list encoder); if left out, minilm for texts, or ngrams where its "
        "model is not installed, and resnet18 for images."
    )
    checks: int = _check(
        "Units of each payee that people spot-check before the run can be approved; 3 if left out, 0 for none. See: "
        "datamarket check --help.",
        3,
        ge=0,
        le=MOST_CHECKS,
    )
    forfeit: Literal["payee", "unit"] = _check(
        "What a unit that a spot check finds false forfeits: payee (all that its payee is paid; if left out), which "
        "deters, or unit (what it earns, and units of its payee that it was matched with), which does not.",
        "payee",
    )
    power: float = _check("Probability that a spot check detects a false unit; 0.8 if left out.", 0.8)
    leak_check: LeakCheck = _check(
        "Units that equal a validation row, or nearly: drop (they earn nothing; if left out), error (the run stops) or "
        "off (they are paid).",
        "drop",
    )
    acquired_discount: bool = _earlier(
        "With --acquired: pay new units for what they add to what was acquired before; if left out they are paid as "
        "new, by themselves. See docs/acquired-data.md.",
        False,
    )
    quarantine: bool = _check(
        "Leave out rows of the submissions that cannot be used and list them in quarantine.csv, instead of stopping.",
        False,
    )
    audit: bool = _check("Simulate attacks on a sample of the market, for the report.", True)
    opens: str | None = _time(
        "Begin of the market (2026-05-01, or with a time); earlier units are listed in a warning."
    )
    closes: str | None = _time(
        "End of the market; later units are listed in a warning. Now if left out."
    )
    beacon: str | None = _time(
        "Public random number by which the order of units of equal time is drawn; announce beforehand what it will be. "
        "A digest of the validation rows if left out."
    )
    strict: bool = _time(
        "Stop, instead of warning, if times are missing, equal, too early or in the future.", False
    )
    seed: int = _setting("Seed of what is drawn; 0 if left out.", 0, ge=0)
    columns: Columns = Columns()
    files: Files = Files()
    linkage: LinkageRule = LinkageRule()

    @field_validator("learner")
    @classmethod
    def _read_learner(cls, value: str) -> str:
        """Say what is recommended today: the record of a run must not change its meaning later."""
        return RECOMMENDED if value.strip() == "recommended" else value

    @field_validator("theta")
    @classmethod
    def _read_theta(cls, value: str) -> str:
        if value in ("auto", "none"):
            return value
        with suppress(ValueError):
            if -1 < float(value) <= 1:
                return repr(float(value))
        raise ParameterError("theta", value, "choose auto, none or a number in (-1, 1]")

    @field_validator("power")
    @classmethod
    def _require_power(cls, value: float) -> float:
        return Checks(power=value).power  # refuses what is no power, in one place

    @field_validator("period", "beacon")
    @classmethod
    def _require_plain_text(cls, value: str | None, info: Any) -> str | None:
        if value is not None and not (value.strip() and value.isprintable()):
            raise ParameterError(
                info.field_name, ascii(value), "write it as plain text, such as June 2026"
            )
        return value

    @field_validator("opens", "closes", mode="before")
    @classmethod
    def _write_date(cls, value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime.date) else value  # TOML has dates

    @model_validator(mode="after")
    def _require_order(self) -> PayoutSpec:
        opening, closing = self.opening, self.closing
        if opening is not None and closing is not None and opening >= closing:
            raise ParameterError("closes", self.closes, f"it must be later than opens ({self.opens})")
        return self

    @property
    def opening(self) -> float | None:
        """Return when the market began, in seconds since 1970; a date alone means its first moment."""
        return None if self.opens is None else _seconds("opens", self.opens, 0)

    @property
    def closing(self) -> float | None:
        """Return when it closed; a date alone means its last moment."""
        return None if self.closes is None else _seconds("closes", self.closes, 1)

    @property
    def money(self) -> Currency:
        """Return the currency."""
        return Currency(self.currency)

    @property
    def minor(self) -> int:
        """Return the amount in minor units."""
        return self.money.minor(self.amount)

    @cached_property
    def utility_function(self) -> UtilityFunction:
        """Return what is paid for, parsed once."""
        return LEARNERS.create(self.learner)

    @cached_property
    def utility(self) -> Utility:
        """Return what is paid for: coverage, or accuracy over chance, so that labelled noise earns nothing."""
        return Utility(self.learner, self.utility_function.paid_from)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> PayoutSpec:
        """Copy the settings with some fields changed, without what was derived from the fields."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("utility_function", "utility"):
            copied.__dict__.pop(name, None)
        return copied

    @property
    def worth(self) -> Worth:
        """Return the words for what is paid for."""
        return worth_of(self.utility_function)

    @property
    def spot_checks(self) -> Checks:
        """Return the spot checks that the run requires."""
        return Checks(self.checks, self.power)

    def mechanism(self, evidence: str) -> Mechanism:
        """Build the recommended mechanism with this evidence, the sources and the beacon.

        Leaks that are errors are refused before the mechanism sees any, so that it drops or keeps them.
        """
        layer = LAYERS.create(evidence)
        if isinstance(layer, Lineage):
            sources = self.columns.trusted_source is not None
            metadata = "" if self.columns.metadata is None else "metadata"
            layer = replace(layer, sources=sources, metadata=metadata)
        return get_mechanism(
            "recommended",
            evidence=layer,
            leak_check="off" if self.leak_check == "off" else "drop",
            seed=self.seed,
            beacon=self.beacon or "",
        )


class PayOptions(Document):
    """The options of a payout run beside its settings; tables are files, or queries of databases."""

    validation: str = _setting(
        "Table of validation rows, labelled if the units are, or a folder label/image (without labels a folder of "
        "images).",
        ...,
        common=True,
        is_file=True,
    )
    out: Path | None = option(
        "Folder of the run; called like the table if left out. The same command resumes a run that was interrupted."
    )
    reference: str | None = _setting(
        "Further honest units, in the form of the validation rows, on which the similarity threshold is measured "
        "instead: for fewer than 500 validation rows. They are neither paid nor scored on.",
        is_file=True,
    )
    overrides: Path | None = _setting(
        "TOML file of units or payees to separate or to join. See docs/payout.md.", is_file=True
    )
    intake: str | None = INTAKE_OPTION
    ledger: str | None = _earlier(
        "The market's ledger, in which the run is entered: a file, or postgresql://user@host/name; ledger.sqlite "
        "beside the folder --out if left out. Balances in this currency are carried forward.",
        is_file=True,
    )
    acquired: tuple[Path, ...] = _earlier(
        "Folder of an approved earlier run; repeatable. Units that match what it acquired earn nothing; new units are "
        "paid as new (see --acquired-discount).",
        (),
        common=True,
        is_file=True,
    )
    reuse: Path | None = option(
        "Folder of a run of most of these units, such as the one before late units came in. Its comparisons are not "
        "repeated. Results do not change.",
        panel="Earlier runs and the ledger",
        common=False,
    )


class PayerSettings(Document):
    """Settings of the payer, and of the bank accounts of the payees."""

    accounts: Path | None = _payer(
        "Table of the payees' bank accounts: payee, name, iban (or account with bic or clearing); optionally country "
        "and town. Not needed for csv.",
        is_file=True,
    )
    name: str | None = _payer("Name of the account holder who pays.", option="from")
    account: str | None = _payer(
        "IBAN of the paying account; or a number, with --from-bic.", option="from-account"
    )
    bic: str | None = _payer("BIC of the paying bank.", option="from-bic")
    country: str | None = _payer("Country of the payer, two letters.", option="from-country")
    town: str | None = _payer("Town of the payer.", option="from-town")


class SharedSettings(PayerSettings):
    """Settings of the commands after `pay` in market.toml."""

    by: str | None = BY_OPTION
    contact: str | None = CONTACT_OPTION


def settings_of(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Setting]]:
    """Yield the fields of a model that have an option, which are those with a description."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from settings_of(kind, f"{name}.")
        elif field.description:
            extra: Any = dict(field.json_schema_extra or {})  # type: ignore[arg-type]
            extra["option"] = extra.get("option") or name.replace("_", "-")
            default = None if field.default is PydanticUndefined else field.default
            yield (
                f"{prefix}{name}",
                Setting(help=field.description, annotation=kind, default=default, **extra),
            )


SETTINGS = dict(settings_of(PayoutSpec))
"""Every setting that has an option, by its name with points (``columns.id``)."""


def _seconds(name: str, text: str, days: int) -> float:
    """Read a moment in seconds since 1970, in UTC if it names no zone; add so many days to a date alone."""
    with suppress(ValueError):
        if math.isfinite(seconds := float(text)):
            return seconds
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        remedy = "write a date (2026-05-31), a date with a time (2026-05-31T18:00), or seconds"
        raise ParameterError(name, text, time_hint(text) or remedy) from error
    aware = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    is_date = len(text) <= len("2026-05-31")
    return aware.timestamp() + (86_400 * days if is_date else 0)


def payout_spec(values: Mapping[str, Any]) -> PayoutSpec:
    """Make the settings of a run of values by their names with points (None: not given); others are left out."""
    return with_encoder(checked_spec(nested({n: v for n, v in values.items() if n in SETTINGS})))


def with_encoder(spec: PayoutSpec) -> PayoutSpec:
    """Name the encoder of words where texts are to be embedded, none is named, and there is no model here.

    The run's record then has it: where the model is installed later, the run is still computed as it was.
    """
    made = spec.columns.text is None or spec.columns.features or spec.files.features
    if made or spec.encoder is not None or minilm.is_installed():
        return spec
    return spec.model_copy(update={"encoder": WORDS})


def encoder_message(spec: PayoutSpec) -> str:
    """Say what would embed texts better, where they are embedded by words for want of a model."""
    if spec.encoder != WORDS or spec.columns.text is None or minilm.is_installed():
        return ""
    return (
        f"Texts are embedded by {WORDS}, which compares their letters and no meaning. minilm, a language model, tells "
        f"better what a text is about: {minilm.REMEDY}, and then pay into another folder."
    )


def nested(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Nest settings by names with points (``columns.id``; None: not given)."""
    data: dict[str, Any] = {}
    for name, value in flags.items():
        section, _, key = name.rpartition(".")
        if value is not None and value != []:
            (data.setdefault(section, {}) if section else data)[key] = value
    return data


def flat_settings(spec: PayoutSpec) -> dict[str, Any]:
    """List the settings that differ from their defaults, by their names with points: ``columns.id``."""
    flat: dict[str, Any] = {}
    for name, value in spec.model_dump(exclude_defaults=True).items():
        is_section = isinstance(value, dict)
        flat |= {f"{name}.{key}": v for key, v in value.items()} if is_section else {name: value}
    return flat


def faults_of(flags: Mapping[str, Any]) -> dict[str, str]:
    """Find what is wrong with settings, by their names with points; empty where all are good."""
    faults = dict[str, str]()
    for name, value in {"amount": None, **flags}.items():
        alone = {"amount": "1", name: value}
        currency = {"currency": flags.get("currency")}
        if name == "amount" and not _fault(currency):  # the currency says how many digits it may have
            alone |= currency
        if fault_here := _fault(alone):
            faults[name] = fault_here[1]
    if not faults and (together := _fault(flags)):
        faults[together[0]] = together[1]
    return faults


def _fault(flags: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return which setting is wrong, as far as that is known, and how."""
    try:
        checked_spec(nested({"amount": "1", **flags}))
    except ParameterError as error:
        return error.parameter, str(error)
    except DataMarketError as error:
        return "", str(error)
    return None


def validated(model: type[D], data: Any) -> D:
    """Validate settings or options given as plain values; refuse them in one line."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] != "missing":
            raise fault(error) from error
        field = ".".join(map(str, first["loc"]))
        file = "" if field in ("amount", "out") else ", or write market.toml: datamarket init --help"
        raise DataMarketError(f"there is no {field}; give --{field}{file}") from error


def checked_spec(data: Any) -> PayoutSpec:
    """Validate the settings of a run; refuse them in one line."""
    spec = validated(PayoutSpec, data)
    spec.minor  # noqa: B018  an impossible amount is refused before anything is read
    spec.utility  # noqa: B018
    return spec


@dataclass(frozen=True)
class Worth:
    """Hold the words for what a utility measures, as reports, screens and errors use them."""

    total: str  # the name of what all units together are worth
    divided: str  # by what the amount is divided
    plain: str  # the same, for those who are paid
    nothing: str  # why there may be nothing to divide by
    alone: str  # what previously acquired units are worth
    signed: bool = True  # whether scores can be below zero
    by_distance: bool = False  # whether shorter vectors can be nearer to every row
    percent: bool = False  # whether worth is a part of a whole

    def shown(self, worth: float) -> str:
        """Write a worth as people read it."""
        return f"{worth:.1%}" if self.percent else f"{worth:.4g}"


_ACCURACY = Worth(
    total="accuracy over chance",
    divided="what their data teach a model",
    plain="how much better a model becomes by learning from their units, on examples that are kept secret",
    nothing="the data teach no more than chance",
    alone="A model that learns from these alone is right on {} of the validation rows",
    by_distance=True,
    percent=True,
)
_COVERED = Worth(
    total="validation rows covered",
    divided="how much of the validation rows their units cover: a row counts by how much closer the nearest unit "
    "of its label is to it than unrelated rows are, and is shared by all whose units are near it",
    plain="how well their units match examples of what is wanted, which are kept secret: the closer a unit comes to "
    "one, the more it counts, and an example that units of several payees come close to is shared among them",
    nothing="no unit is more like a row of its label than unrelated rows are (are both from one encoder?)",
    alone="These alone cover {} of the validation rows",
    signed=False,
    percent=True,
)
_COVERED_UNLABELLED = replace(
    _COVERED,
    divided=_COVERED.divided.replace(" of its label", ""),
    nothing=_COVERED.nothing.replace(" of its label", ""),
)
_EXPLAINED = Worth(
    total="variance explained",
    divided="how well a model that learns from their units predicts the numbers of the validation rows: by so much of "
    "their variance it is nearer to them than their mean is",
    plain="how much nearer a model that learns from their units comes to numbers that are kept secret than their mean "
    "does",
    nothing="the data predict the numbers no better than their mean does",
    alone="A model that learns from these alone explains {} of the variance of the validation rows",
    by_distance=True,
    percent=True,
)
_SCORED = Worth(
    total="scores, summed",
    divided="what the scores say that another tool has computed: each unit counts with the mean of its scores over the "
    "validation rows",
    plain="scores that a tool has computed: how much each of their units contributes to a model, on examples that are "
    "kept secret",
    nothing="the scores of all units together come to nothing, or to less",
    alone="The scores of these alone come to {}",
)
_COUNTED = Worth(
    total="distinct units",
    divided="how many distinct units each of them has: every unit counts alike, and copies of one count once",
    plain="how many different units they have: every unit counts alike, and copies of one count once",
    nothing="there is no unit that counts",
    alone="These alone are {} distinct units",
    signed=False,
)
_OWN = Worth(
    total="worth of all units",
    divided="what their units add to a utility of the operator's own",
    plain="how much their units add to what the operator measures data by, on examples that are kept secret",
    nothing="the operator's utility is worth no more with the units than without",
    alone="These alone are worth {}",
)


def worth_of(utility: UtilityFunction, *, labelled: bool = True) -> Worth:
    """Return the words for a utility, in a run where labels count or do not."""
    if isinstance(utility, Coverage):
        return _COVERED if utility.labels and labelled else _COVERED_UNLABELLED
    if isinstance(utility, ImportedScores):
        return _SCORED
    if isinstance(utility, Count):
        return _COUNTED
    if utility.paid_from != "chance" and isinstance(utility, FunctionUtility):
        return _OWN
    return _EXPLAINED if utility.target == "number" else _ACCURACY
