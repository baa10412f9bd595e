"""Attack your own market before others do: audits and best responses."""

from importlib import import_module
from typing import Any

from datamarket_gym.judge.checked import CheckedAttack
from datamarket_gym.judge.redteam.audit import audit
from datamarket_gym.judge.redteam.best_response import Response, Target, best_response
from datamarket_gym.judge.redteam.dynamics import Path, best_response_dynamics
from datamarket_gym.judge.redteam.findings import AuditReport, Finding, Loss, Trial
from datamarket_gym.judge.redteam.grid import attack_grid
from datamarket_gym.judge.redteam.own_market import honest_profile, market_state
from datamarket_gym.judge.redteam.remedies import Remedy
from datamarket_gym.judge.redteam.several import Stage
from datamarket_gym.judge.redteam.space import AttackCosts, Effort, Space
from datamarket_gym.units.io import read_validation

__all__ = [
    "AttackCosts",
    "AttackEnv",
    "AuditReport",
    "CheckedAttack",
    "Effort",
    "Finding",
    "Loss",
    "ParallelMarketEnv",
    "Path",
    "Remedy",
    "Response",
    "Space",
    "Stage",
    "Target",
    "Trial",
    "attack_grid",
    "audit",
    "best_response",
    "best_response_dynamics",
    "honest_profile",
    "market_state",
    "read_validation",
]


_ENVIRONMENTS = {"AttackEnv": "gym_env", "ParallelMarketEnv": "parallel_env"}


def __getattr__(name: str) -> Any:
    """Import an environment when it is first asked for, since it needs the extra ``gym``."""
    if name not in _ENVIRONMENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ENVIRONMENTS[name]}"), name)
