"""Public checkers, one per plug point: run yours on your own component before you register it.

Each raises `ConformanceError` with the first broken promise, and returns None when all hold::

    from datamarket_gym.conformance import check_attack
    check_attack(MyAttack())
"""

from datamarket_gym.conformance.markets import check_attack, check_encoder, check_partition, check_task
from datamarket_gym.conformance.mechanisms import (
    check_allocation,
    check_evidence,
    check_mechanism,
    check_representative,
)
from datamarket_gym.conformance.promise import ConformanceError
from datamarket_gym.conformance.properties import (
    budget_balanced,
    budget_gap,
    check_budget_balance,
    check_individual_rationality,
    individually_rational,
)
from datamarket_gym.conformance.valuation import (
    check_estimator,
    check_game,
    check_learner,
    check_semivalue,
    check_similarity,
)

CHECKERS = {
    "allocation": check_allocation,
    "attack": check_attack,
    "encoder": check_encoder,
    "estimator": check_estimator,
    "evidence": check_evidence,
    "game": check_game,
    "learner": check_learner,
    "mechanism": check_mechanism,
    "partition": check_partition,
    "representative": check_representative,
    "semivalue": check_semivalue,
    "similarity": check_similarity,
    "task": check_task,
}
"""The checker of each kind of plug point."""

__all__ = [
    "CHECKERS",
    "ConformanceError",
    "budget_balanced",
    "budget_gap",
    "check_budget_balance",
    "check_individual_rationality",
    "individually_rational",
    *(f"check_{kind}" for kind in CHECKERS),
]
