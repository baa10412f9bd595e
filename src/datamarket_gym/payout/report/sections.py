"""The report's section on what earlier runs have bought: from whom, who submits it again, and what v(all) means now.

The report's table of groups that few ties hold together.

The report's section on what a cheat could still gain, and cost others: the red team's findings in plain words.

The report's section on what the buyer needs: how well the validation rows are covered, by whom, and which are not.

Rows go by their number: what is in them is secret, and stays in the operator's file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from datamarket_gym.analysis.redteam import AuditReport, Finding, Loss
from datamarket_gym.analysis.redteam.attack_grid import family
from datamarket_gym.analysis.redteam.audit import forgeries
from datamarket_gym.analysis.redteam.findings import STOP_LOSS, Trial, assuming
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import counted, listed
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.payout.acquisition_prices import price_messages, priced_given
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.report.html import Row, attack_parameters, attack_title
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.validation_coverage import Needs
from datamarket_gym.payout.warning_rules import chains_of, named_unit
from datamarket_gym.utilities.coverage_report import WELL

_MOST_UNITS, _MOST_PAIRS, _FEW = 500, 200, 5


def acquired_section(results: Results) -> Row | None:
    """What the section shows; None for a run that is priced given nothing."""
    prior, known, spec = results.inputs.prior, results.known, results.spec
    if prior is None:
        return None
    pairs = Counter(
        (old.run, old.owner, who) for old, who in zip(known.old, known.identity, strict=True)
    )
    order = sorted(pairs.items(), key=lambda item: (item[0][1] == item[0][2], -item[1], item[0]))
    return {
        "words": f"{_words(results)} {price_messages(priced_given(results), spec.minor, spec.currency)}",
        "known": counted(len(known), "unit"),
        "runs": [
            {
                "called": run.called,
                "run": run.short,
                "units": f"{end - start:,}",
                "sha256": run.sha256,
            }
            for run, start, end in zip(
                prior.runs, prior.start.tolist(), [*prior.start[1:].tolist(), len(prior)], strict=True
            )
        ],
        "pairs": [
            {
                "called": prior.runs[run].called,
                "owner": visible(owner),
                "identity": visible(who),
                "own": owner == who,
                "units": f"{count:,}",
            }
            for (run, owner, who), count in order[:_MOST_PAIRS]
        ],
        "pairs_left_out": max(0, len(order) - _MOST_PAIRS),
        "units": [
            {
                "unit": visible(known.unit[i]),
                "identity": visible(known.identity[i]),
                "called": prior.runs[known.old[i].run].called,
                "owner": visible(known.old[i].owner),
                "old": visible(known.old[i].unit),
                "reason": str(known.reason[i]),
                "score": f"{known.score[i]:.4f}",
            }
            for i in range(min(len(known), _MOST_UNITS))
        ],
        "units_left_out": max(0, len(known) - _MOST_UNITS),
    }


def _words(results: Results) -> str:
    """What the run is priced given, and what the scores are of."""
    prior, spec = results.inputs.prior, results.spec
    assert prior is not None
    names = listed((run.called for run in prior.runs), _FEW)
    stand = counted(len(prior.art.canonical), "unit stands", "units stand")
    before = results.utility.empty_value
    worth = spec.worth
    added = worth.shown(results.payments.scores.grand_value)
    return (
        f"This run is priced given what was bought in {names}: {stand} for it, one for each group of copies. "
        f"{worth.alone.format(worth.shown(before))}; what is new adds {added}, and that is what the scores divide: "
        "each new unit counts by what it adds to what is there already."
    )


_MOST = 20


def chain_rows(results: Results) -> list[Row]:
    """Two parts of a group each, and the ties between them; the thinnest first."""
    number = results.payments.scores.number

    def named(unit: int) -> str:
        return named_unit(results, unit)

    return [
        {
            "number": int(number[chain.cluster]),
            "parts": f"{chain.units - chain.smaller:,} and {chain.smaller:,}",
            "ties": f"{chain.ties:,}",
            "through": "units of their own each"
            if chain.ties == chain.held_by
            else " and ".join(map(named, chain.through)) or counted(chain.held_by or 0, "unit"),
            "left": named(chain.left),
            "right": named(chain.right),
            "score": f"{chain.score:.3f}",
            "thin": chain.thin,
        }
        for chain in chains_of(results)[:_MOST]
    ]


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


_MOST_NAMES, _LEAST, _POINTS = 20, 10, 400


def needs_section(needs: Needs, results: Results) -> Row | None:
    """What the section shows; None where something else than coverage is paid for."""
    if not len(needs):
        return None
    names = sorted(results.names)
    order = np.lexsort(
        (np.arange(len(names)), -needs.of_identity, -needs.of_identity_nearest, -needs.of_identity_well)
    )
    told = [i for i in order.tolist() if needs.of_identity[i]]
    return {
        "words": _words_needs(needs),
        "names": [
            {
                "identity": visible(names[i]),
                "rows": f"{needs.of_identity[i]:,}",
                "well": f"{needs.of_identity_well[i]:,}",
                "nearest": f"{needs.of_identity_nearest[i]:,}",
            }
            for i in told[:_MOST_NAMES]
        ],
        "names_in_all": len(told),
        "least": [_row_needs(needs, results, z) for z in needs.least_covered[:_LEAST]],
        "before": bool(needs.before.any()),
    }


def _words_needs(needs: Needs) -> str:
    n, well = len(needs), int(needs.covered_well.sum())
    nobody = int((needs.covered <= 0).sum())
    before = (
        f" What was bought before covers {needs.before.mean():.1%}, and nobody is paid for that again."
        if needs.before.any()
        else ""
    )
    none = f" {counted(nobody, 'need is', 'needs are')} covered by nobody." if nobody else ""
    return (
        f"The buyer's needs are {counted(n, 'validation row')}. Of these {well:,} ({well / n:.0%}) are covered well; "
        f"of all that is needed {needs.covered.mean():.1%} is covered.{before}{none}"
    )


def _row_needs(needs: Needs, results: Results, z: int) -> Row:
    return {
        "row": f"{z:,}",
        "covered": f"{needs.covered[z]:.0%}",
        "units": f"{needs.units[z]:,}",
        "well": f"{needs.well[z]:,}",
        **_nearest(needs, results, z),
    }


def _nearest(needs: Needs, results: Results, z: int) -> Row:
    """The unit that comes nearest to a row, and whose it is; blank where none does."""
    player = int(needs.nearest[z])
    if player < 0:
        return {"unit": "", "identity": ""}
    canonical, inputs = results.payments.canonical, results.inputs
    [cluster] = np.flatnonzero(results.payments.scores.number == player)
    unit = int(canonical.unit[np.flatnonzero(canonical.cluster == cluster)[0]])
    return {
        "unit": visible(inputs.ids[unit]),
        "identity": visible(inputs.identities[inputs.owner[unit]]),
    }


def needs_chart(needs: Needs) -> dict[str, Any]:
    """How well each need is covered, the best covered first; where something was bought before, what that covers."""
    order = np.argsort(-needs.covered, kind="stable")
    at = np.unique(np.linspace(0, len(order) - 1, min(_POINTS, len(order))).round().astype(np.int64))
    share = _rounded(np.concatenate([[0.0], (at + 0.5) / len(order), [1.0]]))

    def drawn(values: np.ndarray) -> list[float]:
        return _rounded(np.concatenate([values[at[:1]], values[at], values[at[-1:]]]))

    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines", "name": "covered now", "x": share,
            "y": drawn(needs.covered[order]), "fill": "tozeroy", "fillcolor": "--range",
            "line": {"color": "--main", "shape": "hvh", "width": 2},
            "hovertemplate": "%{y:.0%}<extra></extra>",
        }
    ]  # fmt: skip
    if before := bool(needs.before.any()):
        data.append(
            {
                "type": "scatter", "mode": "lines", "name": "covered before", "x": share,
                "y": drawn(np.sort(needs.before)[::-1]), "line": {"color": "--alt", "shape": "hvh", "width": 2},
                "hovertemplate": "%{y:.0%}<extra></extra>",
            }
        )  # fmt: skip
    layout = {
        "height": 300, "margin": {"l": 56, "r": 28, "t": 36 if before else 16, "b": 46}, "showlegend": before,
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
        "xaxis": {"title": {"text": "needs, best covered first"}, "range": [0, 1], "tickformat": ".0%"},
        "yaxis": {"title": {"text": "covered"}, "range": [0, 1.02], "tickformat": ".0%"},
        "shapes": [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": WELL, "y1": WELL,
                    "line": {"color": "--good", "width": 1.5, "dash": "dot"}}],
        "annotations": [{"xref": "paper", "x": 1, "y": WELL, "xanchor": "right", "yanchor": "bottom",
                         "text": "covered well", "showarrow": False, "font": {"color": "--good"}}],
    }  # fmt: skip
    return {"data": data, "layout": layout}


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), 4) for value in values]
