"""S11: what attacks and best responses net in expectation, where the market looks at a few units of every payee.

Every attacked market is paid once for each outcome of the checks and priced under all of them. Noise is
written in spreads: ``{0.6}`` in an attack is 0.6 times the typical spread of a feature over the market's units, so
that one list of attacks fits all domains.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from datamarket_gym.analysis.metrics import pot_shares
from datamarket_gym.analysis.redteam.attack_grid import spread
from datamarket_gym.analysis.redteam.best_response import Target, best_response
from datamarket_gym.analysis.spot_checks import CheckedAttack
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.errors import DataMarketError, LeakedRowsWarning, SubmissionError, UnknownNameError
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.experiments.cells import Row, attacks_of, kind, labels_of, selected
from datamarket_gym.experiments.kinds.best_response import clear_target
from datamarket_gym.experiments.kinds.market import honest_cost
from datamarket_gym.experiments.spec import ExperimentSpec, TaskEntry, UtilityEntry
from datamarket_gym.market.attacks import Attack
from datamarket_gym.market.attacks.base import apply_knowing
from datamarket_gym.market.attacks.composite import Composite
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.pipeline import Mechanism, get_mechanism
from datamarket_gym.registry import Document, name_of
from datamarket_gym.utilities.labels import require_learnable
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

ACCURACY = "logistic"
"""The learner to whose exact Shapley values shares are compared."""
RESPONSE = "best_response"
FAMILIES = {
    "honest": "nobody cheats",
    "sybil_split_k": "own units again",
    "exact_dup_2x_sybils": "own units again",
    "near_duplicate_2x_sybils": "own units again",
    "synthetic_laundering": "generated units",
    "strategic_curation": "units left out",
    "junk_padding": "junk and wrong labels",
    "link_claim": "junk and wrong labels",
    "label_noise": "junk and wrong labels",
    "label_poisoning": "junk and wrong labels",
    "copycat": "others' units",
    "own_source": "others' units",
    "turn": "others' units",
}
"""What an attack is made of, by its registered name; what is not here is placed to fool evidence or score."""
PLACED = "placed units"
ASSUMING = "needs a forged clock or foresight"
_IN_SPREADS = re.compile(r"\{([\d.]+)\}")


class CheckEntry(Document):
    """How many units of each payee are looked at, and the probability that a false one is found out."""

    per_payee: int = Field(ge=0)
    power: float = Field(default=0.8, gt=0.0, le=1.0)

    def build(self) -> Checks:
        """The checks."""
        return Checks(self.per_payee, self.power)

    @property
    def axes(self) -> Row:
        """What tables tell them apart by."""
        return {"checks": self.per_payee, "power": self.power}


class SearchEntry(Document):
    """At which knowledge best responses are searched, to which checks (all if left out), and by how many trials each.

    To ``elsewhere`` they are searched where the attacker knows less than the most.
    """

    knowledge: list[float] = Field(min_length=1)
    trials: int = Field(default=200, ge=1)
    checks: list[CheckEntry] = Field(default_factory=list)
    elsewhere: list[CheckEntry] = Field(default_factory=list)


class ChecksOptions(Document):
    """The checks, what attackers know, which mechanism each learner pays by, and how best responses are searched."""

    checks: list[CheckEntry] = Field(min_length=1)
    knowledge: list[float] = Field(default=[1.0], min_length=1)
    paid: dict[str, str]
    searched: dict[str, SearchEntry] = Field(default_factory=dict)


@kind("checks", ChecksOptions)
def checks_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Every attack at every knowledge, and the best responses, under each utility and its mechanism."""
    options = ChecksOptions(**spec.options)
    rows: list[Row] = []
    for utility in spec.utilities:
        m = _mechanism(spec, options, utility)
        target, market, used = clear_target(spec, task, seed, utility, m, engine)
        stand = _Stand(spec, options, m.seeded(used), market, target.utility)
        labels = {
            "experiment": spec.name, "task": task.label, "learner": utility.learner, "empty": utility.empty,
            "seed": seed, **labels_of(m), **task.axes,
        }  # fmt: skip
        found = [*stand.fairness(), *stand.library(), *stand.responses(utility.learner, seed)]
        rows += [{**labels, **row, "redrawn": float(used != seed)} for row in found]
    return rows


def _mechanism(spec: ExperimentSpec, options: ChecksOptions, utility: UtilityEntry) -> Mechanism:
    """The mechanism that ``paid`` names for a learner, one of the experiment's."""
    known = {m.name: m for entry in spec.mechanisms for m, _ in entry.pipelines("checks")}
    name = options.paid.get(utility.learner)
    if name is None:
        raise DataMarketError(
            f"{spec.name}: options.paid does not say which mechanism pays by {utility.learner}; add "
            f'{utility.learner} = "recommended", or another of its mechanisms'
        )
    if name not in known:
        raise UnknownNameError("mechanism of this experiment", name, known)
    return known[name]


def in_spreads(spec: ExperimentSpec, scale: float) -> ExperimentSpec:
    """The spec with noise that is written in spreads filled in; such an attack needs a name that says so."""
    for text in spec.attacks:
        if filled(text, scale) != text and text not in spec.called:
            raise DataMarketError(
                f"{spec.name}: the noise of {text!r} is in spreads, and differs from market to market; "
                "give it a name under [called]"
            )
    called = {filled(text, scale): name for text, name in spec.called.items()}
    attacks = [filled(text, scale) for text in spec.attacks]
    return spec.model_copy(update={"attacks": attacks, "called": called})


def filled(attack: str, scale: float) -> str:
    """A written attack whose noise is in spreads, with the noise of a market of that spread."""
    return _IN_SPREADS.sub(lambda found: f"{float(found[1]) * scale:.4g}", attack)


def family(attack: Attack) -> str:
    """What an attack is made of, or that it takes more than the mechanism to be broken."""
    if attack.assumes:
        return ASSUMING
    if isinstance(attack, Composite):
        return FAMILIES["copycat" if attack.steal else "exact_dup_2x_sybils"]
    return FAMILIES.get(name_of(attack), PLACED)


@dataclass(frozen=True, eq=False)
class _Stand:
    """One draw of a market, paid by one mechanism under one utility."""

    spec: ExperimentSpec
    options: ChecksOptions
    m: Mechanism
    market: ProviderMarket
    oracle: UtilityOracle

    @property
    def provider(self) -> str:
        return self.market.state.provider(self.spec.provider)

    def pay(self, profile: SubmittedProfile) -> Payments:
        with suppress_market_warnings(LeakedRowsWarning):  # the attack's doing
            return self.m.pay(profile.submission, self.oracle, profile.truth)

    def fairness(self) -> Iterator[Row]:
        """Of the honest market: the distance to exact logistic Shapley, over chance, and what evidence costs."""
        honest = self.market.honest
        if self.oracle.utility.learner == ACCURACY or not selected(
            self.spec.only, honest.attack, self.m.name
        ):
            return
        paid = self.pay(honest)
        exact = get_mechanism("shapley").pay(
            honest.submission, self.market.utility_oracle(Utility.paying(ACCURACY)), honest.truth
        )
        ours, theirs = pot_shares(paid.as_dict()), pot_shares(exact.as_dict())
        yield {
            "attack": "honest",
            "family": FAMILIES["honest"],
            "l1_to_logistic": sum(abs(ours[name] - theirs[name]) for name in theirs),
            **honest_cost(self.m, paid, honest, self.oracle),
        }

    def library(self) -> Iterator[Row]:
        """Every attack at every knowledge at which it does something of its own."""
        state = self.market.state
        honest = self.pay(state.honest)
        before = (honest.total([self.provider]), pot_shares(honest.as_dict())[self.provider])
        for label, attack in attacks_of(in_spreads(self.spec, spread(state))):
            if not selected(self.spec.only, label, self.m.name):
                continue
            for knowledge, profile in self._profiles(attack):
                paid = self.pay(profile)
                checked = CheckedAttack(
                    self.m, profile, state.honest, self.oracle, self.provider, before[0], paid
                )
                attacked = paid.total(profile.identities_of(self.provider))
                at = {"attack": label, "family": family(attack), "knowledge": knowledge}
                yield from self._rows(at, checked, before, attacked)

    def _profiles(self, attack: Attack) -> Iterator[tuple[float, SubmittedProfile]]:
        """The attacked market at each knowledge, the most first.

        One that is the same as at more is left out, and so is honesty, which is what is left of an attack on
        others that sees nobody.
        """
        seen: set[bytes] = set()
        honest = content(self.market.honest)
        for knowledge in sorted(self.options.knowledge, reverse=True):
            try:
                profile = apply_knowing(attack, self.provider, self.market.state, knowledge)
            except DataMarketError:
                if knowledge == 1.0:
                    raise
                continue  # it sees nobody to carry it out on
            if (key := content(profile)) not in seen and self._payable(profile):
                yield knowledge, profile
            seen |= {key, honest}

    def _payable(self, profile: SubmittedProfile) -> bool:
        """Whether there is still a unit of every class, where accuracy is paid for."""
        try:
            require_learnable(profile.submission.label, self.oracle)
        except SubmissionError:
            return False
        return True

    def _rows(
        self, at: Row, checked: CheckedAttack, before: tuple[float, float], attacked: float
    ) -> Iterator[Row]:
        """What an attack gains unchecked and what that is made of; then its expectation under each of the checks."""
        pay, share = before
        without = checked.expected(Checks(0))
        at = {**at, "honest_payment": pay}
        yield {
            **at,
            "attacked_payment": attacked,
            "gain": attacked / pay,
            "gain_additive": attacked - pay,
            "spill": without.externality / pay,
            "false_share": without.false_share,
            "kappa": without.kappa,
        }
        for entry in self.options.checks:
            found = checked.expected(entry.build())
            yield {
                **at,
                **entry.axes,
                "expected_net_gain": found.pay / pay,
                "expected_share_gain": found.share / share,
            }

    def responses(self, learner: str, seed: int) -> Iterator[Row]:
        """The best responses at every knowledge at which they are searched under this learner."""
        asked = self.options.searched.get(learner)
        if asked is None or not selected(self.spec.only, RESPONSE, self.m.name):
            return
        for knowledge in asked.knowledge:
            state = self.market.state
            target = Target(state, self.m, self.oracle, self.provider, Checks(), knowledge)
            asked_for = asked.checks or self.options.checks
            if asked.elsewhere and knowledge < max(asked.knowledge):
                asked_for = asked.elsewhere
            for entry in asked_for:
                checked = target.under(entry.build())  # what is paid once is priced under all
                found = best_response(checked, trials=asked.trials, seed=seed)
                yield {
                    "attack": RESPONSE,
                    "family": "best response",
                    "knowledge": knowledge,
                    **entry.axes,
                    "honest_payment": target.pay,
                    "expected_net_gain": found.net_gain,
                    "best_attack": found.attack,
                }


def content(profile: SubmittedProfile) -> bytes:
    """A digest of what is submitted, and of who came before whom, whatever the order of the units."""
    submission = profile.submission
    came = np.unique(submission.times, return_inverse=True)[1]
    columns = (submission.identity, submission.keys, came)
    order = np.lexsort(columns)
    parts = [np.ascontiguousarray(column[order]).tobytes() for column in columns]
    return hashlib.sha256(b"|".join(parts)).digest()
