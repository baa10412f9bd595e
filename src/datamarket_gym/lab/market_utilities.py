"""One market under utilities that need labels, that need none, and whose scores come from elsewhere.

A utility without labels (``coverage(labels=False)``) plays the market as if nobody had ever labelled anything: units,
validation rows and what attackers see of them have no labels, so that evidence has no classes either. Imported scores
are computed on the very units that are paid for: as they were submitted (``reported``), or after the quotient, on the
units that stand for the others (``canonical``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import LeakedRowsWarning
from datamarket_gym.core.specs import Document
from datamarket_gym.evidence.collapse import told_once
from datamarket_gym.lab.attribution import Along, gradient_products
from datamarket_gym.lab.cells import learner_for
from datamarket_gym.lab.spec import ExperimentSpec, UtilityEntry
from datamarket_gym.learners import ImportedScores, ScoreTable
from datamarket_gym.learners.base import LEARNERS
from datamarket_gym.learners.coverage import Coverage
from datamarket_gym.learners.oracle import Utility, UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payments import Payments
from datamarket_gym.units.submission import Submission
from datamarket_gym.world.market import ProviderMarket

SCORES = "scores"


class ScoresEntry(Document):
    """Imported scores: what results call them, along what part of the fit, and on which units they are computed."""

    called: str = SCORES
    along: Along = "path"
    of: Literal["canonical", "reported"] = "canonical"


class MarketUtility(ABC):
    """A utility in one market, labelled or not."""

    name: str
    empty: str
    market: ProviderMarket

    @abstractmethod
    def oracle(self, submission: Submission) -> UtilityOracle:
        """What values units of this submission; of imported scores, those computed on it as it stands."""

    def pay(self, m: Mechanism, submission: Submission) -> Payments:
        """What the mechanism pays."""
        with told_once(LeakedRowsWarning):  # where there are any, an attack's doing
            return m.pay(submission, self.oracle(submission))


@dataclass(eq=False)
class _Fixed(MarketUtility):
    """One oracle, with its memo, whatever is submitted."""

    name: str
    empty: str
    market: ProviderMarket
    held: UtilityOracle

    def oracle(self, submission: Submission) -> UtilityOracle:
        return self.held


@dataclass(eq=False)
class _Scored(MarketUtility):
    """Gradient products that are computed anew on what is submitted."""

    name: str
    empty: str
    market: ProviderMarket
    along: Along
    of: str

    def oracle(self, submission: Submission) -> UtilityOracle:
        return self._on(submission.features, submission.label)

    def pay(self, m: Mechanism, submission: Submission) -> Payments:
        paid = super().pay(m, submission)
        if not m.matches or self.of == "reported":
            return paid
        # What evidence ties does not depend on scores: the second time it is the same.
        with told_once(LeakedRowsWarning):
            return m.pay(submission, self._on(paid.canonical.features, paid.canonical.label))

    def _on(self, features: Features, label: NDArray[Any]) -> UtilityOracle:
        data = self.market.dataset
        found = gradient_products(
            features, label, data.validation_features, data.validation_label, self.along
        )
        learner = ImportedScores(ScoreTable(features, label, found, data.validation_features))
        return self.market.utility_oracle(Utility(SCORES, self.empty), learner)


def utilities_in(
    spec: ExperimentSpec, scores: list[ScoresEntry], market: ProviderMarket, engine: dict[str, Any]
) -> Iterator[MarketUtility]:
    """The experiment's utilities in a market, and of imported scores each kind."""
    bare = market.without_labels()
    for entry in spec.utilities:
        if entry.learner == SCORES:
            for asked in scores:
                yield _Scored(asked.called, entry.empty, market, asked.along, asked.of)
            continue
        here = bare if needs_no_labels(entry) else market
        oracle = here.utility_oracle(entry.build(), learner_for(entry, engine), engine.get("memo"))
        yield _Fixed(entry.learner, entry.empty, here, oracle)


def needs_no_labels(entry: UtilityEntry) -> bool:
    """Whether a utility is coverage to which labels do not count."""
    learner = LEARNERS.create(entry.learner)
    return isinstance(learner, Coverage) and not learner.labels
