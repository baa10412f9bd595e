"""Attacks that are chosen for the market: kinds ``best_response`` and ``checks``.

``best_response``: the attacker of the paper's Remark on costs, the best response to each mechanism at each cost level.
On every seed the search prices attacks by the mechanism itself, so its winner is picked with hindsight: ``net_gain`` is
what that attacker really gets in that market. ``net_gain_fresh`` is the same attack in a market it was not tuned on.

``checks`` (S11): what attacks and best responses net in expectation, where a few units of every payee are checked.
Every attacked market is paid once for each outcome of the checks and priced under all of them. Noise is written in
standard deviations: ``{0.6}`` in an attack is 0.6 times the typical standard deviation of a feature over the market's
units, so that one list of attacks fits all domains.

A seed in whose market the provider's honest pay is not clearly above zero uses another market, and its rows say so
(``redrawn``): tables name these seeds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from datamarket_gym.analysis.metrics import pot_shares
from datamarket_gym.analysis.redteam.attack_grid import feature_scale
from datamarket_gym.analysis.redteam.best_response import AttackCosts, Target, best_response
from datamarket_gym.analysis.spot_checks import CheckedAttack
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.errors import (
    DataMarketError,
    LeakedRowsWarning,
    SubmissionError,
    UnclearPayError,
)
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.experiments.cells import Cell, Row, attacks_of, kind, labels_of, market_of
from datamarket_gym.experiments.kinds.domains import honest_cost
from datamarket_gym.experiments.spec import ExperimentSpec, UtilityEntry
from datamarket_gym.market.attacks import Attack
from datamarket_gym.market.attacks.base import apply_knowing
from datamarket_gym.market.attacks.generated import Composite
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.mechanism.pipeline import Mechanism, get_mechanism
from datamarket_gym.registry import Document, name_of
from datamarket_gym.utilities.labels import require_learnable
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

_FRESH = 1_000_000  # added to a seed: a market that no experiment searches in
_TRIES = 50
ACCURACY = "logistic"
"""The learner to whose exact Shapley values shares are compared."""
RESPONSE = "best_response"
FAMILIES = {
    "honest": "all are honest",
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
"""What an attack is made of, by its registered name; what is not here is placed to mislead evidence or score."""
PLACED = "placed units"
ASSUMING = "needs a forged clock or foresight"
_SCALED = re.compile(r"\{([\d.]+)\}")


class SearchOptions(Document):
    """How many attacks a search tries, and what they cost."""

    trials: int = Field(ge=1)
    costs: list[dict[str, float]] = Field(min_length=1)


@kind("best_response", SearchOptions)
def best_response_cell(cell: Cell) -> Iterator[Row]:
    options = SearchOptions(**cell.spec.options)
    for utility in cell.spec.utilities:
        for m, axes in cell.mechanisms():
            if not cell.selects(RESPONSE, m):
                continue
            target, _, used = clear_target(cell, utility, m, cell.seed)
            fresh, _, _ = clear_target(cell, utility, m, used + _FRESH)
            for level in options.costs:
                costs = AttackCosts(**level)
                best = best_response(target, costs, trials=options.trials, seed=cell.seed)
                again = fresh.respond(best.attack, costs)
                yield {
                    **cell.labels(utility),
                    "attack": RESPONSE,
                    **labels_of(m),
                    **{f"cost_{name}": float(value) for name, value in level.items()},
                    "best_attack": best.attack,
                    "redrawn": float(used != cell.seed),
                    "honest_payment": target.pay,
                    "attacked_payment": target.pay * best.gain,
                    "gain": best.gain,
                    "gain_additive": target.pay * (best.gain - 1.0),
                    "net_gain": best.net_gain,
                    "victim_loss": best.harm.victim_loss,
                    "victim_loss_sum": best.harm.victim_loss_sum,
                    "theft": best.harm.theft,
                    "honest_payment_fresh": fresh.pay,
                    "net_gain_fresh": float("nan") if again is None else again.net_gain,
                    **axes,
                }


def clear_target(
    cell: Cell, utility: UtilityEntry, m: Mechanism | OwnMechanism, seed: int
) -> tuple[Target, ProviderMarket, int]:
    """Return the provider in the market of a seed, or of the next in which its honest pay is clearly above zero."""
    provider = cell.spec.provider
    for used in range(seed, seed + _TRIES * 1000, 1000):
        market = market_of(cell.task, used)
        oracle = cell.oracle(utility, market)
        with suppress(UnclearPayError):  # the next market is tried
            return Target(market.state, m.seeded(used), oracle, provider), market, used
    raise DataMarketError(
        f"{m.name} pays provider {provider} almost nothing in {_TRIES} markets; "
        "leave it out with --only, or choose another provider"
    )


class CheckEntry(Document):
    """How many units of each payee are checked, and the probability that a false one is detected."""

    per_payee: int = Field(ge=0)
    power: float = Field(default=0.8, gt=0.0, le=1.0)

    def build(self) -> Checks:
        return Checks(self.per_payee, self.power)

    @property
    def axes(self) -> Row:
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
def checks_cell(cell: Cell) -> Iterator[Row]:
    options = ChecksOptions(**cell.spec.options)
    for utility in cell.spec.utilities:
        m = _mechanism(cell, options, utility)
        target, market, used = clear_target(cell, utility, m, cell.seed)
        checked = _CheckedMarket(cell, options, m.seeded(used), market, target.utility)
        labels = {**cell.labels(utility), **labels_of(m)}
        for row in (*checked.fairness(), *checked.library(), *checked.responses(utility.learner)):
            yield {**labels, **row, "redrawn": float(used != cell.seed)}


def _mechanism(cell: Cell, options: ChecksOptions, utility: UtilityEntry) -> Mechanism:
    """Return the mechanism that ``paid`` names for a learner, one of the experiment's."""
    name = options.paid.get(utility.learner)
    if name is None:
        raise DataMarketError(
            f"{cell.spec.name}: options.paid does not say which mechanism pays by {utility.learner}; add "
            f'{utility.learner} = "recommended", or another of its mechanisms'
        )
    return cell.pipeline(name)[0]


def scale_noise(spec: ExperimentSpec, scale: float) -> ExperimentSpec:
    """Return the spec with noise in multiples of ``scale`` filled in; such an attack needs a name under ``called``."""
    for text in spec.attacks:
        if fill_noise(text, scale) != text and text not in spec.called:
            raise DataMarketError(
                f"{spec.name}: the noise of {text!r} is in standard deviations, which differ from market to market; "
                "give it a name under [called]"
            )
    called = {fill_noise(text, scale): name for text, name in spec.called.items()}
    attacks = [fill_noise(text, scale) for text in spec.attacks]
    return spec.model_copy(update={"attacks": attacks, "called": called})


def fill_noise(attack: str, scale: float) -> str:
    """Return a written attack with its noise in multiples of ``scale`` filled in."""
    return _SCALED.sub(lambda match: f"{float(match[1]) * scale:.4g}", attack)


def family(attack: Attack) -> str:
    """Return what an attack is made of, or that it takes more than the mechanism to be broken."""
    if attack.assumes:
        return ASSUMING
    if isinstance(attack, Composite):
        return FAMILIES["copycat" if attack.steal else "exact_dup_2x_sybils"]
    return FAMILIES.get(name_of(attack), PLACED)


@dataclass(frozen=True, eq=False)
class _CheckedMarket:
    """One draw of a market, paid by one mechanism under one utility."""

    cell: Cell
    options: ChecksOptions
    m: Mechanism
    market: ProviderMarket
    oracle: UtilityOracle

    @property
    def provider(self) -> str:
        return self.market.state.provider(self.cell.spec.provider)

    def pay(self, profile: SubmittedProfile) -> Payments:
        with suppress_market_warnings(LeakedRowsWarning):  # the attack causes it
            return self.m.pay(profile.submission, self.oracle, profile.truth)

    def fairness(self) -> Iterator[Row]:
        """Yield the honest market's distance to exact logistic Shapley, and what evidence costs."""
        honest = self.market.honest
        if self.oracle.utility.learner == ACCURACY or not self.cell.selects(honest.attack, self.m):
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
        state = self.market.state
        honest = self.pay(state.honest)
        pay, share = honest.total([self.provider]), pot_shares(honest.as_dict())[self.provider]
        for name, attack in attacks_of(scale_noise(self.cell.spec, feature_scale(state))):
            if not self.cell.selects(name, self.m):
                continue
            for knowledge, profile in self._profiles(attack):
                paid = self.pay(profile)
                checked = CheckedAttack(
                    self.m, profile, state.honest, self.oracle, self.provider, pay, paid
                )
                attacked = paid.total(profile.identities_of(self.provider))
                unchecked = checked.expected(Checks(0))
                at = {"attack": name, "family": family(attack), "knowledge": knowledge}
                at["honest_payment"] = pay
                yield {
                    **at,
                    "attacked_payment": attacked,
                    "gain": attacked / pay,
                    "gain_additive": attacked - pay,
                    "spill": unchecked.externality / pay,
                    "false_share": unchecked.false_share,
                    "kappa": unchecked.kappa,
                }
                for entry in self.options.checks:
                    expected = checked.expected(entry.build())
                    yield {
                        **at,
                        **entry.axes,
                        "expected_net_gain": expected.pay / pay,
                        "expected_share_gain": expected.share / share,
                    }

    def _profiles(self, attack: Attack) -> Iterator[tuple[float, SubmittedProfile]]:
        """Yield the attacked market at each knowledge, the most first.

        One that equals that at more knowledge is left out, and so is honesty, which is what is left of an attack on
        others that sees no provider.
        """
        seen: set[bytes] = set()
        honest = content(self.market.honest)
        for knowledge in sorted(self.options.knowledge, reverse=True):
            try:
                profile = apply_knowing(attack, self.provider, self.market.state, knowledge)
            except DataMarketError:
                if knowledge == 1.0:
                    raise
                continue  # it sees no provider to carry it out on
            if (key := content(profile)) not in seen and is_learnable(profile, self.oracle):
                yield knowledge, profile
            seen |= {key, honest}

    def responses(self, learner: str) -> Iterator[Row]:
        """Yield the best responses at every knowledge at which they are searched under this learner."""
        search = self.options.searched.get(learner)
        if search is None or not self.cell.selects(RESPONSE, self.m):
            return
        for knowledge in search.knowledge:
            state = self.market.state
            target = Target(state, self.m, self.oracle, self.provider, Checks(), knowledge)
            levels = search.checks or self.options.checks
            if search.elsewhere and knowledge < max(search.knowledge):
                levels = search.elsewhere
            for entry in levels:
                checked = target.under(entry.build())  # what is paid once is priced under all
                best = best_response(checked, trials=search.trials, seed=self.cell.seed)
                yield {
                    "attack": RESPONSE,
                    "family": "best response",
                    "knowledge": knowledge,
                    **entry.axes,
                    "honest_payment": target.pay,
                    "expected_net_gain": best.net_gain,
                    "best_attack": best.attack,
                }


def is_learnable(profile: SubmittedProfile, oracle: UtilityOracle) -> bool:
    """Return whether there is still a unit of every class, where accuracy is paid for."""
    try:
        require_learnable(profile.submission.label, oracle)
    except SubmissionError:
        return False
    return True


def content(profile: SubmittedProfile) -> bytes:
    """Return a digest of what is submitted, and of who came before whom, whatever the order of the units."""
    submission = profile.submission
    rank = np.unique(submission.times, return_inverse=True)[1]
    columns = (submission.identity, submission.keys, rank)
    order = np.lexsort(columns)
    parts = [np.ascontiguousarray(column[order]).tobytes() for column in columns]
    return hashlib.sha256(b"|".join(parts)).digest()
