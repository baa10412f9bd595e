"""The attack library with its parameter grid, scaled to the market at hand."""

from __future__ import annotations

from fnmatch import fnmatch

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.parameters import MISSING, parameters_of
from datamarket_gym.core.registry import components, written
from datamarket_gym.judge.redteam.own_market import spread
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.market import MarketState

NOISE = (0.02, 0.1, 0.25, 0.5, 1.0)
"""Noise levels that are tried, in spreads of a feature."""


def attack_grid(state: MarketState, only: str | None = None) -> list[str]:
    """Every attack to try, written out; ``only`` keeps those that match comma-separated patterns.

    A pattern is matched with the name (``squat``) and with the attack as it is written (``squat*knows=leak*``).
    """
    scale = spread(state)
    found: dict[str, None] = {}
    for name, component in components("attack").items():
        for parameters in vars(component).get("tried", ("",)):
            if not parameters and any(p.default is MISSING for p in parameters_of(component)):
                continue
            for noise in NOISE if "{noise}" in parameters else (0.0,):
                sizes = {"noise": noise, "little": NOISE[0], "half": 0.5}
                text = parameters.format(**{k: repr(round(v * scale, 6)) for k, v in sizes.items()})
                attack = written(ATTACKS.create(f"{name}({text})" if text else name))
                if only is None or _matches(only, name, attack):
                    found[attack] = None
    if not found:
        raise ParameterError("attacks", only, "no attack of the library matches; see: list attack")
    return list(found)


def _matches(only: str, name: str, attack: str) -> bool:
    return any(fnmatch(name, each) or fnmatch(attack, each) for each in only.split(","))


def family(attack: str) -> str:
    """The registered name of a written attack."""
    return attack.partition("(")[0].partition("@")[0]
