"""From results to the report's plain values, in the order in which whoever approves the run needs them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.data.labels import are_numbers
from datamarket_gym.display import counted
from datamarket_gym.evidence import Threshold
from datamarket_gym.evidence.threshold import ALLOWED, LIMIT
from datamarket_gym.execution.files import write_text
from datamarket_gym.payout.audit import read_red_team
from datamarket_gym.payout.manifest import NEEDS
from datamarket_gym.payout.money import (
    LEVEL,
    thousands,
)
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.outputs import clusters_to_show, leaked_units, payment_table
from datamarket_gym.payout.report.charts import (
    MOST_SHOWN,
    payment_chart,
    red_team_chart,
    threshold_chart,
)
from datamarket_gym.payout.report.html import PayoutPage, Row, render
from datamarket_gym.payout.report.sections import (
    acquired_section,
    chain_rows,
    needs_chart,
    needs_section,
    red_team_section,
)
from datamarket_gym.payout.required_checks import required_checks_message
from datamarket_gym.payout.results import Results, has_balances
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.payout.statements.record import drawn_clusters, drawn_under, source_message
from datamarket_gym.payout.submission_times import time_messages
from datamarket_gym.payout.validation_coverage import Needs
from datamarket_gym.payout.warnings import UnresolvedWarning
from datamarket_gym.utilities.base import LEARNERS
from datamarket_gym.utilities.coverage import Coverage

_MOST_ROWS, _MOST_LEAKS, _MOST_LINKS = 5000, 500, 500
_POLICY = {
    "zero": "Scores below zero count as nothing.",
    "carry": "Scores below zero are not paid but carried: what someone is owed or owes beyond this payment "
    "goes to the next run, and all balances add up to zero.",
}
_NO_FILE = {
    "quarantine": "the rows that were set aside",
    "images": "the images that no row names",
    "intake": "the times that the intake log has",
}


def write_report(
    results: Results, warnings: Sequence[UnresolvedWarning], run: str, folder: Path
) -> None:
    """Render the report of a run."""
    write_text(folder / "report.html", render(payout_page(results, warnings, run, folder)))


def payout_page(
    results: Results, warnings: Sequence[UnresolvedWarning], run: str, folder: Path
) -> PayoutPage:
    """Everything the report shows."""
    spec, threshold = results.spec, results.threshold
    audit, why = read_red_team(folder / "audit.json")
    shown, left_out = clusters_to_show(results)
    amount = f"{spec.currency} {spec.money.shown(spec.minor)}"
    charts: dict[str, Any] = {"chart-payments": payment_chart(results)}
    needs = Needs.read(folder / NEEDS)
    if len(needs):
        charts["chart-needs"] = needs_chart(needs)
    if threshold.cost is not None:
        charts["chart-threshold"] = threshold_chart(threshold, _honest(results))
    if audit is not None and (drawn := red_team_chart(audit)) is not None:
        charts["chart-red-team"] = drawn
    return PayoutPage(
        title=f"Payout of {amount}",
        run=run,
        amount=amount,
        period=period_message(spec),
        currency=spec.currency,
        warnings=list(warnings),
        facts=_facts(results),
        clock=time_messages(results.inputs, spec),
        logged=results.inputs.received is not None,
        notes=_notes(results),
        policy=f"Divided among {len(results.names):,} identities by {results.worth.divided}{_beyond(results)}. "
        f"The payments add up to the amount exactly. {_signs(results)}",
        checks=required_checks_message(results),
        interval=_interval(results),
        payments=_payments(results),
        shown=_shown(results),
        needs=needs_section(needs, results),
        clusters=shown,
        clusters_left_out=left_out,
        chains=chain_rows(results),
        leaks=leaked_units(results)[:_MOST_LEAKS],
        leaks_left_out=max(0, len(results.leaks) - _MOST_LEAKS),
        bought=acquired_section(results),
        links=_links(results),
        links_left_out=max(0, len(results.payees.edges) - _MOST_LINKS),
        overrides=_overrides(results),
        evidence_why=evidence_message(threshold),
        check=_check(results),
        red_team=None if audit is None else red_team_section(audit, results),
        red_team_why=why,
        inputs=[
            {
                "role": role,
                "name": visible(str(f["name"])) or _NO_FILE.get(role, ""),
                "bytes": f"{f['bytes']:,}" if f["name"] else "",
                "sha256": f["sha256"],
            }
            for role, f in results.inputs.files.items()
        ],
        mechanism=_mechanism(results),
        charts=charts,
    )


def _beyond(results: Results) -> str:
    return "" if results.inputs.prior is None else "; of that, what goes beyond what was bought before"


def period_message(spec: PayoutSpec) -> str:
    """What the payday is for: as the operator says it, else when the market was open, else nothing."""
    if spec.period:
        return visible(spec.period, 200)
    if spec.opens and spec.closes:
        return f"{spec.opens} to {spec.closes}"
    return f"from {spec.opens} on" if spec.opens else f"until {spec.closes}" if spec.closes else ""


def evidence_message(threshold: Threshold) -> str:
    """Which evidence was used and why, in a sentence or two."""
    why = f"{threshold.why[:1].upper()}{threshold.why[1:]}."
    return (
        why
        if threshold.theta is not None
        else f"Only identical units are tied, similar ones are not. {why}"
    )


def _facts(results: Results) -> list[tuple[str, str]]:
    spec, paid, given = results.spec, results.division.paid, results.inputs.prior
    several = np.bincount(results.payments.clustering.label) > 1
    some = sum(each > 0 for each in paid)
    facts = [
        ("identities paid", f"{some:,} of {len(paid):,}"),
        ("largest payment", f"{spec.money.shown(max(paid))} ({max(paid) / spec.minor:.0%})"),
        ("units", f"{len(results.inputs.ids) + len(results.leaks) + len(results.known):,}"),
        *([] if given is None else [("bought before", f"{len(results.known):,}")]),
        ("distinct units", f"{results.payments.clustering.n_clusters:,}"),
        ("merged groups", f"{int(several.sum()):,}"),
        (
            spec.worth.total if given is None else f"{spec.worth.total}, added",
            spec.worth.shown(results.payments.scores.grand_value),
        ),
        ("validation rows", f"{len(results.inputs.validation_label):,}"),
        ("checks asked for", f"{spec.checks} of each payee" if spec.checks else "none"),
    ]
    if owed := sum(b for b in results.division.balance if b > 0):
        facts.append(("carried", spec.money.shown(owed)))
    return facts


def _shown(results: Results) -> str:
    """How many payments the picture and the table show, of how many."""
    n = len(results.names)
    if n <= MOST_SHOWN:
        return f"The picture and the table show {'the only payment' if n == 1 else f'all {n} payments'}."
    table = (
        f"the table lists all {n:,}"
        if n <= _MOST_ROWS
        else f"the table lists the {_MOST_ROWS:,} highest, and payments.csv has all"
    )
    return f"The picture shows the {MOST_SHOWN} highest of {n:,} payments; {table}."


def _notes(results: Results) -> list[str]:
    spec, notes = results.spec, []
    if results.threshold.theta is None and spec.theta != "none":
        notes.append(evidence_message(results.threshold))
    if drawn := len(drawn_clusters(results)):
        notes.append(
            f"In {counted(drawn, 'cluster')} units of several names carry the same time: a lot decided who was first, "
            f"drawn under {drawn_under(results)}."
        )
    owed = sum(b for b in results.division.balance if b > 0)
    if owed * 10 > spec.minor:
        notes.append(
            f"{spec.currency} {spec.money.shown(owed)} are carried to the next run because scores "
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
    scores = results.payments.scores
    more = (
        f" They are wider by what a payment can have moved at most because scores are truncated: {scores.method}."
        if scores.bias
        else ""
    )
    return (
        f"Intervals ({LEVEL:.0%}) say how far a payment could have come out otherwise with {how}.{more}"
    )


def _payments(results: Results) -> list[Row]:
    carry = has_balances(results.spec, results.division.balance)
    return [
        {
            "identity": visible(row["identity"]), "payment": thousands(row["payment"]),
            "low": thousands(row["low"]), "high": thousands(row["high"]),
            "without": thousands(row["without_evidence"]),
            "balance": thousands(row["balance"]).replace("-", "\N{MINUS SIGN}") if carry else None,
            "units": f"{row['units']:,}",
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
        for i in range(min(len(edges), _MOST_LINKS))
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


def _honest(results: Results) -> str:
    """Which honest units the check of the threshold compares."""
    return "honest units of one class" if _has_classes(results) else "honest units"


def _has_classes(results: Results) -> bool:
    """Whether the rows that thresholds are measured on have labels that are classes, and several of them."""
    inputs, label = results.inputs, results.inputs.validation_label
    if results.threshold.measured_on == "reference" and inputs.reference is not None:
        label = inputs.reference.label
    return len(np.unique(label)) > 1 and not are_numbers(label)


def _counted(results: Results) -> str:
    """What the pay is that a threshold would move (`evidence.threshold.cost`), where it is not what is paid for."""
    learner = LEARNERS.create(results.spec.learner)
    if _has_classes(results):
        accuracy = learner.paid_from == "chance"
        return "" if accuracy else " (counted in pay by 5-NN accuracy, whatever is paid for)"
    return "" if isinstance(learner, Coverage) else " (counted in pay by coverage, whatever is paid for)"


def _check(results: Results) -> Row | None:
    threshold = results.threshold
    price = threshold.cost
    if price is None:
        return None
    return {
        "rows": f"{price.rows:,}",
        "honest": _honest(results),
        "limit": f"{LIMIT:.0%}",
        "lowest": "none" if price.theta is None else f"{price.theta:g}",
        "price": "" if price.theta is None else f"{price.at(price.theta):.2%}",
        "crowding": None if threshold.density is None else f"{threshold.density:.2f}",
        "crowd": f"{ALLOWED:.0%}",
        "measured_on": threshold.measured_on,
        "counted": _counted(results),
        "used": "no threshold" if threshold.theta is None else f"theta {threshold.theta:g}",
    }


def _mechanism(results: Results) -> list[tuple[str, str]]:
    m, spec = results.mechanism, results.spec
    return [
        ("Mechanism", m.label),
        ("Evidence", str(m.evidence)),
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
        *([("Trusted sources", source_message(results))] if spec.columns.trusted_source else []),
    ]


def _valued(results: Results) -> str:
    """The utility in words, with what it settled on."""
    spec, found = results.spec, results.settled
    if found is None:
        return f"{spec.utility.learner}: {results.worth.total}"
    return f"{spec.learner} by the similarity {found.similarity}; strangers are alike by {found.strangers:.3f}"
