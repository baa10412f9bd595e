"""What was planned, drawn and found, as rows and sentences for screens and pages."""

from __future__ import annotations

import hashlib
from pathlib import Path

from datamarket_gym.core.files import sha256
from datamarket_gym.core.screen import counted
from datamarket_gym.payout.checks.draw import DrawnChecks
from datamarket_gym.payout.checks.plan import CheckPlan, PlanSummary
from datamarket_gym.payout.checks.settle import SettledChecks
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible

_SHOWN = 20


def plan_rows(found: PlanSummary, currency: str) -> list[tuple[str, str]]:
    """A plan in numbers: what, and how much."""
    plan, money = found.plan, Currency(currency)

    def text(minor: int) -> str:
        return f"{currency} {money.text(minor)}"

    rows = [
        ("checks of each payee", f"{plan.checks:,}"),
        ("power of a check", f"{plan.power:g}"),
        ("checks in all, at most", f"{found.in_all:,}"),
        ("of them second looks, expected", f"{found.again:,.1f}"),
        ("paid to those who are checked", text(found.paid)),
        ("kappa, the largest", f"{found.kappa:.3f}"),
        ("left to gain, in expectation", f"{found.gap:.2%} of what is paid"),
        ("the same, without second looks", f"{found.once:.2%} of what is paid"),
        ("of one payee, at most", f"{found.most:.2%} of its payment"),
    ]
    if plan.price:
        share = found.cost / found.paid if found.paid else 0.0
        rows.append(("cost, at most", f"{text(found.cost)}, {share:.1%} of what is paid"))
    if plan.least:
        rows.append(
            (
                f"neither checked nor paid, below {money.text(plan.least)}",
                f"{counted(len(plan.carried), 'payee')}, {text(found.carried)}",
            )
        )
    if plan.false_alarms:
        rows.append(
            (
                f"false alarms, {plan.false_alarms:g} a check",
                f"{found.alarmed:.2%} of honest payees fail, {text(found.alarm_cost)} expected",
            )
        )
    return rows


def to_publish(run: Path, plan: CheckPlan) -> list[tuple[str, str]]:
    """What is given to the payees with the announcement: hashes of the run and of the plan."""
    digest = hashlib.sha256(plan.text.encode()).hexdigest()
    return [("manifest", sha256(run / MANIFEST)), ("plan", digest)]


def drawn_words(drawn: DrawnChecks) -> list[str]:
    """What stands of earlier looks, how many units two people have to look at, and who looked at some before."""
    said = []
    if drawn.kept:
        said.append(
            f"{counted(len(drawn.kept), 'draw')} fell on units that were looked at in an earlier draft, as often."
        )
    several = sum(len(numbers) > 1 for numbers in drawn.looks.values())
    if several:
        said.append(
            f"{counted(several, 'unit')} of the list were drawn more than once: each look is somebody else's."
        )
    who = sorted({name for names in drawn.before.values() for name in names})
    if who:
        some = "; ".join(visible(name) for name in who[:_SHOWN])
        said.append(
            f"{counted(len(drawn.before), 'unit')} of the list were looked at in an earlier draft, by {some}: "
            "somebody else has to look at them now."
        )
    return said


def failed_words(found: SettledChecks) -> list[str]:
    """Who failed, and by which units."""
    said = []
    for name in found.failed:
        units = [unit for unit in found.found if unit.payee == name]
        listed = ", ".join(
            f"{visible(u.unit)}{f' ({visible(u.note)})' if u.note else ''}" for u in units
        )
        said.append(f"{visible(name)} failed and is paid nothing: {listed}")
    return said
