"""What evidence would have stopped an attack: the same attack again under other evidence layers."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.evidence import Threshold
from datamarket_gym.judge.metrics import clearly_paid
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payments import Payments
from datamarket_gym.pipeline.settle import judged_threshold, settle
from datamarket_gym.units.truth import SubmittedProfile

THETAS = (0.99, 0.97, 0.95, 0.9, 0.85, 0.8)


class Remedy(BaseModel):
    """Another evidence layer: what the attack gains under it, and what it changes for the honest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    evidence: str
    gain: float | None  # multiplicative; None where the honest payment is not clearly above zero
    moved: float  # share of the honest pot that the layer alone moves between providers
    stops: bool
    admissible: bool = True  # False for a similarity threshold that the check refuses in this market

    @property
    def advised(self) -> bool:
        """Whether to take it: it stops the attack, and takes no honest units for copies."""
        return self.stops and self.admissible


def alternatives(mechanism: Mechanism, judged: Threshold) -> list[tuple[str, Mechanism]]:
    """A settled mechanism with other evidence, from what an operator has to what only an oracle knows.

    Sources come beside the mechanism's similarity, where that is admissible, and alone elsewhere.
    """
    layer, theta = mechanism.evidence.split("@") if "cosine@" in mechanism.evidence else ("", "")
    beside = layer and judged.admits(float(theta))
    source = f"hybrid_source_cosine@{theta}" if beside else "oracle_source"
    changes: list[tuple[str, dict[str, str]]] = [
        ("exact copies", {"evidence": "exact_hash"}),
        *((_similarity(t), {"evidence": f"hybrid_hash_cosine@{t}"}) for t in THETAS),
        ("trusted sources", {"evidence": source}),
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
) -> list[Remedy]:
    """Every alternative on the honest and on the attacked profile.

    Similarity thresholds are held against the check of the honest market, or against ``threshold``, which was
    settled on a larger one.
    """
    found = []
    provider = str(attacked.attacker)
    judged = threshold or judged_threshold(mechanism, honest.submission, utility)
    refused = {_similarity(t) for t in THETAS if not judged.admits(t)}
    settled, _ = settle(mechanism, honest.submission, utility)
    for title, other in alternatives(settled, judged):
        try:
            before = other.pay(honest.submission, utility, honest.truth)
            after = other.pay(attacked.submission, utility, attacked.truth)
        except DataMarketError as error:
            raise DataMarketError(f"trying {title} ({other.evidence}) as a remedy: {error}") from error
        pay = before.total([provider])
        clear = clearly_paid(pay, before.grand_value, len(honest.submission.identities))
        gain = after.total(attacked.identities_of(provider)) / pay if clear else None
        found.append(
            Remedy(
                title=title,
                evidence=other.evidence,
                gain=gain,
                moved=_moved(reference, before),
                stops=gain is not None and gain <= stop_at,
                admissible=title not in refused,
            )
        )
    return found


def _similarity(theta: float) -> str:
    return f"similarity {theta:g}"


def _moved(before: Payments, after: Payments) -> float:
    """Half the L1 distance between the shares of the pot."""
    shares = []
    for payments in (before, after):
        total = float(payments.totals.sum())
        if total <= 0:
            return 1.0
        shares.append(payments.totals / total)
    return float(np.abs(shares[0] - shares[1]).sum() / 2)
