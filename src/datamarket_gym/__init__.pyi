"""Types of what `datamarket_gym` exports; importing it reads the names and their modules from here."""

from collections.abc import Mapping
from typing import Any, Literal, overload

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
from datamarket_gym.utilities.fidelity import Fidelity as Fidelity
from datamarket_gym.utilities.fidelity import fidelity as fidelity
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

__version__: str
