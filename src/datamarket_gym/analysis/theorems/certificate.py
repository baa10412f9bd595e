"""Certificate: what the theorems say about one manipulation of one run, in a form that can be filed.

A certificate holds every term of the bound and which conditions hold; reading one back from JSON checks that its claim
follows from its terms. It says nothing of manipulations that were not tried.
"""

from __future__ import annotations

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
from datamarket_gym.analysis.theorems.stability import Stability, neutrality, quotient_stability
from datamarket_gym.errors import DataMarketError, ParameterError, require_count
from datamarket_gym.games.semivalues import Estimate
from datamarket_gym.mechanism.external import OwnMechanism
from datamarket_gym.mechanism.pipeline import Mechanism, is_open
from datamarket_gym.registry import Document

Claim = Literal["exact", "certain", "probable", "expected", "none"]


class Condition(Document):
    """A condition of a theorem, whether it holds here, and why or why not."""

    name: str
    holds: bool
    why: str


class Terms(Document):
    """The terms of Theorem 3, from the scores of this run."""

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
        """B = A + L + D + 2 K' eta, with A, L and D at the largest their errors allow."""
        leak = self.allocation + self.escape + self.drift + self.error_of_terms
        return leak + 2 * self.n_clusters * self.eta

    @property
    def bound(self) -> float:
        """The bound of the payments as they were made."""
        return self.raw_bound if self.normalized is None else self.normalized


class Certificate(Document):
    """Certify what the theorems guarantee about one manipulation, and what it gained.

    Parameters
    ----------
    provider, attack, identities
        Who attacked, the attack as it is written, and the names under which the provider submitted.
    mechanism
        The mechanism, or the name of one that is not made of evidence and a semivalue.
    honest_payment, attacked_payment
        What the provider is paid when honest and when attacking, over all its names.
    grand_value
        The value of all honest data.
    claim
        ``exact`` (Theorem 2: no gain), ``certain`` (Theorem 3, exact scores), ``probable`` (with probability 1 -
        delta), ``expected`` (of the expected gain), or ``none``.
    terms
        The terms of Theorem 3; None where it does not apply.
    eta_method, delta
        How the error bars were computed, and the probability with which they may fail.
    rounding
        How far amounts may be off through the grid on which money is divided.
    conditions
        The conditions of the theorems, and whether they hold.
    evidence
        What open evidence was resolved to, honest and manipulated.
    deterrence
        What spot checks leave to this manipulation, where payees are checked.
    """

    provider: str
    attack: str
    identities: list[str]
    mechanism: Mechanism | str  # the name alone of one that is not of our pipeline
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
    deterrence: Deterrence | None = (
        None  # what checks leave to this manipulation, where payees are checked
    )

    @property
    def gain(self) -> float:
        """The measured additive gain."""
        return self.attacked_payment - self.honest_payment

    @property
    def multiplier(self) -> float | None:
        """The measured multiplicative gain; None where the honest payment is not positive."""
        return self.attacked_payment / self.honest_payment if self.honest_payment > 0 else None

    @property
    def bound(self) -> float | None:
        """What the theorem bounds the gain by; None where it does not apply."""
        if self.claim == "none":
            return None
        return 0.0 if self.claim == "exact" else self.terms.bound if self.terms else None

    @property
    def obeys(self) -> bool | None:
        """Whether the measured gain is within the bound; None where there is none."""
        return None if self.bound is None else abs(self.gain) <= self.bound + self.rounding

    @property
    def summary(self) -> str:
        """What is guaranteed, in a few words."""
        if self.bound is None:
            return f"nothing: {'no admissible matching' if not self.holds('matching') else 'truncated scores'}"
        if self.claim == "exact":
            return "no gain (exact)"
        most = self.honest_payment + self.bound
        times = f", times {most / self.honest_payment:.2f}" if self.honest_payment > 0 else ""
        return f"at most +{self.bound:.4f}{times} ({self.claim})"

    @property
    def words(self) -> str:
        """The certificate in a paragraph of plain words."""
        return paragraph(self)

    def holds(self, name: str) -> bool:
        """Whether a condition holds."""
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
            wanted = {"exact": "certain", "mean_absolute": "expected"}.get(self.eta_method, "probable")
            if self.claim != wanted:
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


def paragraph(certificate: Certificate) -> str:
    """What was tried, what it gained, what is guaranteed, and what is not."""
    checked = "" if certificate.deterrence is None else certificate.deterrence.words
    parts = (_measured(certificate), _guaranteed(certificate), _limits(certificate), checked)
    return " ".join(part for part in parts if part)


def _measured(c: Certificate) -> str:
    names = "one name" if len(c.identities) == 1 else f"{len(c.identities)} names"
    change = f"from {c.honest_payment:.4f} to {c.attacked_payment:.4f}"
    times = "" if c.multiplier is None else f" (times {c.multiplier:.3f})"
    what = f"{c.provider} played {c.attack} under {names}"
    label = c.mechanism if isinstance(c.mechanism, str) else c.mechanism.label
    return f"{what}; {label} changed its pay {change}{times}.{_settled(c)}"


def _settled(c: Certificate) -> str:
    if c.evidence is None or c.evidence[0] == c.evidence[1]:
        return ""
    return f" Its evidence was {c.evidence[0]} on the honest submission and {c.evidence[1]} on this one."


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
    text = "This speaks of this manipulation on this market, not of others that were not tried."
    if c.claim == "expected":
        text += " The error bars are themselves estimates."
    if c.claim == "probable":
        text += (
            " The probability is that of the sampling of coalitions, for a manipulation fixed before."
        )
    return text


def neutral(sides: Comparison, stability: Stability, leakage: Leakage | None) -> Condition:
    """Whether the provider's share of every cluster is preserved, matched clusters where unstable."""
    if stability.pairing is not None:
        found = neutrality(sides.honest_share[stability.pairing], sides.share)
        worst = float(abs(found.gap).max())
        why = f"over all clusters the provider's share changed by at most {worst:.3g}"
        return Condition(name="neutral", holds=found.neutral, why=why)
    if leakage is None:
        why = "clusters do not correspond, so shares cannot be compared"
        return Condition(name="neutral", holds=False, why=why)
    found = neutrality(sides.honest_share[leakage.partner], sides.share[leakage.matched])
    worst = float(abs(found.gap).max()) if len(found.gap) else 0.0
    why = f"over the matched clusters the provider's share changed by at most {worst:.3g}"
    return Condition(name="neutral", holds=found.neutral, why=why)


def bounded_marginals(bars: Eta, value_range: float, monotone: bool) -> Condition:
    """What the error bars take for granted about marginal contributions."""
    if bars.method in ("exact", "mean_absolute"):
        why = "exact scores need no range" if bars.method == "exact" else "not needed in expectation"
    else:
        why = f"values lie within a range of {value_range:g}"
        why += ", and no unit can lower them (assumed, not checked)" if monotone else ""
    return Condition(name="bounded_marginals", holds=True, why=why)


def bounded_errors(bars: Eta, bias: float) -> Condition:
    """Whether the error of the scores is bounded at all: truncated ones are biased."""
    holds = bars.method != "none"
    why = "no order was cut short"
    if bias:
        why = (
            f"truncation biases a score by at most {bias:g}, as no unit can lower the value (assumed, not "
            "checked)"
            if holds
            else "the scores are truncated, and where a unit can lower the value nothing bounds what was "
            "cut off; score without truncation, or say monotone=True if no unit can"
        )
    return Condition(name="bounded_errors", holds=holds, why=why)


def claim_of(conditions: list[Condition], terms: Terms | None, bars: Eta) -> Claim:
    """The most that may be claimed under these conditions."""
    holds = {condition.name for condition in conditions if condition.holds}
    if {"quotient_stable", "neutral", "exact_scores"} <= holds:
        return "exact"
    if terms is None:
        return "none"
    if bars.method == "exact":
        return "certain"
    return "expected" if bars.in_expectation else "probable"


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
    settled = []
    for paid in (honest, attacked):
        size_weights(mechanism.semivalue, paid.n_clusters)
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
            holds=stability.stable,
            why="; ".join(stability.reasons) or "clusters and representatives are unchanged",
        ),
        neutral(sides, stability, leakage),
        Condition(
            name="exact_scores",
            holds=bars.method == "exact",
            why=f"scores by {after.method}",
        ),
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
        evidence=(settled[0], settled[1]) if is_open(mechanism.evidence) else None,
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
        conditions=[Condition(name="matching", holds=False, why=why)],
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
