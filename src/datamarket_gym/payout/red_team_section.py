"""The report's section on what a cheat could still gain."""

from __future__ import annotations

from datamarket_gym.judge.redteam import AuditReport
from datamarket_gym.judge.redteam.grid import family
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.report.html import Row
from datamarket_gym.payout.results import Results


def red_team_section(found: AuditReport, results: Results) -> Row:
    """The worst of each attack with its certificate, and the sentence above them."""

    def name(code: str) -> str:
        return visible(results.inputs.identities[int(code)])

    rows = []
    for finding in found.findings:
        trial = finding.worst
        words = finding.certificate.words.replace(trial.provider, name(trial.provider))
        stopping = [
            f"{r.title} (moves {r.moved:.0%} of honest pay)" for r in finding.remedies if r.stops
        ]
        pays = trial.gain is not None and trial.gain > found.stop_at
        rows.append(
            {
                "attack": family(trial.attack), "tried": finding.tried, "pays": pays,
                "gain": "undefined" if trial.gain is None else f"{trial.gain:.3f}",
                "provider": name(trial.provider), "written": trial.attack,
                "remedy": f"stopped by {', '.join(stopping)}" if stopping and pays else "",
                "claim": finding.certificate.claim, "certificate": words,
                "conditions": [c.model_dump() for c in finding.certificate.conditions],
            }
        )  # fmt: skip
    worst = max(
        (f.worst for f in found.findings if f.worst.gain is not None),
        key=lambda t: t.gain or 0.0,
        default=None,
    )
    tried = sum(trial.why is None for trial in found.trials)
    words = (
        f"On a sample of this market {len(found.providers)} identities played {tried} attacks "
        "against the mechanism. "
    )
    if worst is not None and worst.gain is not None and worst.gain > found.stop_at:
        words += f"The worst, {family(worst.attack)}, multiplied a cheat's pay by {worst.gain:.2f}."
    else:
        words += f"None multiplied a cheat's pay by more than {found.stop_at:g}."
    words += (
        " The certificates say what the theorems guarantee about the worst of each; "
        "they speak of these manipulations only."
    )
    return {"words": words, "rows": rows}
