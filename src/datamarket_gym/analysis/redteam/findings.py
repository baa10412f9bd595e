"""What an audit found, as a document: everything tried, and the worst of each attack explained.

There are two ways to be the worst: by what the attacker gains, and by what another provider loses. An attack
that gains nothing may destroy a victim (`AuditReport.harms`). Where payees are checked, gains are measured by expected
pay: an attack is *stopped* that gains nothing even unchecked, and *deterred* that gains nothing given the checks.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from datamarket_gym.analysis.redteam.attack_grid import family
from datamarket_gym.analysis.redteam.remedies import Remedy
from datamarket_gym.analysis.theorems.certificate import Certificate
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.display import Screen, counted
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.plots import plot_pairs
from datamarket_gym.registry import Document
from datamarket_gym.result_table import Tabular
from datamarket_gym.utilities.fidelity import Fidelity

if TYPE_CHECKING:
    import pyarrow as pa


STOP_AT = 1.05
"""A gain up to this counts as stopped."""
_COLUMNS = (
    "family", "attack", "provider", "honest_payment", "attacked_payment", "gain", "expected_payment", "expected_gain",
    "victim", "victim_loss", "assumes", "verdict",
)  # fmt: skip
STOP_LOSS = 0.02
"""A victim's loss up to this part of its honest share is not worth a word."""


class Trial(Document):
    """Record one attack by one provider; ``why`` says why it was not possible, where it was not."""

    provider: str
    attack: str
    honest_payment: float
    attacked_payment: float | None = None
    gain: float | None = None  # multiplicative, where the honest payment is clearly positive
    expected_payment: float | None = None  # given the audit's checks; without any the attacked payment
    expected_gain: float | None = None  # the same over the honest payment
    victim: str | None = None  # the provider who loses most by it, if any
    victim_loss: float | None = None  # of the victim's honest share of the pot
    theft: float | None = None  # the share of the pot that moved to the provider
    assumes: str = ""  # what must be broken besides the mechanism, such as the clock
    clock: str = ""  # of an attack that forges times: whether they are believed (`audit.BELIEVED`)
    why: str | None = None

    @property
    def rank(self) -> tuple[float, float]:
        """Return the multiplicative, then the additive expected gain."""
        return self._ranked(self.expected_payment, self.expected_gain)

    @property
    def unchecked_rank(self) -> tuple[float, float]:
        return self._ranked(self.attacked_payment, self.gain)

    def verdict(self, stop_at: float) -> str:
        return "impossible" if self.why is not None else _verdict(self.expected_gain, self.gain, stop_at)

    def _ranked(self, paid: float | None, gain: float | None) -> tuple[float, float]:
        if paid is None:
            return (float("-inf"), float("-inf"))
        return (gain or 0.0, paid - self.honest_payment)

    @property
    def harm_rank(self) -> tuple[float, tuple[float, float]]:
        return (-1.0 if self.victim_loss is None else self.victim_loss, self.rank)


def _verdict(expected: float | None, gain: float | None, stop_at: float) -> str:
    if expected is None or gain is None:
        return "undefined"
    if expected > stop_at:
        return "open"
    return "stopped" if gain <= stop_at else "deterred"


def _factor(gain: float | None) -> str:
    return "an undefined factor" if gain is None else f"times {gain:.3f}"


def _played(trial: Trial) -> str:
    return f"({trial.provider}, {trial.attack}{assuming(trial)})"


def _family(trial: Trial) -> str:
    return family(trial.attack) + _assuming(trial)


def _assuming(trial: Trial) -> str:
    return f" (assuming {trial.assumes})" if trial.assumes else ""


def assuming(trial: Trial) -> str:
    return f", assuming {trial.assumes}" if trial.assumes else ""


class Loss(Document):
    """Record the trial of one attack by which another provider loses most.

    ``without_evidence`` is that loss where nothing is matched, by competition alone; ``spared_by`` is admissible other
    evidence under which it loses no more. Both are None where they were not computed.
    """

    trial: Trial
    without_evidence: float | None = None
    spared_by: list[str] | None = None

    @property
    def by_evidence(self) -> float:
        """Return the part of the loss that evidence adds; all of it where competition was not computed."""
        return (self.trial.victim_loss or 0.0) - (self.without_evidence or 0.0)

    @property
    def words(self) -> str:
        trial, alone = self.trial, self.without_evidence
        text = f"{trial.victim} loses {trial.victim_loss:.0%} of its honest share"
        text += "" if alone is None else f"; {alone:.0%} if nothing matched"
        text += f" (by {trial.provider}, {trial.attack}{assuming(trial)})."
        if self.spared_by:
            return f"{text} Spared by: {', '.join(self.spared_by)}."
        none = " No other evidence that was tried and may be used spares it."
        return text + ("" if self.spared_by is None else none)


class Finding(Document):
    """Record one attack's worst trial, in expectation and unchecked, its remedies, and its worst loss to another."""

    family: str
    worst: Trial
    unchecked: Trial
    loss: Loss
    tried: int
    certificate: Certificate
    remedies: list[Remedy]

    def words(self, stop_at: float) -> str:
        lost = self.loss.trial.victim_loss
        loss = f" {self.loss.words}" if lost is not None and lost > STOP_LOSS else ""
        return self._gained(stop_at) + loss

    def verdict(self, stop_at: float) -> str:
        """Return "stopped", "deterred" (by checks alone), "open", or "undefined"."""
        return _verdict(self.worst.expected_gain, self.unchecked.gain, stop_at)

    def _gained(self, stop_at: float) -> str:
        verdict = self.verdict(stop_at)
        sizes = [f"{_factor(self.worst.expected_gain)} {_played(self.worst)}"]
        if self.unchecked.expected_payment != self.unchecked.attacked_payment:
            sizes.insert(0, f"unchecked {_factor(self.unchecked.gain)} {_played(self.unchecked)}")
            sizes[1] = f"in expectation {sizes[1]}"
        text = f"{self.family}: at worst {', '.join(sizes)}."
        if verdict == "deterred":
            text += " Deterred by checks."
        if verdict != "open" or not self.remedies:  # as the evidence may not be ours to change
            return text
        stopping = [f"{r.title} (moves {r.moved:.0%} of honest pay)" for r in self.remedies if r.advised]
        none = " No evidence layer that was tried and may be used stops it."
        text += f" Stopped by: {', '.join(stopping)}." if stopping else none
        if refused := [r.title for r in self.remedies if r.stops and not r.admissible]:
            text += f" Not to be used here, as honest units are that alike: {', '.join(refused)}."
        return text


class Group(NamedTuple):
    """Hold an attack's worst trials in expectation, unchecked, and for others, and the number of all."""

    worst: Trial
    unchecked: Trial
    harmful: Trial
    tried: int


def worst_first(trials: list[Trial]) -> list[Group]:
    """Group trials by attack, worst gain first; those that assume something broken come last."""
    groups: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.why is None:
            groups[family(trial.attack), trial.assumes].append(trial)
    worst = [
        Group(
            worst=max(trials, key=lambda t: t.rank),
            unchecked=max(trials, key=lambda t: t.unchecked_rank),
            harmful=max(trials, key=lambda t: t.harm_rank),
            tried=len(trials),
        )
        for trials in groups.values()
    ]
    return sorted(worst, key=lambda group: (not group.worst.assumes, group.worst.rank), reverse=True)


class FidelityRecord(Document):
    """Record how well honest pay predicts what a model learns; ``lds`` is None for utilities without values by row."""

    attributions: str
    model: str
    halves: int
    lds: float | None
    interval: tuple[float, float] | None
    lds_total: float
    total_interval: tuple[float, float]

    @classmethod
    def of(cls, fidelity: Fidelity) -> FidelityRecord:
        """Take down the numbers of a `Fidelity`."""
        by_row = fidelity.predicted_ranks is not None
        return cls(
            attributions=fidelity.attributions,
            model=fidelity.model,
            halves=len(fidelity.observed_ranks),
            lds=fidelity.lds if by_row else None,
            interval=fidelity.interval if by_row else None,
            lds_total=fidelity.lds_total,
            total_interval=fidelity.total_interval,
        )

    @property
    def words(self) -> str:
        def shown(lds: float, interval: tuple[float, float]) -> str:
            return f"{lds:.2f} (95 % interval {interval[0]:.2f} to {interval[1]:.2f})"

        by_row = self.lds is not None and self.interval is not None
        row = f"{shown(self.lds, self.interval)} per validation row and " if by_row else ""  # type: ignore[arg-type]
        return (
            f"Fidelity: values of {self.attributions} have a rank correlation (LDS) of {row}"
            f"{shown(self.lds_total, self.total_interval)} in total with the log-odds of {self.model} trained on "
            f"{self.halves} random halves of the honest units."
        )


class AuditReport(Document, Tabular):
    """Report what an audit tried and found, worst gain first; attacks that assume something broken come last.

    Parameters
    ----------
    mechanism, evidence, why
        The mechanism (or its name), the evidence that it resolved for the honest market, and why its threshold was
        chosen.
    warnings
        Warnings about the honest market.
    utility
        The utility, in words.
    stop_at
        The gain up to which an attack counts as stopped.
    checks, knowledge, logged
        The spot checks that payees expect, the share of others' units that attackers see, and whether times are logged.
    fidelity
        How well honest pay predicts what a model learns, where that was asked for.
    providers, trials, findings
        Who attacked, every attack by each, and the worst trial of each attack, explained.
    """

    mechanism: Mechanism | str
    evidence: str
    why: str | None
    warnings: list[str]
    utility: str
    stop_at: float
    checks: Checks | None = None
    knowledge: float = 1.0
    logged: bool = False
    fidelity: FidelityRecord | None = None
    providers: list[str]
    trials: list[Trial]
    findings: list[Finding]

    def to_arrow(self) -> pa.Table:
        """Return one row for each trial; gains are ratios of attacked to honest payment (1 = no gain)."""
        import pyarrow as pa

        rows = [
            {**vars(t), "family": family(t.attack), "verdict": t.verdict(self.stop_at)}
            for t in self.trials
        ]
        text = {"family", "attack", "provider", "victim", "assumes", "verdict"}
        types = {name: pa.string() if name in text else pa.float64() for name in _COLUMNS}
        return pa.Table.from_pylist(rows, pa.schema(types))

    def screen(self) -> Screen:
        rows = [
            (
                _family(f.worst),
                f.worst.provider,
                "" if (gain := f.worst.expected_gain) is None else f"{gain:.3f}",
                f.verdict(self.stop_at),
            )
            for f in self.findings
        ]
        title = (
            f"AuditReport of {self.label}: {counted(len(self.trials), 'trial')} of "
            f"{counted(len(rows), 'attack')} by {counted(len(self.providers), 'provider')}; "
            "gain: ratio of attacked to honest payment (1 = no gain)"
        )
        return Screen.of(title, ("attack", "worst provider", "gain", "verdict"), rows, len(rows))

    def plot(self) -> Any:
        """Plot the (expected) attacked against the honest payment of the worst trial of each attack."""
        worst = [f.worst for f in self.findings]
        checked = "" if self.checks is None else ", expected"
        return plot_pairs(
            [f"{_family(t)} ({t.provider})" for t in worst],
            [t.honest_payment for t in worst],
            [t.expected_payment or 0.0 for t in worst],
            title=f"What each attack at worst pays under {self.label}",
            xlabel="payment",
            names=("honest", f"attacked{checked}"),
        )

    @property
    def label(self) -> str:
        return self.mechanism if isinstance(self.mechanism, str) else self.mechanism.label

    @property
    def worst(self) -> Finding | None:
        """Return the finding with the largest gain, of one that assumes nothing if there is any."""
        return self.findings[0] if self.findings else None

    @property
    def conclusion(self) -> str:
        """Say what attacks gain at most: those that assume nothing, then those for which something must be broken."""
        if self.worst is None:
            return "No attack of the library could be carried out."
        plain = [f for f in self.findings if not f.worst.assumes]
        assuming = [f for f in self.findings if f.worst.assumes and self._gains(f)]
        if plain and self._gains(plain[0]):
            text = plain[0].certificate.words
        else:
            which = "that assumes nothing" if assuming else "that was tried"
            checked = "" if self.checks is None else " in expectation, if these checks are made"
            text = f"No attack {which} gains more than {self.stop_at:g}{checked}; others may."
        if assuming:
            worst = sorted(assuming, key=lambda f: f.worst.rank, reverse=True)
            gains = (f"{f.family} {_factor(f.worst.expected_gain)}{_assuming(f.worst)}" for f in worst)
            text += f" Not counted, as they assume more: {'; '.join(gains)}."
        return text

    def _gains(self, finding: Finding) -> bool:
        gain = finding.worst.expected_gain
        return gain is None or gain > self.stop_at

    @property
    def assumed(self) -> str:
        """Describe the checks and the attackers' knowledge; "" without checks and with all knowledge."""
        sentences = []
        if self.checks is not None:
            sentences.append(
                f"Each name is checked on {self.checks.per_payee} of its paid units, drawn by amount, and a check "
                f"finds out what is not genuine with probability {self.checks.power:g}; gains are expected ones."
            )
        if self.knowledge < 1.0:
            sentences.append(f"Attackers see {self.knowledge:.0%} of the others' units.")
        return " ".join(sentences)

    @property
    def unplayed(self) -> dict[str, list[str]]:
        """Return the attacks that no provider could carry out, by the first reason given."""
        reasons: dict[str, list[str | None]] = defaultdict(list)
        for trial in self.trials:
            reasons[trial.attack].append(trial.why)
        unplayed: dict[str, list[str]] = defaultdict(list)
        for attack, why in reasons.items():
            if why[0] is not None and None not in why:
                unplayed[why[0]].append(attack)
        return dict(unplayed)

    def families(self, verdict: str) -> list[str]:
        """Return the attacks of a `Finding.verdict`, worst first, with what they assume."""
        return [_family(f.worst) for f in self.findings if f.verdict(self.stop_at) == verdict]

    @property
    def harms(self) -> list[Finding]:
        """Return findings in which evidence costs another provider more than `STOP_LOSS`, largest loss first."""
        harms = [finding for finding in self.findings if finding.loss.by_evidence > STOP_LOSS]
        return sorted(harms, key=lambda f: (not f.loss.trial.assumes, f.loss.by_evidence), reverse=True)
