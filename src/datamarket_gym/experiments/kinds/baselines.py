"""Mechanisms of others beside our own, on one market: what attacks gain, and what each mechanism costs.

Every payment is made from nothing, on a utility that remembers no fits, so that seconds and evaluations are those of
the mechanism alone. Seconds are by the clock, and of a program they include its start. Option ``fair`` names, by
pattern of the mechanism, the mechanism with perfect evidence that fairness loss is measured against, and
``learners`` the learner of the utility that it is paid under.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any

from pydantic import Field

from datamarket_gym.analysis.metrics import Metrics
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.errors import DataMarketError, LeakedRowsWarning
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.experiments.cells import (
    Row,
    attacks_of,
    kind,
    labels_of,
    market_of,
    selected,
    utility_for,
)
from datamarket_gym.experiments.spec import ExperimentSpec, TaskEntry, UtilityEntry
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism.allocation import PaidTotals
from datamarket_gym.mechanism.external import OwnMechanism
from datamarket_gym.mechanism.pipeline import Mechanism, get_mechanism
from datamarket_gym.registry import Document


class BaselinesOptions(Document):
    """By pattern of the mechanism: what its fairness loss is measured against, and the learner it is paid under."""

    fair: dict[str, str] = Field(min_length=1)
    learners: dict[str, str] = Field(min_length=1)


@kind("peers", BaselinesOptions)
def baselines_cell(
    spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]
) -> list[Row]:
    """Every attack against every mechanism on one draw of the market, with what each payment took."""
    market, rows = market_of(task, seed), list[Row]()
    options = BaselinesOptions(**spec.options)
    profiles = [(label, attack.apply(spec.provider, market.state)) for label, attack in attacks_of(spec)]
    for utility in spec.utilities:
        desk = _Desk(market, utility, engine)
        labels = {"task": task.label, "learner": utility.learner, "empty": utility.empty, **task.axes}
        for entry in spec.mechanisms:
            for m, axes in entry.expand():
                if _of(options.learners, m.name, spec) != utility.learner:
                    continue
                chosen = [each for each in profiles if selected(spec.only, each[0], m.name)]
                found = desk.rows(m.seeded(seed), get_mechanism(_of(options.fair, m.name, spec)), chosen)
                rows += [
                    {"experiment": spec.name, "seed": seed, **row, **axes, **labels} for row in found
                ]
    return rows


def _of(patterns: dict[str, str], name: str, spec: ExperimentSpec) -> str:
    for pattern, found in patterns.items():
        if fnmatch(name, pattern):
            return found
    raise DataMarketError(
        f"{spec.name}: no pattern of its options is like {name!r}; add one, such as '*'"
    )


class _Desk:
    """Pays the profiles of one market under one utility, each from nothing."""

    def __init__(self, market: ProviderMarket, utility: UtilityEntry, engine: dict[str, Any]) -> None:
        self.market, self.utility = market, utility.build()
        # One game at a time, each from nothing: nothing is compiled in the hope of more.
        self.learner = utility_for(utility, {**engine, "games": 1})
        self.ideal: dict[tuple[str, str], PaidTotals] = {}

    def rows(
        self, m: Mechanism | OwnMechanism, ideal: Mechanism, profiles: list[tuple[str, SubmittedProfile]]
    ) -> list[Row]:
        """The rows of one mechanism."""
        honest = self.paid(m, self.market.honest) if profiles else None
        rows: list[Row] = []
        for label, profile in profiles:
            assert honest is not None
            same = profile.submission is self.market.honest.submission
            with suppress_market_warnings(LeakedRowsWarning):  # the attack's doing
                paid = honest if same else self.paid(m, profile)
            report = Metrics.evaluate(paid, profile, honest, self.fair(ideal, label, profile))
            took = {"seconds": paid.seconds, "asked": paid.evaluations}
            rows.append({"attack": label, **labels_of(m), **report.as_row(), **took})
        return rows

    def fair(self, ideal: Mechanism, label: str, profile: SubmittedProfile) -> PaidTotals:
        """What a mechanism with perfect evidence pays on a profile, worked out once."""
        if (ideal.name, label) not in self.ideal:
            self.ideal[ideal.name, label] = self.paid(ideal, profile)
        return self.ideal[ideal.name, label]

    def paid(self, m: Mechanism | OwnMechanism, profile: SubmittedProfile) -> PaidTotals:
        """What a mechanism pays on a profile, with a utility of its own."""
        oracle = self.market.utility_oracle(self.utility, self.learner)
        return m.pay(profile.submission, oracle, profile.truth)
