"""What the page of markets shows as a program that computes the same numbers."""

from __future__ import annotations

import json
from typing import Any

from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.explorer.market.request import MarketRequest, preset

BASELINE = "Shapley over identities"

_PROGRAM = """\
from datamarket_gym import DataMarketError, Metrics, ProviderMarket, Utility, create, get_mechanism
from datamarket_gym.analysis.theorems import {theorems}
{imports}
market = ProviderMarket.from_task({task}, seed={seed}{times})
utility = market.utility_oracle(Utility({learner}, {empty}))
attacked = {attacked}
chosen = {chosen}

for paid_by in (get_mechanism("shapley").seeded({seed}), chosen):
    honest = Paid.by(paid_by, market.honest, utility)
    paid = Paid.by(paid_by, attacked, utility)
    report = Metrics.evaluate(paid.payments, attacked, honest.payments)
    print(paid_by.label, "honest:", honest.payments.as_dict())
    print(paid_by.label, "attacked:", paid.payments.as_dict())
    print(paid_by.label, "gain:", report.gain, "victims' loss:", report.victim_loss_sum)


def show(what, compute):
    try:
        print(what, compute())
    except DataMarketError as error:
        print(what, error)


{checks}show("certificate:", lambda: certify(honest, paid, chosen).words)
"""
_CHECKS = """\
provider, before = attacked.attacker, honest.payments.total([attacked.attacker])
checked = CheckedAttack(
    chosen, attacked, market.honest, utility, provider, before, paid.payments
)
show("with checks:", lambda: checked.expected(Checks({checks}, {power!r})).pay)
"""


def code_of(request: MarketRequest, *, progress: Progress = SILENT) -> dict[str, str]:
    """Write a program that prints the payments, the gain, the expectation with checks and the certificate."""
    progress.stage("writing it down")
    request = request.filled()
    knowing, checked = request.knowledge < 1.0, request.checks > 0
    imports = ["from datamarket_gym.analysis.spot_checks import CheckedAttack\n"] * checked
    imports += ["from datamarket_gym.market.attacks.base import apply_knowing\n"] * knowing
    draw, attack = request.draw(), f'create("attack", {_text(request.attack)})'
    base = preset(request.mechanism, str(request.evidence)).name
    changes = "".join(f", {part}={_text(getattr(request, part))}" for part in request.changed())
    program = _PROGRAM.format(
        theorems="Checks, Paid, certify" if checked else "Paid, certify",
        imports="".join(imports),
        task=_text(draw.task),
        seed=request.seed,
        times="" if draw.times == "given" else f", times={_text(draw.times)}",
        learner=_text(request.learner),
        empty=_text(request.empty),
        attacked=f"apply_knowing({attack}, {request.attacker}, market.state, {request.knowledge!r})"
        if knowing
        else f"{attack}.apply({request.attacker}, market.state)",
        chosen=f"get_mechanism({_text(base)}{changes}).seeded({request.seed})",
        checks=_CHECKS.format(checks=request.checks, power=request.power) if checked else "",
    )
    return {"python": program}


def _text(value: Any) -> str:
    """Write a value as Python does, a text in double quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
