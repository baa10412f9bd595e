"""Numbers that JSON can hold.

The evidence graph for the page: the attacked market's units, what ties them and why.

The certificate for the page: every term of the bound beside what was measured, or why there is none.

One way of paying, for the page: who gets what, honest and attacked, what the cheat gains and others lose.

The answer to the page: payments by name and by the chosen mechanism, the evidence, and what is proven.

What is on the screen as a program and as an experiment: the same market, cheat, utility, mechanism and checks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.analysis.metrics import CLEAR, Metrics, harm_of, pot_shares, provider_totals
from datamarket_gym.analysis.spot_checks import Expected
from datamarket_gym.analysis.theorems.certificate import Certificate, Terms
from datamarket_gym.analysis.theorems.deterrence import Checks, Deterrence
from datamarket_gym.data.ground_truth import SubmittedProfile, genuine
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import Edges
from datamarket_gym.evidence.spanning_forest import spanning
from datamarket_gym.execution.arrays import Features, Values
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.explorer.market.cache import (
    PaidMarket,
    attacked_by,
    certificate_of,
    checked_attack,
    market_of,
    paid_by,
)
from datamarket_gym.explorer.market.request import AskedCheat, MarketAsked, Under, preset
from datamarket_gym.explorer.workers import StoppedWork
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.market.attacks.copies import ProviderZeroAttack
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.pipeline import Mechanism, get_mechanism
from datamarket_gym.registry import describe


def finite(value: float | None) -> float | None:
    """The number; None where there is none, or none that is finite."""
    return None if value is None or not math.isfinite(value) else float(value)


MOST = 3000
"""Ties that are shown one by one."""


def graph_of(profile: SubmittedProfile, payments: Payments, honest: SubmittedProfile) -> dict[str, Any]:
    """Units in columns, ties between their places, and where each lies in the plane."""
    submission, truth = profile.submission, profile.truth.aligned(profile.submission)
    n, playing = len(submission), payments.leaks.others(len(submission))
    providers = list(dict.fromkeys(sorted(truth.controller.values())))
    cluster: list[int | None] = [None] * n
    for row, number in zip(playing.tolist(), payments.clustering.label.tolist(), strict=True):
        cluster[row] = number
    canonical = np.zeros(n, dtype=bool)
    canonical[playing[payments.canonical.claim_unit]] = True
    place = {str(unit): row for row, unit in enumerate(submission.id)}
    source = [
        None if str(of) == str(unit) else str(of)
        for of, unit in zip(truth.source, submission.id, strict=True)
    ]
    ties = payments.clustering.edges
    shown, note = _shown(ties)
    reasons, reason = np.unique(shown.reason, return_inverse=True)
    at = _plane(submission.features)
    return {
        "identities": submission.identities.tolist(),
        "providers": providers,
        "units": {
            "id": submission.id.tolist(),
            "identity": submission.identity_codes.tolist(),
            "owner": [providers.index(str(owner)) for owner in truth.owner],
            "cluster": cluster,
            "canonical": canonical.tolist(),
            "source": source,
            "copy_of": [None if of is None else place.get(of) for of in source],
            "genuine": genuine(profile, honest).tolist(),
            "x": at[:, 0].tolist(),
            "y": at[:, 1].tolist(),
        },
        "edges": {
            "left": playing[shown.left].tolist(),
            "right": playing[shown.right].tolist(),
            "reason": reason.tolist(),
            "score": [round(float(score), 6) for score in shown.score],
        },
        "reasons": [
            {"name": str(name), "edges": int((ties.reason == name).sum())} for name in reasons.tolist()
        ],
        "edges_in_all": len(ties),
        "clusters": payments.clustering.n_clusters,
        "note": note,
    }


def _shown(ties: Edges) -> tuple[Edges, str]:
    """All ties, or where they are many those that hold each cluster together; and words that say so."""
    if len(ties) <= MOST:
        return ties, ""
    first = _once(ties)
    held = ties.where(first)
    kept = held.where(spanning(held.left, held.right, held.score))
    return (
        kept,
        f"{len(ties):,} ties; shown are the {len(kept):,} strongest that hold the clusters together",
    )


def _once(ties: Edges) -> NDArray[np.int64]:
    """Of each pair of units the place of its strongest tie."""
    order = np.lexsort((-ties.score, ties.right, ties.left))
    left, right = ties.left[order], ties.right[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    return order[new]


def _plane(features: Features) -> Values:
    """The units along the two directions in which their features differ most, within [-1, 1]."""
    rows = np.asarray(features, dtype=np.float64)
    rows = rows - rows.mean(axis=0)
    spread, directions = np.linalg.eigh(rows.T @ rows)
    chosen = directions[:, np.argsort(-spread)[:2]]
    # A direction has no sign of its own: its largest part is taken to be positive.
    chosen = chosen * np.sign(chosen[np.abs(chosen).argmax(axis=0), np.arange(chosen.shape[1])])
    at = np.zeros((len(rows), 2))
    at[:, : chosen.shape[1]] = rows @ chosen
    most = np.abs(at).max()
    return np.round(at / most, 4) if most > 0 else at


def proven(
    under: Under, cheat: AskedCheat, mechanism: Mechanism, expected: Expected | None
) -> dict[str, Any]:
    """What the theorems say of this cheat, and what checks leave to it."""
    try:
        found = certificate_of(under, cheat, mechanism)
    except StoppedWork:
        raise
    except DataMarketError as error:
        return {**_NOTHING, "why": str(error)}
    broken = [each.why for each in found.conditions if not each.held and each.name in _NEEDED]
    return {
        "certified": found.claim != "none",
        "why": "" if found.claim != "none" else "; ".join(broken),
        "claim": found.claim,
        "summary": found.summary,
        "words": found.words,
        "terms": None if found.terms is None else _terms(found.terms),
        "raw_bound": None if found.terms is None else finite(found.terms.raw_bound),
        "normalized": None if found.terms is None else finite(found.terms.normalized),
        "bound": finite(found.bound),
        "gain": found.gain,
        "multiplier": finite(found.multiplier),
        "rounding": found.rounding,
        "obeys": found.obeys,
        "eta_method": found.eta_method,
        "delta": found.delta,
        "conditions": [_condition(found, each.name) for each in found.conditions],
        "evidence": None if found.evidence is None else list(found.evidence),
        "deterrence": None if expected is None else _deterrence(expected.deterrence()),
    }


_NEEDED = ("matching", "bounded_errors")
"""Conditions without which the theorems say nothing."""
_NOTHING: dict[str, Any] = {
    "certified": False, "claim": "none", "summary": "nothing: it cannot be certified", "words": "", "terms": None,
    "raw_bound": None, "normalized": None, "bound": None, "gain": None, "multiplier": None, "rounding": 0.0,
    "obeys": None, "eta_method": "none", "delta": 0.0, "conditions": [], "evidence": None, "deterrence": None,
}  # fmt: skip
_CONDITIONS = {
    "quotient_stable": "Clusters and representatives stay as they were",
    "neutral": "The provider's share of every cluster stays as it was",
    "exact_scores": "Scores are exact",
    "matching": "Honest clusters and those after the cheat can be matched one to one",
    "bounded_marginals": "What a unit adds is bounded",
    "bounded_errors": "The error of the scores is bounded",
}


def _condition(found: Certificate, name: str) -> dict[str, Any]:
    each = next(condition for condition in found.conditions if condition.name == name)
    return {"name": name, "words": _CONDITIONS.get(name, name), "held": each.held, "why": each.why}


def _terms(terms: Terms) -> list[dict[str, Any]]:
    sampling = 2 * terms.n_clusters * terms.eta
    told = (
        ("allocation", "A", "shares gained inside clusters", terms.allocation),
        ("escape", "L", "clusters that escaped the evidence", terms.escape),
        ("drift", "D", "changed scores of matched clusters", terms.drift),
        ("sampling", "2 K' eta", "sampling error of the payments", sampling),
        ("error", "error", "sampling error of A, L and D", terms.error_of_terms),
    )
    return [{"key": k, "symbol": s, "words": w, "value": finite(v)} for k, s, w, v in told]


def _deterrence(found: Deterrence) -> dict[str, Any]:
    return {
        "claim": found.claim,
        "words": found.words,
        "gap": finite(found.gap),
        "residual": finite(found.residual),
        "kappa": finite(found.kappa),
    }


@lru_cache(maxsize=16)
def paid_scheme(under: Under, cheat: AskedCheat, mechanism: Mechanism) -> dict[str, Any]:
    """What the mechanism pays everybody before and after the cheat; not to be written to."""
    profile = attacked_by(under.draw, cheat)
    attacker = str(profile.attacker)
    before, after = (paid_by(under, each, mechanism) for each in (None, cheat))
    honest, attacked = before.paid.payments, after.paid.payments
    return {
        "id": mechanism.id,
        "honest": _scored(honest),
        "attacked": _scored(attacked),
        "providers": list(_providers(honest, attacked, profile, attacker)),
        "identities": list(_identities(honest, attacked, profile, attacker)),
        "gain": _gain(honest, attacked, profile, attacker),
        "warnings": _warnings(before, after),
        "threshold": _thresholds(honest, attacked),
        "aside": [_aside(honest), _aside(attacked)],
    }


def _scored(payments: Payments) -> dict[str, Any]:
    scores = payments.scores
    return {
        "grand_value": finite(payments.grand_value),
        "clusters": payments.clustering.n_clusters,
        "method": scores.method,
        "exact": bool(scores.exact),
        "evaluations": int(scores.evaluations),
    }


def _providers(
    honest: Payments, attacked: Payments, profile: SubmittedProfile, attacker: str
) -> Iterator[dict[str, Any]]:
    before, after = honest.as_dict(), provider_totals(attacked, profile)
    shares, now = pot_shares(before), pot_shares(after)
    errors = [_errors(honest), _errors(attacked)]
    for name in before:
        names = profile.identities_of(name)
        lost = max(0.0, 1.0 - now[name] / shares[name]) if shares[name] > 0 else None
        yield {
            "provider": name,
            "attacker": name == attacker,
            "honest": before[name],
            "attacked": after[name],
            "honest_share": shares[name] if any(shares.values()) else None,
            "attacked_share": now[name] if any(now.values()) else None,
            "honest_error": errors[0].get(name),
            "attacked_error": _together([errors[1].get(each) for each in names]),
            "lost": None if name == attacker else lost,
        }


def _errors(payments: Payments) -> dict[str, float | None]:
    """Standard errors by identity; None where nothing bounds them."""
    found = payments.standard_errors.tolist()
    return {str(name): finite(error) for name, error in zip(payments.identities, found, strict=True)}


def _together(errors: list[float | None]) -> float | None:
    """Of a sum of amounts: no more than the sum of their errors, however they depend on each other."""
    known = [error for error in errors if error is not None]
    return sum(known) if len(known) == len(errors) else None


def _identities(
    honest: Payments, attacked: Payments, profile: SubmittedProfile, attacker: str
) -> Iterator[dict[str, Any]]:
    before, after, errors = honest.as_dict(), attacked.as_dict(), _errors(attacked)
    names, controller = profile.submission.identity.tolist(), profile.truth.controller
    for name, amount in after.items():
        yield {
            "identity": name,
            "provider": controller[name],
            "attacker": controller[name] == attacker,
            "pseudonym": name != controller[name],
            "units": names.count(name),
            "honest": before.get(name),
            "attacked": amount,
            "attacked_error": errors[name],
        }


def _gain(
    honest: Payments, attacked: Payments, profile: SubmittedProfile, attacker: str
) -> dict[str, Any]:
    report = Metrics.evaluate(attacked, profile, honest)
    harm = harm_of(honest, attacked, profile, attacker)
    return {
        "gain": None if report.near_zero else finite(report.gain),
        "why": _unclear(attacker, report.honest_payment) if report.near_zero else "",
        "additive": report.gain_additive,
        "clear": not report.near_zero,
        "honest": report.honest_payment,
        "attacked": report.attacked_payment,
        "victim": harm.victim,
        "victim_loss": finite(harm.victim_loss),
        "victim_loss_sum": finite(harm.victim_loss_sum),
        "theft": finite(harm.theft),
        "rank_stability": finite(report.rank_stability),
        "mixed_components": finite(report.mixed_components),
    }


def _unclear(attacker: str, pay: float) -> str:
    return (
        f"{attacker} earns {pay:.4g} when honest, which is not clearly above zero (no more than {CLEAR:g} of an equal "
        "share of what all data are worth), so that a multiple of it would mean nothing"
    )


def _warnings(before: PaidMarket, after: PaidMarket) -> list[dict[str, str]]:
    """Every warning once, with the market it was told of."""
    told: dict[tuple[str, str], str] = {}
    for market, paid in (("honest", before), ("attacked", after)):
        for each in paid.warnings:
            known = told.get((each.what, each.words))
            told[each.what, each.words] = "both" if known not in (None, market) else market
    return [{"what": what, "words": words, "market": market} for (what, words), market in told.items()]


def _thresholds(honest: Payments, attacked: Payments) -> dict[str, Any] | None:
    if honest.threshold is None or attacked.threshold is None:
        return None
    return {
        market: {"theta": found.theta, "evidence": found.evidence, "why": found.why}
        for market, found in (("honest", honest.threshold), ("attacked", attacked.threshold))
    }


def _aside(payments: Payments) -> int:
    """Units that were set aside because they are validation rows, or nearly."""
    return len(payments.leaks)


def expected_of(
    under: Under, cheat: AskedCheat, mechanism: Mechanism, checks: Checks
) -> tuple[Expected | None, str]:
    """What the cheat is paid in expectation with checks; or why that is not known."""
    try:
        return checked_attack(under, cheat, mechanism, checks).expected(checks), ""
    except StoppedWork:
        raise
    except DataMarketError as error:
        return None, str(error)


def checked_scheme(
    under: Under,
    cheat: AskedCheat,
    mechanism: Mechanism,
    checks: Checks,
    found: Expected | None,
    why: str,
) -> dict[str, Any]:
    """The expectation in numbers for the page."""
    told: dict[str, Any] = {"per_payee": checks.per_payee, "power": checks.power, "why": why}
    if found is None:
        return {**told, "pay": None, "gain": None, "share": None, "passes": []}
    honest = paid_by(under, None, mechanism).paid.payments
    attacker = str(attacked_by(under.draw, cheat).attacker)
    gain = paid_scheme(under, cheat, mechanism)["gain"]
    pay = gain["honest"]
    passes = checked_attack(under, cheat, mechanism, checks).passes(checks)
    return {
        **told,
        "why": gain["why"],
        "pay": found.pay,
        "gain": found.pay / pay if gain["clear"] else None,
        "share": found.share,
        "honest_share": pot_shares(honest.as_dict())[attacker],
        "spill": found.externality,
        "false_share": found.false_share,
        "kappa": finite(found.kappa),
        "passes": [{"identity": name, "chance": chance} for name, chance in passes.items()],
    }


def market_in_words(under: Under, cheat: AskedCheat) -> dict[str, Any]:
    """Who is in the market, and who hides behind which name."""
    market, profile = market_of(under.draw), attacked_by(under.draw, cheat)
    attacker = str(profile.attacker)
    return {
        "title": market.screen().title.partition("; worth by")[0],
        "providers": market.state.providers,
        "attacker": attacker,
        "pseudonyms": [name for name in profile.identities_of(attacker) if name != attacker],
        "honest_units": len(market.honest.submission),
        "attacked_units": len(profile.submission),
    }


BY_NAME = "Shapley over names"


def answer(asked: MarketAsked, *, progress: Progress = SILENT) -> dict[str, Any]:
    """All that the page shows of one question; an error in words where it cannot be asked."""
    progress.stage("drawing the market")
    asked = asked.filled()
    under, cheat = asked.under(progress), asked.cheat()
    by_name, chosen = get_mechanism("shapley").seeded(asked.seed), asked.chosen()
    attack = ATTACKS.create(cheat.attack)
    attacked_by(under.draw, cheat)
    progress.stage(f"paying by {BY_NAME}", "coalitions")
    usual = paid_scheme(under, cheat, by_name)
    progress.stage(f"paying by {asked.mechanism}", "coalitions")
    ours = paid_scheme(under, cheat, chosen)
    checks, expected, checked = Checks(asked.checks, asked.power), None, None
    if checks.per_payee:
        progress.stage("paying every outcome of the checks", "outcomes")
        expected, why = expected_of(under, cheat, chosen, checks)
        checked = checked_scheme(under, cheat, chosen, checks, expected, why)
    progress.stage("asking the theorems")
    changed = asked.changed()
    label = describe("mechanism", asked.mechanism).title
    title = f"{label}, changed: {', '.join(changed)}" if changed else label
    return {
        "asked": asked.model_dump(),
        "market": {
            **market_in_words(under, cheat),
            "attack": cheat.attack,
            "attack_words": describe("attack", cheat.attack).summary,
            "assumes": attack.assumes,
        },
        "schemes": [
            {
                "key": "shapley",
                "title": BY_NAME,
                "preset": BY_NAME,
                "changed": [],
                "checked": None,
                **usual,
            },
            {
                "key": "chosen",
                "title": title,
                "preset": label,
                "changed": changed,
                "checked": checked,
                **ours,
            },
        ],
        "graph": _graph(under, cheat, chosen),
        "certificate": proven(under, cheat, chosen, expected),
    }


@lru_cache(maxsize=8)
def _graph(under: Under, cheat: AskedCheat, chosen: Mechanism) -> dict[str, Any]:
    profile, honest = attacked_by(under.draw, cheat), market_of(under.draw).honest
    return graph_of(profile, paid_by(under, cheat, chosen).paid.payments, honest)


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
        f"from datamarket_gym.analysis.theorems import {', '.join(guarantees)}",
    ]
    lines += ["from datamarket_gym.analysis.redteam import CheckedAttack"] * checked
    lines += ["from datamarket_gym.market.attacks import apply_knowing"] * knowing
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
