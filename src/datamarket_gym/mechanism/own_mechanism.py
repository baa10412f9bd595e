"""A mechanism of one's own that is not our pipeline: any object with ``pay(submission, utility)``.

It answers with an amount for each identity, or with `PaidTotals` (such as our `Payments`). `OwnMechanism` checks such
answers; metrics, experiments and the red team go through it and treat all mechanisms alike.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np

from datamarket_gym.data.ground_truth import GroundTruth
from datamarket_gym.data.submission import Submission, Text
from datamarket_gym.display import Described
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.execution.arrays import Values
from datamarket_gym.mechanism.allocation import PaidTotals
from datamarket_gym.registry import written_fields
from datamarket_gym.utilities.oracle import UtilityOracle


@runtime_checkable
class Payer(Protocol):
    """Pay a submission: the plug point ``mechanism``.

    A third parameter named ``oracle``, where ``pay`` has one, is handed the ground truth in experiments.
    """

    def pay(self, submission: Submission, utility: UtilityOracle) -> PaidTotals | Mapping[str, float]:
        """Return an amount for each identity of the submission, in units of the utility."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class OwnPayments(PaidTotals):
    """Amounts that a mechanism of one's own gave the identities of a submission."""

    submission: Submission
    amount: Values
    utility: UtilityOracle
    seconds: float = 0.0
    evaluations: float = float("nan")

    @property
    def identities(self) -> Text:  # type: ignore[override]
        """The submission's identities."""
        return self.submission.identities

    @property
    def totals(self) -> Values:
        """Amount per identity."""
        return self.amount

    @cached_property
    def grand_value(self) -> float:
        """v(all): what all submitted units are worth together."""
        return worth(self.submission, self.utility)


def worth(submission: Submission, utility: UtilityOracle) -> float:
    """Compute v(all): what units are worth together, as they are, without evidence."""
    return utility.game(submission, "identity").grand_value()


@dataclass(frozen=True, eq=False)
class OwnMechanism(Described):
    """A mechanism of one's own under a name; its answers are `PaidTotals`, or an error says why not."""

    name: str
    payer: Any

    def __post_init__(self) -> None:
        pay, name = getattr(self.payer, "pay", None), f"mechanism {self.name}"
        if isinstance(self.payer, type) or not callable(pay):
            remedy = "pass an object with pay(submission, utility)"
            raise ParameterError(name, type(self.payer).__name__, remedy)
        signature = inspect.signature(pay)
        try:
            signature.bind(None, None, **({"oracle": None} if self.asks_oracle else {}))
        except TypeError as error:
            remedy = "let it take (submission, utility), and oracle=None where it needs the truth"
            raise ParameterError(name, f"pay{signature}", remedy) from error

    @classmethod
    def of(cls, payer: Any, name: str = "") -> OwnMechanism:
        """Name a mechanism: as given, else by its written form, else by its class."""
        return cls(name or _written(payer) or type(payer).__name__, payer)

    @property
    def label(self) -> str:
        """Name for tables, and its id, as it has no spec."""
        return self.name

    id = label

    @property
    def key(self) -> str:
        """All that is known of what decides payments."""
        return repr((self.name, _written(self.payer) or self.payer))

    @property
    def asks_oracle(self) -> bool:
        """True if it takes the ground truth."""
        return "oracle" in inspect.signature(self.payer.pay).parameters

    def called(self, name: str) -> OwnMechanism:
        """Copy the mechanism under another name."""
        return replace(self, name=name)

    def seeded(self, seed: int) -> OwnMechanism:
        """Copy the mechanism with another seed, where it is a dataclass that has one."""
        if hasattr(type(self.payer), "__dataclass_fields__") and hasattr(self.payer, "seed"):
            return replace(self, payer=replace(self.payer, seed=seed))
        return self

    def pay(
        self, submission: Submission, utility: UtilityOracle, oracle: GroundTruth | None = None
    ) -> OwnPayments:
        """Pay a submission; the oracle is shown only to a mechanism that takes one."""
        started = time.perf_counter()
        shown = {"oracle": oracle} if self.asks_oracle else {}
        amounts = self.payer.pay(submission, utility, **shown)
        seconds, evaluations = time.perf_counter() - started, float("nan")
        if isinstance(
            amounts, PaidTotals
        ):  # only amounts count: clusters may be of other units than these
            evaluations, amounts = amounts.evaluations, amounts.as_dict()
        if not isinstance(amounts, Mapping):
            raise DataMarketError(
                f"mechanism {self.name} paid with a {type(amounts).__name__}; return a mapping from identity to "
                "amount, or Payments"
            )
        names = submission.identities.tolist()
        self._require_amounts(amounts, names)
        amount = np.array([float(amounts[n]) for n in names])
        return OwnPayments(submission, amount, utility, seconds, evaluations)

    def _require_amounts(self, amounts: Mapping[Any, Any], names: list[str]) -> None:
        for name in names:
            if name not in amounts:
                raise DataMarketError(
                    f"mechanism {self.name} has no amount for identity {name!r}; pay it 0.0 if it gets nothing"
                )
            amount = amounts[name]
            number = isinstance(amount, Real) and not isinstance(amount, bool | np.bool_)
            if not number or not np.isfinite(float(amount)):
                raise DataMarketError(
                    f"mechanism {self.name} pays identity {name!r} {amount!r}; pay a finite number"
                )
        if odd := [name for name in amounts if name not in set(names)]:
            raise DataMarketError(
                f"mechanism {self.name} pays {odd[0]!r}, who submitted nothing; pay identities of the submission only"
            )


def _written(payer: Any) -> str:
    """Return the written form; empty where there is none."""
    try:
        return written_fields(payer)
    except DataMarketError:
        return ""
