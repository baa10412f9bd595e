"""What the page of markets shows as a program and as an experiment that compute the same numbers."""

from __future__ import annotations

import json
from typing import Any

from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.explorer.market.request import MarketRequest, preset
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.attacks.copies import ProviderZeroAttack

BASELINE = "Shapley over identities"
NAME = "market"
"""What the files are called; the experiment too, hence the folder of its results."""


def code_of(request: MarketRequest, *, progress: Progress = SILENT) -> dict[str, Any]:
    """Write both texts, what to call the files, how to run the experiment, and what it leaves out."""
    progress.stage("writing it down")
    request = request.filled()
    toml, left_out = _toml(request)
    return {
        "python": _python(request),
        "python_name": f"{NAME}.py",
        "toml": toml,
        "toml_name": f"{NAME}.toml",
        "command": f"datamarket run {NAME}.toml",
        "left_out": left_out,
    }


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


def _python(request: MarketRequest) -> str:
    """Write a program that prints the payments, the gain, the expectation with checks and the certificate."""
    knowing, checked = request.knowledge < 1.0, request.checks > 0
    imports = ["from datamarket_gym.analysis.spot_checks import CheckedAttack\n"] * checked
    imports += ["from datamarket_gym.market.attacks.base import apply_knowing\n"] * knowing
    draw, attack = request.draw(), f'create("attack", {_text(str(request.attack))})'
    changes = "".join(
        f", {part}={_text(value) if isinstance(value, str) else repr(value)}"
        for part, value in _changes(request).items()
    )
    return _PROGRAM.format(
        theorems="Checks, Paid, certify" if checked else "Paid, certify",
        imports="".join(imports),
        task=_text(draw.task),
        seed=request.seed,
        times="" if draw.times == "given" else f", times={_text(draw.times)}",
        learner=_text(str(request.learner)),
        empty=_text(str(request.empty)),
        attacked=f"apply_knowing({attack}, {request.attacker}, market.state, {request.knowledge!r})"
        if knowing
        else f"{attack}.apply({request.attacker}, market.state)",
        chosen=f"get_mechanism({_text(_preset(request))}{changes}).seeded({request.seed})",
        checks=_CHECKS.format(checks=request.checks, power=request.power) if checked else "",
    )


def _preset(request: MarketRequest) -> str:
    return preset(request.mechanism, str(request.evidence)).name


def _changes(request: MarketRequest) -> dict[str, Any]:
    return {part: getattr(request, part) for part in request.changed()}


def _text(value: Any) -> str:
    """Write a text in quotes, which is Python, and a number or a boolean as JSON, which is TOML."""
    return json.dumps(value, ensure_ascii=False)


def _toml(request: MarketRequest) -> tuple[str, list[str]]:
    """Write an experiment whose gain, in its one seed, is that of the page; and list what it leaves out."""
    draw = request.draw()
    times = "" if draw.times == "given" else f", times = {_text(draw.times)}"
    checked = request.checks > 0 or request.knowledge < 1.0
    attack, learner = _text(str(request.attack)), _text(str(request.learner))
    left_out = ["the certificate: ask `certify` in Python"]
    if checked:
        left_out += [
            f"{BASELINE}: an experiment of kind 'checks' pays by one mechanism; with kind = 'market', and without "
            "options, it pays by several",
            "a market in which the attacker's honest pay is not clearly above zero: another seed takes its place",
        ]
    # One attack is always mounted by the first provider.
    first = isinstance(ATTACKS.create(str(request.attack)), ProviderZeroAttack)
    changes = ", ".join(f"{part} = {_text(value)}" for part, value in _changes(request).items())
    name = _text(_preset(request))
    lines = [f"# Left out: {words}" for words in left_out]
    lines += [
        f'name = "{NAME}"',
        'title = "As seen in the explorer"',
        f'kind = "{"checks" if checked else "market"}"',
        "seeds = 1",
        f"first_seed = {request.seed}",
        f"provider = {0 if first else request.attacker}",
        f"tasks = [{{ task = {_text(draw.task)}{times} }}]",
        f"utilities = [{{ learner = {learner}, empty = {_text(str(request.empty))} }}]",
        f"attacks = [{attack}]",
    ]
    if checked:
        lines += ['only = "the attack"', f'called = {{ {attack} = "the attack" }}']
    lines += ["", "[[mechanisms]]", f"name = {name}"]
    lines += [f"changes = {{ {changes} }}"] * bool(changes)
    if checked:
        lines += [
            "",
            "[options]",
            f"checks = [{{ per_payee = {request.checks}, power = {request.power!r} }}]",
            f"knowledge = [{request.knowledge!r}]",
            f"paid = {{ {learner} = {name} }}",
        ]
    else:
        lines += ["", "[[mechanisms]]", 'name = "shapley"', f"label = {_text(BASELINE)}"]
    return "\n".join(lines) + "\n", left_out
