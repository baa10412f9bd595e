"""DataMarket-Gym: pay people for training data without paying attackers.

Submitted units go in, evidence matches them, matched units form clusters, clusters play a coalition game (how much
of the validation rows they cover, or how well a model learns from them), a semivalue scores them, an allocation
rule pays the identities, and an audit says what an attacker could still gain::

    from datamarket_gym import ProviderMarket, Synthetic, get_mechanism

    market = ProviderMarket.from_task(Synthetic(), seed=0, learner="coverage")
    paid = get_mechanism("recommended").pay(market.honest.submission, market.utility_oracle())
    paid.as_dict()
"""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import get_data
from types import ModuleType
from typing import Any

__version__ = "0.2.0"

# The stub imports every public name for type checkers; here it says which module has it.
_STUB = (get_data(__name__, "__init__.pyi") or b"").decode()
_EXPORTS = {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as \2$", _STUB, re.M)}
_EXPORTS["create"] = "datamarket_gym.registry"  # has a type for each kind there

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    """Import public names when they are first used, so that importing the package is quick."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    """List the public names, also those that are not loaded yet, and the packages that are."""
    there = {n for n, value in globals().items() if n.startswith("__") or isinstance(value, ModuleType)}
    return sorted({*there, *__all__})
