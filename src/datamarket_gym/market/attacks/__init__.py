"""What an attacker submits instead of its honest units; every module of this package is loaded with it."""

from importlib import import_module
from pkgutil import iter_modules

from datamarket_gym.market.attacks.base import Attack, Block, Own
from datamarket_gym.market.attacks.multi_attacker import MultiAttackerGame, attacked_by

__all__ = ["Attack", "Block", "MultiAttackerGame", "Own", "attacked_by"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
