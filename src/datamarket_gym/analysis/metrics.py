"""Metrics: what an attack gained, what it cost the others, and what a mechanism cost the honest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError, require_instance
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.mechanism.allocation import PaidTotals, Payments

CLEAR = 0.1
"""Of an equal share of v(all): an honest payment up to this is not clearly above zero."""

ROUNDING = 1e-9
"""Values are accuracies, of the order of one: what is smaller than this is rounding, and divides nothing."""


def clearly_paid(payment: float, grand_value: float, providers: int) -> bool:
    """Return True if payment > CLEAR * v(all) / n for n providers, and v(all) is above zero."""
    return grand_value > ROUNDING and payment > CLEAR * grand_value / providers


def gain_of(paid: float, honest: float) -> float:
    """Compute the multiplicative gain; NaN where the honest payment is rounding, which divides nothing."""
    return paid / honest if abs(honest) > ROUNDING else float("nan")


def of_grand_value(amount: float, grand_value: float) -> float:
    """Compute an amount as a part of v(all); NaN where v(all) is not above zero."""
    return amount / grand_value if grand_value > ROUNDING else float("nan")


@dataclass(frozen=True)
class Harm(Shown):
    """Hold what an attack took from the others, as shares of a fixed pot; NaN where undefined.

    With s_j = max(pay_j, 0) / sum of max(pay_k, 0), s of the honest and s' of the attacked market, a the attacker:

        victim_loss     = largest max(0, 1 - s'_j / s_j) over the j that are clearly paid when all are honest,
        victim_loss_sum = sum of max(0, s_j - s'_j) over all j, as a part of the sum of s_j,
        theft           = max(0, s'_a - s_a).

    All causes count, competition too: what evidence did is the difference to the same attack without evidence.
    """

    victim: str | None  # the provider who loses most, if any
    victim_loss: float
    victim_loss_sum: float
    theft: float


def pot_shares(paid: Mapping[str, float]) -> dict[str, float]:
    """Compute the s of `Harm` from what each provider is paid."""
    owed = {name: max(amount, 0.0) for name, amount in paid.items()}
    pot = sum(owed.values())
    return {name: amount / pot if pot > ROUNDING else 0.0 for name, amount in owed.items()}


def harm_of(honest: PaidTotals, paid: PaidTotals, profile: SubmittedProfile, attacker: str) -> Harm:
    before, after = _both(honest, paid, profile, attacker)
    shares, now = pot_shares(before), pot_shares(after)
    others = [name for name in before if name != attacker]
    clear = [name for name in others if clearly_paid(before[name], honest.grand_value, len(after))]
    losses = {name: max(0.0, 1.0 - now[name] / shares[name]) for name in clear}
    victim = max(losses, key=lambda name: losses[name], default=None)
    theirs = sum(shares[name] for name in others)
    lost = sum(max(0.0, shares[name] - now[name]) for name in others)
    return Harm(
        victim=None if victim is None or losses[victim] <= ROUNDING else victim,
        victim_loss=float("nan") if victim is None else losses[victim],
        victim_loss_sum=lost / theirs if theirs > ROUNDING else float("nan"),
        theft=max(0.0, now[attacker] - shares[attacker]) if any(shares.values()) else float("nan"),
    )


@dataclass(frozen=True)
class Report(Shown):
    """Hold the metrics of one attack against one mechanism on one draw; NaN where undefined."""

    honest_payment: float
    attacked_payment: float
    gain: float
    gain_additive: float
    victim_loss: float
    victim_loss_sum: float
    theft: float
    oracle_l1: float
    rank_stability: float
    utility: float
    mixed_components: float
    clusters: float
    evaluations: float
    near_zero: bool
    runtime: float

    def as_row(self) -> dict[str, float]:
        """Return the numbers without the runtime, which no two runs share."""
        return {name: float(v) for name, v in asdict(self).items() if name != "runtime"}


class Metrics:
    """The paper's ``Metrics.evaluate(payments, latent_owners, honest_reference) -> report``."""

    @staticmethod
    def evaluate(
        payments: PaidTotals,
        latent_owners: SubmittedProfile,
        honest_reference: PaidTotals,
        oracle: PaidTotals | None = None,
        provider: str | None = None,
    ) -> Report:
        """Compare payments on an attacked profile with the honest reference.

        ``latent_owners`` is the profile that was paid, with its truth. ``oracle`` are the payments of the latent-oracle
        mechanism on it, for the L1 distance. The provider is the attacker unless another is named. What is counted in
        clusters is NaN for a mechanism without any.
        """
        what = "what a mechanism paid, get_mechanism(...).pay(submission, utility)"
        require_instance("payments", payments, PaidTotals, what)
        require_instance("honest_reference", honest_reference, PaidTotals, what)
        what = "the profile that was paid, attack.apply(0, market.state)"
        require_instance("latent_owners", latent_owners, SubmittedProfile, what)
        profile = latent_owners
        provider = provider or profile.attacker or next(iter(provider_totals(payments, profile)))
        before, after = _both(honest_reference, payments, profile, provider)
        harm = harm_of(honest_reference, payments, profile, provider)
        paid, honest = after[provider], before[provider]
        l1 = np.nan
        if oracle is not None:
            ideal = provider_totals(oracle, profile)
            l1 = of_grand_value(sum(abs(after[n] - ideal[n]) for n in after), payments.grand_value)
        inside = payments if isinstance(payments, Payments) else None
        return Report(
            honest_payment=honest,
            attacked_payment=paid,
            gain=gain_of(paid, honest),
            gain_additive=paid - honest,
            victim_loss=harm.victim_loss,
            victim_loss_sum=harm.victim_loss_sum,
            theft=harm.theft,
            oracle_l1=l1,
            rank_stability=_tau(list(before.values()), [after[n] for n in before]),
            utility=payments.grand_value,
            mixed_components=mixed_component_fraction(inside.clustering, profile) if inside else np.nan,
            clusters=inside.clustering.n_clusters if inside else np.nan,
            evaluations=payments.evaluations,
            near_zero=not clearly_paid(honest, honest_reference.grand_value, len(after)),
            runtime=payments.seconds,
        )


def provider_totals(payments: PaidTotals, profile: SubmittedProfile) -> dict[str, float]:
    controller = profile.truth.controller
    controlled = all(str(name) in controller for name in payments.identities)
    if not controlled or not np.isin(profile.submission.identities, payments.identities).all():
        raise DataMarketError(
            "these payments are of other identities than the profile's; pay the profile's own submission"
        )
    controllers = np.array([controller[str(name)] for name in payments.identities])
    return {str(c): float(payments.totals[controllers == c].sum()) for c in np.unique(controllers)}


def _both(
    honest: PaidTotals, paid: PaidTotals, profile: SubmittedProfile, provider: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Return what each provider is paid, honest and attacked; payments of two markets are refused."""
    before, after = honest.as_dict(), provider_totals(paid, profile)
    if unknown := next((name for name in (provider, *before) if name not in after), None):
        raise DataMarketError(
            f"{unknown!r} is no provider of the profile that was paid; compare payments of one market"
        )
    if provider not in before:
        raise DataMarketError(
            f"{provider!r} has no honest payment to compare with; give the payments when all were honest"
        )
    return before, after


def mixed_component_fraction(clusters: Clusters, profile: SubmittedProfile) -> float:
    playing = clusters.submission or profile.submission  # less than was submitted where rows leaked
    owner = profile.truth.aligned(playing).owner_codes()
    pairs = np.unique(np.stack([clusters.label, owner]), axis=1)
    owners_per_cluster = np.bincount(pairs[0])
    return float((owners_per_cluster > 1).mean())


def _tau(before: list[float], after: list[float]) -> float:
    from scipy.stats import kendalltau

    one, other = _levels(before), _levels(after)
    if one.max() == 0 or other.max() == 0:  # no order on one side: nothing to compare
        return float("nan")
    return float(kendalltau(one, other).statistic)


def _levels(payments: list[float]) -> Codes:
    """Return the rank of each payment among the distinct ones; those that differ by rounding are one."""
    order = np.argsort(payments, kind="stable")
    steps = np.diff(np.asarray(payments)[order]) > ROUNDING
    level = np.zeros(len(payments), dtype=np.int64)
    level[order[1:]] = np.cumsum(steps)
    return level
