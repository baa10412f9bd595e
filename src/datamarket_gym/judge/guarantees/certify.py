"""certify: check the theorems' conditions on an honest and a manipulated run, and write it all down."""

from __future__ import annotations

from dataclasses import replace

from datamarket_gym.core.errors import DataMarketError, ParameterError, require_count
from datamarket_gym.games.semivalue import Estimate
from datamarket_gym.judge.guarantees.bounds import Eta, eta_of, normalized_bound
from datamarket_gym.judge.guarantees.certificate import (
    Certificate,
    Condition,
    Terms,
    bounded_errors,
    bounded_marginals,
    claim_of,
    neutral,
)
from datamarket_gym.judge.guarantees.deterred import Deterrence
from datamarket_gym.judge.guarantees.leakage import (
    Comparison,
    Leakage,
    NoMatchingError,
    decompose,
    merged_clusters,
)
from datamarket_gym.judge.guarantees.paid import (
    Paid,
    PaidProfile,
    require_from_submission,
    require_same_market,
)
from datamarket_gym.judge.guarantees.splits import size_law
from datamarket_gym.judge.guarantees.stability import quotient_stability
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.own import OwnMechanism
from datamarket_gym.pipeline.threshold import open_lineage

_GRID = 2.0**-47  # of the sum of scores: the rounding of one amount, with room (see exact_amounts)


def certify(
    honest: Paid,
    attacked: Paid,
    mechanism: Mechanism,
    *,
    eta: str = "auto",
    delta: float = 0.05,
    comparisons: int = 1,
    value_range: float = 1.0,
    monotone: bool = False,
    deterrence: Deterrence | None = None,
) -> Certificate:
    """What the theorems guarantee about the attack in ``attacked``, given the honest run.

    ``eta`` chooses the error bars of sampled scores (see `eta_of`). Where the manipulation was picked
    as the worst of several, say of how many by ``comparisons``: delta is divided among them. Say
    ``monotone`` only where no unit can lower the value: it narrows error bars, and it is what a bound
    for truncated scores rests on; without it these support no claim. ``deterrence`` is what checks leave to the
    attack, where payees are checked (`judge.checked`); it is filed with the rest.
    """
    provider = attacked.profile.attacker
    if provider is None:
        raise DataMarketError("the attacked profile names no attacker; apply an attack to get one")
    require_count("comparisons", comparisons)
    require_same_market(honest, attacked, provider)
    settled = []
    for paid in (honest, attacked):
        size_law(mechanism.semivalue, paid.n_clusters)
        settled.append(str(require_from_submission(paid, mechanism).evidence))
    before, after = raw_scores(honest, mechanism), raw_scores(attacked, mechanism)
    bars = eta_of(
        before,
        after,
        method=eta,
        delta=delta / comparisons,
        value_range=value_range,
        monotone=monotone,
    )
    sides = Comparison(
        before.values,
        honest.shares_of(provider),
        after.values,
        attacked.shares_of(provider),
        attacked.containing(provider),
    )
    stability = quotient_stability(honest, attacked)
    leakage, why = _leakage(honest, attacked, sides)
    conditions = [
        Condition(
            name="quotient_stable",
            held=stability.stable,
            why="; ".join(stability.reasons) or "clusters and representatives are unchanged",
        ),
        neutral(sides, stability, leakage),
        Condition(
            name="exact_scores",
            held=bars.method == "exact",
            why=f"scores by {after.method}",
        ),
        Condition(name="matching", held=leakage is not None, why=why),
        bounded_marginals(bars, value_range, monotone),
        bounded_errors(bars, max(before.bias, after.bias)),
    ]
    terms = None
    if leakage is not None and bars.method != "none":
        terms = _terms(leakage, bars, honest, attacked, mechanism, provider)
    return Certificate(
        provider=provider,
        attack=attacked.profile.attack,
        identities=attacked.profile.identities_of(provider),
        mechanism=mechanism,
        honest_payment=honest.total(provider),
        attacked_payment=attacked.total(provider),
        grand_value=honest.payments.grand_value,
        claim=claim_of(conditions, terms, bars),
        terms=terms,
        eta_method=bars.method,
        delta=bars.delta,
        rounding=_rounding(honest) + _rounding(attacked),
        conditions=conditions,
        evidence=None if open_lineage(mechanism.evidence) is None else (settled[0], settled[1]),
        deterrence=deterrence,
    )


def certified(
    honest: PaidProfile,
    attacked: PaidProfile,
    mechanism: Mechanism | OwnMechanism,
    *,
    comparisons: int = 1,
    deterrence: Deterrence | None = None,
) -> Certificate:
    """`certify`, or for a mechanism that is not of our pipeline a certificate that claims nothing."""
    if isinstance(mechanism, Mechanism) and isinstance(honest, Paid) and isinstance(attacked, Paid):
        return certify(honest, attacked, mechanism, comparisons=comparisons, deterrence=deterrence)
    provider = str(attacked.profile.attacker)
    why = f"{mechanism.name} is a mechanism of its own, without clusters that could be matched"
    return Certificate(
        provider=provider,
        attack=attacked.profile.attack,
        identities=attacked.profile.identities_of(provider),
        mechanism=mechanism.name,
        honest_payment=honest.total(provider),
        attacked_payment=attacked.total(provider),
        grand_value=honest.payments.grand_value,
        claim="none",
        terms=None,
        eta_method="none",
        delta=0.0,
        rounding=0.0,
        conditions=[Condition(name="matching", held=False, why=why)],
        deterrence=deterrence,
    )


def raw_scores(paid: Paid, mechanism: Mechanism) -> Estimate:
    """The cluster scores before normalisation."""
    scores = paid.payments.scores
    if not mechanism.normalize:
        return scores
    if scores.raw_total is None or scores.grand_value == 0:
        raise ParameterError(
            "payments",
            "normalised",
            "their raw scores are not known (no raw sum, or a grand value of zero), and the theorems "
            "concern raw scores; pay with normalize=False",
        )
    back = scores.raw_total / scores.grand_value
    return replace(
        scores,
        values=scores.values * back,
        standard_errors=scores.standard_errors * abs(back),
        bias=scores.bias * abs(back),
    )


def _leakage(honest: Paid, attacked: Paid, sides: Comparison) -> tuple[Leakage | None, str]:
    merged = merged_clusters(honest, attacked, sides.paying)
    if len(merged):
        return None, (
            f"{len(merged)} manipulated clusters merge several of the honest clusters that pay the "
            "provider, so these cannot be compared one by one; Theorem 3 leaves such manipulations out"
        )
    try:
        found = decompose(sides)
    except NoMatchingError as error:
        return None, str(error)
    return found, (
        f"{len(found.matched)} clusters matched one to one with the honest clusters that pay the "
        f"provider, {len(found.escaped)} escaped"
    )


def _terms(
    leakage: Leakage,
    bars: Eta,
    honest: Paid,
    attacked: Paid,
    mechanism: Mechanism,
    provider: str,
) -> Terms:
    terms = Terms(
        allocation=leakage.allocation,
        escape=leakage.escape,
        drift=leakage.drift,
        eta=bars.value,
        n_clusters=attacked.n_clusters,
        error_of_terms=leakage.error_of_terms(bars.value),
        matching=list(zip(leakage.matched.tolist(), leakage.partner.tolist(), strict=True)),
        escaped=leakage.escaped.tolist(),
    )
    if not mechanism.normalize:
        return terms
    raw = raw_scores(honest, mechanism).values
    totals = (float(raw.sum()), float(raw_scores(attacked, mechanism).values.sum()))
    lemma = normalized_bound(
        terms.raw_bound,
        float((honest.shares_of(provider) * raw).sum()),
        totals,
        (honest.payments.grand_value, attacked.payments.grand_value),
    )
    return terms.model_copy(update={"normalized": lemma})


def _rounding(paid: Paid) -> float:
    payments = paid.payments
    return float(abs(payments.scores.values).sum()) * len(payments.amount) * _GRID
