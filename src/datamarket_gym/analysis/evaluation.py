"""evaluate: what attacks gain under mechanisms, what they cost the others, and whether the order of payees holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from datamarket_gym.analysis.metrics import Metrics, Report, gain_of
from datamarket_gym.analysis.spot_checks import checked_attack
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.display import Screen, Shown, counted
from datamarket_gym.errors import (
    DataMarketError,
    InputTypeError,
    UnknownNameError,
    require_instance,
    require_whole,
)
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.market.attacks import Attack
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism import Mechanism, Payer, as_mechanism
from datamarket_gym.mechanism.allocation import PaidTotals
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.plots import plot_pairs
from datamarket_gym.registry import create, written
from datamarket_gym.result_table import ResultTable
from datamarket_gym.utilities.custom import as_utility, utility_title
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

T = TypeVar("T")
_COLUMNS = {"honest_payment": "honest_payment", "attacked_payment": "attacked_payment", "gain": "gain"}
_COLUMNS |= {"gain_additive": "gain_additive", "victim_loss": "victim_loss"}
_COLUMNS |= {"distance_to_true_owners": "oracle_l1", "rank_stability": "rank_stability"}
_ORACLE = {"evidence": "oracle_latent", "allocation": "equal_submitted"}


def evaluate(
    mechanism: Any,
    market: ProviderMarket,
    attack: Any,
    *,
    provider: str | int = 0,
    utility: Any = None,
    spot_checks: int = 0,
    power: float = 0.8,
) -> Evaluation:
    """Measure what attacks gain under one or several mechanisms in a market.

    Parameters
    ----------
    mechanism, attack : str, object, or list of these
        For example ``["shapley", "recommended"]`` and ``"sybil_split_k@3"``; ``datamarket list attack`` lists attacks.
    market : ProviderMarket
        `ProviderMarket.from_task` makes one of a built-in task, `ProviderMarket.from_arrays` of your own data.
    provider : str or int
        Who attacks; the first provider if left out.
    utility : UtilityOracle, str, estimator, or callable, optional
        What data are worth, as in `value`; the market's own if left out. Accuracy is counted over chance.
    spot_checks, power : int, float
        How many units of each payee are checked, and the probability that a check detects a false unit. Who fails is
        paid nothing, and the attacker's payment is the expected one.

    Returns
    -------
    Evaluation
        A row for each mechanism and attack, with `Evaluation.plot`.

    Examples
    --------
    >>> market = ProviderMarket.from_task("synthetic(n_providers=4, per_provider=15)", learner="coverage")
    >>> found = evaluate("recommended", market, "sybil_split_k@3")
    >>> found.table()["gain"].round(6).tolist()
    [1.0]
    """
    what = "a ProviderMarket (ProviderMarket.from_arrays makes one of arrays)"
    require_instance("market", market, ProviderMarket, what)
    mechanisms, attacks = _titled(mechanism, _mechanism), _titled(attack, _attack)
    utility = _oracle(market, utility)
    checks = Checks(require_whole("spot_checks", spot_checks, at_least=0), power)
    name = market.state.provider(provider)
    profiles = {title: chosen.apply(name, market.state) for title, chosen in attacks.items()}
    reports: dict[tuple[str, str], Report] = {}
    for title, chosen in mechanisms.items():
        honest = chosen.pay(market.honest.submission, utility, market.honest.truth)
        with suppress_market_warnings():  # warnings are of the honest market
            for attacked, profile in profiles.items():
                reports[title, attacked] = _report(chosen, market, profile, honest, utility, checks)
    worth = f"{utility_title(utility.learner)}, U(empty) = {utility.empty_value:.3g}"
    if spot_checks:
        worth += f"; expected payments with {counted(spot_checks, 'spot check')} of each payee, power {power:g}"
    return Evaluation(reports, name, worth)


def _oracle(market: ProviderMarket, utility: Any) -> UtilityOracle:
    if utility is None:
        return market.utility_oracle()
    if isinstance(utility, UtilityOracle):
        return utility
    learner = as_utility(utility)
    return market.utility_oracle(Utility(), learner).counted_from(learner.paid_from)


def _report(
    chosen: Mechanism | OwnMechanism,
    market: ProviderMarket,
    profile: SubmittedProfile,
    honest: PaidTotals,
    utility: UtilityOracle,
    checks: Checks,
) -> Report:
    paid = chosen.pay(profile.submission, utility, profile.truth)
    oracle = None  # unit-level mechanisms have no such reference
    if isinstance(chosen, Mechanism) and chosen.granularity == "identity":
        oracle = chosen.model_copy(update=_ORACLE).pay(profile.submission, utility, profile.truth)
    report = Metrics.evaluate(paid, profile, honest, oracle)
    if not checks.per_payee:
        return report
    own = report.honest_payment
    due = checked_attack(chosen, profile, paid, market.honest, own, utility).expected(checks).pay
    return replace(report, attacked_payment=due, gain=gain_of(due, own), gain_additive=due - own)


def _mechanism(given: Any) -> Mechanism | OwnMechanism:
    if isinstance(given, str):
        given = create("mechanism", given)
    if not isinstance(given, Payer):
        raise InputTypeError(
            "mechanism",
            given,
            "a name such as 'shapley', get_mechanism(...), or an object with pay(submission, utility)",
        )
    return as_mechanism(given)


def _attack(given: Any) -> Attack:
    if not isinstance(given, str | Attack | dict):
        raise InputTypeError("attack", given, "a name such as 'sybil_split_k@3', or an Attack")
    return create("attack", given)


def _titled(given: Any, parse: Callable[[Any], T]) -> dict[str, T]:
    """Parse one component or several, by title, which is numbered where several have the same."""
    several = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    titles = [_title(component) for component in several]
    numbered = (
        f"{title} ({titles[: i + 1].count(title)})" if titles.count(title) > 1 else title
        for i, title in enumerate(titles)
    )
    return dict(zip(numbered, map(parse, several), strict=True))


def _title(given: Any) -> str:
    """Return what tables call a mechanism or an attack: the text given, its name, or its written form."""
    if isinstance(given, str):
        return given
    if isinstance(given, Payer):
        return as_mechanism(given).label
    try:
        return written(given)
    except DataMarketError:  # one that is not registered
        return type(given).__name__


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Shown):
    """Record what attacks gained: the `Report` of each (mechanism, attack).

    Parameters
    ----------
    reports, provider, utility
        The reports, who attacked, and what data were worth, in words.
    """

    reports: dict[tuple[str, str], Report]
    provider: str
    utility: str

    def __getitem__(self, key: tuple[str, str]) -> Report:
        if key not in self.reports:
            raise UnknownNameError("mechanism and attack", str(key), map(str, self.reports))
        return self.reports[key]

    def table(self) -> ResultTable:
        """Return one row for each mechanism and attack.

        ``gain`` is the ratio of attacked to honest payment over all identities of the attacker (1 = no gain; NaN where
        the honest payment is not above zero); ``victim_loss`` the largest share of its pay that another provider
        loses; ``distance_to_true_owners``, under identity-level mechanisms, how far payments are from those that know
        the true owners, as a share of v(all); ``rank_stability`` Kendall's tau of providers' payments before and after.
        With spot checks payments and gains are expectations, the others are before checks.
        """
        mechanisms, attacks = ([pair[i] for pair in self.reports] for i in (0, 1))
        columns: dict[str, Any] = {"mechanism": mechanisms, "attack": attacks}
        for title, name in _COLUMNS.items():
            columns[title] = [getattr(report, name) for report in self.reports.values()]
        columns["gain"] = np.where(np.array(columns["honest_payment"]) > 0, columns["gain"], np.nan)
        tried = counted(len(set(attacks)), "attack")
        return ResultTable(f"{tried} by {self.provider}; {self.utility}; gain 1 = no gain", columns)

    def screen(self) -> Screen:
        table = self.table()
        shown = ("mechanism", "attack", "honest_payment", "attacked_payment", "gain")
        return ResultTable(table.title, {name: table[name] for name in shown}).screen()

    def plot(self) -> Any:
        """Plot the attacker's honest against its attacked payment, attack by attack."""
        table = self.table()
        single = len({mechanism for mechanism, _ in self.reports}) == 1
        labels = [attack if single else f"{attack}, {mechanism}" for mechanism, attack in self.reports]
        return plot_pairs(
            labels, table["honest_payment"], table["attacked_payment"],
            title=f"Payment of {self.provider}, honest and attacking", xlabel="payment (value)",
        )  # fmt: skip
