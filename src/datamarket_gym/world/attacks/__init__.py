"""What an attacker submits instead of its honest units."""

from datamarket_gym.world.attacks import composite, content, replication, variants
from datamarket_gym.world.attacks.attack import Attack, Block, Own

__all__ = ["Attack", "Block", "Own", "composite", "content", "replication", "variants"]
