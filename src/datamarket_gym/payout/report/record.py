"""The report of a run: the values that the template ``payout.html.j2`` makes sentences of.

What an operator decides on comes first: state, warnings, payments, what was merged. All else is folded below.
Validation rows are shown by their number: their content is secret, and stays in the operator's file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from datamarket_gym.analysis.redteam import AuditReport
from datamarket_gym.analysis.redteam.attack_grid import family
from datamarket_gym.analysis.redteam.audit import forgeries
from datamarket_gym.analysis.redteam.findings import STOP_LOSS, Finding, Loss, Trial, assuming
from datamarket_gym.evidence.false_match_cost import LIMIT
from datamarket_gym.evidence.threshold import ALLOWED, Threshold
from datamarket_gym.execution.files import write_text
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.payout.acquired_data import value_message
from datamarket_gym.payout.audit import read_red_team
from datamarket_gym.payout.manifest import NEEDS
from datamarket_gym.payout.money import LEVEL
from datamarket_gym.payout.names import drawn_under, visible
from datamarket_gym.payout.report.pages import Row, read_template, render_page
from datamarket_gym.payout.results import (
    Results,
    clusters_to_show,
    drawn_clusters,
    has_balances,
    leaked_units,
    payment_table,
)
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.payout.validation_coverage import Needs
from datamarket_gym.payout.warnings import (
    UnresolvedWarning,
    chains_of,
    named_unit,
    required_checks_message,
    time_messages,
)
from datamarket_gym.registry import components, describe

_MOST_ROWS, _MOST_CLUSTERS, _MOST_LEAKS, _MOST_LINKS, _MOST_CHAINS = 5000, 50, 200, 200, 20
_MOST_UNITS, _MOST_PAIRS, _MOST_NAMES, _LEAST_COVERED = 200, 100, 20, 10


def write_report(
    results: Results, warnings: Sequence[UnresolvedWarning], run: str, folder: Path, kept: int = 0
) -> None:
    """Write the report; ``kept`` is what the operator keeps of payees who failed spot checks or were not checked."""
    spec, inputs, edges = results.spec, results.inputs, results.payees.edges
    audit, why_no_audit = read_red_team(folder / "audit.json")
    clusters, clusters_left_out = clusters_to_show(results)
    leaks = leaked_units(results)
    record = {
        "run": run,
        "results": results,
        "period": period_message(spec),
        "warnings": warnings,
        "kept": kept,
        "merged": int((np.bincount(results.payments.clustering.label) > 1).sum()),
        "total": spec.worth.shown(results.payments.scores.grand_value),
        "owed": sum(balance for balance in results.division.balance if balance > 0),
        "shows_balance": has_balances(spec, results.division.balance),
        "clock": time_messages(inputs, spec),
        "drawn": len(drawn_clusters(results)),
        "drawn_under": drawn_under(spec.beacon),
        "checks": required_checks_message(results),
        "level": LEVEL,
        "payments": payment_table(results).slice(0, _MOST_ROWS).to_pylist(),
        "needs": _needs(Needs.read(folder / NEEDS), results),
        "clusters": clusters[:_MOST_CLUSTERS],
        "clusters_left_out": clusters_left_out + max(0, len(clusters) - _MOST_CLUSTERS),
        "chains": _chains(results),
        "leaks": leaks[:_MOST_LEAKS],
        "leaks_left_out": max(0, len(leaks) - _MOST_LEAKS),
        "acquired": _acquired(results),
        "links": [
            (inputs.identities[edges.left[i]], inputs.identities[edges.right[i]], str(edges.reason[i]), edges.score[i])
            for i in range(min(len(edges), _MOST_LINKS))
        ],
        "links_left_out": max(0, len(edges) - _MOST_LINKS),
        "threshold": evidence_message(results.threshold),
        "limits": (LIMIT, ALLOWED),
        "red_team": None if audit is None else red_team_record(audit, results),
        "red_team_why": why_no_audit,
        "sources": int((results.payments.clustering.edges.reason == "trusted source").sum()),
    }  # fmt: skip
    texts = {"reason_titles": reason_titles, "attack_title": attack_title}
    page = render_page(
        "payout.html.j2", "payout.css", [read_template("payout.js")], page=record, **texts
    )
    write_text(folder / "report.html", page)


def period_message(spec: PayoutSpec) -> str:
    """Name what a run pays for: as the operator says it, else when the market was open, else nothing."""
    if spec.period:
        return visible(spec.period, 200)
    if spec.opens and spec.closes:
        return f"{spec.opens} to {spec.closes}"
    return f"from {spec.opens} on" if spec.opens else f"until {spec.closes}" if spec.closes else ""


def evidence_message(threshold: Threshold) -> str:
    """Say which evidence was used and why, in a sentence or two."""
    why = f"{threshold.why[:1].upper()}{threshold.why[1:]}."
    if threshold.theta is None and threshold.words is None:
        why = f"Only identical units are matched, similar ones are not. {why}"
    return why


def _acquired(results: Results) -> Row | None:
    """Return what earlier runs have acquired, from whom, and who submits it again; None without earlier runs."""
    acquired, known = results.inputs.acquired, results.known
    if acquired is None:
        return None
    pairs = Counter((row.called, row.old_owner, row.identity) for row in known)
    order = sorted(pairs.items(), key=lambda item: (item[0][1] == item[0][2], -item[1], item[0]))
    counts = np.diff([*acquired.start.tolist(), len(acquired)]).tolist()
    return {
        "how": value_message(results),
        "known": len(known),
        "runs": list(zip(acquired.runs, counts, strict=True)),
        "pairs": [(*pair, count) for pair, count in order[:_MOST_PAIRS]],
        "pairs_left_out": max(0, len(order) - _MOST_PAIRS),
        "units": known[:_MOST_UNITS],
        "units_left_out": max(0, len(known) - _MOST_UNITS),
    }  # fmt: skip


def _chains(results: Results) -> list[Row]:
    """Return large groups of which two parts are held together by few matches, the thinnest first."""
    number = results.payments.scores.number
    return [
        {
            "number": int(number[chain.cluster]),
            "parts": (chain.units - chain.smaller, chain.smaller),
            "matches": chain.crossing,
            "apart": chain.crossing == chain.held_by,
            "through": [named_unit(results.inputs, unit) for unit in chain.through],
            "held_by": chain.held_by or 0,
            "left": named_unit(results.inputs, chain.left),
            "right": named_unit(results.inputs, chain.right),
            "score": chain.score,
            "thin": chain.thin,
        }
        for chain in chains_of(results)[:_MOST_CHAINS]
    ]


def _needs(needs: Needs, results: Results) -> Row | None:
    """Return how well validation rows are covered, and by whom; None where something else is paid for."""
    if not len(needs):
        return None
    names = sorted(results.names)
    order = np.lexsort(
        (np.arange(len(names)), -needs.of_identity, -needs.of_identity_nearest, -needs.of_identity_well)
    )
    covering = [i for i in order.tolist() if needs.of_identity[i]]
    return {
        "table": needs,
        "well": int(needs.covered_well.sum()),
        "none": int((needs.covered <= 0).sum()),
        "names": [
            (names[i], needs.of_identity[i], needs.of_identity_well[i], needs.of_identity_nearest[i])
            for i in covering[:_MOST_NAMES]
        ],
        "names_in_all": len(covering),
        "least": [(row, *_nearest(needs, results, row)) for row in needs.least_covered[:_LEAST_COVERED]],
    }


def _nearest(needs: Needs, results: Results, row: int) -> tuple[str, str]:
    """Return the unit that comes nearest to a row, and whose it is; blank where none does."""
    player = int(needs.nearest[row])
    if player < 0:
        return "", ""
    canonical, inputs = results.payments.canonical, results.inputs
    [cluster] = np.flatnonzero(results.payments.scores.number == player)
    unit = int(canonical.unit[np.flatnonzero(canonical.cluster == cluster)[0]])
    return inputs.ids[unit], inputs.identities[inputs.owner[unit]]


def red_team_record(audit: AuditReport, results: Results) -> Row:
    """Return the worst of each attack, what another provider loses by it, and its certificate."""

    def name(code: str) -> str:
        return visible(results.inputs.identities[int(code)])

    # Forged times have a line of their own.
    findings = [f for f in audit.findings if not f.worst.assumes]
    ratios = [f.worst for f in findings if f.worst.expected_gain is not None]
    harms = [harm for harm in audit.harms if not harm.loss.trial.assumes]
    # Attacks that change labels are not played where there are none to change.
    label, attacks = results.inputs.submission.label, {family(t.attack): t.attack for t in audit.trials}
    reasons = {name: ATTACKS.create(attack).beyond(label) for name, attack in attacks.items()}
    return {
        "providers": len(audit.providers),
        "tried": sum(trial.why is None for trial in audit.trials),
        "assumed": audit.assumed,
        "stop_at": audit.stop_at,
        "worst": _called_trial(ratios, "expected_gain"),
        "most_moved": None if ratios else _called_trial([f.unchecked for f in findings], "theft"),
        "harm": (_called(harms[0].family), _loss(harms[0].loss, name)) if harms else None,
        "stop_loss": STOP_LOSS,
        "unplayed": [(attack_title(attack), why) for attack, why in reasons.items() if why],
        "clock": [forgery.words(_called(forgery.family)) for forgery in forgeries(audit)],
        "rows": [_finding(finding, audit, name) for finding in audit.findings],
        "checked": audit.checks is not None,
        "no_ratio": sum(f.worst.expected_gain is None for f in audit.findings),
    }


def _called_trial(trials: Sequence[Trial], most: str) -> Row | None:
    """Return the trial with most of something, its attack as a sentence names it; None where there are none."""
    trial = max(trials, key=lambda t: getattr(t, most) or 0.0, default=None)
    if trial is None:
        return None
    return {"called": _called(family(trial.attack)), "gain": trial.expected_gain, "moved": trial.theft}


def _called(attack: str) -> str:
    """Return an attack as a sentence names it: its plain name, and the one that files have."""
    plain = attack_title(attack)
    return attack if plain == attack else f"{plain} ({attack})"


def _finding(finding: Finding, audit: AuditReport, name: Callable[[str], str]) -> Row:
    verdict = finding.verdict(audit.stop_at)
    trial = finding.worst if verdict == "open" else finding.unchecked
    return {
        "attack": family(trial.attack),
        "assumes": assuming(trial),
        "tried": finding.tried,
        "verdict": verdict,
        "gains": [finding.unchecked.gain, *([finding.worst.expected_gain] if audit.checks else [])],
        "moved": finding.unchecked.theft,
        "loss": _loss(finding.loss, name),
        "provider": name(trial.provider),
        "remedies": [(remedy.title, remedy.moved) for remedy in finding.remedies if remedy.advised],
    }


def _loss(loss: Loss, name: Callable[[str], str]) -> Row:
    """Return what another provider lost most by an attack; ``harmful`` where evidence adds to it."""
    lost, victim = loss.trial.victim_loss, loss.trial.victim
    return {
        "size": lost,
        "harmful": loss.by_evidence > STOP_LOSS,
        "victim": name(victim) if victim is not None and lost is not None and lost > STOP_LOSS else "",
        "unmatched": loss.without_evidence,
        "spared_by": loss.spared_by or [],
    }


def attack_title(written: str) -> str:
    """Return what pages call an attack."""
    name = family(written)
    return describe("attack", name).title if name in components("attack") else name


_REASONS = {
    "trusted source": ("named source", "The unit itself names the one that it was made from, in a trusted column."),
    "words": ("shared words", "So many word pairs of the shorter text are in the other that it is taken for a copy."),
    "same metadata": ("same metadata", "Both agree in a column that the operator fills in, such as a watermark id."),
    "both confirm": ("both confirm", "Each of the two identities names the other as the same payee."),
    "override": ("override", "A person decided it, with a reason and a signature."),
}  # fmt: skip


def explain_reason(code: str) -> tuple[str, str]:
    """Return the title of a reason why two are matched, and what it means; an operator's own words as they are."""
    name = code.partition("@")[0]
    if name not in components("evidence"):
        return _REASONS.get(code, (visible(code), ""))
    evidence = describe("evidence", name)
    return evidence.title, evidence.summary or ""


def reason_titles(codes: str) -> str:
    """Return the titles of reasons, which stand in one text."""
    return ", ".join(explain_reason(code)[0] for code in codes.split(", "))
