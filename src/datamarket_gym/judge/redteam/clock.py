"""What forged times gain, and cost: believed, and against an intake log.

An attack that writes times at which its units did not come (`Attack.forges_times`) is played in both markets,
whichever the audited one is. *Believed*: times are a column, and whoever writes it decides who was first. *Logged*:
times are those of the operator's log, so that copies come after what they copy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from datamarket_gym.judge.redteam.findings import AuditReport, Trial
from datamarket_gym.judge.redteam.grid import family
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.market import MarketState

BELIEVED, LOGGED = "believed", "logged"


def clocks_of(attack: str, state: MarketState) -> tuple[str, ...]:
    """The clocks under which an attack is tried; the market's own ("") where it writes no times, or there are none."""
    forges = ATTACKS.create(attack).forges_times and state.honest.submission.time is not None
    return (BELIEVED, LOGGED) if forges else ("",)


def under(clock: str, state: MarketState) -> MarketState:
    """Put the market under a clock."""
    return replace(state, logged=clock != BELIEVED) if clock else state


def assumed(attack: str, clock: str, logged: bool) -> str:
    """What has to hold for an attack under a clock beside what holds in the audited market."""
    if clock in ("", BELIEVED):
        return ATTACKS.create(attack).assumes
    return "" if logged else "that times come from an intake log"


@dataclass(frozen=True)
class Forgery:
    """The trials of one attack that forges times, by clock; of those that were possible the worst ones."""

    family: str
    logged: bool  # whether the audited market goes by a log
    trials: dict[str, list[Trial]]

    def worst(self, clock: str) -> Trial | None:
        """The trial that gains most under a clock, were nothing checked."""
        return max(self._played(clock), key=lambda t: t.unchecked_rank, default=None)

    def harmful(self, clock: str) -> Trial | None:
        """The trial by which another loses most."""
        return max(self._played(clock), key=lambda t: t.harm_rank, default=None)

    def outcome(self, clock: str) -> str:
        """Gain and loss under a clock in words."""
        worst, harmful = self.worst(clock), self.harmful(clock)
        if worst is None or harmful is None:
            return "it cannot be played"
        gain = "of no defined factor" if worst.gain is None else f"times {worst.gain:.2f}"
        expected = [t.expected_gain for t in self._played(clock) if t.expected_gain is not None]
        if expected and worst.expected_payment != worst.attacked_payment:
            gain += f" ({max(expected):.2f} given the checks)"
        lost = harmful.victim_loss
        return f"a cheat's pay {gain}, a victim's loss {'undefined' if lost is None else f'{lost:.0%}'}"

    def words(self, called: str) -> str:
        """What holds for the audited market, and what would with the other clock."""
        believed, logged = self.outcome(BELIEVED), self.outcome(LOGGED)
        if self.logged:
            return (
                f"Times are from an intake log, where copies come after what they copy, whatever is written. "
                f"By {called}: {logged}. Were times a column that cheats can write: {believed}."
            )
        return (
            f"Times are from a column. By {called}, for whoever can write it: {believed}. With an intake log, "
            f"where copies come after what they copy, whatever is written: {logged}."
        )

    def _played(self, clock: str) -> list[Trial]:
        return [trial for trial in self.trials[clock] if trial.why is None]


def forgeries(report: AuditReport) -> list[Forgery]:
    """What forged times came to in an audit, attack by attack."""
    found: dict[str, dict[str, list[Trial]]] = {}
    for trial in report.trials:
        if trial.clock:
            clocks = found.setdefault(family(trial.attack), {BELIEVED: [], LOGGED: []})
            clocks[trial.clock].append(trial)
    return [Forgery(name, report.logged, trials) for name, trials in found.items()]
