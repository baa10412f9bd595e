"""A mechanism: evidence, granularity, representative, semivalue, estimator, allocation, by name."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator

from datamarket_gym.data.ground_truth import GroundTruth
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Described
from datamarket_gym.errors import (
    CollapsedMarketWarning,
    DataMarketError,
    LeakedRowsWarning,
    ParameterError,
    UndatedMarketWarning,
    require_instance,
    require_known,
    warn_user,
)
from datamarket_gym.evidence.graph import EvidenceLayer, describe_missing_times, find_collapse
from datamarket_gym.games.semivalues import Estimator, Semivalue
from datamarket_gym.mechanism.allocation import Allocation
from datamarket_gym.mechanism.external import OwnMechanism, Payer
from datamarket_gym.mechanism.payments import Payments
from datamarket_gym.mechanism.pipeline import (
    LeakCheck,
    Matching,
    Pipeline,
    describe_acquired_rows,
    describe_leaks,
)
from datamarket_gym.mechanism.representatives import Representative
from datamarket_gym.registry import (
    Component,
    Kind,
    components,
    create,
    fault,
    lookup,
    register,
    written,
    written_fields,
)
from datamarket_gym.utilities.oracle import UtilityOracle

VERSION = 1
_COMPONENTS = ("evidence", "representative", "semivalue", "estimator", "allocation")


class Mechanism(Described, BaseModel):
    """A frozen spec that pays a submission; to and from JSON without loss.

    Components are objects; texts (``cosine@0.99``) and mappings are parsed once, when the mechanism is made.
    ``samples`` is the number of permutations (the budget is samples x players evaluations). ``normalize`` rescales raw
    scores to the grand-coalition value, a separate step with guarantees of its own. Units of equal time draw lots under
    the seed and ``beacon``, a text known only after submissions close; where it is blank, under the validation rows,
    which submitters do not know. ``leak_check`` says what becomes of units that are validation rows, or nearly: they
    are set aside (``drop``), refused (``error``) or paid (``off``, as in the paper).
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, validate_default=True
    )

    name: str
    evidence: EvidenceLayer = "none"  # type: ignore[assignment]  # texts are parsed, by default as well
    granularity: Literal["unit", "batch", "identity"] = "identity"
    representative: Representative = "identity"  # type: ignore[assignment]
    semivalue: Semivalue = "shapley"  # type: ignore[assignment]
    estimator: Estimator = "auto"  # type: ignore[assignment]
    samples: int = Field(default=256, ge=1)
    allocation: Allocation = "equal_submitted"  # type: ignore[assignment]
    normalize: bool = False
    leak_check: LeakCheck = "off"
    seed: int = 0
    beacon: str = ""

    @field_validator(*_COMPONENTS, mode="before")
    @classmethod
    def _parsed(cls, value: Any, info: Any) -> Component:
        component: Component = create(info.field_name, value)
        return component

    @field_serializer(*_COMPONENTS)
    def _written(self, value: Component) -> str:
        return written(value)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Mechanism:
        """Copy the mechanism with some fields changed; components are objects, or texts that are parsed."""
        changes = {k: create(k, v) if k in _COMPONENTS else v for k, v in (update or {}).items()}
        return super().model_copy(update=changes, deep=deep)

    @property
    def label(self) -> str:
        """What tables call it, for example ``quotient_shapley/cosine@0.99/v1``; it does not identify."""
        return f"{self.name}/v{VERSION}"

    @property
    def id(self) -> str:
        """The label of the mechanism registered under its name; of any other spec a digest is added.

        Two specs have one id only if they agree in every field.
        """
        if self == _registered(self.name):
            return self.label
        return f"{self.label}+{hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]}"

    @property
    def key(self) -> str:
        """All that decides payments."""
        return self.model_dump_json()

    def called(self, name: str) -> Mechanism:
        """The same mechanism under another name."""
        return self.model_copy(update={"name": name})

    def seeded(self, seed: int) -> Mechanism:
        """The mechanism with another seed."""
        return self.model_copy(update={"seed": seed})

    @property
    def tie_breaker(self) -> str:
        """The text under which random tie-breaking orders units of equal time."""
        return f"{self.seed}|{self.beacon}"

    @property
    def matches(self) -> bool:
        """Whether evidence matches units at all."""
        return str(self.evidence) != "none"

    @property
    def pays_earliest(self) -> bool:
        """Whether of matched units the earliest stands for the others: who was first then decides who is paid."""
        return self.matches and self.representative.by_seniority

    def pay(
        self, submission: Submission, utility: UtilityOracle, oracle: GroundTruth | None = None
    ) -> Payments:
        """Pay a submission. The oracle is shown only to evidence and allocations that declare it.

        Evidence that leaves its threshold open (``lineage@auto``) is resolved first; the payments
        say how. Warns (`CollapsedMarketWarning`) where similarity evidence takes much of a market for one
        unit, (`LeakedRowsWarning`) where units were set aside because they are validation rows, or such
        rows were bought, and (`UndatedMarketWarning`) where it pays the earliest and no times say who that is. Where
        the utility is given previously acquired data, units that evidence matches with it earn nothing.
        """
        started = time.perf_counter()
        require_instance(
            "submission", submission, Submission, "a Submission (Submission.from_arrays makes one)"
        )
        require_instance(
            "utility", utility, UtilityOracle, "a UtilityOracle, UtilityOracle(X_val, y_val, 'coverage')"
        )
        pipeline = Pipeline(self, utility, oracle)
        matching = pipeline.match(submission)
        self._warn(matching, utility)
        paid = matching.complete(pipeline.value(matching.clusters))
        return replace(paid, seconds=time.perf_counter() - started)

    def _warn(self, matching: Matching, utility: UtilityOracle) -> None:
        """Warn of what somebody should look at before anybody is paid."""
        if len(matching.leaks):
            warn_user(LeakedRowsWarning(self.name, describe_leaks(matching.leaks)))
        if bought := describe_acquired_rows(self.leak_check, utility):
            warn_user(LeakedRowsWarning(self.name, bought))
        collapse = find_collapse(
            matching.mechanism.evidence,
            matching.playing,
            matching.clusters,
            checked=matching.threshold is not None,
        )
        if collapse is not None:
            warn_user(CollapsedMarketWarning(self.name, collapse.message))
        undated = describe_missing_times(matching.playing) if self.pays_earliest else None
        if undated is not None:
            warn_user(UndatedMarketWarning(self.name, undated))


def get_mechanism(name: str, **changes: Any) -> Mechanism:
    """A registered mechanism by name, such as ``shapley`` or ``quotient_shapley/cosine@0.99``."""
    require_instance("name", name, str, "the name of a mechanism, such as 'recommended'")
    require_known("field of a mechanism", changes, Mechanism.model_fields)
    stem, slash, evidence = name.partition("/")
    preset = _preset_of(stem)
    if slash:
        preset["evidence"] = evidence
    elif preset.get("evidence") == "":
        raise ParameterError("mechanism", name, f"name its evidence, as in {stem}/cosine@0.99")
    try:
        return Mechanism(**{"name": name, **preset, **changes})
    except ValidationError as error:
        raise fault(error) from error


def _preset_of(stem: str) -> dict[str, Any]:
    """The fields that a registered function gives a mechanism of our pipeline."""
    found = lookup("mechanism", stem)
    if _is_own(found):
        raise ParameterError(
            "mechanism",
            stem,
            f"it is no spec of this pipeline; make it with create('mechanism', {stem!r})",
        )
    preset = found()
    if not isinstance(preset, Mapping):
        raise ParameterError(
            f"mechanism {stem}", type(preset).__name__,
            "register a class with pay(submission, utility), or a function that returns a mapping of fields",
        )  # fmt: skip
    return dict(preset)


def _is_own(found: object) -> bool:
    return isinstance(found, type | Payer)


def as_mechanism(found: Payer, name: str = "") -> Mechanism | OwnMechanism:
    """A mechanism with a name whose answers are `PaidTotals`: ours as it is, one of somebody's own checked."""
    return found if isinstance(found, Mechanism | OwnMechanism) else OwnMechanism.of(found, name)


def _registered(name: str) -> Mechanism | None:
    """The mechanism that a name says in full; None where it is a name of somebody's own."""
    try:
        return get_mechanism(name)
    except DataMarketError:
        return None


def _built(text: str, parameters: dict[str, Any]) -> Payer:
    if text.startswith("{"):
        try:
            return Mechanism.model_validate_json(text)
        except ValidationError as error:
            raise fault(error, "mechanism ") from error
    name = re.split(r"[^\w.-]", text.strip(), maxsplit=1)[0]
    found = components("mechanism").get(name)
    if isinstance(found, type):
        return _that_pays(MECHANISMS.construct(text, parameters), name)
    if isinstance(found, Payer):
        if parameters or text.strip() != name:
            raise ParameterError(f"mechanism {name}", parameters or text, "it takes no parameters")
        return found.called(name) if isinstance(found, Mechanism) else found
    return get_mechanism(text, **parameters)


def _that_pays(made: Payer, name: str) -> Payer:
    OwnMechanism(name, made)  # refuses what cannot pay
    return made


def _written(spec: Payer) -> str:
    """The name alone where it says everything, else all fields as JSON."""
    if not isinstance(spec, Mechanism):
        return written_fields(spec)
    return spec.name if spec == _registered(spec.name) else spec.model_dump_json()


MECHANISMS: Kind[Payer] = Kind("mechanism", Payer, _built, _written)


def _preset(name: str, title: str, summary: str, **spec: Any) -> None:
    def preset() -> dict[str, Any]:
        return spec

    preset.title, preset.summary = title, summary  # type: ignore[attr-defined]
    register("mechanism", name)(preset)


_IDENTITIES = "Submitted identities are the players; no units are matched."
_CLUSTERS = "Clusters of units that evidence matches are the players."
_preset("shapley", "Shapley", _IDENTITIES)
_preset("banzhaf", "Banzhaf", _IDENTITIES, semivalue="banzhaf")
_preset("beta_shapley", "Beta Shapley", _IDENTITIES, semivalue="beta")
_preset("loo", "leave-one-out", _IDENTITIES, semivalue="loo")
_preset(
    "uniform",
    "equal shares",
    "Every submitted identity gets an equal share of the value of all data.",
    evidence="pool",
)
_preset(
    "per_example", "by number of units", "Submitted identities share the value of all data by their numbers of units.",
    evidence="pool", allocation="count_raw",
)  # fmt: skip
_preset("quotient_shapley", "quotient Shapley", _CLUSTERS, evidence="")
_preset("quotient_banzhaf", "quotient Banzhaf", _CLUSTERS, evidence="", semivalue="banzhaf")
_preset("quotient_beta_shapley", "quotient Beta Shapley", _CLUSTERS, evidence="", semivalue="beta")
_preset(
    "recommended",
    "recommended mechanism",
    "Each unit descends from its nearest earlier unit, if similar enough; the earliest represents and owns its tree.",
    evidence="lineage@auto",
    granularity="unit",
    representative="capped",
    allocation="count_canonical",
    leak_check="drop",
)
