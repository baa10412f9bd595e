"""What one market of the suite is worth to a submission: a task and a draw in, rows out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from datamarket_gym.arena.blind import blind_state, uneven
from datamarket_gym.arena.entry import ArenaEntry
from datamarket_gym.arena.suite import Draws, Suite, SuiteTask
from datamarket_gym.arena.target import BlindTarget, PlayedAttack, owned, require_after_originals
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.evidence.collapse import told_at_the_end
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.judge.metrics import clearly_paid
from datamarket_gym.judge.redteam.best_response import best_response
from datamarket_gym.judge.redteam.own_market import spread
from datamarket_gym.lab.cells import learner_for, market_of
from datamarket_gym.lab.kinds.checks import filled
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.own import OwnMechanism
from datamarket_gym.world.market import MarketState

Row = dict[str, Any]
HONEST, BEST = "honest", "best response"


@dataclass(frozen=True)
class AskedCells:
    """What all cells of a submission need; it travels to worker processes."""

    suite: Suite
    draws: Draws
    entry: ArenaEntry


@dataclass(frozen=True, eq=False)
class ArenaMarket:
    """A blind market with its attacker, who is clearly worth something, and the worth of all units."""

    state: MarketState
    utility: UtilityOracle
    attacker: str
    worth: float

    @classmethod
    def of(cls, draws: Draws, task: SuiteTask, draw: int) -> ArenaMarket:
        """The market of a draw; nothing of it depends on what was submitted."""
        market = market_of(task.market, draws.seed(task.name, draw, "market"))
        market = uneven(market, draws.seed(task.name, draw, "providers"))
        state = blind_state(market, draws.seed(task.name, draw, "names"))
        utility = market.utility_oracle(task.utility.build(), learner_for(task.utility, {"jobs": 1}))
        amounts, worth = owned(state.honest, utility)
        clear = [name for name, amount in amounts.items() if clearly_paid(amount, worth, len(amounts))]
        if not clear:
            raise DataMarketError(f"nobody is worth anything in draw {draw} of {task.name}")
        rng = keyed_generator(draws.seed(task.name, draw, "attacker"))
        return cls(state, utility, clear[int(rng.integers(len(clear)))], worth)


def cell(asked: AskedCells, task: str, draw: int) -> Row:
    """The rows of one market, and what was warned of on the way."""
    with told_at_the_end() as told:
        try:
            drawn = ArenaMarket.of(asked.draws, asked.suite.task(task), draw)
            play = _mechanism_rows if asked.entry.track == "mechanism" else _attack_rows
            rows = [{"task": task, "draw": draw, **row} for row in play(asked, drawn, task, draw)]
        except DataMarketError as error:
            raise DataMarketError(f"{asked.suite.name}, {task}, draw {draw}: {error}") from error
    return {"rows": rows, "warned": sorted({type(each).__name__ for each in told})}


def _mechanism_rows(asked: AskedCells, drawn: ArenaMarket, task: str, draw: int) -> Iterator[Row]:
    suite, entry = asked.suite, asked.entry
    payer = entry.mechanism().seeded(asked.draws.seed(task, draw, "mechanism"))
    target = _target(asked, drawn, payer, entry.checks, task, draw)
    yield _row(drawn, target, {"attack": HONEST}, target.outcome("honest"))
    scale = spread(drawn.state)
    for attack in suite.attacks:
        there = target.knowing(attack.knowledge)
        yield _row(drawn, there, {"attack": attack.name}, there.outcome(filled(attack.attack, scale)))
    search = asked.draws.seed(task, draw, "search")
    found = best_response(target, trials=suite.trials, seed=search, optimiser="scipy")
    best = target.outcome(found.attack)
    yield {**_row(drawn, target, {"attack": BEST}, best), "found": found.attack}


def _attack_rows(asked: AskedCells, drawn: ArenaMarket, task: str, draw: int) -> Iterator[Row]:
    text = filled(asked.entry.spec, spread(drawn.state))
    for opponent in asked.suite.opponents:
        payer = ArenaEntry.of_spec(opponent.mechanism).mechanism()
        seeded = payer.seeded(asked.draws.seed(task, draw, "mechanism"))
        target = _target(asked, drawn, seeded, opponent.checks, task, draw)
        require_after_originals(target.as_handed_in(text))
        found = target.outcome(text)
        yield _row(drawn, target, {"opponent": opponent.label}, found)


def _target(
    asked: AskedCells,
    drawn: ArenaMarket,
    payer: Mechanism | OwnMechanism,
    checks: int,
    task: str,
    draw: int,
) -> BlindTarget:
    return BlindTarget(
        drawn.state,
        payer,
        drawn.utility,
        drawn.attacker,
        Checks(checks, asked.suite.power) if checks else None,
        key=asked.draws.seed(task, draw, "names"),
    )


def _row(drawn: ArenaMarket, target: BlindTarget, label: Row, found: PlayedAttack) -> Row:
    return {
        **label,
        "honest_pay": target.pay,
        "pay": found.pay,
        "pot": target.pot,
        "paid": float(found.paid.totals.sum()),
        "providers": len(drawn.state.providers),
        "worth": drawn.worth,
        "fairness_loss": target.fairness_loss(found),
        "seconds": round(found.seconds, 4),
        "evaluations": found.evaluations,
        "found": "",
    }
