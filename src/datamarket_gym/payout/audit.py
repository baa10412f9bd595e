"""The red team's part of a run: attacks on a sample of this very market, before others try them.

Each chosen identity plays the attacks of the library against the run's own mechanism. On a large
submission the market is a sample of identities and units, chosen by content, so that this takes seconds. Where scores
are sampled it would take hours, and is left out.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from datamarket_gym.analysis.redteam import AuditReport, audit, market_state
from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.data.content_keys import keyed_generator, unit_keys
from datamarket_gym.errors import DataMarketError, RunError
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.execution.files import write_json, write_text
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.market.attacks.base import is_clocked
from datamarket_gym.payout.inputs import Inputs
from datamarket_gym.payout.results import Results

ATTACKS = (
    "sybil_split_k,exact_dup_2x_sybils,near_duplicate_2x_sybils,copycat,synthetic_laundering,junk_padding,"
    "bridge,leak_stuffing,own_source,squat*knows=leak*"
)
"""The attacks of the audit: copies and padding, then those aimed at the evidence."""
FORGED = "backdate"
"""One more where units have times, with an intake log and without: the clock is then the defence."""
_PLAYERS, _IDENTITIES, _UNITS, _VALIDATION = 2, 8, 50, 200
_TRIALS = 80  # about as many attacks, with their parameters, as two identities play
_SETS = 250_000  # sets of units that are evaluated at most; a linear model answers so many in a minute or less
_BLOCK = 512  # units of earlier runs that are read at a time


def run_red_team(results: Results, state: Path, target: Path, progress: Progress = SILENT) -> None:
    """Audit a sample market and write the report to ``target``, or why there is none.

    The mechanism is the run's, at the threshold that the whole submission resolved: in a sample the nearest
    stranger is further away, and its own check would admit thresholds that the run must not use.
    """
    inputs, spec = results.inputs, results.spec
    if not spec.audit:
        write_json(target, {"none": "they were switched off"})
        return
    rows, scores = _sample(inputs, spec.seed), results.payments.scores
    if scores.evaluations:  # no formula: about so many sets of units for all attacks together
        players = min(len(rows), results.payments.clustering.n_clusters)
        sets = _TRIALS * results.named_mechanism.samples * players
        if sets > _SETS:
            why = f"without a formula for scores they would ask {spec.learner} for some {sets:,} sets of units; "
            write_json(
                target, {"none": why + "`datamarket audit` plays them, on fewer units in less time"}
            )
            return
    try:
        submission = inputs.submission.take(rows)
        chosen = _some(len(inputs.validation_label), _VALIDATION, spec.seed, "audit validation")
        utility = inputs.oracle_on(chosen, spec)
        if inputs.acquired is not None:
            some = _sample_acquired(inputs.acquired.art, spec.seed)
            utility = utility.given(some, discount=spec.acquired_discount)
        logged = inputs.received is not None
        market = market_state(submission, utility.features, utility.label, spec.seed, logged)
        with suppress_market_warnings():  # the run has those of its whole market
            report = audit(
                market,
                results.named_mechanism,
                utility,
                providers=_PLAYERS,
                only=f"{ATTACKS},{FORGED}" if is_clocked(submission) else ATTACKS,
                out=state,
                progress=progress,
                threshold=results.threshold if results.threshold.measured else None,
                checks=spec.spot_checks if spec.checks else None,
            )
    except RunError:
        raise
    except DataMarketError as error:
        write_json(target, {"none": str(error)})
        return
    write_text(target, report.model_dump_json(indent=1) + "\n")


def read_red_team(target: Path) -> tuple[AuditReport | None, str]:
    """Read the audit of a run, or why there is none."""
    text = target.read_text(encoding="utf-8")
    plain = json.loads(text)
    return (None, plain["none"]) if "none" in plain else (AuditReport.model_validate_json(text), "")


def _sample_acquired(acquired: AcquiredData, seed: int) -> AcquiredData:
    """Sample what earlier runs have acquired by content; as large as the sample of the market can be."""
    rows = [acquired.canonical[at : at + _BLOCK] for at in range(0, len(acquired.canonical), _BLOCK)]
    keys = [unit_keys(acquired.units.features[some], acquired.units.label[some]) for some in rows]
    order = acquired.canonical[np.argsort(np.concatenate(keys), kind="stable")]
    chosen = order[_some(len(order), _IDENTITIES * _UNITS, seed, "audit prior")]
    return AcquiredData(acquired.units.take(chosen), np.arange(len(chosen)))


def _sample(inputs: Inputs, seed: int) -> Codes:
    """Sample a few units of a few identities, by content and not by name or row."""
    by_key = np.lexsort((inputs.owner, inputs.submission.keys))
    owner = inputs.owner[by_key]
    counts, order = np.bincount(owner), list(dict.fromkeys(owner.tolist()))
    # Identities that bring at least a handful of units, in the order of their least content key.
    fit = [i for i in order if counts[i] >= 5] or order
    rows = []
    for place in _some(len(fit), _IDENTITIES, seed, "audit identities").tolist():
        units = by_key[owner == fit[place]]
        rows.append(units[_some(len(units), _UNITS, seed, "audit units")])
    return np.concatenate(rows)


def _some(n: int, most: int, seed: int, purpose: str) -> Codes:
    return np.sort(keyed_generator(seed, purpose).permutation(n)[:most])
