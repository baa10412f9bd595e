"""DataMarket-Gym: pay people for training data without paying attackers.

Submitted units go in, evidence matches them, matched units form clusters, clusters play a coalition game (how much
of the validation rows they cover, or how well a model learns from them), a semivalue scores them, an allocation
rule pays the identities, and an audit says what an attacker could still gain::

    from datamarket_gym import ProviderMarket, Synthetic, get_mechanism

    market = ProviderMarket.from_task(Synthetic(), seed=0, learner="coverage")
    paid = get_mechanism("recommended").pay(market.honest.submission, market.utility_oracle())
    paid.as_dict()
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, overload

__version__ = "0.2.0"

if TYPE_CHECKING:
    from collections.abc import Mapping

    from datamarket_gym.analysis.evaluation import Evaluation as Evaluation
    from datamarket_gym.analysis.evaluation import evaluate as evaluate
    from datamarket_gym.analysis.metrics import Metrics as Metrics
    from datamarket_gym.data import AcquiredData as AcquiredData
    from datamarket_gym.data import GroundTruth as GroundTruth
    from datamarket_gym.data import Submission as Submission
    from datamarket_gym.data import SubmittedProfile as SubmittedProfile
    from datamarket_gym.data import read_submission as read_submission
    from datamarket_gym.errors import CollapsedMarketWarning as CollapsedMarketWarning
    from datamarket_gym.errors import DataMarketError as DataMarketError
    from datamarket_gym.errors import FitFailedWarning as FitFailedWarning
    from datamarket_gym.errors import InputTypeError as InputTypeError
    from datamarket_gym.errors import LeakedRowsWarning as LeakedRowsWarning
    from datamarket_gym.errors import LongValuationWarning as LongValuationWarning
    from datamarket_gym.errors import NegativeValueWarning as NegativeValueWarning
    from datamarket_gym.errors import UndatedMarketWarning as UndatedMarketWarning
    from datamarket_gym.evidence import Clusters as Clusters
    from datamarket_gym.evidence import EvidenceGraph as EvidenceGraph
    from datamarket_gym.evidence import EvidenceLayer as EvidenceLayer
    from datamarket_gym.evidence import predict_theta as predict_theta
    from datamarket_gym.experiments import ExperimentSpec
    from datamarket_gym.games.game import Game as Game
    from datamarket_gym.games.semivalues import Estimator as Estimator
    from datamarket_gym.games.semivalues import Semivalue as Semivalue
    from datamarket_gym.market.attacks import Attack as Attack
    from datamarket_gym.market.encoders import Encoder as Encoder
    from datamarket_gym.market.market import ProviderMarket as ProviderMarket
    from datamarket_gym.market.tasks import Synthetic as Synthetic
    from datamarket_gym.market.tasks import Task as Task
    from datamarket_gym.market.tasks.partitions import Partition as Partition
    from datamarket_gym.mechanism import Allocation as Allocation
    from datamarket_gym.mechanism import Allocator as Allocator
    from datamarket_gym.mechanism import Mechanism as Mechanism
    from datamarket_gym.mechanism import Payer as Payer
    from datamarket_gym.mechanism import Payments as Payments
    from datamarket_gym.mechanism import QuotientGame as QuotientGame
    from datamarket_gym.mechanism import Representative as Representative
    from datamarket_gym.mechanism import Valuator as Valuator
    from datamarket_gym.mechanism import acquired_from as acquired_from
    from datamarket_gym.mechanism import canonical_training_set as canonical_training_set
    from datamarket_gym.mechanism import get_mechanism as get_mechanism
    from datamarket_gym.mechanism.allocation import PaidTotals as PaidTotals
    from datamarket_gym.mechanism.pay import pay as pay
    from datamarket_gym.mechanism.valuation import Valuation as Valuation
    from datamarket_gym.mechanism.valuation import value as value
    from datamarket_gym.registry import register as register
    from datamarket_gym.result_table import ResultTable as ResultTable
    from datamarket_gym.utilities.base import Scorer as Scorer
    from datamarket_gym.utilities.base import UtilityFunction as UtilityFunction
    from datamarket_gym.utilities.custom import UtilityRows as UtilityRows
    from datamarket_gym.utilities.custom import utility as utility
    from datamarket_gym.utilities.imported_scores import ImportedScores as ImportedScores
    from datamarket_gym.utilities.imported_scores import ScoreTable as ScoreTable
    from datamarket_gym.utilities.oracle import ReferenceRows as ReferenceRows
    from datamarket_gym.utilities.oracle import Utility as Utility
    from datamarket_gym.utilities.oracle import UtilityOracle as UtilityOracle
    from datamarket_gym.utilities.similarity import Similarity as Similarity

    Written = str | Mapping[str, Any]

    @overload
    def create(kind: Literal["attack"], spec: Written | Attack) -> Attack: ...
    @overload
    def create(kind: Literal["evidence"], spec: Written | EvidenceLayer) -> EvidenceLayer: ...
    @overload
    def create(kind: Literal["representative"], spec: Written | Representative) -> Representative: ...
    @overload
    def create(kind: Literal["semivalue"], spec: Written | Semivalue) -> Semivalue: ...
    @overload
    def create(kind: Literal["estimator"], spec: Written | Estimator) -> Estimator: ...
    @overload
    def create(kind: Literal["allocation"], spec: Written | Allocation) -> Allocation: ...
    @overload
    def create(kind: Literal["mechanism"], spec: Written | Payer) -> Payer: ...
    @overload
    def create(kind: Literal["learner"], spec: Written | UtilityFunction) -> UtilityFunction: ...
    @overload
    def create(kind: Literal["similarity"], spec: Written | Similarity) -> Similarity: ...
    @overload
    def create(kind: Literal["game"], spec: Written | Game) -> Game: ...
    @overload
    def create(kind: Literal["task"], spec: Written | Task) -> Task: ...
    @overload
    def create(kind: Literal["partition"], spec: Written | Partition) -> Partition: ...
    @overload
    def create(kind: Literal["encoder"], spec: Written | Encoder) -> Encoder: ...
    @overload
    def create(kind: Literal["experiment"], spec: Written | ExperimentSpec) -> ExperimentSpec: ...
    def create(kind: str, spec: Any) -> Any: ...


_EXPORTS = {
    "Allocation": "mechanism",
    "Allocator": "mechanism",
    "Attack": "market.attacks",
    "Clusters": "evidence",
    "CollapsedMarketWarning": "errors",
    "DataMarketError": "errors",
    "Encoder": "market.encoders",
    "Estimator": "games.semivalues",
    "Evaluation": "analysis.evaluation",
    "EvidenceGraph": "evidence",
    "EvidenceLayer": "evidence",
    "FitFailedWarning": "errors",
    "Game": "games.game",
    "GroundTruth": "data",
    "ImportedScores": "utilities.imported_scores",
    "InputTypeError": "errors",
    "LeakedRowsWarning": "errors",
    "LongValuationWarning": "errors",
    "UtilityFunction": "utilities.base",
    "Mechanism": "mechanism",
    "Metrics": "analysis.metrics",
    "NegativeValueWarning": "errors",
    "Partition": "market.tasks.partitions",
    "PaidTotals": "mechanism.allocation",
    "Payer": "mechanism",
    "Payments": "mechanism",
    "AcquiredData": "data",
    "ProviderMarket": "market.market",
    "QuotientGame": "mechanism",
    "ReferenceRows": "utilities.oracle",
    "Representative": "mechanism",
    "ResultTable": "result_table",
    "ScoreTable": "utilities.imported_scores",
    "Scorer": "utilities.base",
    "Semivalue": "games.semivalues",
    "Similarity": "utilities.similarity",
    "Submission": "data",
    "SubmittedProfile": "data",
    "Synthetic": "market.tasks",
    "Task": "market.tasks",
    "UndatedMarketWarning": "errors",
    "Utility": "utilities.oracle",
    "UtilityOracle": "utilities.oracle",
    "UtilityRows": "utilities.custom",
    "Valuation": "mechanism.valuation",
    "Valuator": "mechanism",
    "canonical_training_set": "mechanism",
    "create": "registry",
    "evaluate": "analysis.evaluation",
    "get_mechanism": "mechanism",
    "pay": "mechanism.pay",
    "predict_theta": "evidence",
    "acquired_from": "mechanism",
    "read_submission": "data",
    "register": "registry",
    "utility": "utilities.custom",
    "value": "mechanism.valuation",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    """Import public names when they are first used, so that importing the package is quick."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"datamarket_gym.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, also those that are not loaded yet, and the packages that are."""
    there = {n for n, value in globals().items() if n.startswith("__") or isinstance(value, ModuleType)}
    return sorted({*there, *__all__})
