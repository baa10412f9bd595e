"""Remedies: other evidence that would have stopped an attack, or spared its victim."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
_LINKED = {
    "evidence": "oracle_latent", "granularity": "identity",
    "representative": "collapse", "allocation": "count_canonical",
}  # fmt: skip


class Remedy(Document):
    """Record what the attack gains under other evidence, and what this changes for honest providers."""

    title: str
    evidence: str
    gain: float | None  # multiplicative, expected given the audit's checks; None where not defined
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
        ("linked accounts", _LINKED),
    ]
    others = [(title, mechanism.model_copy(update=change)) for title, change in changes]
    return [(title, other) for title, other in others if other != mechanism]


def try_remedies(
    alternatives: Iterable[Alternative],
    reference: Payments,
    utility: UtilityOracle,
    stop_at: float,
    checks: Checks | None = None,
) -> list[Remedy]:
    """Price an attack under alternative evidence; ``reference`` are the honest payments without it."""
    remedies = []
    for other in alternatives:
        honest, attacked = other.honest, other.attacked
        pay = other.before.total([str(attacked.attacker)])
        paid = other.after.total(attacked.identities_of(str(attacked.attacker)))
        if checks is not None:
            checked = checked_attack(other.mechanism, attacked, other.after, honest, pay, utility)
            paid = checked.expected(checks).pay
        clear = clearly_paid(pay, other.before.grand_value, len(honest.submission.identities))
        gain = paid / pay if clear else None
        remedies.append(
            Remedy(
                title=other.title,
                evidence=str(other.mechanism.evidence),
                gain=gain,
                moved=_moved(reference, other.before),
                stops=gain is not None and gain <= stop_at,
                admissible=other.admissible,
            )
        )
    return remedies


def spared_by(alternatives: Iterable[Alternative], victim: str, allowed: float) -> list[str]:
    """Return the admissible alternatives under which the victim loses at most ``allowed`` of its honest share."""
    spared = []
    for other in alternatives:
        lost = share_lost(victim, other.honest, other.before, other.attacked, other.after)
        if other.admissible and lost is not None and lost <= allowed:
            spared.append(other.title)
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
class Alternative:
    """Hold other evidence, and what is paid under it for the honest and for the attacked profile."""

    title: str
    mechanism: Mechanism
    honest: SubmittedProfile
    before: Payments
    attacked: SubmittedProfile
    after: Payments
    admissible: bool


def pay_alternatives(
    mechanism: Mechanism,
    honest: SubmittedProfile,
    attacked: SubmittedProfile,
    utility: UtilityOracle,
    threshold: Threshold | None = None,
    pay_honest: Callable[[Mechanism], Payments] | None = None,
) -> Iterator[Alternative]:
    """Pay both profiles under every alternative evidence; ``threshold`` says which thetas are admissible.

    ``pay_honest`` pays the honest profile; who asks for many attacks need pay it once for each evidence.
    """
    measured = threshold or measure_threshold(honest.submission, utility)
    refused = {_similarity(t) for t in _thetas(measured) if not measured.admits(t)}
    resolved, _ = resolve_threshold(mechanism, honest.submission, utility)
    for title, other in alternatives(resolved, measured):
        if utility.acquired is not None and other.evidence.needs_oracle:
            continue  # oracles do not know the owners of earlier periods
        try:
            before = (
                other.pay(honest.submission, utility, honest.truth)
                if pay_honest is None
                else pay_honest(other)
            )
            after = other.pay(attacked.submission, utility, attacked.truth)
        except NothingNewError:
            continue  # it takes everything for what was acquired before
        except DataMarketError as error:
            raise DataMarketError(f"trying {title} ({other.evidence}) as a remedy: {error}") from error
        yield Alternative(title, other, honest, before, attacked, after, title not in refused)


def _thetas(measured: Threshold) -> list[float]:
    lowest = () if measured.lowest is None else (measured.lowest,)
    return sorted({*THETAS, *lowest}, reverse=True)


def _similarity(theta: float) -> str:
    return f"similarity {theta:g}"


def _moved(before: Payments, after: Payments) -> float:
    """Compute half the L1 distance between the shares of the pot."""
    was, now = before.totals, after.totals
    if min(was.sum(), now.sum()) <= 0:
        return 1.0
    return float(np.abs(was / was.sum() - now / now.sum()).sum() / 2)
