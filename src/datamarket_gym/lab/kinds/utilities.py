"""S13, gains: what attacks gain under every utility, in one and the same market.

``played`` says which mechanisms pay by which utilities, under which attacks. An attack that needs labels is not played
where there are none, nor one that takes a whole class away where accuracy is paid for. Of data without labels their
owner may know the classes all the same: with ``sees_classes`` the attack is made on the labelled market, and the labels
are taken away afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from typing import Any

from pydantic import Field

from datamarket_gym.core.errors import SubmissionError, UnknownNameError
from datamarket_gym.core.specs import Document
from datamarket_gym.judge.metrics import Metrics
from datamarket_gym.judge.redteam.own_market import spread
from datamarket_gym.lab.cells import Row, attacks_of, kind, labels_of, market_of, selected
from datamarket_gym.lab.kinds.checks import family, in_spreads
from datamarket_gym.lab.market_utilities import MarketUtility, ScoresEntry, utilities_in
from datamarket_gym.lab.spec import ExperimentSpec, TaskEntry
from datamarket_gym.learners.targets import require_learnable
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payments import Payments
from datamarket_gym.units.labels import without_labels
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.world.attacks import Attack
from datamarket_gym.world.market import ProviderMarket

_KEPT = (
    "honest_payment", "attacked_payment", "gain", "gain_additive", "victim_loss", "theft", "utility",
    "near_zero",
)  # fmt: skip


class PlayedEntry(Document):
    """Which of the experiment's mechanisms pay by these utilities, under which attacks (patterns of their names)."""

    learners: list[str] = Field(min_length=1)
    mechanisms: list[str] = Field(min_length=1)
    attacks: list[str] = Field(default=["*"], min_length=1)
    sees_classes: bool = False


class UtilitiesOptions(Document):
    """What is played, and which imported scores there are."""

    played: list[PlayedEntry] = Field(min_length=1)
    scores: list[ScoresEntry] = Field(default=[ScoresEntry()], min_length=1)


@kind("utilities", UtilitiesOptions)
def utilities_cell(
    spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]
) -> list[Row]:
    """Every attack under every utility and each of the mechanisms that pay by it."""
    options = UtilitiesOptions(**spec.options)
    market = market_of(task, seed)
    rows: list[Row] = []
    for utility in utilities_in(spec, options.scores, market, engine):
        stands = {sees: _Stand(spec, utility, market, seed, sees) for sees in (False, True)}
        at = {
            "experiment": spec.name, "task": task.label, "learner": utility.name,
            "empty": utility.empty, "seed": seed, **task.axes,
        }  # fmt: skip
        for entry in options.played:
            if utility.name in entry.learners:
                rows += [{**at, **row} for row in stands[entry.sees_classes].rows(entry)]
    return rows


@dataclass(eq=False)
class _Stand:
    """One market under one utility: attacked markets are made once for all mechanisms."""

    spec: ExperimentSpec
    utility: MarketUtility
    labelled: ProviderMarket
    seed: int
    sees_classes: bool
    _attacked: dict[str, SubmittedProfile | None] = field(default_factory=dict)

    def rows(self, entry: PlayedEntry) -> Iterator[Row]:
        """Every attack of the entry under each of its mechanisms."""
        known = {
            m.name: (m.seeded(self.seed), axes)
            for each in self.spec.mechanisms
            for m, axes in each.pipelines("utilities")
        }
        honest = self.utility.market.honest
        for name in entry.mechanisms:
            if name not in known:
                raise UnknownNameError("mechanism of this experiment", name, known)
            m, axes = known[name]
            before = self.utility.pay(m, honest.submission)
            for label, attack, profile in self._profiles(entry, m):
                now = self.utility.pay(m, profile.submission)
                sees = {"attacker": "sees_classes"} if self.sees_classes else {}
                at = {"attack": label, "family": family(attack), **labels_of(m), **axes, **sees}
                yield {**at, **_measured(before, now, profile)}

    def _profiles(
        self, entry: PlayedEntry, m: Mechanism
    ) -> Iterator[tuple[str, Attack, SubmittedProfile]]:
        state = self.utility.market.state
        for label, attack in attacks_of(in_spreads(self.spec, spread(state))):
            asked = any(fnmatch(label, pattern) for pattern in entry.attacks)
            if not (asked and selected(self.spec.only, label, m.name)):
                continue
            if label not in self._attacked:
                self._attacked[label] = self._profile(attack)
            profile = self._attacked[label]
            if profile is not None:
                yield label, attack, profile

    def _profile(self, attack: Attack) -> SubmittedProfile | None:
        """The attacked market; None where there are no labels that it needs, or too few are left to learn from."""
        market = self.utility.market
        if attack.needs_labels and not market.honest.submission.labelled:
            return None
        seen = self.labelled if self.sees_classes else market
        profile = attack.apply(self.spec.provider, seen.state)
        if not market.honest.submission.labelled:
            profile = replace(profile, submission=without_labels(profile.submission))
        try:
            require_learnable(profile.submission.label, self.utility.oracle(market.honest.submission))
        except SubmissionError:
            return None
        return profile


def _measured(before: Payments, now: Payments, profile: SubmittedProfile) -> Row:
    """The metrics of an attack, and whether the pay is another number at all, to the last bit."""
    report = Metrics.evaluate(now, profile, before).as_row()
    changed = float(report["attacked_payment"] != report["honest_payment"])
    return {**{name: report[name] for name in _KEPT}, "changed": changed}
