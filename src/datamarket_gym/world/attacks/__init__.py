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
from datamarket_gym.world.attacks.several import Cheating, attacked_by

__all__ = [
    "Attack",
    "Block",
    "Cheating",
    "Own",
    "apply_knowing",
    "attacked_by",
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
