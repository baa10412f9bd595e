"""Environments in which attackers are trained; importing this package registers them."""

from datamarket_gym.analysis.redteam.gymnasium_env import AttackEnv, SpaceField
from datamarket_gym.analysis.redteam.pettingzoo_env import ParallelMarketEnv, parallel_env

__all__ = ["AttackEnv", "ParallelMarketEnv", "SpaceField", "parallel_env"]
