"""From results to the report's plain values, the section on what a cheat could still gain included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.core.files import write_text
from datamarket_gym.evidence import Threshold
from datamarket_gym.evidence.threshold.crowding import ALLOWED
from datamarket_gym.evidence.threshold.price import LIMIT
from datamarket_gym.judge.redteam import AuditReport, Finding, Loss
from datamarket_gym.judge.redteam.findings import STOP_LOSS, assuming
from datamarket_gym.judge.redteam.grid import family
from datamarket_gym.payout.asked import check_words
from datamarket_gym.payout.intervals import LEVEL
from datamarket_gym.payout.lots import drawn_clusters, drawn_under, source_words
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.outputs import clusters_to_show, leaked_units, payment_table
from datamarket_gym.payout.red_team import read_red_team
from datamarket_gym.payout.report.charts import payment_chart, red_team_chart, threshold_chart
from datamarket_gym.payout.report.html import PayoutPage, Row, render
from datamarket_gym.payout.results import Results, has_balances
from datamarket_gym.payout.warnings import StandingWarning

_MOST_ROWS, _MOST_LEAKS = 5000, 500
_POLICY = {
    "zero": "Scores below zero count as nothing.",
    "carry": "Scores below zero are not paid but carried: what someone is owed or owes beyond this payment "
    "goes to the next run, and all balances add up to zero.",
}


def write_report(results: Results, warnings: Sequence[StandingWarning], run: str, folder: Path) -> None:
    """Render the report of a run."""
    write_text(folder / "report.html", render(payout_page(results, warnings, run, folder)))


def payout_page(
    results: Results, warnings: Sequence[StandingWarning], run: str, folder: Path
) -> PayoutPage:
    """Everything the report shows."""
    spec, threshold = results.spec, results.threshold
    audit, why = read_red_team(folder / "audit.json")
    shown, left_out = clusters_to_show(results)
    amount = f"{spec.currency} {_thousands(spec.money.text(spec.minor))}"
    charts: dict[str, Any] = {"chart-payments": payment_chart(results)}
    if threshold.price is not None:
        charts["chart-threshold"] = threshold_chart(threshold)
    if audit is not None:
        charts["chart-red-team"] = red_team_chart(audit)
    return PayoutPage(
        title=f"Payout of {amount}",
        run=run,
        amount=amount,
        currency=spec.currency,
        warnings=list(warnings),
        facts=_facts(results),
        notes=_notes(results),
        policy=f"Divided among {len(results.names):,} identities by {spec.worth.divided}. "
        f"The payments add up to the amount exactly. {_signs(results)}",
        checks=check_words(results),
        interval=_interval(results),
        payments=_payments(results),
        clusters=shown,
        clusters_left_out=left_out,
        leaks=leaked_units(results)[:_MOST_LEAKS],
        leaks_left_out=max(0, len(results.leaks) - _MOST_LEAKS),
        links=_links(results),
        overrides=_overrides(results),
        evidence_why=evidence_words(threshold),
        check=_check(results),
        red_team=None if audit is None else red_team_section(audit, results),
        red_team_why=why,
        inputs=[
            {
                "role": role,
                "name": visible(str(f["name"])),
                "bytes": f"{f['bytes']:,}",
                "sha256": f["sha256"],
            }
            for role, f in results.inputs.files.items()
        ],
        mechanism=_mechanism(results),
        charts=charts,
    )


def evidence_words(threshold: Threshold) -> str:
    """Which evidence was used and why, in a sentence or two."""
    why = f"{threshold.why[:1].upper()}{threshold.why[1:]}."
    return (
        why
        if threshold.theta is not None
        else f"Only identical units are tied, similar ones are not. {why}"
    )


def _facts(results: Results) -> list[tuple[str, str]]:
    several = np.bincount(results.payments.clusters.label) > 1
    return [
        ("identities", f"{len(results.inputs.identities):,}"),
        ("units", f"{len(results.inputs.ids) + len(results.leaks):,}"),
        ("distinct units", f"{results.payments.clusters.n_clusters:,}"),
        ("merged clusters", f"{int(several.sum()):,}"),
        (results.spec.worth.total, f"{results.payments.scores.grand_value:.1%}"),
        ("validation rows", f"{len(results.inputs.validation_label):,}"),
    ]


def _notes(results: Results) -> list[str]:
    spec, notes = results.spec, []
    if results.threshold.theta is None and spec.theta != "none":
        notes.append(evidence_words(results.threshold))
    if drawn := len(drawn_clusters(results)):
        notes.append(
            f"In {drawn:,} clusters units of several names carry the same time: a lot decided who was first, drawn "
            f"under {drawn_under(results)}."
        )
    owed = sum(b for b in results.division.balance if b > 0)
    if owed * 10 > spec.minor:
        notes.append(
            f"{spec.currency} {_thousands(spec.money.text(owed))} are carried to the next run because scores "
            "below zero are large; more validation rows would make scores steadier."
        )
    return notes


def _signs(results: Results) -> str:
    """What becomes of scores below zero, where there can be any."""
    spec = results.spec
    if spec.worth.signed:
        return _POLICY[spec.negative]
    none = "No score is below zero: more units never cover less."
    if not any(results.division.balance):
        return none
    return f"{none} What somebody is owed or owes beyond this payment goes to the next run."


def _interval(results: Results) -> str:
    groups = len(results.payments.scores.by_group)
    if groups > 1:
        how = f"other validation rows of the same kind (jackknife over {groups} groups of them)"
    else:
        how = "the sampling of coalitions; the choice of validation rows is not in it"
    return f"Intervals ({LEVEL:.0%}) say how far a payment could have come out otherwise with {how}."


def _payments(results: Results) -> list[Row]:
    carry = has_balances(results.spec, results.division.balance)
    return [
        {
            "identity": visible(row["identity"]), "payment": _thousands(row["payment"]),
            "low": _thousands(row["low"]), "high": _thousands(row["high"]),
            "without": _thousands(row["without_evidence"]),
            "balance": _thousands(row["balance"]) if carry else None, "units": f"{row['units']:,}",
            "clusters": f"{row['clusters']:,}", "score": f"{row['score']:.4f}",
            "with": visible(row["paid_together_with"], 24),
        }
        for row in payment_table(results).slice(0, _MOST_ROWS).to_pylist()
    ]  # fmt: skip


def _links(results: Results) -> list[Row]:
    edges, names = results.payees.edges, results.inputs.identities
    return [
        {
            "left": visible(names[edges.left[i]]), "right": visible(names[edges.right[i]]),
            "reason": str(edges.reason[i]), "score": f"{edges.score[i]:.3f}",
        }
        for i in range(min(len(edges), 500))
    ]  # fmt: skip


def _overrides(results: Results) -> list[Row]:
    return [
        {
            "action": f"{o.action} {'units' if o.units else 'identities'}",
            "names": ", ".join(visible(name, 32) for name in (o.units or o.identities)),
            "reason": visible(o.reason, 400), "by": visible(o.by), "date": o.date.isoformat(),
        }
        for o in results.overrides
    ]  # fmt: skip


def _check(results: Results) -> Row | None:
    threshold = results.threshold
    price = threshold.price
    if price is None:
        return None
    return {
        "rows": f"{price.rows:,}",
        "limit": f"{LIMIT:.0%}",
        "lowest": "none" if price.theta is None else f"{price.theta:g}",
        "price": "" if price.theta is None else f"{price.at(price.theta):.2%}",
        "crowding": None if threshold.crowding is None else f"{threshold.crowding:.2f}",
        "crowd": f"{ALLOWED:.0%}",
        "measured_on": threshold.measured_on,
        "counted": ""
        if results.spec.worth.signed
        else " (counted in pay by 5-NN accuracy, whatever is paid for)",
        "used": "no threshold" if threshold.theta is None else f"theta {threshold.theta:g}",
    }


def _mechanism(results: Results) -> list[tuple[str, str]]:
    m, spec = results.mechanism, results.spec
    return [
        ("Mechanism", m.label),
        ("Evidence", m.evidence),
        ("Players", "units: each cluster of tied units is one player"),
        ("Stands for a cluster", "its earliest unit, which also owns it"),
        (
            "Score",
            f"{m.semivalue} value, {results.payments.scores.method}, {_valued(results)}",
        ),
        (
            "Money",
            "whole minor units by largest remainder, ties by content"
            + (f"; negative scores: {spec.negative}" if spec.worth.signed else ""),
        ),
        ("Seed", str(spec.seed)),
        ("Units of equal time", f"draw lots under {drawn_under(results)}"),
        *([("Trusted sources", source_words(results))] if spec.columns.trusted_source else []),
    ]


def _valued(results: Results) -> str:
    """The utility in words, with what it settled on."""
    spec, found = results.spec, results.settled
    if found is None:
        return f"{spec.utility.learner} accuracy over chance"
    return f"{spec.learner} by the similarity {found.similarity}; strangers are alike by {found.strangers:.3f}"


def _thousands(text: str) -> str:
    sign = "-" if text.startswith("-") else ""
    units, point, rest = text.removeprefix("-").partition(".")
    return f"{sign}{int(units):,}{point}{rest}"


def red_team_section(found: AuditReport, results: Results) -> Row:
    """The worst of each attack, what another loses by it, its certificate, and the sentences above them."""

    def name(code: str) -> str:
        return visible(results.inputs.identities[int(code)])

    rows = []
    for finding in found.findings:
        verdict = finding.verdict(found.stop_at)
        trial = finding.worst if verdict == "open" else finding.unchecked
        cheat = finding.certificate.provider
        words = finding.certificate.words.replace(cheat, name(cheat))
        stopping = [
            f"{r.title} (moves {r.moved:.0%} of honest pay)" for r in finding.remedies if r.advised
        ]
        rows.append(
            {
                "attack": f"{family(trial.attack)}{assuming(trial)}", "tried": finding.tried,
                "pays": verdict == "open",
                "loss": _loss(finding.loss, name),
                "gain": _gain(finding, found.checks is not None),
                "provider": name(trial.provider), "written": trial.attack,
                "remedy": _remedy(verdict, stopping),
                "claim": finding.certificate.claim, "certificate": words,
                "conditions": [c.model_dump() for c in finding.certificate.conditions],
            }
        )  # fmt: skip
    worst = max(
        (f.worst for f in found.findings if f.worst.expected_gain is not None),
        key=lambda t: t.expected_gain or 0.0,
        default=None,
    )
    tried = sum(trial.why is None for trial in found.trials)
    words = (
        f"On a sample of this market {len(found.providers)} identities played {tried} attacks "
        "against the mechanism. "
    )
    words += f"{found.assumed} " if found.assumed else ""
    if worst is not None and (worst.expected_gain or 0.0) > found.stop_at:
        words += (
            f"The worst, {family(worst.attack)}, multiplied a cheat's pay by {worst.expected_gain:.2f}."
        )
    else:
        words += f"None multiplied a cheat's pay by more than {found.stop_at:g}."
    if found.harms:
        harm = found.harms[0]
        loss = _loss(harm.loss, name)
        words += f" By {harm.family}, {loss['victim']} lost {loss['size']} of its honest share ({loss['untied']})."
    else:
        words += (
            f" By none did evidence cost anybody else more than {STOP_LOSS:.0%} of the honest share."
        )
    words += (
        " The certificates say what the theorems guarantee about the worst of each; "
        "they speak of these manipulations only."
    )
    return {"words": words, "rows": rows}


def _gain(finding: Finding, checked: bool) -> str:
    """The largest gain of an attack; where payees are checked, what it is unchecked and what is expected."""
    gains = [finding.unchecked.gain, finding.worst.expected_gain]
    return " \u2192 ".join(
        "undefined" if gain is None else f"{gain:.3f}" for gain in (gains if checked else gains[:1])
    )


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
