"""DataMarket-Gym: pay people for training data without paying cheats.

Submitted units go in, evidence ties some of them together, the tied groups play a coalition game (how much
of the validation rows they cover, or how well a model learns from them), a semivalue scores the groups, an
allocation rule pays the identities, and an audit says what a cheater could still gain::

    from datamarket_gym import ProviderMarket, Synthetic, mechanism

    market = ProviderMarket.from_task(Synthetic(), seed=0, learner="coverage")
    paid = mechanism("recommended").pay(market.honest.submission, market.utility_oracle())
    paid.as_dict()
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, overload

__version__ = "0.2.0"

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datamarket_gym.core.errors import CollapsedMarketWarning as CollapsedMarketWarning
    from datamarket_gym.core.errors import DataMarketError as DataMarketError
    from datamarket_gym.core.errors import FitFailedWarning as FitFailedWarning
    from datamarket_gym.core.errors import InputTypeError as InputTypeError
    from datamarket_gym.core.errors import LeakedRowsWarning as LeakedRowsWarning
    from datamarket_gym.core.errors import LongValuationWarning as LongValuationWarning
    from datamarket_gym.core.errors import NegativeValueWarning as NegativeValueWarning
    from datamarket_gym.core.errors import UndatedMarketWarning as UndatedMarketWarning
    from datamarket_gym.core.frames import ResultTable as ResultTable
    from datamarket_gym.core.registry import register as register
    from datamarket_gym.evidence import Clusters as Clusters
    from datamarket_gym.evidence import EvidenceGraph as EvidenceGraph
    from datamarket_gym.evidence import EvidenceLayer as EvidenceLayer
    from datamarket_gym.evidence import predict_theta as predict_theta
    from datamarket_gym.games.game import Game as Game
    from datamarket_gym.games.semivalue import Estimator as Estimator
    from datamarket_gym.games.semivalue import Semivalue as Semivalue
    from datamarket_gym.judge.evaluation import Evaluation as Evaluation
    from datamarket_gym.judge.evaluation import evaluate as evaluate
    from datamarket_gym.judge.metrics import Metrics as Metrics
    from datamarket_gym.lab import ExperimentSpec
    from datamarket_gym.learners.base import Learner as Learner
    from datamarket_gym.learners.base import Scorer as Scorer
    from datamarket_gym.learners.function import UtilityRows as UtilityRows
    from datamarket_gym.learners.function import utility as utility
    from datamarket_gym.learners.oracle import ReferenceRows as ReferenceRows
    from datamarket_gym.learners.oracle import Utility as Utility
    from datamarket_gym.learners.oracle import UtilityOracle as UtilityOracle
    from datamarket_gym.learners.score_table import ScoreTable as ScoreTable
    from datamarket_gym.learners.scores import ImportedScores as ImportedScores
    from datamarket_gym.learners.similarity import Similarity as Similarity
    from datamarket_gym.pipeline import Allocation as Allocation
    from datamarket_gym.pipeline import Allocator as Allocator
    from datamarket_gym.pipeline import Mechanism as Mechanism
    from datamarket_gym.pipeline import PaidTotals as PaidTotals
    from datamarket_gym.pipeline import Payer as Payer
    from datamarket_gym.pipeline import Payments as Payments
    from datamarket_gym.pipeline import QuotientGame as QuotientGame
    from datamarket_gym.pipeline import Representative as Representative
    from datamarket_gym.pipeline import Valuator as Valuator
    from datamarket_gym.pipeline import canonical_training_set as canonical_training_set
    from datamarket_gym.pipeline import mechanism as mechanism
    from datamarket_gym.pipeline import prior_of as prior_of
    from datamarket_gym.pipeline.pay import pay as pay
    from datamarket_gym.pipeline.valuation import Valuation as Valuation
    from datamarket_gym.pipeline.valuation import value as value
    from datamarket_gym.units import GroundTruth as GroundTruth
    from datamarket_gym.units import PriorArt as PriorArt
    from datamarket_gym.units import Submission as Submission
    from datamarket_gym.units import SubmittedProfile as SubmittedProfile
    from datamarket_gym.units import read_submission as read_submission
    from datamarket_gym.world.attacks import Attack as Attack
    from datamarket_gym.world.encoders import Encoder as Encoder
    from datamarket_gym.world.market import ProviderMarket as ProviderMarket
    from datamarket_gym.world.tasks import Synthetic as Synthetic
    from datamarket_gym.world.tasks import Task as Task
    from datamarket_gym.world.tasks.partitions import Partition as Partition

    @overload
    def create(kind: Literal["attack"], spec: str | Mapping[str, Any] | Attack) -> Attack: ...
    @overload
    def create(
        kind: Literal["evidence"], spec: str | Mapping[str, Any] | EvidenceLayer
    ) -> EvidenceLayer: ...
    @overload
    def create(
        kind: Literal["representative"], spec: str | Mapping[str, Any] | Representative
    ) -> Representative: ...
    @overload
    def create(kind: Literal["semivalue"], spec: str | Mapping[str, Any] | Semivalue) -> Semivalue: ...
    @overload
    def create(kind: Literal["estimator"], spec: str | Mapping[str, Any] | Estimator) -> Estimator: ...
    @overload
    def create(
        kind: Literal["allocation"], spec: str | Mapping[str, Any] | Allocation
    ) -> Allocation: ...
    @overload
    def create(kind: Literal["mechanism"], spec: str | Mapping[str, Any] | Payer) -> Payer: ...
    @overload
    def create(kind: Literal["learner"], spec: str | Mapping[str, Any] | Learner) -> Learner: ...
    @overload
    def create(
        kind: Literal["similarity"], spec: str | Mapping[str, Any] | Similarity
    ) -> Similarity: ...
    @overload
    def create(kind: Literal["game"], spec: str | Mapping[str, Any] | Game) -> Game: ...
    @overload
    def create(kind: Literal["task"], spec: str | Mapping[str, Any] | Task) -> Task: ...
    @overload
    def create(kind: Literal["partition"], spec: str | Mapping[str, Any] | Partition) -> Partition: ...
    @overload
    def create(kind: Literal["encoder"], spec: str | Mapping[str, Any] | Encoder) -> Encoder: ...
    @overload
    def create(
        kind: Literal["experiment"], spec: str | Mapping[str, Any] | ExperimentSpec
    ) -> ExperimentSpec: ...
    def create(kind: str, spec: Any) -> Any: ...


_EXPORTS = {
    "Allocation": "pipeline",
    "Allocator": "pipeline",
    "Attack": "world.attacks",
    "Clusters": "evidence",
    "CollapsedMarketWarning": "core.errors",
    "DataMarketError": "core.errors",
    "Encoder": "world.encoders",
    "Estimator": "games.semivalue",
    "Evaluation": "judge.evaluation",
    "EvidenceGraph": "evidence",
    "EvidenceLayer": "evidence",
    "FitFailedWarning": "core.errors",
    "Game": "games.game",
    "GroundTruth": "units",
    "ImportedScores": "learners.scores",
    "InputTypeError": "core.errors",
    "LeakedRowsWarning": "core.errors",
    "LongValuationWarning": "core.errors",
    "Learner": "learners.base",
    "Mechanism": "pipeline",
    "Metrics": "judge.metrics",
    "NegativeValueWarning": "core.errors",
    "Partition": "world.tasks.partitions",
    "PaidTotals": "pipeline",
    "Payer": "pipeline",
    "Payments": "pipeline",
    "PriorArt": "units",
    "ProviderMarket": "world.market",
    "QuotientGame": "pipeline",
    "ReferenceRows": "learners.oracle",
    "Representative": "pipeline",
    "ResultTable": "core.frames",
    "ScoreTable": "learners.score_table",
    "Scorer": "learners.base",
    "Semivalue": "games.semivalue",
    "Similarity": "learners.similarity",
    "Submission": "units",
    "SubmittedProfile": "units",
    "Synthetic": "world.tasks",
    "Task": "world.tasks",
    "UndatedMarketWarning": "core.errors",
    "Utility": "learners.oracle",
    "UtilityOracle": "learners.oracle",
    "UtilityRows": "learners.function",
    "Valuation": "pipeline.valuation",
    "Valuator": "pipeline",
    "canonical_training_set": "pipeline",
    "create": "core.registry",
    "evaluate": "judge.evaluation",
    "mechanism": "pipeline",
    "pay": "pipeline.pay",
    "predict_theta": "evidence",
    "prior_of": "pipeline",
    "read_submission": "units",
    "register": "core.registry",
    "utility": "learners.function",
    "value": "pipeline.valuation",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    """Import public names when they are first used, so that importing the package is quick."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"datamarket_gym.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    """The public names, also those that are not loaded yet, and the rooms that are."""
    there = {n for n, value in globals().items() if n.startswith("__") or isinstance(value, ModuleType)}
    return sorted({*there, *__all__})
