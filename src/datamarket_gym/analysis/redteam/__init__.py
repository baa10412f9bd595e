"""Attack your own market before others do: audits and best responses."""

from importlib import import_module
from typing import Any

from datamarket_gym.analysis.redteam.attack_grid import attack_grid, market_state
from datamarket_gym.analysis.redteam.audit import audit
from datamarket_gym.analysis.redteam.best_response import AttackCosts, Space, Target, best_response
from datamarket_gym.analysis.redteam.findings import AuditReport
from datamarket_gym.analysis.redteam.multi_attacker import StageGame, best_response_dynamics

__all__ = [
    "AttackCosts",
    "AttackEnv",
    "AuditReport",
    "ParallelMarketEnv",
    "Space",
    "StageGame",
    "Target",
    "attack_grid",
    "audit",
    "best_response",
    "best_response_dynamics",
    "market_state",
]


_ENVIRONMENTS = {"AttackEnv": "gymnasium_env", "ParallelMarketEnv": "pettingzoo_env"}


def __getattr__(name: str) -> Any:
    """Import an environment when it is first asked for, since it needs the extra ``gym``."""
    if name not in _ENVIRONMENTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ENVIRONMENTS[name]}"), name)
