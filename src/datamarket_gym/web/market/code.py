"""What is on the screen as a program and as an experiment: the same market, cheat, utility, mechanism and checks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from datamarket_gym.core.progress import SILENT, Progress
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.web.market.answer import BY_NAME
from datamarket_gym.web.market.asked import MarketAsked, preset
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.attacks.replication import ProviderZeroAttack

NAME = "market"
"""What the files are called; the experiment too, hence the folder of its results."""


def code_of(asked: MarketAsked, *, progress: Progress = SILENT) -> dict[str, Any]:
    """Both texts, what to call the files, how to run the experiment, and what it leaves out."""
    progress.stage("writing it down")
    asked = asked.filled()
    toml, left_out = _toml(asked)
    return {
        "python": _python(asked),
        "python_name": f"{NAME}.py",
        "toml": toml,
        "toml_name": f"{NAME}.toml",
        "command": f"datamarket run {NAME}.toml",
        "left_out": left_out,
    }


def _python(asked: MarketAsked) -> str:
    """A program that prints what each provider is paid, the gain, the expectation with checks and the certificate."""
    named = _Named.of(asked)
    knowing, checked = asked.knowledge < 1.0, asked.checks > 0
    imports = ["DataMarketError", "Metrics", "ProviderMarket", "Utility", "create", "mechanism"]
    guarantees = ["Checks", "Paid", "certify"] if checked else ["Paid", "certify"]
    draw = asked.draw()
    times = "" if draw.times == "given" else f", times={_quoted(draw.times)}"
    attack = f'create("attack", {_quoted(str(asked.attack))})'
    lines = [
        f"from datamarket_gym import {', '.join(imports)}",
        f"from datamarket_gym.judge.guarantees import {', '.join(guarantees)}",
    ]
    lines += ["from datamarket_gym.judge.redteam import CheckedAttack"] * checked
    lines += ["from datamarket_gym.world.attacks import apply_knowing"] * knowing
    lines += [
        "",
        f"market = ProviderMarket.from_task({_quoted(draw.task)}, seed={asked.seed}{times})",
        f"utility = market.utility_oracle(Utility({_quoted(str(asked.learner))}, {_quoted(str(asked.empty))}))",
        f"attacked = apply_knowing({attack}, {asked.attacker}, market.state, {asked.knowledge!r})"
        if knowing
        else f"attacked = {attack}.apply({asked.attacker}, market.state)",
        f"chosen = {named.python}",
        "",
        f'for paid_by in (mechanism("shapley").seeded({asked.seed}), chosen):',
        "    honest = Paid.by(paid_by, market.honest, utility)",
        "    paid = Paid.by(paid_by, attacked, utility)",
        "    report = Metrics.evaluate(paid.payments, attacked, honest.payments)",
        '    print(paid_by.label, "honest:", honest.payments.as_dict())',
        '    print(paid_by.label, "attacked:", paid.payments.as_dict())',
        '    print(paid_by.label, "gain:", report.gain, "victims\' loss:", report.victim_loss_sum)',
    ]
    lines += [
        "",
        "",
        "def show(what, ask):",
        "    try:",
        "        print(what, ask())",
        "    except DataMarketError as why:",
        "        print(what, why)",
        "",
        "",
    ]
    if checked:
        lines += [
            "provider, before = attacked.attacker, honest.payments.total([attacked.attacker])",
            "checked = CheckedAttack(",
            "    chosen, attacked, market.honest, utility, provider, before, paid.payments",
            ")",
            f'show("with checks:", lambda: checked.expected(Checks({asked.checks}, {asked.power!r})).pay)',
        ]
    lines += ['show("certificate:", lambda: certify(honest, paid, chosen).words)']
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Named:
    """The chosen mechanism by the name of a preset, and what differs from it."""

    name: str
    changes: dict[str, Any]
    seed: int

    @classmethod
    def of(cls, asked: MarketAsked) -> _Named:
        base: Mechanism = preset(asked.mechanism, str(asked.evidence))
        return cls(base.name, {part: getattr(asked, part) for part in asked.changed()}, asked.seed)

    @property
    def python(self) -> str:
        given = "".join(f", {part}={_literal(value)}" for part, value in self.changes.items())
        return f"mechanism({_quoted(self.name)}{given}).seeded({self.seed})"

    @property
    def toml(self) -> list[str]:
        said = ", ".join(f"{part} = {_quoted_toml(value)}" for part, value in self.changes.items())
        return [
            "[[mechanisms]]",
            f"name = {json.dumps(self.name)}",
            *([f"changes = {{ {said} }}"] if said else []),
        ]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _literal(value: Any) -> str:
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted_toml(value: Any) -> str:
    """A text, a number or a boolean: in these, JSON is TOML."""
    return json.dumps(value, ensure_ascii=False)


def _toml(asked: MarketAsked) -> tuple[str, list[str]]:
    """An experiment whose gain, in its one seed, is that of the page; and what it does not say."""
    draw, named = asked.draw(), _Named.of(asked)
    times = "" if draw.times == "given" else f", times = {_quoted(draw.times)}"
    looks = asked.checks > 0 or asked.knowledge < 1.0
    attack, learner = _quoted(str(asked.attack)), _quoted(str(asked.learner))
    left_out = ["the certificate: ask `certify` in Python"]
    if looks:
        left_out.append(
            "Shapley over names: an experiment of kind 'checks' pays by one mechanism; with kind = 'market', "
            "and without options, it pays by several"
        )
        left_out.append(
            "a market in which the attacker's honest pay is not clearly above zero: another seed is played in its stead"
        )
    lines = [f"# Left out: {words}" for words in left_out]
    lines += [
        f'name = "{NAME}"',
        'title = "As seen in the explorer"',
        f'kind = "{"checks" if looks else "market"}"',
        "seeds = 1",
        f"first_seed = {asked.seed}",
        f"provider = {_attacker(asked)}",
        f"tasks = [{{ task = {_quoted(draw.task)}{times} }}]",
        f"utilities = [{{ learner = {learner}, empty = {_quoted(str(asked.empty))} }}]",
        f"attacks = [{attack}]",
    ]
    if looks:
        lines += ['only = "the cheat"', f'called = {{ {attack} = "the cheat" }}']
    lines += ["", *named.toml]
    if not looks:
        lines += ["", "[[mechanisms]]", 'name = "shapley"', f"label = {_quoted(BY_NAME)}"]
    if looks:
        lines += [
            "",
            "[options]",
            f"checks = [{{ per_payee = {asked.checks}, power = {asked.power!r} }}]",
            f"knowledge = [{asked.knowledge!r}]",
            f"paid = {{ {learner} = {_quoted(named.name)} }}",
        ]
    return "\n".join(lines) + "\n", left_out


def _attacker(asked: MarketAsked) -> int:
    """Who attacks: of one attack it is the first provider, whoever is asked for."""
    return 0 if isinstance(ATTACKS.create(str(asked.attack)), ProviderZeroAttack) else asked.attacker
