"""``datamarket demo``: what attacks gain in a small market, by Shapley value and by the recommended mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from rich.console import Console
from rich.table import Table
from typer import Option

from datamarket_gym.analysis.evaluation import evaluate
from datamarket_gym.analysis.metrics import ROUNDING, clearly_paid
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.execution.parallel import one_thread
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.experiments.tables import spans
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import Mechanism, get_mechanism
from datamarket_gym.registry import describe, written
from datamarket_gym.utilities.oracle import Utility

_NOISY = ("composite(split=1, copy=0.0, steal=1.0, steal_sigma=0.7, victims=3)", "copycat(sigma=0.5)")
SHOWN = (
    "honest",
    _NOISY[0],
    "synthetic_laundering",
    "junk_padding",
    _NOISY[1],
    "copycat",
    "sybil_split_k@3",
    "exact_dup_2x_sybils",
    "near_duplicate_2x_sybils",
    "strategic_curation",
)
"""The attacks of the demo: after honesty, first those that gain until units are checked."""
_TITLES = dict(
    zip(_NOISY, ("noisy copies of all others' units", "noisy copies of another's units"), strict=True)
)
SMALL = Synthetic(n_providers=4, per_provider=40)


@dataclass(frozen=True)
class Scheme:
    """A mechanism with the utility it is used with, and how many units of each payee are checked."""

    title: str
    mechanism: Mechanism
    utility: Utility
    checks: int = 0


def schemes() -> tuple[Scheme, Scheme, Scheme]:
    """Return what most markets would do, and the recommended mechanism without checks and with them."""
    ours, checks = get_mechanism("recommended"), Checks().per_payee
    return (
        Scheme("Shapley over names", get_mechanism("shapley"), Utility("logistic", "none")),
        Scheme("recommended, no checks", ours, Utility.paying()),
        Scheme(f"recommended, {checks} checks", ours, Utility.paying(), checks),
    )


Gains = dict[tuple[str, str], list[tuple[float, float, bool]]]
"""By attack (in words) and scheme, for each market: the attacked and the honest payment, and whether the latter is
clearly above zero."""


def demo(
    attack: Annotated[str, Option(help="Another attack to try; see: datamarket list attack.")] = "",
    seeds: Annotated[int, Option(help="Markets over which gains are averaged.", min=1)] = 5,
) -> None:
    """Show what attacks gain in a small simulated market: by Shapley value, and by the recommended mechanism."""
    titles = {}
    for name in (*SHOWN, attack) if attack else SHOWN:
        titles[written(ATTACKS.create(name))] = _TITLES.get(name, describe("attack", name).title)
    gains: Gains = {}
    # Such small products take longer on several threads than on one.
    with one_thread(), shown_on_stderr(in_logs=False) as progress:
        progress.stage("demo", "markets")
        for seed in range(seeds):
            market = ProviderMarket.from_task(SMALL, seed)
            for scheme in schemes():
                oracle = market.utility_oracle(scheme.utility)
                total = scheme.mechanism.pay(market.honest.submission, oracle).grand_value
                measured = evaluate(
                    scheme.mechanism, market, list(titles), utility=oracle, spot_checks=scheme.checks
                )
                for (_, name), report in measured.reports.items():
                    clear = clearly_paid(report.honest_payment, total, SMALL.n_providers)
                    gains.setdefault((titles[name], scheme.title), []).append(
                        (report.attacked_payment, report.honest_payment, clear)
                    )
            progress.count(seed + 1, seeds)
    console = Console()
    console.print(_gain_table(gains, seeds))
    console.print(_sentence(gains))


def _gain_table(gains: Gains, seeds: int) -> Table:
    table = Table(title=f"Attacked / honest payment: mean of {seeds} markets \\[ratio of means]")
    table.caption = "With checks: the expected payment."
    table.add_column("attack of provider_0")
    titles = [scheme.title for scheme in schemes()]
    for title in titles:
        first, _, last = title.rpartition(" ") if "," not in title else title.partition(" ")
        table.add_column(f"{first}\n{last}", justify="right")
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


def _sentence(gains: Gains) -> str:
    by_name, unchecked, checked = (_best(gains, scheme.title) for scheme in schemes())
    checks = Checks()
    return (
        f"Paid by identity, the best of these attacks ({by_name[0]}) multiplies the attacker's payment by "
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
