"""Attack your own market before others do: audits and best responses."""

from datamarket_gym.judge.checked import CheckedAttack
from datamarket_gym.judge.redteam.audit import audit
from datamarket_gym.judge.redteam.best_response import Response, Target, best_response
from datamarket_gym.judge.redteam.findings import AuditReport, Finding, Loss, Trial
from datamarket_gym.judge.redteam.grid import attack_grid
from datamarket_gym.judge.redteam.own_market import honest_profile, market_state
from datamarket_gym.judge.redteam.remedies import Remedy
from datamarket_gym.judge.redteam.space import AttackCosts, Effort, Space
from datamarket_gym.units.io import read_validation

__all__ = [
    "AttackCosts",
    "AuditReport",
    "CheckedAttack",
    "Effort",
    "Finding",
    "Loss",
    "Remedy",
    "Response",
    "Space",
    "Target",
    "Trial",
    "attack_grid",
    "audit",
    "best_response",
    "honest_profile",
    "market_state",
    "read_validation",
]
