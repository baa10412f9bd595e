"""Environments in which attackers are trained; importing this package registers them."""

from datamarket_gym.judge.redteam.gym_env import AttackEnv, SpaceField
from datamarket_gym.judge.redteam.parallel_env import ParallelMarketEnv, parallel_env

__all__ = ["AttackEnv", "ParallelMarketEnv", "SpaceField", "parallel_env"]
