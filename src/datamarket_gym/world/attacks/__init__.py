"""What an attacker submits instead of its honest units."""

from datamarket_gym.world.attacks import (
    blends,
    bridges,
    claims,
    composite,
    content,
    inflation,
    placing,
    replication,
    turning,
    variants,
)
from datamarket_gym.world.attacks.attack import Attack, Block, Own
from datamarket_gym.world.attacks.knowledge import apply_knowing

__all__ = [
    "Attack",
    "Block",
    "Own",
    "apply_knowing",
    "blends",
    "bridges",
    "claims",
    "composite",
    "content",
    "inflation",
    "placing",
    "replication",
    "turning",
    "variants",
]
