"""The certificate for the page: every term of the bound beside what was measured, or why there is none."""

from __future__ import annotations

from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.judge.checked import Expected
from datamarket_gym.judge.guarantees.certificate import Certificate, Terms
from datamarket_gym.judge.guarantees.deterred import Deterrence
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.web.market.asked import AskedCheat, Under
from datamarket_gym.web.market.kept import certificate_of
from datamarket_gym.web.market.numbers import finite
from datamarket_gym.web.workers import StoppedWork


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
