"""What an attacker submits instead of its honest units; every module of this package is loaded with it."""

from importlib import import_module
from pkgutil import iter_modules

from datamarket_gym.world.attacks.attack import Attack, Block, Own
from datamarket_gym.world.attacks.knowledge import apply_knowing
from datamarket_gym.world.attacks.several import Cheating, attacked_by

__all__ = ["Attack", "Block", "Cheating", "Own", "apply_knowing", "attacked_by"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
