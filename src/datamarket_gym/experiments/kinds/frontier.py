"""What attacks gain under every utility, where the validation set is secret and where it leaked: kind ``frontier``.

``secret``: the attacker knows no validation row; other providers' units stand in for leaked rows, and families that
submit leaked rows are not played. ``leaked``: the attacker knows a quarter of the validation rows, and also plays the
attacks that the option ``leaked`` lists. Such an attacker can play the attacks of ``secret`` too: the worst gain of
``leaked`` is never below that of ``secret``.

Three more rows sum up a seed: ``best_response``, the best attack of a search,
``worst_of_library``, and ``worst`` of both. Their
mean over seeds, and the largest, are summarised like any other gain. With ``checks`` a gain is the ratio of expected to
honest payment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pydantic import Field

from datamarket_gym.analysis.redteam.attack_grid import feature_scale
from datamarket_gym.analysis.redteam.best_response import (
    FAMILIES,
    UNLEAKED,
    AttackCosts,
    Response,
    Target,
    best_response,
)
from datamarket_gym.errors import require_known
from datamarket_gym.experiments.cells import Cell, Row, attacks_of, kind, labels_of
from datamarket_gym.experiments.kinds.spot_checks import (
    RESPONSE,
    CheckEntry,
    clear_target,
    family,
    scale_noise,
)
from datamarket_gym.experiments.spec import UtilityEntry
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.registry import Document, written

SECRET, LEAKED = "secret", "leaked"
WORST, WORST_OF_LIBRARY = "worst", "worst_of_library"
_FREE = AttackCosts()


class FrontierOptions(Document):
    """Set which attacks need leaked rows, the mechanism of each learner, and which learners are searched and checked.

    ``paid`` maps learners to mechanisms; any other learner is paid by the experiment's first. Learners in
    ``unsearched`` face the attack library alone, those in ``checked`` also spot checks.
    """

    leaked: list[str] = Field(default_factory=list)
    paid: dict[str, str] = Field(default_factory=dict)
    trials: int = Field(default=200, ge=1)
    unsearched: list[str] = Field(default_factory=list)
    checked: list[str] = Field(default_factory=list)
    checks: CheckEntry = CheckEntry(per_payee=3)


@kind("frontier", FrontierOptions)
def frontier_cell(cell: Cell) -> Iterator[Row]:
    options = FrontierOptions(**cell.spec.options)
    for utility in cell.spec.utilities:
        m = _mechanism(cell, options, utility)
        target, _, used = clear_target(cell, utility, m, cell.seed)
        played = _PlayedMarket(cell, options, utility.learner, target)
        labels = {**cell.labels(utility), **labels_of(m)}
        for row in played.rows():
            yield {**labels, **row, "redrawn": float(used != cell.seed)}


def _mechanism(cell: Cell, options: FrontierOptions, utility: UtilityEntry) -> Mechanism | OwnMechanism:
    """Return the mechanism of a learner: the first, if ``paid`` names none."""
    name = options.paid.get(utility.learner)
    return next(cell.mechanisms())[0] if name is None else cell.pipeline(name)[0]


@dataclass(frozen=True, eq=False)
class _Known:
    """The worst attacks, by name, of an attacker who knows less: one who knows more can play them too."""

    of_library: list[tuple[str, Response]] = field(default_factory=list)
    of_all: list[tuple[str, Response]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _PlayedMarket:
    """One draw of a market under one utility; ``target`` is the attacker to whom validation rows leaked."""

    cell: Cell
    options: FrontierOptions
    learner: str
    target: Target

    def rows(self) -> Iterator[Row]:
        levels = [CheckEntry(per_payee=0)]
        if self.learner in self.options.checked:
            levels.append(self.options.checks)
        state = self.target.state
        secret = replace(self.target, state=state.keep_validation_secret(self.target.name))
        for level in levels:
            known = _Known()
            for validation, target in ((SECRET, secret), (LEAKED, self.target)):
                at = {"validation": validation, "checks": level.per_payee}
                checks = level.build() if level.per_payee else None
                for row in self._played(target.under(checks), validation, known):
                    yield {**row, **at}

    def _played(self, target: Target, validation: str, known: _Known) -> Iterator[Row]:
        """Yield a row for each attack and the rows that sum them up; add the worst to ``known``."""
        leaks, responses = validation == LEAKED, []
        if self.learner not in self.options.unsearched:
            # Before the library: a search counts every attack that was tried on its target.
            responses = [
                best_response(
                    target,
                    trials=self.options.trials,
                    seed=self.cell.seed,
                    families=FAMILIES if leaks else UNLEAKED,
                )
            ]
            yield {**self._row(target, RESPONSE, responses[0]), "family": "best response"}
        library = [("honest", target.honesty)]
        spec = scale_noise(self.cell.spec, feature_scale(target.state))
        attacks = attacks_of(spec)
        require_known("attack of this experiment", self.options.leaked, [name for name, _ in attacks])
        for name, attack in attacks:
            if name in self.options.leaked and not leaks:
                continue
            response = target.respond(written(attack), _FREE)
            if response is None:  # accuracy cannot be measured without one of the classes
                continue
            library.append((name, response))
            row = self._row(target, name, response)
            del row["best_attack"]
            yield {**row, "family": family(attack)}
        everything = [*library, *((response.attack, response) for response in responses)]
        for name, of, before in (
            (WORST_OF_LIBRARY, library, known.of_library),
            (WORST, everything, known.of_all),
        ):
            worst = max([*of, *before], key=lambda pair: pair[1].expected_gain)
            before.append(worst)
            row = self._row(target, name, worst[1])
            yield {**row, "best_attack": worst[0], "family": name}

    @staticmethod
    def _row(target: Target, name: str, response: Response) -> Row:
        return {
            "attack": name,
            "honest_payment": target.pay,
            "attacked_payment": target.pay * response.expected_gain,
            "gain": response.expected_gain,
            "gain_additive": target.pay * (response.expected_gain - 1.0),
            "net_gain": response.net_gain,
            "best_attack": response.attack,
        }
