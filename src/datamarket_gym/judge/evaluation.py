"""evaluate: what attacks gain under mechanisms, what they cost the others, and whether the order of payees holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from datamarket_gym.core.errors import (
    DataMarketError,
    InputTypeError,
    UnknownNameError,
    require_instance,
)
from datamarket_gym.core.frames import ResultTable
from datamarket_gym.core.plots import plot_pairs
from datamarket_gym.core.registry import create, written
from datamarket_gym.core.screen import Screen, Shown, counted
from datamarket_gym.evidence.collapse import told_once
from datamarket_gym.judge.metrics import Metrics, Report
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline import Mechanism, OwnMechanism, PaidTotals, Payer, as_mechanism
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.world.attacks import Attack
from datamarket_gym.world.market import ProviderMarket

_ORACLE = {"evidence": "oracle_latent", "allocation": "equal_submitted"}


def evaluate(
    mechanism: Any,
    market: ProviderMarket,
    attack: Any,
    *,
    provider: str | int = 0,
    utility: Any = None,
) -> Evaluation:
    """Measure what attacks gain under one or several mechanisms in a market.

    Parameters
    ----------
    mechanism : str, Mechanism, object with ``pay``, or list of these
        For example ``"shapley"``, ``["shapley", "recommended"]`` or one of your own.
    market : ProviderMarket
        `ProviderMarket.from_task` makes one of a built-in task, `ProviderMarket.from_arrays` of your own data.
    attack : str, Attack, or list of these
        For example ``"sybil_split_k@3"``; ``datamarket list attack`` lists them.
    provider : str or int
        Who attacks; the first provider if left out.
    utility : UtilityOracle, optional
        What data are worth; the market's own if left out.

    Returns
    -------
    Evaluation
        A row for each mechanism and attack, with `Evaluation.plot`.

    Raises
    ------
    DataMarketError
        If an argument cannot be used; the message names it and what to pass.

    Examples
    --------
    >>> market = ProviderMarket.from_task("synthetic(n_providers=4, per_provider=15)", learner="coverage")
    >>> found = evaluate("recommended", market, "sybil_split_k@3")
    >>> found.table()["gain"].round(6).tolist()
    [1.0]
    """
    require_instance(
        "market",
        market,
        ProviderMarket,
        "a ProviderMarket (ProviderMarket.from_arrays makes one of arrays)",
    )
    given, tried = _several(mechanism), _several(attack)
    mechanisms = list(zip(_titles(given), map(_mechanism, given), strict=True))
    attacks = list(zip(_titles(tried), map(_attack, tried), strict=True))
    if utility is None:
        utility = market.utility_oracle()
    require_instance(
        "utility", utility, UtilityOracle, "a UtilityOracle, or leave it out for the market's own"
    )
    name = market.state.provider(provider)
    profiles = [(title, one.apply(name, market.state)) for title, one in attacks]
    reports: dict[tuple[str, str], Report] = {}
    for title, chosen in mechanisms:
        honest = chosen.pay(market.honest.submission, utility, market.honest.truth)
        with told_once():  # warnings are of the honest market
            for attacked, profile in profiles:
                reports[title, attacked] = _report(chosen, profile, honest, utility)
    return Evaluation(reports, name, repr(utility))


def _report(
    chosen: Mechanism | OwnMechanism,
    profile: SubmittedProfile,
    honest: PaidTotals,
    utility: UtilityOracle,
) -> Report:
    paid = chosen.pay(profile.submission, utility, profile.truth)
    oracle = None
    if (
        isinstance(chosen, Mechanism) and chosen.granularity == "identity"
    ):  # units have no such reference
        oracle = chosen.model_copy(update=_ORACLE).pay(profile.submission, utility, profile.truth)
    return Metrics.evaluate(paid, profile, honest, oracle)


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def _mechanism(given: Any) -> Mechanism | OwnMechanism:
    if isinstance(given, str):
        given = create("mechanism", given)
    if not isinstance(given, Payer):
        raise InputTypeError(
            "mechanism",
            given,
            "a name such as 'shapley', mechanism(...), or an object with pay(submission, utility)",
        )
    return as_mechanism(given)


def _attack(given: Any) -> Attack:
    if not isinstance(given, str | Attack | dict):
        raise InputTypeError("attack", given, "a name such as 'sybil_split_k@3', or an Attack")
    return create("attack", given)


def _titles(given: list[Any]) -> list[str]:
    """A title of each, numbered where several have the same."""
    titles = [_title(one) for one in given]
    return [
        f"{title} ({titles[: i + 1].count(title)})" if titles.count(title) > 1 else title
        for i, title in enumerate(titles)
    ]


def _title(given: Any) -> str:
    """What tables call a mechanism or an attack: the text it was given as, its name, or its written form."""
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
    """What attacks gained, mechanism by mechanism.

    Attributes
    ----------
    reports : dict
        The `Report` of each (mechanism, attack).
    provider : str
        Who attacked.
    utility : str
        What data were worth.
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

        Returns
        -------
        ResultTable
            Columns ``mechanism``, ``attack``; ``honest`` and ``attacked`` (the attacker's payment, over all its
            identities), ``gain`` (attacked / honest: 1 = no gain; NaN where honest is not above zero),
            ``gain_additive``, ``victim_loss`` (the largest share of its pay that another provider loses),
            ``oracle_l1`` (under identity-level mechanisms, how far all payments are from those that know the true
            owners, as a share of v(all); NaN under others) and ``rank_stability`` (Kendall's tau of providers'
            payments before and after).
        """
        found = list(self.reports.values())
        columns: dict[str, Any] = {
            "mechanism": [mechanism for mechanism, _ in self.reports],
            "attack": [attack for _, attack in self.reports],
            "honest": [one.honest_payment for one in found],
            "attacked": [one.attacked_payment for one in found],
        }
        paid = np.array([one.honest_payment for one in found])
        columns["gain"] = np.where(paid > 0, [one.gain for one in found], np.nan)
        for name in ("gain_additive", "victim_loss", "oracle_l1", "rank_stability"):
            columns[name] = [getattr(one, name) for one in found]
        attacks = counted(len({attack for _, attack in self.reports}), "attack")
        return ResultTable(f"{attacks} by {self.provider}; {self.utility}; gain 1 = no gain", columns)

    def screen(self) -> Screen:
        """Payments, gains and rank stability."""
        table = self.table()
        shown = ("mechanism", "attack", "honest", "attacked", "gain", "rank_stability")
        return ResultTable(table.title, {name: table[name] for name in shown}).screen()

    def plot(self) -> Any:
        """Plot the attacker's honest against its attacked payment, attack by attack.

        Returns
        -------
        matplotlib.figure.Figure or plotly.graph_objects.Figure
            Of matplotlib where it is installed, else of plotly.

        Raises
        ------
        ImportError
            If neither is installed.
        """
        table = self.table()
        one = len({mechanism for mechanism, _ in self.reports}) == 1
        labels = [attack if one else f"{attack}, {mechanism}" for mechanism, attack in self.reports]
        return plot_pairs(
            labels, table["honest"], table["attacked"],
            title=f"Payment of {self.provider}, honest and attacking", xlabel="payment (value)",
        )  # fmt: skip
