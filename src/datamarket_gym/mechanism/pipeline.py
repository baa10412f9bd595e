"""A mechanism and the stages of a payment, in their order: leak check, threshold, match, represent, score, allocate.

`Mechanism` is the specification; presets such as ``recommended`` are registered at the end. `Pipeline` runs the stages:
`Mechanism.pay`, payout runs, certificates and questions of what would be paid run this sequence and never repeat it.
Two hooks let them take part: `Pipeline.override_acquired` and `Pipeline.override_matches` have a say after matching,
and `Pipeline.run_stage` keeps the record of a stage or reads it again.

Units that are validation rows, or nearly (`evidence.leak_check`), and units that were acquired before are excluded
first: all others are paid as if they had not been submitted, and they earn 0. A unit that evidence matches with an
acquired one, by itself and not through other new units, belongs to its owner. The others play with the matches among
themselves: as new, v(S) = U(S) - U(empty), or given the acquired data P, v(S) = U(P + S) - U(P), as the utility says.

Theorem (acquired units have no say). Given the evidence, submitting units that were acquired before changes neither
what plays nor its matches and scores: whether u was acquired depends on u and on old units alone, and such units are
taken out before anything else is asked. Were units also recognised through other new units, early noisy copies of old
units would draw honest new ones into old trees; and a copy of a copy gains nothing that a farther copy would not.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator

from datamarket_gym.data.acquired import AcquiredData, joined, require_same_columns
from datamarket_gym.data.ground_truth import GroundTruth
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Described, Shown, counted
from datamarket_gym.errors import (
    CollapsedMarketWarning,
    DataMarketError,
    LeakedRowsWarning,
    LeakError,
    ParameterError,
    SubmissionError,
    UndatedMarketWarning,
    require_instance,
    require_known,
    warn_user,
)
from datamarket_gym.evidence.graph import (
    AcquiredMatches,
    Clusters,
    EvidenceGraph,
    EvidenceLayer,
    View,
    describe_missing_times,
    find_collapse,
)
from datamarket_gym.evidence.leak_check import Leaks, ValidationContent, find_leaks
from datamarket_gym.evidence.lineage import AUTO, NONE, Containment, Lineage
from datamarket_gym.evidence.similarity_search import NearestRows
from datamarket_gym.evidence.threshold import (
    Threshold,
    compared_vectors,
    measure_threshold,
    operator_common_pairs,
    with_compared_vectors,
)
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.games.semivalues import Estimator, Semivalue
from datamarket_gym.mechanism.allocation import Allocation, Amounts, Payments, allocate
from datamarket_gym.mechanism.own_mechanism import OwnMechanism, Payer
from datamarket_gym.mechanism.quotient_game import Scores, score_clusters
from datamarket_gym.mechanism.representatives import CanonicalUnits, Representative, represent_clusters
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
from datamarket_gym.utilities.base import among as are_among
from datamarket_gym.utilities.labels import require_learnable
from datamarket_gym.utilities.oracle import UtilityOracle

R = TypeVar("R")

LeakCheck = Literal["off", "drop", "error"]

REMEDY = (
    "Validation rows decide what data are worth: replace them if they leaked, or remove those that honest units "
    "contain as well, such as boilerplate"
)

VERSION = 1
_COMPONENTS = ("evidence", "representative", "semivalue", "estimator", "allocation")


class Mechanism(Described, BaseModel):
    """Pay a submission by evidence, a representative, a semivalue and an allocation; to and from JSON without loss.

    Parameters
    ----------
    name, seed
        What the mechanism is called, and the seed of what is drawn.
    evidence, granularity
        Which units match, and whether matches join units, batches or identities. Components are objects, or text
        (``cosine@0.99``) that is parsed once.
    representative, allocation
        Which rows stand for a cluster, and how its score is divided.
    semivalue, estimator, samples
        How coalitions of clusters are weighted, how that is computed, and the permutations: the budget is samples x
        players evaluations.
    normalize
        Whether raw scores are rescaled to the grand-coalition value, a separate step with guarantees of its own.
    leak_check
        What becomes of units that are validation rows, or nearly: excluded (``drop``), refused (``error``) or paid
        (``off``, as in the paper).
    beacon
        A text known only after submissions close, under which units of equal time are ordered; if blank, the
        validation rows are.
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
    def _parsed(cls, value: Any, info: Any) -> Any:
        return create(info.field_name, value)

    @field_serializer(*_COMPONENTS)
    def _written(self, value: Component) -> str:
        return written(value)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Mechanism:
        """Copy the mechanism with some fields changed; components are objects, or texts that are parsed."""
        changes = {k: create(k, v) if k in _COMPONENTS else v for k, v in (update or {}).items()}
        return super().model_copy(update=changes, deep=deep)

    @property
    def label(self) -> str:
        """Name for tables, for example ``quotient_shapley/cosine@0.99/v1``; two specs may share one."""
        return f"{self.name}/v{VERSION}"

    @property
    def id(self) -> str:
        """Label of the mechanism registered under the name; any other spec adds a digest of all its fields."""
        if self == _registered(self.name):
            return self.label
        return f"{self.label}+{hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]}"

    @property
    def key(self) -> str:
        """Text of all that decides payments."""
        return self.model_dump_json()

    def called(self, name: str) -> Mechanism:
        """Copy the mechanism under another name."""
        return self.model_copy(update={"name": name})

    def seeded(self, seed: int) -> Mechanism:
        """Copy the mechanism with another seed."""
        return self.model_copy(update={"seed": seed})

    @property
    def tie_breaker(self) -> str:
        """Text under which random tie-breaking orders units of equal time."""
        return f"{self.seed}|{self.beacon}"

    @property
    def matches(self) -> bool:
        """True if evidence matches units at all."""
        return str(self.evidence) != "none"

    @property
    def pays_earliest(self) -> bool:
        """True if of matched units the earliest stands for the others, so that seniority decides payments."""
        return self.matches and self.representative.by_seniority

    def pay(
        self, submission: Submission, utility: UtilityOracle, oracle: GroundTruth | None = None
    ) -> Payments:
        """Pay a submission.

        Evidence that leaves its threshold open (``lineage@auto``) is resolved first; the payments say how. Warns
        (`CollapsedMarketWarning`) where similarity evidence takes much of a market for one unit, (`LeakedRowsWarning`)
        where units were excluded because they are validation rows, or such rows were acquired, and
        (`UndatedMarketWarning`) where it pays the earliest and no times say which that is.

        Parameters
        ----------
        submission : Submission
            The units.
        utility : UtilityOracle
            What units are paid for. Where it is given previously acquired data, units that match it earn nothing.
        oracle : GroundTruth, optional
            The truth, shown only to evidence and allocations that declare that they ask it.

        Returns
        -------
        Payments
            The records of all stages, and the amount of each identity.

        Raises
        ------
        DataMarketError
            If an argument cannot be used, or nothing is left to pay for.
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
        return replace(paid, seconds=time.perf_counter() - started, utility=utility.description)

    def _warn(self, matching: Matching, utility: UtilityOracle) -> None:
        """Warn of what should be examined before money goes out."""
        playing, evidence = matching.clusters.units, matching.mechanism.evidence
        if len(matching.leaks):
            warn_user(LeakedRowsWarning(self.name, describe_leaks(matching.leaks)))
        if message := describe_acquired_rows(self.leak_check, utility):
            warn_user(LeakedRowsWarning(self.name, message))
        checked = matching.threshold is not None
        if collapse := find_collapse(evidence, playing, matching.clusters, checked=checked):
            warn_user(CollapsedMarketWarning(self.name, collapse.message))
        if self.pays_earliest and (undated := describe_missing_times(playing)):
            warn_user(UndatedMarketWarning(self.name, undated))


@dataclass(frozen=True, eq=False)
class Matching(Shown):
    """The units of a submission that play, and the clusters that evidence makes of them.

    ``rows`` are their places in the submission; those of `leaks` and `acquired` were excluded. ``mechanism`` has
    nothing left open; ``threshold`` says how it was resolved, where it was open.
    """

    submitted: Submission
    rows: Codes
    clusters: Clusters
    mechanism: Mechanism
    threshold: Threshold | None
    leaks: Leaks
    acquired: AcquiredMatches

    def complete(self, payments: Payments) -> Payments:
        """Add to the payments of the clusters all who submitted, and what was excluded."""
        return replace(
            payments.extended_to(self.submitted.identities),
            threshold=self.threshold,
            leaks=self.leaks,
            acquired=self.acquired,
            submitted=self.submitted,
        )


@dataclass(eq=False)
class Pipeline:
    """The stages by which a mechanism pays submissions for a utility.

    The truth is shown only to evidence and allocations that declare an oracle.
    """

    mechanism: Mechanism
    utility: UtilityOracle
    truth: GroundTruth | None = None

    def match(self, submission: Submission) -> Matching:
        """Check for leaks, resolve the threshold, exclude acquired units, and match the units that are left."""
        leaks = self.run_stage("leaks", Leaks, lambda: self.find_leaks(submission))
        rows = leaks.others(len(submission))
        playing = submission if len(rows) == len(submission) else submission.take(rows)
        require_learnable(playing.label, self.utility)
        mechanism, threshold = resolve_threshold(
            self.mechanism, playing, self.utility, self.measure_threshold
        )
        acquired = AcquiredMatches.none()
        if self.utility.acquired is not None:
            find = partial(find_acquired_units, mechanism, playing, self.utility)
            acquired = self.override_acquired(self.run_stage("acquired", AcquiredMatches, find), rows)
        if len(acquired):
            new = acquired.others(len(rows))
            acquired, rows = replace(acquired, unit=rows[acquired.unit]), rows[new]
            playing = playing.take(new)
            require_learnable(playing.label, self.utility)  # acquired units have no say in it
        clusters = self.run_stage("matches", Clusters, lambda: self.match_units(mechanism, playing))
        # A record that is read does not say of which units it is.
        clusters = replace(clusters, submission=playing, tie_breaker=mechanism.tie_breaker)
        clusters = self.override_matches(clusters, rows)
        return Matching(submission, rows, clusters, mechanism, threshold, leaks, acquired)

    def value(self, clusters: Clusters, prefix: str = "", groups: Codes | None = None) -> Payments:
        """Represent, score and allocate clusters; ``prefix`` tells the records of several clusterings apart.

        ``groups`` numbers groups of validation rows on which scores are asked for as well.
        """
        mechanism = self.mechanism
        canonical = self.represent(clusters, prefix)
        score = partial(
            score_clusters, canonical, self.utility, mechanism.semivalue, mechanism.estimator,
            samples=mechanism.samples, seed=mechanism.seed, normalize=mechanism.normalize, groups=groups,
        )  # fmt: skip
        scores = self.run_stage(f"{prefix}scores", Scores, score)
        divide = partial(allocate, clusters, canonical, scores, mechanism.allocation, self.truth)
        amounts = self.run_stage(f"{prefix}amounts", Amounts, divide)
        return Payments(clusters.units.identities, clusters, canonical, scores, amounts)

    def run_stage(self, name: str, kind: type[R], compute: Callable[[], R]) -> R:
        """Compute the record of a stage; a subclass may keep it, or read it where it was kept."""
        return compute()

    def override_acquired(self, acquired: AcquiredMatches, rows: Codes) -> AcquiredMatches:
        """Change which units, of those at ``rows`` of the submission, count as acquired before."""
        return acquired

    def override_matches(self, clusters: Clusters, rows: Codes) -> Clusters:
        """Change the clusters of the units at ``rows`` of the submission."""
        return clusters

    def find_leaks(self, submission: Submission) -> Leaks:
        """Find the units that are validation rows; raise an error where there must be none."""
        check = self.mechanism.leak_check
        leaks = find_leaked_units(check, submission, self.utility)
        require_playable(check, leaks, len(submission))
        return leaks

    def measure_threshold(self, submission: Submission, utility: UtilityOracle) -> Threshold:
        """Choose the threshold of evidence that leaves it open."""
        return measure_threshold(submission, utility)

    def match_units(self, mechanism: Mechanism, submission: Submission) -> Clusters:
        """Match units by the evidence of a mechanism that leaves nothing open."""
        return match_units(mechanism, submission, self.truth, self.utility)

    def represent(self, clusters: Clusters, prefix: str) -> CanonicalUnits:
        """Choose the rows that stand for the clusters."""
        return represent_clusters(clusters, self.mechanism.representative)


def find_leaked_units(
    leak_check: LeakCheck,
    submission: Submission,
    utility: UtilityOracle,
    validation: ValidationContent | None = None,
) -> Leaks:
    """Find the units that are validation rows, or nearly.

    ``validation`` are these rows where they have texts, or another order than the utility's.
    """
    if leak_check == "off":
        return Leaks.none()
    compared, embedded = with_compared_vectors(submission, utility)
    rows = validation or ValidationContent(embedded.features, embedded.embedding, embedded.text)
    if validation is not None and embedded is not utility:
        rows = replace(validation, embedding=utility.compared(validation.features))
    leaks = find_leaks(compared, rows)
    return replace(leaks, units=submission.take(leaks.unit)) if len(leaks) else leaks


def require_playable(
    leak_check: LeakCheck, leaks: Leaks, units: int, shown: Callable[[str], str] = str
) -> None:
    """Refuse leaks where they are errors, and a submission that is nothing but leaks."""
    if len(leaks) and leak_check == "error":
        raise LeakError(
            f"{leaks.message(shown)}. {REMEDY}; with the leak check 'drop' they are excluded"
        )
    if len(leaks) == units:
        raise LeakError(
            f"every unit equals a validation row, or nearly, so nothing is left to pay for: {leaks.message(shown)}. "
            "Check that the submissions and the validation rows are not the same data"
        )


def describe_leaks(leaks: Leaks) -> str:
    """Say which units were excluded as leaked, and what to do about it."""
    return f"{leaks.message()}; they are excluded and earn nothing. {REMEDY}"


def describe_acquired_rows(leak_check: LeakCheck, utility: UtilityOracle) -> str:
    """Say which validation rows were acquired before, number for number; blank where none was.

    Somebody has sold them, and knows them. Given what was acquired they are covered for good, too: no payment is due
    for them, and what covers the other rows takes all.
    """
    if leak_check == "off" or utility.acquired is None:
        return ""
    if not len(rows := np.flatnonzero(are_among(utility.features, utility.acquired.features))):
        return ""
    so = "nobody is paid for units like them" if utility.discounted else "whoever sold them knows them"
    message = (
        f"{len(rows):,} of the {counted(len(utility.label), 'validation row')} were acquired in an earlier period, the "
        f"first being row {rows[0]}, so {so}; take rows that nobody has sold"
    )
    if leak_check == "error":
        raise LeakError(message)
    return message


def is_open(evidence: EvidenceLayer) -> bool:
    """Tell whether evidence leaves its threshold to the validation rows (``lineage@auto``, ``containment@auto``)."""
    return isinstance(evidence, Lineage | Containment) and evidence.theta == AUTO


def resolve_threshold(
    mechanism: Mechanism,
    submission: Submission,
    utility: UtilityOracle,
    measure: Callable[[Submission, UtilityOracle], Threshold] = measure_threshold,
) -> tuple[Mechanism, Threshold | None]:
    """Resolve what a mechanism leaves open: its threshold, and the beacon of random tie-breaking.

    Parameters
    ----------
    mechanism
        The mechanism.
    submission, utility
        The units, and what they are worth.
    measure
        Measures the threshold.

    Returns
    -------
    tuple[Mechanism, Threshold | None]
        The mechanism, and how its threshold was chosen; None where the evidence names its own.
    """
    if not mechanism.beacon:
        mechanism = mechanism.model_copy(update={"beacon": utility.secret})
    layer = mechanism.evidence
    if not is_open(layer):
        return mechanism, None
    threshold = measure(submission, utility)
    if isinstance(layer, Containment) and threshold.words is None:
        remedy = "give units and validation rows a column of texts, or match by lineage@auto"
        raise ParameterError("evidence", str(layer), f"{threshold.why}. {remedy}")
    theta, words, copies = (
        NONE if level is None else level
        for level in (threshold.theta, threshold.words, threshold.text_copies)
    )
    lineage = layer if isinstance(layer, Lineage) else Lineage(AUTO)
    lineage = replace(lineage, theta=theta, words=words, copies=copies)
    return mechanism.model_copy(update={"evidence": lineage}), threshold


def match_units(
    mechanism: Mechanism,
    submission: Submission,
    truth: GroundTruth | None = None,
    utility: UtilityOracle | None = None,
    nearest: NearestRows | None = None,
) -> Clusters:
    """Match the units of a submission by a mechanism's evidence.

    Parameters
    ----------
    mechanism, submission
        Whose evidence is used, and the units.
    truth
        The ground truth, for evidence that needs it.
    utility
        What units are paid for: evidence compares them as it does (`with_compared_vectors`), without one by their
        embeddings or features.
    nearest
        A result of `nearest_units`, which saves work and changes nothing.

    Returns
    -------
    Clusters
    """
    compared = submission if utility is None else with_compared_vectors(submission, utility)[0]
    clusters = EvidenceGraph.build(
        compared,
        mechanism.evidence,
        granularity=mechanism.granularity,
        truth=truth,
        seed=mechanism.seed,
        tie_breaker=mechanism.tie_breaker,
        nearest=nearest,
        common=operator_common_pairs(utility),
    )
    return clusters if compared is submission else replace(clusters, submission=submission)


def nearest_units(
    mechanism: Mechanism,
    submission: Submission,
    utility: UtilityOracle,
    cached: NearestRows | None = None,
) -> NearestRows:
    """Find the nearest earlier unit of each unit, as far as the mechanism's evidence asks for it.

    ``cached`` is the result for another submission, which is reused for units that are in both, in the same order.
    """
    if not isinstance(mechanism.evidence, Lineage):
        return NearestRows.none()
    compared = with_compared_vectors(submission, utility)[0]
    view = View(
        compared,
        "unit",
        np.arange(len(compared)),
        tie_breaker=mechanism.tie_breaker,
        common=operator_common_pairs(utility),
    )
    return mechanism.evidence.nearest(view, cached)


def find_acquired_units(
    mechanism: Mechanism, submission: Submission, utility: UtilityOracle
) -> AcquiredMatches:
    """Find the units that the mechanism's evidence matches with acquired ones, each by its strongest match.

    Matches are unit by unit, whatever the granularity. Evidence that matches people (``linkage``) or everything
    (``pool``) says nothing of what was acquired.
    """
    acquired, layer = utility.acquired, mechanism.evidence
    if acquired is None or not layer.same_content:
        return AcquiredMatches.none()
    if layer.needs_oracle:
        raise ParameterError(
            "evidence",
            str(layer),
            "it asks an oracle, and none knows earlier periods; choose evidence that compares units",
        )
    n = len(acquired)
    if isinstance(layer, Lineage):
        require_same_columns([acquired.units, submission])
        compared = with_compared_vectors(submission, utility)[0]
        vectors = compared_vectors(acquired.units, utility)
        edges = layer.edges_to(acquired.units, compared, vectors, operator_common_pairs(utility))
    else:
        both = with_compared_vectors(joined(acquired, submission), utility)[0]
        edges = EvidenceGraph.build(
            both,
            layer,
            seed=mechanism.seed,
            tie_breaker=mechanism.tie_breaker,
            n_acquired=n,
            common=operator_common_pairs(utility),
        ).edges
    old, unit = np.minimum(edges.left, edges.right), np.maximum(edges.left, edges.right) - n
    order = np.lexsort((old, -edges.score, unit))
    first = order[np.unique(unit[order], return_index=True)[1]]
    return AcquiredMatches(unit[first], old[first], edges.score[first], edges.reason[first])


def acquired_from(payments: Payments) -> AcquiredData:
    """Return what a paid submission is to later periods: its units under their clusters' owners.

    Units that were acquired before are no part of it. Units that were excluded as validation rows are, under the
    identities that submitted them, so that changed copies of them are recognised.

    Parameters
    ----------
    payments : Payments
        The result of `Mechanism.pay`.

    Returns
    -------
    AcquiredData
        The units, and which of them the model was trained on.

    Raises
    ------
    SubmissionError
        If the payments do not say which submission they divide, or rows were made (centroids).
    """
    submission, canonical = payments.clustering.units, payments.canonical
    if (canonical.unit < 0).any() or canonical.weight is not None:
        raise SubmissionError(
            "rows that were made (centroids) are no units that can be submitted again; pay by another representative"
        )
    # Of each cluster the first row that was trained on, and the first claim on it.
    first = np.unique(canonical.cluster, return_index=True)[1]
    claim = np.unique(canonical.claim_row, return_index=True)[1]
    claimant = submission.identity[canonical.claim_unit[claim]].astype(object)
    owner = claimant[first][payments.clustering.label]
    owner[canonical.unit] = claimant
    units = submission.take(np.arange(len(submission)), {"identity": owner.astype(np.str_)})
    leaked = payments.leaks.units
    return AcquiredData(units if leaked is None else Submission.concat([units, leaked]), canonical.unit)


def get_mechanism(name: str, **changes: Any) -> Mechanism:
    """Return a registered mechanism by name, with some fields changed.

    Parameters
    ----------
    name : str
        Such as ``recommended``, ``shapley`` or ``quotient_shapley/cosine@0.99``.
    changes
        Fields of `Mechanism`.

    Returns
    -------
    Mechanism

    Raises
    ------
    UnknownNameError, ParameterError
        If there is no mechanism, or no field, of that name, or a field cannot have the value.

    Examples
    --------
    >>> str(get_mechanism("quotient_shapley/cosine@0.99").evidence)
    'cosine@0.99'
    """
    require_instance("name", name, str, "the name of a mechanism, such as 'recommended'")
    require_known("field of a mechanism", changes, Mechanism.model_fields)
    stem, slash, evidence = name.partition("/")
    registered = lookup("mechanism", stem)
    if isinstance(registered, type | Payer):
        remedy = f"make it with create('mechanism', {stem!r}): it has a pay() of its own"
        raise ParameterError("mechanism", stem, remedy)
    preset = registered()
    if not isinstance(preset, Mapping):
        remedy = "register a class with pay(submission, utility), or a function that returns a mapping of fields"
        raise ParameterError(f"mechanism {stem}", type(preset).__name__, remedy)
    preset = dict(preset)
    if slash:
        preset["evidence"] = evidence
    elif preset.get("evidence") == "":
        raise ParameterError("mechanism", name, f"name its evidence, as in {stem}/cosine@0.99")
    try:
        return Mechanism(**{"name": name, **preset, **changes})
    except ValidationError as error:
        raise fault(error) from error


def as_mechanism(payer: Payer, name: str = "") -> Mechanism | OwnMechanism:
    """Return a `Mechanism` as it is, and another payer as an `OwnMechanism` whose payments are checked.

    Parameters
    ----------
    payer, name
        A mechanism, or an object with ``pay``, and its name.

    Returns
    -------
    Mechanism | OwnMechanism
    """
    return payer if isinstance(payer, Mechanism | OwnMechanism) else OwnMechanism.of(payer, name)


def _registered(name: str) -> Mechanism | None:
    """Return the mechanism that a name says in full; None where it is a user's own name."""
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
    registered = components("mechanism").get(name)
    if isinstance(registered, type):
        payer = MECHANISMS.construct(text, parameters)
        OwnMechanism(name, payer)  # refuses what cannot pay
        return payer
    if isinstance(registered, Payer):
        if parameters or text.strip() != name:
            raise ParameterError(f"mechanism {name}", parameters or text, "it takes no parameters")
        return registered.called(name) if isinstance(registered, Mechanism) else registered
    return get_mechanism(text, **parameters)


def _written(spec: Payer) -> str:
    """Return the name alone where it says everything, else all fields as JSON."""
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
    "uniform", "equal shares", "Every submitted identity gets an equal share of the value of all data.",
    evidence="pool",
)  # fmt: skip
_preset(
    "per_example", "by number of units", "Submitted identities share the value of all data by their numbers of units.",
    evidence="pool", allocation="count_raw",
)  # fmt: skip
_preset(
    "robust_volume", "robust volume",
    "Submitted identities share the value of all data by the Shapley value of robust volume; labels are ignored.",
    evidence="pool", allocation="robust_volume",
)  # fmt: skip
_preset("quotient_shapley", "quotient Shapley", _CLUSTERS, evidence="")
_preset("quotient_banzhaf", "quotient Banzhaf", _CLUSTERS, evidence="", semivalue="banzhaf")
_preset("quotient_beta_shapley", "quotient Beta Shapley", _CLUSTERS, evidence="", semivalue="beta")
_preset(
    "recommended", "recommended mechanism",
    "Each unit descends from its nearest earlier unit, if similar enough; the earliest represents and owns its tree.",
    evidence="lineage@auto", granularity="unit", representative="capped", allocation="count_canonical",
    leak_check="drop",
)  # fmt: skip
