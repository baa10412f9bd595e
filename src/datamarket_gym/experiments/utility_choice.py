"""Choose a utility by its fidelity and the worst gain that it leaves: the rule of experiment ``frontier``.

The rule keeps the utilities whose linear datamodeling score (LDS) against logistic regression is at least 0.9 of that
of ``coverage@0.5`` on each of four domains. Of these it takes the smallest mean over the domains of (worst secret gain
+ worst leaked gain) / 2; among several within 0.02 of the smallest, the one with the highest mean LDS over the domains.
Gains and scores are means over seeds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.tables import markdown_table
from datamarket_gym.registry import written
from datamarket_gym.utilities.base import LEARNERS

DOMAINS = ("agnews", "imdb", "stl10", "cifar10")
"""Names of the tasks over which the rule takes means."""
REFERENCE = "coverage@0.5"
KEPT, TIE = 0.9, 0.02
MODEL = "logistic"
"""The model against which fidelity counts."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class UtilityPoint:
    """Hold a utility's worst gains and its LDS by domain; ``fidelity`` is empty if its LDS was not measured."""

    learner: str
    secret: Mapping[str, float]
    leaked: Mapping[str, float]
    fidelity: Mapping[str, float]

    @property
    def mean_secret(self) -> float:
        return fmean(self.secret.values())

    @property
    def mean_leaked(self) -> float:
        return fmean(self.leaked.values())

    @property
    def worst_gain(self) -> float:
        """Return the mean of secret and leaked, which the rule minimises."""
        return (self.mean_secret + self.mean_leaked) / 2

    @property
    def lds(self) -> float | None:
        return fmean(self.fidelity.values()) if self.fidelity else None

    def is_faithful(self, reference: UtilityPoint) -> bool:
        """Return whether fidelity is at least 0.9 of the reference's on each domain."""
        return bool(self.fidelity) and all(
            self.fidelity[domain] >= KEPT * reference.fidelity[domain] - _ROUNDING for domain in DOMAINS
        )


def utility_points(gains: Iterable[Row], scores: Iterable[Row]) -> list[UtilityPoint]:
    """Collect the points of all utilities whose worst gains are known on all domains.

    Parameters
    ----------
    gains, scores
        The summary rows of ``frontier``, and those of ``lds`` (if empty, no utility has a fidelity).

    Returns
    -------
    list of UtilityPoint
    """
    worst: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in gains:
        is_worst = row["metric"] == "gain" and row.get("attack") == "worst" and not row.get("checks")
        if is_worst and row["value"] is not None and _domain(row) in DOMAINS:
            worst[row["learner"]][row["validation"]][_domain(row)] = row["value"]
    measured: dict[str, dict[str, float]] = defaultdict(dict)
    for row in scores:
        if row["metric"] == "lds" and row["value"] is not None and row.get("model", MODEL) == MODEL:
            measured[_written(row["learner"])][_domain(row)] = row["value"]
    return [
        UtilityPoint(
            learner,
            by["secret"],
            by["leaked"],
            _on_all(measured.get(_written(learner), {})),
        )
        for learner, by in worst.items()
        if all(_on_all(by[validation]) for validation in ("secret", "leaked"))
    ]


def choose_utility(points: Sequence[UtilityPoint]) -> UtilityPoint:
    """Choose the utility to recommend.

    Parameters
    ----------
    points
        The utilities; ``coverage@0.5`` is among them, with its fidelity.

    Returns
    -------
    UtilityPoint

    Raises
    ------
    DataMarketError
        Where the fidelity of the reference was not measured on all domains.
    """
    reference = next((point for point in points if point.learner == REFERENCE), None)
    if reference is None or not reference.fidelity:
        raise DataMarketError(
            f"the LDS of {REFERENCE}, with which others are compared, is missing on one of {', '.join(DOMAINS)}; run "
            "the experiments frontier and lds, and give the folder that holds both"
        )
    faithful = [point for point in points if point.is_faithful(reference)]
    least = min(point.worst_gain for point in faithful)
    tied = [point for point in faithful if point.worst_gain <= least + TIE + _ROUNDING]
    return max(tied, key=lambda point: point.lds or 0.0)


def undominated(points: Sequence[UtilityPoint], validation: str) -> list[UtilityPoint]:
    """List the utilities that no other beats in both LDS and gain, the smallest gain first."""

    def gain(point: UtilityPoint) -> float:
        return point.mean_secret if validation == "secret" else point.mean_leaked

    frontier: list[UtilityPoint] = []
    for point in sorted(points, key=lambda p: (gain(p), -(p.lds or 0.0))):
        if point.lds is not None and all(point.lds > (other.lds or 0.0) for other in frontier):
            frontier.append(point)
    return frontier


def choice_table(points: Sequence[UtilityPoint]) -> list[str]:
    """Write all points as a Markdown table, sorted by what the rule minimises, with the chosen one marked."""
    reference = next((point for point in points if point.learner == REFERENCE), None)
    chosen = choose_utility(points).learner if reference and reference.fidelity else ""
    heads = ["utility", "rule"]
    for name in ("LDS", "secret", "leaked"):
        heads += [f"{name}: {domain}" for domain in (*DOMAINS, "mean")]
    heads.append("mean of secret and leaked")
    lines = []
    for point in sorted(points, key=lambda p: p.worst_gain):
        words = "no LDS"
        if point.fidelity and reference is not None and reference.fidelity:
            words = "kept" if point.is_faithful(reference) else "not kept"
        line = [f"`{point.learner}`", "chosen" if point.learner == chosen else words]
        for values, digits in ((point.fidelity, 3), (point.secret, 2), (point.leaked, 2)):
            numbers = [values.get(domain) for domain in DOMAINS]
            numbers.append(fmean(values.values()) if values else None)
            line += ["-" if number is None else f"{number:.{digits}f}" for number in numbers]
        lines.append([*line, f"{point.worst_gain:.3f}"])
    return markdown_table(heads, lines, ", ".join(heads[2:]))


def _domain(row: Row) -> str:
    return str(row["task"]).partition("(")[0]


def _written(learner: str) -> str:
    """Return the canonical name of a learner; other names, such as of imported scores, as they are."""
    try:
        return written(LEARNERS.create(learner))
    except DataMarketError:
        return learner


def _on_all(values: Mapping[str, float]) -> dict[str, float]:
    """Return the values by domain, in order; empty if one is missing."""
    is_complete = all(domain in values for domain in DOMAINS)
    return {domain: values[domain] for domain in DOMAINS} if is_complete else {}
