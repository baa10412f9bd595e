"""The report of a run: the values that the template ``payout.html.j2`` makes sentences of, and its glossary.

Validation rows are shown by their number: their content is secret, and stays in the operator's file. The terms that a
page uses are links to their explanation at its end. Components explain themselves (`registry.describe`); all other
terms are in ``templates/glossary.toml``.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from datamarket_gym.analysis.redteam import AuditReport
from datamarket_gym.analysis.redteam.attack_grid import family
from datamarket_gym.analysis.redteam.audit import forgeries
from datamarket_gym.analysis.redteam.findings import STOP_LOSS, Finding, Loss, Trial, assuming
from datamarket_gym.data.inputs import are_numbers
from datamarket_gym.evidence.false_match_cost import LIMIT
from datamarket_gym.evidence.threshold import ALLOWED, Threshold
from datamarket_gym.execution.files import write_text
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.payout.acquired_data import value_message
from datamarket_gym.payout.audit import read_red_team
from datamarket_gym.payout.manifest import NEEDS
from datamarket_gym.payout.money import LEVEL
from datamarket_gym.payout.names import drawn_under, visible
from datamarket_gym.payout.report.charts import (
    MOST_SHOWN,
    attack_title,
    needs_chart,
    payment_chart,
    red_team_chart,
    threshold_chart,
)
from datamarket_gym.payout.report.pages import Row, embed_json, read_template, render_page
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
from datamarket_gym.registry import components, describe, parameters_of
from datamarket_gym.utilities.coverage import Coverage

_MOST_ROWS, _MOST_LEAKS, _MOST_LINKS, _MOST_CHAINS = 5000, 500, 500, 20
_MOST_UNITS, _MOST_PAIRS, _MOST_NAMES, _LEAST_COVERED = 500, 200, 20, 10


def write_report(
    results: Results, warnings: Sequence[UnresolvedWarning], run: str, folder: Path
) -> None:
    from plotly.offline import get_plotlyjs

    spec, inputs, edges = results.spec, results.inputs, results.payees.edges
    audit, why_no_audit = read_red_team(folder / "audit.json")
    needs = Needs.read(folder / NEEDS)
    clusters, clusters_left_out = clusters_to_show(results)
    leaks = leaked_units(results)
    honest_classes = _has_classes(results)
    charts: dict[str, Any] = {"chart-payments": payment_chart(results)}
    if len(needs):
        charts["chart-needs"] = needs_chart(needs)
    if results.threshold.cost is not None:
        charts["chart-threshold"] = threshold_chart(results.threshold, honest_classes)
    if audit is not None and (chart := red_team_chart(audit)) is not None:
        charts["chart-red-team"] = chart
    record = {
        "run": run,
        "results": results,
        "period": period_message(spec),
        "warnings": warnings,
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
        "charted": MOST_SHOWN,
        "needs": _needs(needs, results),
        "clusters": clusters,
        "clusters_left_out": clusters_left_out,
        "chains": _chains(results),
        "leaks": leaks[:_MOST_LEAKS],
        "leaks_left_out": max(0, len(leaks) - _MOST_LEAKS),
        "acquired": _acquired(results),
        "links": [
            (inputs.identities[edges.left[i]], inputs.identities[edges.right[i]], str(edges.reason[i]), edges.score[i])
            for i in range(min(len(edges), _MOST_LINKS))
        ],
        "links_left_out": max(0, len(edges) - _MOST_LINKS),
        "threshold": _threshold(results, honest_classes),
        "red_team": None if audit is None else red_team_record(audit, results),
        "red_team_why": why_no_audit,
        "sources": int((results.payments.clustering.edges.reason == "trusted source").sum()),
    }  # fmt: skip
    scripts = [get_plotlyjs(), read_template("payout.js")]
    page = render_page(
        "payout.html.j2", "payout.css", scripts, page=record, charts=embed_json(charts),
        drawn=charts.keys(), terms=PageGlossary(),
    )  # fmt: skip
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


def _has_classes(results: Results) -> bool:
    """Return whether the rows that thresholds are measured on have labels that are classes, and several."""
    inputs, label = results.inputs, results.inputs.validation_label
    if results.threshold.measured_on == "reference" and inputs.reference is not None:
        label = inputs.reference.label
    return len(np.unique(label)) > 1 and not are_numbers(label)


def _threshold(results: Results, classes: bool) -> Row:
    """Return what the page says of the threshold beyond its record."""
    learner, cost = results.spec.utility_function, results.threshold.cost
    # A threshold's cost is measured on accuracy or coverage, which may not be what is paid for.
    paid_for = learner.paid_from == "chance" if classes else isinstance(learner, Coverage)
    return {
        "why": evidence_message(results.threshold),
        "cost_there": None if cost is None or cost.theta is None else cost.at(cost.theta),
        "limit": LIMIT,
        "allowed": ALLOWED,
        "measured_by": "" if paid_for else "5-NN accuracy" if classes else "coverage",
        "classes": classes,
    }


def _acquired(results: Results) -> Row | None:
    """Return what earlier runs have acquired, from whom, and who submits it again; None without earlier runs."""
    acquired, known = results.inputs.acquired, results.known
    if acquired is None:
        return None
    pairs = Counter(
        (old.run, old.owner, payee) for old, payee in zip(known.old, known.identity, strict=True)
    )
    order = sorted(pairs.items(), key=lambda item: (item[0][1] == item[0][2], -item[1], item[0]))
    counts = np.diff([*acquired.start.tolist(), len(acquired)]).tolist()
    return {
        "how": value_message(results),
        "known": len(known),
        "runs": list(zip(acquired.runs, counts, strict=True)),
        "pairs": [(acquired.runs[run], *pair, count) for (run, *pair), count in order[:_MOST_PAIRS]],
        "pairs_left_out": max(0, len(order) - _MOST_PAIRS),
        "units": [
            (known.unit[i], known.identity[i], known.old[i], acquired.runs[known.old[i].run], str(known.reason[i]),
             known.score[i])
            for i in range(min(len(known), _MOST_UNITS))
        ],
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
    certificate = finding.certificate
    return {
        "attack": family(trial.attack),
        "assumes": assuming(trial),
        "tried": finding.tried,
        "verdict": verdict,
        "gains": [finding.unchecked.gain, *([finding.worst.expected_gain] if audit.checks else [])],
        "moved": finding.unchecked.theft,
        "loss": _loss(finding.loss, name),
        "provider": name(trial.provider),
        "written": trial.attack,
        "parameters": attack_parameters(trial.attack),
        "remedies": [(remedy.title, remedy.moved) for remedy in finding.remedies if remedy.advised],
        "claim": certificate.claim,
        "certificate": certificate.words.replace(certificate.provider, name(certificate.provider)),
        "conditions": certificate.conditions,
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


_KINDS = (
    "semivalue",
    "mechanism",
    "learner",
    "similarity",
    "evidence",
)  # of one name in two kinds the first counts
_PATTERNS = {
    "shapley": "shapley values?", "knn": r"k-NN|5-NN|knn(?:@\d+)?", "cosine": "cosine(?: similarity)?",
    "recommended": r"recommended(?:/v\d+)?", "scores": "scores(?=: scores, summed)",
    **{name: name for name in ("banzhaf", "beta", "loo", "coverage", "logistic", "ridge", "standardised")},
}  # fmt: skip
"""How sentences spell components whose names are plain words."""
_PARAMETER = re.compile(r"(\w+)=")


@dataclass(frozen=True)
class GlossaryTerm:
    """A term of the report's glossary and its explanation."""

    key: str
    title: str
    text: str
    pattern: str = ""  # how sentences spell it; empty: only the template links it
    code: str = ""  # what files and commands call it

    @property
    def anchor(self) -> str:
        """Return the place of the explanation on the page."""
        return "g-" + re.sub(r"[^a-z0-9]+", "-", self.key.lower())


def all_terms() -> dict[str, GlossaryTerm]:
    """List every term that a page can use, by key."""
    terms: dict[str, GlossaryTerm] = {}
    for group, words in tomllib.loads(read_template("glossary.toml")).items():
        for name, word in words.items():
            key = name if group == "word" else f"{group}-{name}"
            code = name if group in ("reason", "claim", "condition") and name != word["title"] else ""
            pattern = name if group == "condition" and "_" in name else word.get("pattern", "")
            terms[key] = GlossaryTerm(key, word["title"], word["text"], pattern, code)
    for kind in ("attack", *_KINDS):
        prefix = "attack" if kind == "attack" else "component"
        for name in components(kind):
            it, key = describe(kind, name), f"{prefix}-{name}"
            text = it.summary or "Registered by the operator."
            code = "" if name == it.title else name
            terms.setdefault(key, GlossaryTerm(key, it.title, text, _pattern(name), code))
    return terms


def _pattern(name: str) -> str:
    """Return how sentences spell a component; one plain word is taken for its name only with a parameter."""
    if name in _PATTERNS:
        return _PATTERNS[name]
    parameter = r"(?:@[\w.]+)?" if "_" in name or name == "lineage" else r"@[\w.]+"
    return re.escape(name) + parameter


def attack_parameters(written: str) -> list[tuple[str, str]]:
    """Return the parameters that a written attack sets, each with what it means."""
    name = family(written)
    known = parameters_of(components("attack")[name]) if name in components("attack") else ()
    names = _PARAMETER.findall(written.partition("(")[2])
    if "@" in written.partition("(")[0] and known:
        names.append(known[0].name)
    return [(p.name, "; ".join(filter(None, [p.title, p.help]))) for p in known if p.name in names]


def explain_reason(code: str) -> tuple[str, str]:
    """Return the title of a reason why two are matched, and what it means; an operator's own words as they are."""
    terms = _cached_terms()
    term = terms.get(f"reason-{code}") or terms.get(f"component-{code.partition('@')[0]}")
    return (term.title, term.text) if term else (code, "")


_cached_terms = lru_cache(all_terms)


class PageGlossary:
    """The terms that one page uses, noted while its template is filled."""

    def __init__(self) -> None:
        self._terms, self._used = all_terms(), dict[str, GlossaryTerm]()
        spelled = [term for term in self._terms.values() if term.pattern]
        spelled.sort(key=lambda term: (-len(term.pattern), term.key))
        self._keys = {f"t{i}": term.key for i, term in enumerate(spelled)}
        patterns = "|".join(f"(?P<t{i}>{term.pattern})" for i, term in enumerate(spelled))
        self._pattern = re.compile(rf"(?<![\w-])(?:{patterns})(?![\w-])", re.IGNORECASE)

    def mark(self, text: str) -> Markup:
        """Escape a text and link the first mention of each term in it."""
        out, end, linked = Markup(""), 0, set[str]()
        for match in self._pattern.finditer(text):
            key = self._keys[str(match.lastgroup)]
            if key not in linked:
                linked.add(key)
                out += escape(text[end : match.start()]) + self.term(key, match.group())
                end = match.end()
        return out + escape(text[end:])

    def term(self, key: str, shown: str | None = None) -> Markup:
        """Link a term, under its title or other words."""
        term = self._used[key] = self._terms[key]
        return Markup('<a class="term" href="#{}">{}</a>').format(term.anchor, shown or term.title)

    def attack(self, written: str) -> Markup:
        """Link an attack by its plain name."""
        key = f"attack-{family(written)}"
        return self.term(key) if key in self._terms else escape(attack_title(written))

    def reason(self, text: str) -> Markup:
        """Link why two are matched; a reason in the operator's own words stands as it is."""
        for key in (f"reason-{text}", f"component-{text}"):
            if key in self._terms:
                return self.term(key)
        if text.startswith("supplied by "):
            return self.term("reason-supplied", visible(text))
        return escape(visible(text))

    def reasons(self, text: str) -> Markup:
        return Markup(", ").join(self.reason(part) for part in text.split(", "))

    @property
    def entries(self) -> list[GlossaryTerm]:
        """Return the terms that were used, by title."""
        return sorted(self._used.values(), key=lambda term: (term.title.lower(), term.key))
