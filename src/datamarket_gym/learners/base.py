"""What a learner is: it turns coalitions of training rows into utilities, a whole batch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from datamarket_gym.typing import CoalitionMatrix, Codes, Features, Values

if TYPE_CHECKING:
    from datamarket_gym.semivalues.base import Semivalue


@dataclass(frozen=True)
class TrainingRows:
    """The rows all players bring: row i belongs to player ``player[i]`` and has weight ``weight[i]``."""

    features: Features  # (n, d)
    label: Codes  # (n,), class codes 0..n_classes-1
    player: Codes  # (n,), 0..n_players-1
    n_players: int
    n_classes: int
    weight: Values | None = None  # (n,), positive; None means one each

    @property
    def weights(self) -> Values:
        """The weights, ones where none were given."""
        return np.ones(len(self.label)) if self.weight is None else self.weight


@dataclass(frozen=True)
class ValidationRows:
    """The fixed validation split on which utility is measured; label codes as in `TrainingRows`."""

    features: Features  # (n_val, d)
    label: Codes  # (n_val,); a class that no training row has keeps a code of its own


class Scorer(ABC):
    """A learner that has seen the rows of all players and answers coalitions of them."""

    @abstractmethod
    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """U in [0, 1] of each coalition (B, n_players); every coalition has at least one row."""

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        """Exact semivalues of v(T) = U(T) - empty_value, v(empty) = 0, where a formula is known."""
        return None

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        """The closed form on each group of validation rows alone, shape (groups, n_players)."""
        return None


class Learner(ABC):
    """Plug point ``learner``: a frozen dataclass with the learner's parameters."""

    has_closed_form: ClassVar[bool] = False  # whether `Scorer.closed_form` can be other than None

    @abstractmethod
    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> Scorer:
        """Prepare the rows once; all coalitions are then answered by the scorer."""
