"""The attack library with its parameter grid, scaled to the market at hand."""

from __future__ import annotations

import dataclasses
from fnmatch import fnmatch

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.registry import components, written
from datamarket_gym.judge.redteam.own_market import spread
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.market import MarketState

NOISE = (0.02, 0.1, 0.25, 0.5, 1.0)
"""Noise levels that are tried, in spreads of a feature."""

_GRID: dict[str, tuple[str, ...]] = {
    "honest": (),
    "provider_zero_attack": (),  # another attack under another name
    "sybil_split_k": ("k=2", "k=3", "k=5"),
    "exact_dup_2x_sybils": (
        "fraction=0.5, sybils=2",
        "fraction=1.0, sybils=1",
        "fraction=1.0, sybils=4",
    ),
    "near_duplicate_2x_sybils": (
        "sigma={noise}, fraction=1.0, sybils=1",
        "sigma={noise}, fraction=1.0, sybils=3",
    ),
    "synthetic_laundering": (
        *(f"ratio={r}, how={how}" for r in (1.0, 3.0) for how in ("gaussian", "mix")),
        "ratio=3.0, first=True",
        "ratio=0.1",
    ),
    "strategic_curation": ("keep=0.3", "keep=0.6", "keep=0.9"),
    "copycat": ("fraction=1.0, sigma=0.0", "fraction=1.0, sigma={noise}"),
    "junk_padding": ("ratio=1.0", "ratio=3.0, identities=3", "ratio=3.0, first=True"),
    "composite": (
        "split=1, copy=1.0, copy_sigma={noise}, steal=1.0, steal_sigma={noise}",
        "split=1, copy=0.0, steal=1.0, steal_sigma={noise}, victims=99",
        "split=1, copy=0.0, steal=0.3, steal_sigma={noise}, victims=99, pick=rewards",
        "split=1, copy=0.0, steal=0.05, steal_sigma={noise}, victims=99, pick=rewards",
        "split=1, copy=1.0, copy_sigma={half}, steal=0.0, first=True",
    ),
    "bridge": ("theta=0.9", "theta=0.7", "victim=all, theta=0.9, most=1000, first=True"),
    "backdate": ("victim=all",),
    "grind_ties": ("victim=all, sigma={little}",),
    "own_source": ("victim=all",),
    "turn": (*(f"cosine={c}" for c in (0.9, 0.8, 0.7, 0.6)), "cosine=0.6, fraction=0.05"),
    "leak_stuffing": ("sigma=0.0", "sigma={half}"),
    "squat": (
        "victim=all, points=3",
        "victim=all, points=20",
        "victim=all, points=20, knows=leak",
        "victim=all, points=999, how=guesses, worthless=True",
        "victim=all, points=999, how=guesses, knows=leak, worthless=True",
    ),
    "shadow": ("budget=0.25", "budget=1.0, besides=True"),
    "outlier": ("budget=0.5", "budget=1.0, ratio=1.0"),
}
"""Parameters to try per attack; an attack that is not listed is tried with its own defaults.

``{noise}`` stands for each of `NOISE` in turn, ``{little}`` for the least of them and ``{half}`` for half a spread.
"""


def attack_grid(state: MarketState, only: str | None = None) -> list[str]:
    """Every attack to try, written out; ``only`` keeps those that match comma-separated patterns.

    A pattern is matched with the name (``squat``) and with the attack as it is written (``squat*knows=leak*``).
    """
    scale = spread(state)
    found: dict[str, None] = {}
    for name, component in components("attack").items():
        for parameters in _GRID.get(name, ("",)):
            if not parameters and not _has_defaults(component):
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


def _has_defaults(component: type) -> bool:
    missing = dataclasses.MISSING
    return all(
        f.default is not missing or f.default_factory is not missing
        for f in dataclasses.fields(component)
    )
