"""What an audit found, as a document: everything tried, and the worst of each attack explained.

There are two ways to be the worst: by what the attacker gains, and by what another provider loses. An attack
that gains nothing may destroy a victim (`AuditReport.harms`).
"""

from __future__ import annotations

from datamarket_gym.core.specs import Document
from datamarket_gym.judge.guarantees.certificate import Certificate
from datamarket_gym.judge.redteam.remedies import Remedy
from datamarket_gym.pipeline.mechanism import Mechanism

STOP_AT = 1.05
"""A gain up to this counts as stopped."""
STOP_LOSS = 0.02
"""A victim's loss up to this part of its honest share is not worth a word."""


class Trial(Document):
    """One provider playing one attack; ``why`` says why it was not possible, where it was not."""

    provider: str
    attack: str
    honest_payment: float
    attacked_payment: float | None = None
    gain: float | None = None  # multiplicative, where the honest payment is clearly positive
    victim: str | None = None  # who loses most by it, if anybody does
    victim_loss: float | None = (
        None  # of the victim's honest share of the pot, where others are clearly paid
    )
    theft: float | None = None  # the share of the pot that moved to the provider
    assumes: str = ""  # what must be broken besides the mechanism, such as the clock
    why: str | None = None

    @property
    def rank(self) -> tuple[float, float]:
        """The worse, the larger: by the multiplicative gain, then by the additive one."""
        if self.attacked_payment is None:
            return (float("-inf"), float("-inf"))
        return (self.gain or 0.0, self.attacked_payment - self.honest_payment)

    @property
    def harm_rank(self) -> tuple[float, tuple[float, float]]:
        """The worse for others, the larger: by the victim's loss, then as `rank` has it."""
        return (-1.0 if self.victim_loss is None else self.victim_loss, self.rank)


def assuming(trial: Trial) -> str:
    """What a trial assumes, to be said behind its attack."""
    return f", assuming {trial.assumes}" if trial.assumes else ""


class Loss(Document):
    """The trial of one attack by which another provider loses most, and what evidence has to do with it.

    ``untied`` is what the same provider loses by the same attack where the mechanism ties nothing: by
    competition alone. None where that is not known: nobody loses much, or the evidence is not ours to change.
    ``spared_by`` is other evidence that may be used and under which it loses no more than that; None where that
    was not asked, because evidence costs it little or is not ours to change.
    """

    trial: Trial
    untied: float | None = None
    spared_by: list[str] | None = None

    @property
    def by_evidence(self) -> float:
        """The part of the loss that evidence adds; all of it where competition is not known."""
        return (self.trial.victim_loss or 0.0) - (self.untied or 0.0)

    @property
    def words(self) -> str:
        """The loss in a sentence."""
        trial = self.trial
        alone = "" if self.untied is None else f"; {self.untied:.0%} if nothing were tied"
        return (
            f"{trial.victim} loses {trial.victim_loss:.0%} of its honest share{alone} "
            f"(by {trial.provider}, {trial.attack}{assuming(trial)}).{self._spared}"
        )

    @property
    def _spared(self) -> str:
        if self.spared_by is None:
            return ""
        if not self.spared_by:
            return " No other evidence that was tried and may be used spares it."
        return f" Spared by: {', '.join(self.spared_by)}."


class Finding(Document):
    """The worst trial of one attack, its certificate, what would have stopped it, and its worst loss to another."""

    family: str
    worst: Trial
    loss: Loss
    tried: int
    certificate: Certificate
    remedies: list[Remedy]

    def words(self, stop_at: float) -> str:
        """The finding in a sentence or two."""
        lost = self.loss.trial.victim_loss
        told = f" {self.loss.words}" if lost is not None and lost > STOP_LOSS else ""
        return self._gained(stop_at) + told

    def _gained(self, stop_at: float) -> str:
        gain = self.worst.gain
        size = "an undefined factor" if gain is None else f"times {gain:.3f}"
        text = f"{self.family}: at worst {size} ({self.worst.provider}, {self.worst.attack}{assuming(self.worst)})."
        if gain is None or gain <= stop_at:
            return text
        if not self.remedies:  # of a mechanism whose evidence is not ours to change
            return text
        stopping = [f"{r.title} (moves {r.moved:.0%} of honest pay)" for r in self.remedies if r.advised]
        text += (
            f" Stopped by: {', '.join(stopping)}."
            if stopping
            else " No evidence layer that was tried and may be used stops it."
        )
        refused = [r.title for r in self.remedies if r.stops and not r.admissible]
        if refused:
            text += f" Not to be used here, as honest units are that alike: {', '.join(refused)}."
        return text


class AuditReport(Document):
    """An audit: the mechanism (or the name of one of somebody's own), all trials, and findings, worst gain first.

    Attacks that work only if something else is broken too, such as the clock, come behind those that need nothing.

    ``evidence`` is what the mechanism's policy settled on for the honest market, and ``why``; ``warnings`` are
    those of the honest market.
    """

    mechanism: Mechanism | str
    evidence: str
    why: str | None
    warnings: list[str]
    utility: str
    stop_at: float
    providers: list[str]
    trials: list[Trial]
    findings: list[Finding]

    @property
    def label(self) -> str:
        """What tables call the mechanism."""
        return self.mechanism if isinstance(self.mechanism, str) else self.mechanism.label

    @property
    def worst(self) -> Finding | None:
        """The finding with the largest gain, of one that assumes nothing if there is any."""
        return self.findings[0] if self.findings else None

    @property
    def harms(self) -> list[Finding]:
        """Findings in which evidence costs another provider more than `STOP_LOSS`, in the same order by loss."""
        found = [finding for finding in self.findings if finding.loss.by_evidence > STOP_LOSS]
        return sorted(found, key=lambda f: (not f.loss.trial.assumes, f.loss.by_evidence), reverse=True)
