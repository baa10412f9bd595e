"""The report's section on what a cheat could still gain, and cost others: the red team's findings in plain words."""

from __future__ import annotations

from collections.abc import Callable

from datamarket_gym.judge.redteam import AuditReport, Finding, Loss
from datamarket_gym.judge.redteam.clock import forgeries
from datamarket_gym.judge.redteam.findings import STOP_LOSS, Trial, assuming
from datamarket_gym.judge.redteam.grid import family
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.report.glossary import attack_parameters, attack_title
from datamarket_gym.payout.report.html import Row
from datamarket_gym.payout.results import Results
from datamarket_gym.units.submission import Submission
from datamarket_gym.world.attacks.attack import ATTACKS


def red_team_section(found: AuditReport, results: Results) -> Row:
    """The worst of each attack, what another loses by it, its certificate, and the sentences above them."""

    def name(code: str) -> str:
        return visible(results.inputs.identities[int(code)])

    return {
        "words": _summary(found, name, _unplayed(found, results.inputs.submission)),
        "clock": [each.words(_called(each.family)) for each in forgeries(found)],
        "rows": [_row(finding, found, name) for finding in found.findings],
        "checked": found.checks is not None,
        "no_factor": sum(f.worst.expected_gain is None for f in found.findings),
    }


def _row(finding: Finding, found: AuditReport, name: Callable[[str], str]) -> Row:
    verdict = finding.verdict(found.stop_at)
    trial = finding.worst if verdict == "open" else finding.unchecked
    cheat = finding.certificate.provider
    stopping = [f"{r.title} (moves {r.moved:.0%} of honest pay)" for r in finding.remedies if r.advised]
    return {
        "attack": family(trial.attack),
        "assumes": assuming(trial),
        "tried": finding.tried,
        "pays": verdict == "open",
        "loss": _loss(finding.loss, name),
        "gain": _gain(finding, found.checks is not None),
        "provider": name(trial.provider),
        "written": trial.attack,
        "parameters": attack_parameters(trial.attack),
        "remedy": _remedy(verdict, stopping),
        "claim": finding.certificate.claim,
        "certificate": finding.certificate.words.replace(cheat, name(cheat)),
        "conditions": [c.model_dump() for c in finding.certificate.conditions],
    }


def _unplayed(found: AuditReport, submission: Submission) -> list[str]:
    """Attacks that change labels, where there are none to change; each once, whatever its parameters."""
    reasons = (
        (family(trial.attack), ATTACKS.create(trial.attack).beyond(submission.label))
        for trial in found.trials
    )
    told = dict.fromkeys(f"Not played was {attack_title(each)}: {why}." for each, why in reasons if why)
    return list(told)


def _summary(found: AuditReport, name: Callable[[str], str], unplayed: list[str]) -> str:
    tried = sum(trial.why is None for trial in found.trials)
    parts = [
        f"On a sample of this market {len(found.providers)} identities played {tried} attacks against the mechanism.",
        found.assumed,
        _worst(found),
    ]
    harms = [harm for harm in found.harms if not harm.loss.trial.assumes]  # forged times are told apart
    if harms:
        harm = harms[0]
        loss = _loss(harm.loss, name)
        parts.append(
            f"By {_called(harm.family)}, {loss['victim']} lost {loss['size']} of its honest share ({loss['untied']})."
        )
    else:
        parts.append(
            f"By none did evidence cost anybody else more than {STOP_LOSS:.0%} of the honest share."
        )
    parts += unplayed
    parts.append(
        "The certificates say what the theorems guarantee about the worst of each; they speak of these manipulations "
        "only."
    )
    return " ".join(part for part in parts if part)


def _worst(found: AuditReport) -> str:
    """The largest factor; where none is defined, the largest part of the amount that moved to a cheat."""
    findings = [f for f in found.findings if not f.worst.assumes]  # forged times are told apart
    factors = [f.worst for f in findings if f.worst.expected_gain is not None]
    moved = max((f.unchecked for f in findings), key=lambda t: t.theft or 0.0, default=None)
    if findings and not factors:
        more = "" if moved is None or not moved.theft else (
            f" The worst, {_called(family(moved.attack))}, moved {moved.theft:.0%} of all pay to the cheat if nothing "
            "is checked."
        )  # fmt: skip
        return (
            "Those who played earn nothing, or next to nothing, when honest, so that no gain can be told as a factor."
            + more
        )
    worst = max(factors, key=lambda t: t.expected_gain or 0.0, default=None)
    if worst is not None and (worst.expected_gain or 0.0) > found.stop_at:
        return f"The worst, {_called(family(worst.attack))}, multiplied a cheat's pay by {worst.expected_gain:.2f}."
    return f"None multiplied a cheat's pay by more than {found.stop_at:g}."


def _called(attack: str) -> str:
    """An attack in a sentence: its plain name, and the one that files have."""
    plain = attack_title(attack)
    return attack if plain == attack else f"{plain} ({attack})"


def _gain(finding: Finding, checked: bool) -> str:
    """The largest gain of an attack; where payees are checked, what it is unchecked and what is expected."""
    gains = [finding.unchecked.gain, finding.worst.expected_gain][: 2 if checked else 1]
    if any(gain is None for gain in gains):
        return f"no factor{_moved(finding.unchecked)}"
    return " → ".join(f"{gain:.3f}" for gain in gains)


def _moved(trial: Trial) -> str:
    return "" if trial.theft is None else f"; {trial.theft:+.0%} of all pay"


def _remedy(verdict: str, stopping: list[str]) -> str:
    if verdict == "deterred":
        return "deterred by checks"
    return f"stopped by {', '.join(stopping)}" if stopping and verdict == "open" else ""


def _loss(loss: Loss, name: Callable[[str], str]) -> Row:
    """What another provider lost most by an attack; ``harmful`` where evidence adds to it."""
    lost, harmful = loss.trial.victim_loss, loss.by_evidence > STOP_LOSS
    some = loss.trial.victim is not None and lost is not None and lost > STOP_LOSS
    return {
        "size": "undefined" if lost is None else f"{lost:.0%}",
        "harmful": harmful,
        "victim": name(str(loss.trial.victim)) if some else "",
        "untied": "" if loss.untied is None else f"{loss.untied:.0%} if nothing were tied",
        "spared": f"spared by {', '.join(loss.spared_by)}" if loss.spared_by else "",
    }
