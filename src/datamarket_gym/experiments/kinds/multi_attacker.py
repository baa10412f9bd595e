"""Several attackers at once, each with the best response to the others: kind ``multi_attacker`` (S14).

A row is where the dynamics end on one draw of a market, for so many providers who may attack (the first ones), each for
itself (``together = "apart"``) or in pairs that share data. Where they end in a cycle, numbers are means over it. The
menu is the experiment's ``attacks``, noise in spreads (``{0.5}``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from datamarket_gym.analysis.metrics import clearly_paid
from datamarket_gym.analysis.redteam.attack_grid import feature_scale
from datamarket_gym.analysis.redteam.best_response import StageParty, best_response
from datamarket_gym.analysis.redteam.multi_attacker import (
    CYCLE,
    EQUILIBRIUM,
    HONEST,
    UNSETTLED,
    Path,
    StageGame,
    StageResult,
    Strategies,
    best_response_dynamics,
)
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments.cells import Cell, Row, attacks_of, kind, labels_of
from datamarket_gym.experiments.kinds.spot_checks import FAMILIES, CheckEntry, family, scale_noise
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.registry import Document, written
from datamarket_gym.utilities.oracle import UtilityOracle

PLAYED = "best_responses"
APART, PAIRS = "apart", "pairs"
SHOWN = {
    FAMILIES["copycat"]: "plays_theft",
    FAMILIES["sybil_split_k"]: "plays_own_again",
    FAMILIES["synthetic_laundering"]: "plays_made",
    FAMILIES["strategic_curation"]: "plays_left_out",
}
"""What attackers end up doing, by what their attack is made of."""


class MultiAttackerOptions(Document):
    """Who is checked, who may attack, in which order they move, and when the dynamics end.

    ``checked`` names the mechanisms that are also played with ``checks``; ``attackers`` says in each order how many
    providers may attack, and ``pairs`` how many in coalitions of two. ``trials``: how many attacks beyond the menu are
    searched for the first attacker where all may attack, for what the menu misses.
    """

    attackers: dict[str, list[int]] = Field(min_length=1)
    pairs: list[int] = Field(default_factory=list)
    checks: CheckEntry | None = None
    checked: list[str] = Field(default_factory=list)
    epsilon: float = Field(default=0.01, ge=0.0)
    rounds: int = Field(default=20, ge=1)
    trials: int = Field(default=0, ge=0)


@kind("multi_attacker", MultiAttackerOptions)
def multi_attacker_cell(cell: Cell) -> Iterator[Row]:
    """Yield every mechanism under every utility, without checks and with, by the number of attackers."""
    options = MultiAttackerOptions(**cell.spec.options)
    _require_counts(cell, options)
    menu = [HONEST]
    for _, attack in attacks_of(scale_noise(cell.spec, feature_scale(cell.market.state))):
        if (text := written(attack)) not in menu:
            menu.append(text)
    for labels, oracle in cell.oracles():
        for m, axes in cell.mechanisms():
            if not cell.selects(PLAYED, m):
                continue
            levels = [CheckEntry(per_payee=0)]
            if options.checks is not None and m.name in options.checked:
                levels.append(options.checks)
            for level in levels:
                checks = level.build() if level.per_payee else None
                at = {"attack": PLAYED, **labels, **labels_of(m), **axes, "checks": level.per_payee}
                for row in _Dynamics(cell, options, m, oracle, checks, menu).rows():
                    yield {**at, **row}


def _require_counts(cell: Cell, options: MultiAttackerOptions) -> None:
    n = len(cell.market.state.providers)
    for count in [c for counts in options.attackers.values() for c in counts]:
        if not 1 <= count <= n:
            raise DataMarketError(
                f"{cell.spec.name}: options.attackers has {count}; this market has 1 to {n}"
            )
    for count in options.pairs:
        if count % 2 or not 2 <= count <= n:
            raise DataMarketError(
                f"{cell.spec.name}: options.pairs has {count}; give even numbers of providers, up to {n}"
            )


@dataclass(frozen=True, eq=False)
class _Dynamics:
    """Best responses in one market under one mechanism and one utility, with checks or without."""

    cell: Cell
    options: MultiAttackerOptions
    mechanism: Mechanism | OwnMechanism
    oracle: UtilityOracle
    checks: Checks | None
    menu: list[str]

    def rows(self) -> Iterator[Row]:
        providers = self.cell.market.state.providers
        alone = self._stage(list(range(len(providers))))
        for order, counts in self.options.attackers.items():
            for count in counts:
                path = self._path(alone, count, order)
                at = {"together": APART, "attackers": count, "order": order}
                yield {
                    **at,
                    **self._row(alone, path, range(count)),
                    **self._searched(alone, path, count),
                }
        if self.options.pairs:
            most = max(self.options.pairs)
            pairs = self._stage([(i, i + 1) for i in range(0, most, 2)])
            for count in self.options.pairs:
                path = self._path(pairs, count // 2, "round_robin")
                at = {"together": PAIRS, "attackers": count, "order": "round_robin"}
                yield {**at, **self._row(pairs, path, range(count // 2))}

    def _stage(self, parties: list[int] | list[tuple[int, int]]) -> StageGame:
        return StageGame(self.cell.market.state, self.mechanism, self.oracle, parties, self.checks)

    def _path(self, stage: StageGame, attackers: int, order: str) -> Path:
        menus = [self.menu if i < attackers else [HONEST] for i in range(len(stage.members))]
        return best_response_dynamics(
            stage.payoffs, menus, epsilon=self.options.epsilon, rounds=self.options.rounds, order=order
        )

    def _searched(self, stage: StageGame, path: Path, count: int) -> Row:
        """Search what the first attacker could still gain, where all providers may attack."""
        if not self.options.trials or count < len(stage.members) or stage.payoffs(path.last) is None:
            return {}
        party = StageParty(stage, path.last)
        best = best_response(party, trials=self.options.trials, seed=self.cell.seed)
        now = stage.payoffs(path.last)
        assert now is not None
        return {"regret_searched": max(0.0, best.payoff - now[0])}

    def _row(self, stage: StageGame, path: Path, attackers: range) -> Row:
        ends = [strategies for strategies in path.ends if stage.payoffs(strategies) is not None]
        standings = [stage.standings(strategies, attackers) for strategies in ends]
        before = sum(one.honest_pay for one in standings[0].attackers)
        providers = sum(len(one.members) for one in standings[0].attackers)
        after = float(np.mean([sum(one.pay for one in each.attackers) for each in standings]))
        clear = clearly_paid(before / providers, stage.honest.value, len(stage.state.providers))
        return {
            "honest_payment": before,
            "attacked_payment": after,
            "gain": after / before if clear else float("nan"),
            "gain_additive": after - before,
            "near_zero": not clear,
            "gain_from_attack": _lone_gain(stage, standings),
            **{name: _mean(standings, name) for name in _MEANS},
            "worth_kept": _mean(standings, "worth"),
            "value_kept": _mean(standings, "value"),
            "equilibrium": float(path.ended == EQUILIBRIUM),
            "cycle": float(path.ended == CYCLE),
            "unsettled": float(path.ended == UNSETTLED),
            "rounds": float(path.rounds),
            "regret": max(path.regrets),
            "attack_adds": _mean(standings, "attack_adds") / stage.scale,
            "unplayable": float(_unplayable(stage, path, self.menu)),
            **_outcome_of(ends, attackers),
        }


_MEANS = (
    "gain_largest", "pot_taken", "pot_moved", "honest_pay", "honest_share", "honest_least"
)  # fmt: skip


def _mean(ends: list[StageResult], name: str) -> float:
    return float(np.mean([getattr(each, name) for each in ends]))


def _lone_gain(stage: StageGame, ends: list[StageResult]) -> float:
    """Return the mean gain over lone honesty; undefined where that pays anywhere next to nothing."""
    n = len(stage.state.providers)
    for each in ends:
        alone = float(np.mean([one.lone_honest_pay / len(one.members) for one in each.attackers]))
        if not clearly_paid(alone, stage.honest.value, n):
            return float("nan")
    return _mean(ends, "gain_from_attack")


def _unplayable(stage: StageGame, path: Path, menu: list[str]) -> int:
    """Count the menu's moves from a profile of the path that could not be played, and so were not made.

    What a search has tried at the end of another path is none of them.
    """
    return sum(
        any(sum(a != b for a, b in zip(strategies, gone, strict=True)) == 1 for gone in path.profiles)
        for strategies in stage.impossible
        if set(strategies) <= set(menu)
    )


def _outcome_of(ends: list[Strategies], attackers: range) -> Row:
    """Return the parts of the attackers that are honest at the end, or do this or that."""
    columns = ["plays_honest", *SHOWN.values(), "plays_other"]
    count = dict.fromkeys(columns, 0.0)
    for strategies in ends:
        for party in attackers:
            text = strategies[party]
            made = family(ATTACKS.create(text))
            count["plays_honest" if text == HONEST else SHOWN.get(made, "plays_other")] += 1.0
    return {column: number / len(ends) / len(attackers) for column, number in count.items()}
