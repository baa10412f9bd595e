"""Certificate: what the theorems say about one manipulation of one run, in a form that can be filed.

A certificate holds every term of the bound and which conditions hold; reading one back from JSON checks that its claim
follows from its terms. It says nothing of manipulations that were not tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from pydantic import model_validator

from datamarket_gym.analysis.theorems.bounds import Eta, eta_of, normalized_bound
from datamarket_gym.analysis.theorems.deterrence import Deterrence
from datamarket_gym.analysis.theorems.leakage import (
    Comparison,
    Leakage,
    NoMatchingError,
    decompose,
    merged_clusters,
)
from datamarket_gym.analysis.theorems.paid_profile import (
    Paid,
    PaidProfile,
    require_from_submission,
    require_same_market,
)
from datamarket_gym.analysis.theorems.split_gain import size_weights
from datamarket_gym.analysis.theorems.stability import SHARE_TOLERANCE, Stability, quotient_stability
from datamarket_gym.errors import DataMarketError, ParameterError, require_count
from datamarket_gym.games.semivalues import Estimate
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.mechanism.pipeline import Mechanism, is_open
from datamarket_gym.registry import Document

Claim = Literal["exact", "certain", "probable", "expected", "none"]


class Condition(Document):
    name: str
    holds: bool
    why: str


class Terms(Document):
    allocation: float  # A
    escape: float  # L
    drift: float  # D
    eta: float
    n_clusters: int  # K', manipulated
    error_of_terms: float  # by how much A + L + D of the true scores may exceed the above
    matching: list[tuple[int, int]]  # (manipulated, honest) clusters
    escaped: list[int]
    normalized: float | None = None  # the lemma's bound, where payments are rescaled

    @property
    def raw_bound(self) -> float:
        """Compute B = A + L + D + 2 K' eta, with A, L and D at the largest their errors allow."""
        leak = self.allocation + self.escape + self.drift + self.error_of_terms
        return leak + 2 * self.n_clusters * self.eta

    @property
    def bound(self) -> float:
        return self.raw_bound if self.normalized is None else self.normalized


class Certificate(Document):
    """Certify what the theorems guarantee about one manipulation, and what it gained.

    Parameters
    ----------
    provider, attack, identities, mechanism
        The attacker, the written attack, the names under which the attacker submitted, and the mechanism or its name.
    honest_payment, attacked_payment, grand_value
        What the provider is paid when honest and when attacking, over all its names, and the value of all honest data.
    claim
        ``exact`` (Theorem 2: no gain), ``certain`` (Theorem 3, exact scores), ``probable`` (with probability 1 -
        delta), ``expected`` (of the expected gain), or ``none``.
    terms, conditions
        The terms of Theorem 3, None where it does not apply, and the conditions of the theorems.
    eta_method, delta, rounding
        How the error bars were computed, the probability with which they may fail, and the rounding error of amounts.
    evidence, deterrence
        What open evidence was resolved to, honest and manipulated, and what spot checks leave to the manipulation.
    """

    provider: str
    attack: str
    identities: list[str]
    mechanism: Mechanism | str
    honest_payment: float
    attacked_payment: float
    grand_value: float
    claim: Claim
    terms: Terms | None
    eta_method: str
    delta: float
    rounding: float
    conditions: list[Condition]
    evidence: tuple[str, str] | None = None
    deterrence: Deterrence | None = None

    @property
    def gain(self) -> float:
        return self.attacked_payment - self.honest_payment

    @property
    def multiplier(self) -> float | None:
        """Return the measured multiplicative gain; None where the honest payment is not positive."""
        return self.attacked_payment / self.honest_payment if self.honest_payment > 0 else None

    @property
    def bound(self) -> float | None:
        """Return the theorem's bound of the gain; None where it does not apply."""
        if self.claim == "none":
            return None
        return 0.0 if self.claim == "exact" else self.terms.bound if self.terms else None

    @property
    def obeys(self) -> bool | None:
        """Return True if the measured gain is within the bound; None where there is none."""
        return None if self.bound is None else abs(self.gain) <= self.bound + self.rounding

    @property
    def summary(self) -> str:
        if self.bound is None:
            return f"nothing: {'no admissible matching' if not self.holds('matching') else 'truncated scores'}"
        if self.claim == "exact":
            return "no gain (exact)"
        most = self.honest_payment + self.bound
        times = f", times {most / self.honest_payment:.2f}" if self.honest_payment > 0 else ""
        return f"at most +{self.bound:.4f}{times} ({self.claim})"

    @property
    def words(self) -> str:
        checked = "" if self.deterrence is None else self.deterrence.words
        parts = (_measured(self), _guaranteed(self), _limits(self), checked)
        return " ".join(part for part in parts if part)

    def holds(self, name: str) -> bool:
        return next(c.holds for c in self.conditions if c.name == name)

    @model_validator(mode="after")
    def _claims_no_more_than_it_may(self) -> Certificate:
        names = {condition.name for condition in self.conditions if condition.holds}
        if self.claim == "exact" and not {"quotient_stable", "neutral", "exact_scores"} <= names:
            raise ValueError("claims Theorem 2 without quotient stability, neutrality and exact scores")
        if self.claim not in ("none", "exact"):
            if self.terms is None or "matching" not in names:
                raise ValueError("claims Theorem 3 without an admissible matching")
            if self.eta_method == "none":
                raise ValueError("claims Theorem 3 for scores whose error nothing bounds")
            if self.claim != (wanted := _CLAIM_BY_ETA.get(self.eta_method, "probable")):
                raise ValueError(f"error bars by {self.eta_method!r} support {wanted!r}, no more")
        if self.terms is not None:
            _check_matching(self.terms)
            if self.eta_method == "exact" and self.terms.eta:
                raise ValueError("exact scores have no error bars")
        return self


def _check_matching(terms: Terms) -> None:
    new, old = [k for k, _ in terms.matching], [h for _, h in terms.matching]
    if len(set(new)) < len(new) or len(set(old)) < len(old):
        raise ValueError("the matching uses a cluster twice")
    if set(new) & set(terms.escaped):
        raise ValueError("a cluster is matched and escaped at once")
    if min(terms.allocation, terms.escape, terms.drift, terms.eta, terms.error_of_terms) < 0:
        raise ValueError("a term is negative")


def _measured(c: Certificate) -> str:
    names = "one name" if len(c.identities) == 1 else f"{len(c.identities)} names"
    change = f"from {c.honest_payment:.4f} to {c.attacked_payment:.4f}"
    times = "" if c.multiplier is None else f" (times {c.multiplier:.3f})"
    what = f"{c.provider} played {c.attack} under {names}"
    label = c.mechanism if isinstance(c.mechanism, str) else c.mechanism.label
    text = f"{what}; {label} changed its pay {change}{times}."
    if c.evidence is not None and c.evidence[0] != c.evidence[1]:
        text += f" Its evidence was {c.evidence[0]} on the honest submission and {c.evidence[1]} on this one."
    return text


def _guaranteed(c: Certificate) -> str:
    if c.claim == "exact":
        return (
            "Clusters, representatives and the provider's share of every cluster stayed as they were, "
            "so by Theorem 2 the gain is exactly zero."
        )
    if c.claim == "none" or c.terms is None:
        broken = [
            x.why for x in c.conditions if x.name in ("matching", "bounded_errors") and not x.holds
        ]
        return f"The theorems do not apply and guarantee nothing here: {'; '.join(broken)}."
    what = {
        "certain": "the gain is at most",
        "probable": f"with probability {1 - c.delta:g} the gain is at most",
        "expected": "the gain expected over the sampling of coalitions is at most",
    }[c.claim]
    source, terms = "Theorem 3", "made of"
    if c.terms.normalized is not None:
        source, terms = "Theorem 3 and the lemma on normalised pay", "from raw terms of"
    obeyed = "The measured gain obeys it." if c.obeys else "The measured gain EXCEEDS it."
    if c.terms.bound >= abs(c.grand_value):
        obeyed += " This is as much as all data together are worth, so it rules nothing out."
    return f"By {source}, {what} {c.terms.bound:.4f}, {terms} {_channels(c.terms)}. {obeyed}"


def _channels(terms: Terms) -> str:
    parts = [
        f"{terms.allocation:.4f} from shares gained inside clusters",
        f"{terms.escape:.4f} from {len(terms.escaped)} clusters that escaped the evidence",
        f"{terms.drift:.4f} from changed scores of {len(terms.matching)} matched clusters",
    ]
    if terms.eta:
        error = terms.error_of_terms + 2 * terms.n_clusters * terms.eta
        parts.append(f"{error:.4f} from sampling error (eta {terms.eta:.2g})")
    return ", ".join(parts)


def _limits(c: Certificate) -> str:
    caveat = {
        "expected": " The error bars are themselves estimates.",
        "probable": " The probability is that of the sampling of coalitions, for a manipulation fixed before.",
    }
    text = "This speaks of this manipulation on this market, not of others that were not tried."
    return text + caveat.get(c.claim, "")


def neutral(sides: Comparison, stability: Stability, leakage: Leakage | None) -> Condition:
    """Check that the provider's share of every cluster is preserved, of matched clusters where unstable."""
    if stability.pairing is not None:
        which, gap = "all", sides.share - sides.honest_share[stability.pairing]
    elif leakage is not None:
        which, gap = "the matched", sides.share[leakage.matched] - sides.honest_share[leakage.partner]
    else:
        why = "clusters do not correspond, so shares cannot be compared"
        return Condition(name="neutral", holds=False, why=why)
    worst = float(abs(gap).max(initial=0.0))
    why = f"over {which} clusters the provider's share changed by at most {worst:.3g}"
    return Condition(name="neutral", holds=worst <= SHARE_TOLERANCE, why=why)


def bounded_marginals(bars: Eta, value_range: float, monotone: bool) -> Condition:
    """State what the error bars assume about marginal contributions."""
    why = f"values lie within a range of {value_range:g}"
    why += ", and no unit can lower them (assumed, not checked)" if monotone else ""
    needless = {"exact": "exact scores need no range", "mean_absolute": "not needed in expectation"}
    return Condition(name="bounded_marginals", holds=True, why=needless.get(bars.method, why))


def bounded_errors(bars: Eta, bias: float) -> Condition:
    """Check that the error of the scores is bounded at all: truncated ones are biased."""
    why = "no order was cut short"
    if bias:
        why = f"truncation biases a score by at most {bias:g}, as no unit can lower the value (assumed, not checked)"
    if bars.method == "none":
        why = (
            "the scores are truncated, and where a unit can lower the value nothing bounds what was "
            "cut off; score without truncation, or say monotone=True if no unit can"
        )
    return Condition(name="bounded_errors", holds=bars.method != "none", why=why)


def claim_of(conditions: list[Condition], terms: Terms | None, bars: Eta) -> Claim:
    """Return the strongest claim that these conditions allow."""
    holds = {condition.name for condition in conditions if condition.holds}
    if {"quotient_stable", "neutral", "exact_scores"} <= holds:
        return "exact"
    if terms is None:
        return "none"
    return _CLAIM_BY_ETA.get(bars.method, "probable")


_CLAIM_BY_ETA: Mapping[str, Claim] = {"exact": "certain", "mean_absolute": "expected"}
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
    """Check the theorems' conditions on an honest and a manipulated run, and certify what they guarantee.

    Parameters
    ----------
    honest, attacked, mechanism
        The honest run, the manipulated one, whose profile names the attacker, and the mechanism that paid both.
    eta
        The error bars of sampled scores: ``auto``, ``hoeffding``, ``bernstein`` or ``mean_absolute``.
    delta
        The probability with which the error bars may fail.
    comparisons
        Of how many manipulations this one was picked as the worst; delta is divided among them.
    value_range
        The range of utilities, V.
    monotone
        Whether no unit can lower the value. It narrows error bars, and bounds those of truncated scores.
    deterrence
        What spot checks leave to the attack, to be filed with the rest.

    Returns
    -------
    Certificate
        The claim, its terms, and the conditions that hold.
    """
    provider = attacked.profile.attacker
    if provider is None:
        raise DataMarketError("the attacked profile names no attacker; apply an attack to get one")
    require_count("comparisons", comparisons)
    require_same_market(honest, attacked, provider)
    resolved = []
    for paid in (honest, attacked):
        size_weights(mechanism.semivalue, paid.n_clusters)
        resolved.append(str(require_from_submission(paid, mechanism).evidence))
    before, after = raw_scores(honest, mechanism), raw_scores(attacked, mechanism)
    delta /= comparisons
    bars = eta_of(before, after, method=eta, delta=delta, value_range=value_range, monotone=monotone)
    sides = Comparison(
        before.values,
        honest.shares_of(provider),
        after.values,
        attacked.shares_of(provider),
        attacked.containing(provider),
    )
    stability = quotient_stability(honest, attacked)
    leakage, why = _leakage(honest, attacked, sides)
    unchanged = stability.reason or "clusters and representatives are unchanged"
    exact = bars.method == "exact"
    conditions = [
        Condition(name="quotient_stable", holds=stability.stable, why=unchanged),
        neutral(sides, stability, leakage),
        Condition(name="exact_scores", holds=exact, why=f"scores by {after.method}"),
        Condition(name="matching", holds=leakage is not None, why=why),
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
        evidence=(resolved[0], resolved[1]) if is_open(mechanism.evidence) else None,
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
    """Certify by `certify`; for a mechanism that is not of our pipeline the certificate claims nothing."""
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
        conditions=[Condition(name="matching", holds=False, why=why)],
        deterrence=deterrence,
    )


def raw_scores(paid: Paid, mechanism: Mechanism) -> Estimate:
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
        leakage = decompose(sides)
    except NoMatchingError as error:
        return None, str(error)
    return leakage, (
        f"{len(leakage.matched)} clusters matched one to one with the honest clusters that pay the provider, "
        f"{len(leakage.escaped)} escaped"
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
