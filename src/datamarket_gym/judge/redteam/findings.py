"""What an audit found, as a document: everything tried, and the worst of each attack explained."""

from __future__ import annotations

from datamarket_gym.core.specs import Document
from datamarket_gym.judge.guarantees.certificate import Certificate
from datamarket_gym.judge.redteam.remedies import Remedy
from datamarket_gym.pipeline.mechanism import Mechanism


class Trial(Document):
    """One provider playing one attack; ``why`` says why it was not possible, where it was not."""

    provider: str
    attack: str
    honest_payment: float
    attacked_payment: float | None = None
    gain: float | None = None  # multiplicative, where the honest payment is clearly positive
    why: str | None = None

    @property
    def rank(self) -> tuple[float, float]:
        """The worse, the larger: by the multiplicative gain, then by the additive one."""
        if self.attacked_payment is None:
            return (float("-inf"), float("-inf"))
        return (self.gain or 0.0, self.attacked_payment - self.honest_payment)


class Finding(Document):
    """The worst trial of one attack, its certificate, and what would have stopped it."""

    family: str
    worst: Trial
    tried: int
    certificate: Certificate
    remedies: list[Remedy]

    def words(self, stop_at: float) -> str:
        """The finding in a sentence or two."""
        gain = self.worst.gain
        size = "an undefined factor" if gain is None else f"times {gain:.3f}"
        text = f"{self.family}: at worst {size} ({self.worst.provider}, {self.worst.attack})."
        if gain is None or gain <= stop_at:
            return text
        stopping = [f"{r.title} (moves {r.moved:.0%} of honest pay)" for r in self.remedies if r.stops]
        if stopping:
            return f"{text} Stopped by: {', '.join(stopping)}."
        return f"{text} No evidence layer that was tried stops it."


class AuditReport(Document):
    """An audit: the mechanism, all trials, and the findings, worst first."""

    mechanism: Mechanism
    utility: str
    stop_at: float
    providers: list[str]
    trials: list[Trial]
    findings: list[Finding]

    @property
    def worst(self) -> Finding | None:
        """The worst finding."""
        return self.findings[0] if self.findings else None
