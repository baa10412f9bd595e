"""The conditions of the theorems as entries of a certificate, and the claim that they support."""

from __future__ import annotations

from datamarket_gym.guarantees.bounds import Eta
from datamarket_gym.guarantees.certificate import Claim, Condition, Terms
from datamarket_gym.guarantees.leakage import Comparison, Leakage
from datamarket_gym.guarantees.stability import Stability, neutrality


def neutral(sides: Comparison, stability: Stability, leakage: Leakage | None) -> Condition:
    """Whether the provider's share of every cluster is preserved, matched clusters where unstable."""
    if stability.pairing is not None:
        found = neutrality(sides.honest_share[stability.pairing], sides.share)
        worst = float(abs(found.gap).max())
        why = f"over all clusters the provider's share changed by at most {worst:.3g}"
        return Condition(name="neutral", held=found.neutral, why=why)
    if leakage is None:
        why = "clusters do not correspond, so shares cannot be compared"
        return Condition(name="neutral", held=False, why=why)
    found = neutrality(sides.honest_share[leakage.partner], sides.share[leakage.matched])
    worst = float(abs(found.gap).max()) if len(found.gap) else 0.0
    why = f"over the matched clusters the provider's share changed by at most {worst:.3g}"
    return Condition(name="neutral", held=found.neutral, why=why)


def bounded_marginals(bars: Eta, value_range: float, monotone: bool) -> Condition:
    """What the error bars take for granted about marginal contributions."""
    if bars.method in ("exact", "mean_absolute"):
        why = "exact scores need no range" if bars.method == "exact" else "not needed in expectation"
    else:
        why = f"values lie within a range of {value_range:g}"
        why += ", and no unit can lower them (assumed, not checked)" if monotone else ""
    return Condition(name="bounded_marginals", held=True, why=why)


def claim_of(conditions: list[Condition], terms: Terms | None, bars: Eta) -> Claim:
    """The most that may be claimed under these conditions."""
    held = {condition.name for condition in conditions if condition.held}
    if {"quotient_stable", "neutral", "exact_scores"} <= held:
        return "exact"
    if terms is None:
        return "none"
    if bars.method == "exact":
        return "certain"
    return "expected" if bars.in_expectation else "probable"
