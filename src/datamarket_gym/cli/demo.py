"""``datamarket demo``: the main job on one screen: a small market, honest and attacked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from rich.console import Console
from rich.table import Table
from typer import Option

from datamarket_gym.analysis.metrics import ROUNDING, clearly_paid, provider_totals
from datamarket_gym.analysis.spot_checks import CheckedAttack
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.execution.parallel import one_thread
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.experiments.tables import spans
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import Mechanism, get_mechanism
from datamarket_gym.registry import describe, written
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

SHOWN = (
    "honest",
    "composite(split=1, copy=0.0, steal=1.0, steal_sigma=0.7, victims=3)",
    "synthetic_laundering",
    "junk_padding",
    "copycat(sigma=0.5)",
    "copycat",
    "sybil_split_k@3",
    "exact_dup_2x_sybils",
    "near_duplicate_2x_sybils",
    "strategic_curation",
)
"""The attacks of the demo: after honesty, first those that gain until units are checked."""
_NOISY = {SHOWN[1]: "noisy copies of all others' units", SHOWN[4]: "noisy copies of another's units"}

ATTACKER = "provider_0"
SMALL = Synthetic(n_providers=4, per_provider=40)


@dataclass(frozen=True)
class Scheme:
    """A mechanism with the utility it is used with, and how many units of each payee are checked."""

    title: str
    mechanism: Mechanism
    utility: Utility
    checks: Checks | None = None


def schemes() -> tuple[Scheme, Scheme, Scheme]:
    """Return what most markets would do, and the recommended mechanism without checks and with them."""
    ours, checks = get_mechanism("recommended"), Checks()
    return (
        Scheme("Shapley over names", get_mechanism("shapley"), Utility("logistic", "none")),
        Scheme("recommended, no checks", ours, Utility.paying()),
        Scheme(f"recommended, {checks.per_payee} checks", ours, Utility.paying(), checks),
    )


Gains = dict[tuple[str, str], list[tuple[float, float, bool]]]
"""By attack (in words) and scheme, for each market: the attacked and the honest payment, and whether the latter is
clearly above zero."""
Payments = dict[tuple[str, bool], dict[str, float]]
"""By scheme and whether the attack was made: the payments of the first market, by provider."""


def demo(
    attack: Annotated[
        str, Option(help="Attack whose payments are shown for each provider.")
    ] = "near_duplicate_2x_sybils",
    seeds: Annotated[int, Option(help="Markets over which gains are averaged.", min=1)] = 5,
) -> None:
    """Pay a small simulated market with and without an attacker: by Shapley value, and by the recommended mechanism."""
    chosen = written(ATTACKS.create(attack))
    titles = {
        written(ATTACKS.create(name)): _NOISY.get(name, describe("attack", name).title) for name in SHOWN
    }
    titles.setdefault(chosen, chosen)
    gains: Gains = {}
    payments: Payments = {}
    # Such small products take longer on several threads than on one.
    with one_thread(), shown_on_stderr(in_logs=False) as progress:
        progress.stage("demo", "markets")
        for seed in range(seeds):
            market = ProviderMarket.from_task(SMALL, seed)
            for scheme in schemes():
                oracle = market.utility_oracle(scheme.utility)
                before = scheme.mechanism.pay(market.honest.submission, oracle)
                honest = provider_totals(before, market.honest)
                clear = clearly_paid(honest[ATTACKER], before.grand_value, len(honest))
                for name, title in titles.items():
                    paid = _pay_attacked(name, market, scheme, oracle, honest)
                    outcome = (paid[ATTACKER], honest[ATTACKER], clear)
                    gains.setdefault((title, scheme.title), []).append(outcome)
                    if seed == 0 and name == chosen:
                        payments[scheme.title, False], payments[scheme.title, True] = honest, paid
            progress.count(seed + 1, seeds)
    Console().print(
        _payment_table(titles[chosen], payments), _gain_table(gains, seeds), _sentence(gains), sep="\n"
    )


def _pay_attacked(
    name: str, market: ProviderMarket, scheme: Scheme, oracle: UtilityOracle, honest: dict[str, float]
) -> dict[str, float]:
    """Pay each provider while the first one attacks; with checks, the attacker's expected payment."""
    attacked = ATTACKS.create(name).apply(0, market.state)
    after = scheme.mechanism.pay(attacked.submission, oracle)
    paid = provider_totals(after, attacked)
    if scheme.checks is not None:
        checked = CheckedAttack(
            scheme.mechanism, attacked, market.honest, oracle, ATTACKER, honest[ATTACKER], after
        )
        paid[ATTACKER] = checked.expected(scheme.checks).pay
    return paid


def _payment_table(attack: str, payments: Payments) -> Table:
    table = Table(title=f"Shares of the amount; provider_0 attacks: {attack}")
    table.add_column("provider")
    columns = [(s.title, attacked) for s in schemes() if s.checks is None for attacked in (False, True)]
    for title, attacked in columns:
        table.add_column(f"{_two_lines(title)}\n{'attacked' if attacked else 'honest'}", justify="right")
    for provider in payments[columns[0]]:
        shares = [payments[c][provider] / sum(payments[c].values()) for c in columns]
        style = "bold" if provider == ATTACKER else None
        table.add_row(provider, *(f"{share:.1%}" for share in shares), style=style)
    return table


def _gain_table(gains: Gains, seeds: int) -> Table:
    table = Table(
        title=f"Attacked / honest payment: mean of {seeds} markets \\[ratio of means]",
        caption="With checks: the expected payment.",
    )
    table.add_column("attack of provider_0")
    titles = [s.title for s in schemes()]
    for title in titles:
        table.add_column(_two_lines(title), justify="right")
    for attack in dict.fromkeys(a for a, _ in gains):
        cells = []
        for title in titles:
            outcomes = gains[attack, title]
            mean = _mean(outcomes)
            after, before = (sum(each[i] for each in outcomes) for i in (0, 1))
            ratio = f" \\[{after / before:.3f}]" if before > ROUNDING else ""
            colour = "red" if mean > 1.05 else "green"
            cells.append(f"[{colour}]{'no clear market' if np.isnan(mean) else f'{mean:.3f}'}{ratio}[/]")
        table.add_row(attack, *cells)
    some = next(attack for attack, _ in gains)  # honest payments are the same for all
    left_out = []
    for title in titles:
        unclear = [i for i, (*_, clear) in enumerate(gains[some, title]) if not clear]
        left_out += [f"{title}: {spans(unclear)}"] if unclear else []
    if left_out:
        table.caption = (
            f"{table.caption} Left out of the means, as the honest payment is not clearly above zero there, "
            f"are the markets of {'; '.join(left_out)}."
        )
    return table


def _mean(outcomes: list[tuple[float, float, bool]]) -> float:
    """Average the ratios of the markets where they mean something; NaN where there is none."""
    ratios = [paid / honest for paid, honest, clear in outcomes if clear]
    return float(np.mean(ratios)) if ratios else float("nan")


def _two_lines(title: str) -> str:
    first, _, last = title.rpartition(" ") if "," not in title else title.partition(" ")
    return f"{first}\n{last}"


def _sentence(gains: Gains) -> str:
    by_name, unchecked, checked = (_best(gains, scheme.title) for scheme in schemes())
    checks = Checks()
    return (
        f"Paid by name, the best of these attacks ({by_name[0]}) multiplies the attacker's payment by "
        f"{by_name[1]:.3f}. Paid by the recommended mechanism, {_remaining(unchecked, 'multiplies')} while no units "
        f"are checked. Where {checks.per_payee} units of each payee are checked, a check finds {checks.power:.0%} of "
        f"false units and who fails is paid nothing, {_remaining(checked, 'can be expected to multiply')}. A search "
        "finds stronger attacks: datamarket run best-response."
    )


def _best(gains: Gains, title: str) -> tuple[str, float]:
    """Return the attack that gains most under a scheme, and its mean gain."""
    honest = describe("attack", "honest").title
    means = {a: _mean(outcomes) for (a, t), outcomes in gains.items() if t == title and a != honest}
    return max(means.items(), key=lambda item: np.nan_to_num(item[1]))


def _remaining(best: tuple[str, float], multiplies: str) -> str:
    name, gain = best
    if np.isnan(gain):
        return "no market here tells, as it pays the honest next to nothing"
    return f"the best ({name}) {multiplies} it by {gain:.3f}" if gain > 1.0005 else "none of them pays"
