"""What evidence would have stopped an attack, or spared its victim: the same attack again under other layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from datamarket_gym.analysis.metrics import ROUNDING, clearly_paid, pot_shares, provider_totals
from datamarket_gym.analysis.spot_checks import checked_attack
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.errors import DataMarketError, NothingNewError
from datamarket_gym.evidence.threshold import Threshold, measure_threshold
from datamarket_gym.mechanism.allocation import PaidTotals, Payments
from datamarket_gym.mechanism.pipeline import Mechanism, resolve_threshold
from datamarket_gym.registry import Document
from datamarket_gym.utilities.oracle import UtilityOracle

THETAS = (0.99, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
"""Thresholds of lineage that are tried, with the lowest that may be used where it is another."""


class Remedy(Document):
    """Another evidence layer: what the attack gains under it, and what it changes for the honest."""

    title: str
    evidence: str
    gain: (
        float | None
    )  # multiplicative, as expected given the audit's checks; None where it is not defined
    moved: float  # share of the honest pot that the layer alone moves between providers
    stops: bool
    admissible: bool = True  # False where lineage at this threshold costs the honest here too much

    @property
    def advised(self) -> bool:
        return self.stops and self.admissible


def alternatives(mechanism: Mechanism, measured: Threshold) -> list[tuple[str, Mechanism]]:
    """Return a resolved mechanism with other evidence, from what an operator has to what an oracle knows."""
    changes: list[tuple[str, dict[str, str]]] = [
        ("exact copies", {"evidence": "exact_hash"}),
        *((_similarity(t), {"evidence": f"lineage@{t}"}) for t in _thetas(measured)),
        ("trusted sources", {"evidence": "oracle_source"}),
        (
            "linked accounts",
            {
                "evidence": "oracle_latent",
                "granularity": "identity",
                "representative": "collapse",
                "allocation": "count_canonical",
            },
        ),
    ]
    found = [(title, mechanism.model_copy(update=change)) for title, change in changes]
    return [(title, m) for title, m in found if m != mechanism]


def try_remedies(
    mechanism: Mechanism,
    honest: SubmittedProfile,
    attacked: SubmittedProfile,
    utility: UtilityOracle,
    reference: Payments,
    stop_at: float,
    threshold: Threshold | None = None,
    checks: Checks | None = None,
) -> list[Remedy]:
    """Price an attack under every alternative evidence; ``threshold`` says which thetas are admissible."""
    found = []
    provider = str(attacked.attacker)
    names = attacked.identities_of(provider)
    for tried in _tried(mechanism, honest, attacked, utility, threshold):
        pay = tried.before.total([provider])
        clear = clearly_paid(pay, tried.before.grand_value, len(honest.submission.identities))
        paid = tried.after.total(names)
        if checks is not None:
            checked = checked_attack(tried.mechanism, attacked, tried.after, honest, pay, utility)
            paid = checked.expected(checks).pay
        gain = paid / pay if clear else None
        found.append(
            Remedy(
                title=tried.title,
                evidence=str(tried.mechanism.evidence),
                gain=gain,
                moved=_moved(reference, tried.before),
                stops=gain is not None and gain <= stop_at,
                admissible=tried.admissible,
            )
        )
    return found


def spared_by(
    mechanism: Mechanism,
    honest: SubmittedProfile,
    attacked: SubmittedProfile,
    utility: UtilityOracle,
    victim: str,
    allowed: float,
    threshold: Threshold | None = None,
) -> list[str]:
    """Return the admissible alternatives under which the victim loses at most ``allowed`` of its honest share."""
    spared = []
    for tried in _tried(mechanism, honest, attacked, utility, threshold):
        if tried.admissible:
            lost = share_lost(victim, honest, tried.before, attacked, tried.after)
            spared += [tried.title] if lost is not None and lost <= allowed else []
    return spared


def share_lost(
    victim: str,
    honest: SubmittedProfile,
    before: PaidTotals,
    attacked: SubmittedProfile,
    after: PaidTotals,
) -> float | None:
    """Compute the part of its honest share of the pot that a provider loses; None where it has none."""
    was, now = (
        pot_shares(provider_totals(paid, profile))[victim]
        for paid, profile in ((before, honest), (after, attacked))
    )
    return max(0.0, 1.0 - now / was) if was > ROUNDING else None


@dataclass(frozen=True, eq=False)
class _Tried:
    title: str
    mechanism: Mechanism
    before: Payments
    after: Payments
    admissible: bool


def _tried(
    mechanism: Mechanism,
    honest: SubmittedProfile,
    attacked: SubmittedProfile,
    utility: UtilityOracle,
    threshold: Threshold | None,
) -> Iterator[_Tried]:
    measured = threshold or measure_threshold(honest.submission, utility)
    refused = {_similarity(t) for t in _thetas(measured) if not measured.admits(t)}
    settled, _ = resolve_threshold(mechanism, honest.submission, utility)
    for title, other in alternatives(settled, measured):
        if utility.prior is not None and other.evidence.needs_oracle:
            continue  # nobody told it of earlier periods
        try:
            before = other.pay(honest.submission, utility, honest.truth)
            after = other.pay(attacked.submission, utility, attacked.truth)
        except NothingNewError:
            continue  # it takes everything for what was acquired before
        except DataMarketError as error:
            raise DataMarketError(f"trying {title} ({other.evidence}) as a remedy: {error}") from error
        yield _Tried(title, other, before, after, title not in refused)


def _thetas(measured: Threshold) -> list[float]:
    lowest = () if measured.lowest is None else (measured.lowest,)
    return sorted({*THETAS, *lowest}, reverse=True)


def _similarity(theta: float) -> str:
    return f"similarity {theta:g}"


def _moved(before: Payments, after: Payments) -> float:
    """Compute half the L1 distance between the shares of the pot."""
    shares = []
    for payments in (before, after):
        total = float(payments.totals.sum())
        if total <= 0:
            return 1.0
        shares.append(payments.totals / total)
    return float(np.abs(shares[0] - shares[1]).sum() / 2)
