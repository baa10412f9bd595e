"""The page of markets: choose a market, an attack and a mechanism; see who is paid what, and what is proven.

Every answer holds payments by identity-level Shapley and by the chosen mechanism, the evidence, and the certificate.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from fastapi import APIRouter

from datamarket_gym.analysis.metrics import CLEAR, Metrics, harm_of, pot_shares, provider_totals
from datamarket_gym.analysis.theorems.certificate import Certificate, Terms
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.data.ground_truth import SubmittedProfile, genuine
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence.graph import Edges
from datamarket_gym.evidence.spanning_forest import spanning
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.explorer.market.cache import (
    PaidMarket,
    attacked_by,
    both_paid,
    certificate_of,
    checked_attack,
    market_of,
    paid_by,
)
from datamarket_gym.explorer.market.choices import choices
from datamarket_gym.explorer.market.code import BASELINE, code_of
from datamarket_gym.explorer.market.request import AttackChoice, MarketRequest, PricedMarket
from datamarket_gym.explorer.routes import Routes, Site
from datamarket_gym.explorer.workers import StoppedWork
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.pipeline import Mechanism, get_mechanism
from datamarket_gym.registry import describe

MOST = 3000
"""Edges that are shown one by one."""


def finite(value: float | None) -> float | None:
    """Return the number; None where there is none, or none that is finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def graph_of(profile: SubmittedProfile, payments: Payments, honest: SubmittedProfile) -> dict[str, Any]:
    """Describe the evidence graph: units in columns, and edges between their places."""
    submission, truth = profile.submission, profile.truth.aligned(profile.submission)
    n, players = len(submission), payments.leaks.others(len(submission))
    providers = list(dict.fromkeys(sorted(truth.controller.values())))
    cluster: list[int | None] = [None] * n
    for row, number in zip(players.tolist(), payments.clustering.label.tolist(), strict=True):
        cluster[row] = number
    canonical = np.zeros(n, dtype=bool)
    canonical[players[payments.canonical.claim_unit]] = True
    place = {str(unit): row for row, unit in enumerate(submission.id)}
    sources = zip(truth.source, submission.id, strict=True)
    edges = payments.clustering.edges
    shown, note = _shown(edges)
    reasons, reason = np.unique(shown.reason, return_inverse=True)
    return {
        "identities": submission.identities.tolist(),
        "providers": providers,
        "units": {
            "id": submission.id.tolist(),
            "identity": submission.identity_codes.tolist(),
            "owner": [providers.index(str(owner)) for owner in truth.owner],
            "cluster": cluster,
            "canonical": canonical.tolist(),
            "copy_of": [None if str(of) == str(unit) else place.get(str(of)) for of, unit in sources],
            "genuine": genuine(profile, honest).tolist(),
        },
        "edges": {
            "left": players[shown.left].tolist(),
            "right": players[shown.right].tolist(),
            "reason": reason.tolist(),
            "score": [round(float(score), 6) for score in shown.score],
        },
        "reasons": [
            {"name": str(name), "edges": int((edges.reason == name).sum())} for name in reasons.tolist()
        ],
        "edges_in_all": len(edges),
        "clusters": payments.clustering.n_clusters,
        "note": note,
    }


def _shown(edges: Edges) -> tuple[Edges, str]:
    """Return all edges, or where they are many a spanning forest of them; and a note that says so."""
    if len(edges) <= MOST:
        return edges, ""
    order = np.lexsort((-edges.score, edges.right, edges.left))  # of each pair the strongest first
    left, right = edges.left[order], edges.right[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
    once = edges.where(order[first])
    forest = once.where(spanning(once.left, once.right, once.score))
    note = (
        f"{len(edges):,} edges; shown are the {len(forest):,} strongest that hold the clusters together"
    )
    return forest, note


_NEEDED = ("matching", "bounded_errors")
"""Conditions without which the theorems say nothing."""
_CONDITIONS = {
    "quotient_stable": "Clusters and representatives stay as they were",
    "neutral": "The provider's share of every cluster stays as it was",
    "exact_scores": "Scores are exact",
    "matching": "Honest clusters and those after the attack can be matched one to one",
    "bounded_marginals": "What a unit adds is bounded",
    "bounded_errors": "The error of the scores is bounded",
}


def certificate(market: PricedMarket, attack: AttackChoice, mechanism: Mechanism) -> dict[str, Any]:
    """Describe what the theorems guarantee about the attack; or why they guarantee nothing."""
    try:
        record: Certificate = certificate_of(market, attack, mechanism)
    except StoppedWork:
        raise
    except DataMarketError as error:
        return {"certified": False, "claim": "none", "gain": None, "bound": None, "why": str(error)}
    broken = [each.why for each in record.conditions if not each.holds and each.name in _NEEDED]
    certified = record.claim != "none"
    return {
        "certified": certified,
        "why": "" if certified else "; ".join(broken),
        **{name: getattr(record, name) for name in ("claim", "summary", "words", "gain")},
        "bound": finite(record.bound),
        "terms": None if record.terms is None else _terms(record.terms),
        "normalized": None if record.terms is None else finite(record.terms.normalized),
        "conditions": [
            {"words": _CONDITIONS.get(each.name, each.name), "holds": each.holds, "why": each.why}
            for each in record.conditions
        ],
    }


def _terms(terms: Terms) -> list[dict[str, Any]]:
    sampling = 2 * terms.n_clusters * terms.eta
    rows = (
        ("allocation", "A", "shares gained inside clusters", terms.allocation),
        ("escape", "L", "clusters that escaped the evidence", terms.escape),
        ("drift", "D", "changed scores of matched clusters", terms.drift),
        ("sampling", "2 K' eta", "sampling error of the payments", sampling),
        ("error", "error", "sampling error of A, L and D", terms.error_of_terms),
    )
    return [{"key": k, "symbol": s, "words": w, "value": finite(v)} for k, s, w, v in rows]


@lru_cache(maxsize=16)
def scheme(market: PricedMarket, attack: AttackChoice, mechanism: Mechanism) -> dict[str, Any]:
    """Describe what the mechanism pays without and with the attack; not to be written to."""
    profile = attacked_by(market.draw, attack)
    before, after = (paid_by(market, each, mechanism) for each in (None, attack))
    honest, attacked = before.paid.payments, after.paid.payments
    thresholds = {"honest": honest.threshold, "attacked": attacked.threshold}
    return {
        "clusters": attacked.clustering.n_clusters,
        "exact": bool(attacked.scores.exact),
        "providers": _providers(honest, attacked, profile),
        "identities": _identities(attacked, profile),
        "gain": _gain(honest, attacked, profile),
        "warnings": _warnings(before, after),
        "threshold": None if None in thresholds.values() else {
            name: each.model_dump(include={"theta", "evidence", "why"}) for name, each in thresholds.items() if each
        },
    }  # fmt: skip


def _providers(honest: Payments, attacked: Payments, profile: SubmittedProfile) -> list[dict[str, Any]]:
    before, after = honest.as_dict(), provider_totals(attacked, profile)
    shares, now = pot_shares(before), pot_shares(after)
    errors = dict(zip(attacked.identities.tolist(), attacked.standard_errors.tolist(), strict=True))
    rows = []
    for name, amount in before.items():
        attacks = name == str(profile.attacker)
        lost = max(0.0, 1.0 - now[name] / shares[name]) if shares[name] > 0 else None
        # The error of a sum is at most the sum of errors, however these depend on each other.
        error = sum(errors.get(identity, math.inf) for identity in profile.identities_of(name))
        rows.append({
            "provider": name, "attacker": attacks, "honest": amount, "attacked": after[name],
            "attacked_error": finite(error), "lost": None if attacks else lost,
        })  # fmt: skip
    return rows


def _identities(attacked: Payments, profile: SubmittedProfile) -> list[dict[str, Any]]:
    names, controller = profile.submission.identity.tolist(), profile.truth.controller
    return [
        {
            "identity": name,
            "provider": controller[name],
            "attacker": controller[name] == str(profile.attacker),
            "pseudonym": name != controller[name],
            "units": names.count(name),
            "attacked": amount,
        }
        for name, amount in attacked.as_dict().items()
    ]


def _gain(honest: Payments, attacked: Payments, profile: SubmittedProfile) -> dict[str, Any]:
    attacker = str(profile.attacker)
    report = Metrics.evaluate(attacked, profile, honest)
    harm = harm_of(honest, attacked, profile, attacker)
    unclear = (
        f"{attacker} earns {report.honest_payment:.4g} when honest, which is not clearly above zero (no more than "
        f"{CLEAR:g} of an equal share of what all data are worth), so that a multiple of it would mean nothing"
    )
    return {
        "gain": None if report.near_zero else finite(report.gain),
        "why": unclear if report.near_zero else "",
        "honest": report.honest_payment,
        "victim": harm.victim,
        "victim_loss": finite(harm.victim_loss),
        "victim_loss_sum": finite(harm.victim_loss_sum),
    }


def _warnings(before: PaidMarket, after: PaidMarket) -> list[dict[str, str]]:
    """List every warning once, with the market that it is about."""
    markets: dict[tuple[str, str], list[str]] = {}
    for market, paid in (("honest", before), ("attacked", after)):
        for warning in dict.fromkeys((each.what, each.words) for each in paid.warnings):
            markets.setdefault(warning, []).append(market)
    return [
        {"what": what, "words": words, "market": named[0] if len(named) == 1 else "both"}
        for (what, words), named in markets.items()
    ]


def checked_scheme(
    market: PricedMarket, attack: AttackChoice, mechanism: Mechanism, checks: Checks
) -> tuple[dict[str, Any], str | None]:
    """Describe what the attack is paid in expectation with checks, or why that is not known; and deterrence."""
    about: dict[str, Any] = {"per_payee": checks.per_payee, "power": checks.power}
    try:
        expected = checked_attack(market, attack, mechanism, checks).expected(checks)
    except StoppedWork:
        raise
    except DataMarketError as error:
        return about | {"why": str(error), "pay": None, "gain": None}, None
    gain = scheme(market, attack, mechanism)["gain"]
    times = None if gain["why"] else expected.pay / gain["honest"]
    about |= {"why": gain["why"], "pay": expected.pay, "gain": times}
    return about, expected.deterrence().words


def answer(request: MarketRequest, *, progress: Progress = SILENT) -> dict[str, Any]:
    """Compute all that the page shows of one question."""
    progress.stage("drawing the market")
    request = request.filled()
    priced, attack = request.priced(progress), request.attack_choice()
    shapley, chosen = get_mechanism("shapley").seeded(request.seed), request.chosen()
    profile, market = attacked_by(priced.draw, attack), market_of(priced.draw)
    progress.stage(f"paying by {BASELINE}", "coalitions")
    usual = scheme(priced, attack, shapley)
    progress.stage(f"paying by {request.mechanism}", "coalitions")
    ours = scheme(priced, attack, chosen)
    checked = deterrence = None
    if request.checks:
        progress.stage("paying every outcome of the checks", "outcomes")
        checks = Checks(request.checks, request.power)
        checked, deterrence = checked_scheme(priced, attack, chosen, checks)
    progress.stage("computing the certificate")
    changed = request.changed()
    label = describe("mechanism", request.mechanism).title
    title = f"{label}, changed: {', '.join(changed)}" if changed else label
    return {
        "asked": request.model_dump(),
        "market": {
            "title": market.screen().title.partition("; worth by")[0],
            "providers": market.state.providers,
            "attacker": str(profile.attacker),
            "attack": attack.spec,
            "assumes": ATTACKS.create(attack.spec).assumes,
        },
        "schemes": [
            usual
            | {"key": "shapley", "title": BASELINE, "preset": BASELINE, "changed": [], "checked": None},
            ours
            | {"key": "chosen", "title": title, "preset": label, "changed": changed, "checked": checked},
        ],
        "graph": _graph(priced, attack, chosen),
        "certificate": certificate(priced, attack, chosen) | {"deterrence": deterrence},
    }


@lru_cache(maxsize=8)
def _graph(priced: PricedMarket, attack: AttackChoice, chosen: Mechanism) -> dict[str, Any]:
    payments = both_paid(priced, attack, chosen)[1].payments
    return graph_of(attacked_by(priced.draw, attack), payments, market_of(priced.draw).honest)


def router(site: Site) -> APIRouter:
    """Build the routes of the page."""
    routes = Routes("/api/market", site)
    routes.answer("GET", "/choices", choices, cache=True)
    routes.answer("POST", "/answer", answer, MarketRequest, cache=True)
    routes.answer("POST", "/code", code_of, MarketRequest, cache=True)
    return routes
