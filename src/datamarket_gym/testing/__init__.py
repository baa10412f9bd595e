"""Public checkers, one per plug point: run yours on your own component before you register it.

Each raises `ConformanceError` with the first broken promise, and returns None when all hold::

    from datamarket_gym.testing import validate_attack
    validate_attack(MyAttack())
"""

from datamarket_gym.testing.base import (
    ConformanceError,
    budget_balanced,
    budget_gap,
    individually_rational,
    validate_budget_balance,
    validate_individual_rationality,
)
from datamarket_gym.testing.markets import (
    validate_attack,
    validate_encoder,
    validate_partition,
    validate_task,
)
from datamarket_gym.testing.mechanisms import (
    validate_allocation,
    validate_evidence,
    validate_mechanism,
    validate_representative,
)
from datamarket_gym.testing.utilities import (
    validate_estimator,
    validate_game,
    validate_semivalue,
    validate_similarity,
    validate_utility,
)

CHECKERS = {
    "allocation": validate_allocation,
    "attack": validate_attack,
    "encoder": validate_encoder,
    "estimator": validate_estimator,
    "evidence": validate_evidence,
    "game": validate_game,
    "learner": validate_utility,
    "mechanism": validate_mechanism,
    "partition": validate_partition,
    "representative": validate_representative,
    "semivalue": validate_semivalue,
    "similarity": validate_similarity,
    "task": validate_task,
}
"""The checker of each kind of plug point."""

__all__ = [
    "CHECKERS",
    "ConformanceError",
    "budget_balanced",
    "budget_gap",
    "validate_budget_balance",
    "validate_individual_rationality",
    "individually_rational",
    *(checker.__name__ for checker in CHECKERS.values()),
]
