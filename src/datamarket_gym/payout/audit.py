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
from datamarket_gym.utilities.oracle import UtilityOracle

ATTACKS = (
    "sybil_split_k,exact_dup_2x_sybils,near_duplicate_2x_sybils,copycat,synthetic_laundering,junk_padding,"
    "bridge,leak_stuffing,own_source,squat*knows=leak*"
)
"""What is tried: copies and padding, then what is aimed at the evidence."""
FORGED = "backdate"
"""What is tried besides where units have times, with an intake log and without: the clock is then the defence."""
_PLAYERS, _IDENTITIES, _UNITS, _VALIDATION = 2, 8, 50, 200
_TRIALS = 80  # about as many attacks, with their parameters, as two identities play
_SETS = 250_000  # sets of units that are evaluated at most; a linear model answers so many in a minute or less
_BLOCK = 512  # units of earlier runs that are read at a time


def run_red_team(results: Results, state: Path, target: Path, progress: Progress = SILENT) -> None:
    """The audit of a sample market, kept in ``target``; or why it cannot be made.

    The mechanism is the run's, at the threshold that the whole submission settled: in a sample the nearest
    stranger is further away, and its own check would admit thresholds that the run must not use.
    """
    inputs, spec = results.inputs, results.spec
    if not spec.audit:
        write_json(target, {"none": "they were switched off"})
        return
    rows = _sample(inputs, spec.seed)
    if (sets := _sets(results, len(rows))) > _SETS:
        why = f"without a formula for scores they would ask {spec.learner} for some {sets:,} sets of units; "
        write_json(target, {"none": why + "`datamarket audit` plays them, on fewer units in less time"})
        return
    try:
        submission = inputs.submission.take(rows)
        held = _some(len(inputs.validation_label), _VALIDATION, spec.seed, "audit validation")
        features, label = inputs.validation_features[held], inputs.validation_label[held]
        embedding = inputs.validation_embedding
        utility = UtilityOracle(
            features,
            label,
            spec.utility,
            learner=inputs.learner,
            embedding=None if embedding is None else embedding[held],
            reference=inputs.reference,
        )
        if inputs.prior is not None:
            utility = utility.given(_some_prior(inputs.prior.art, spec.seed))
        market = market_state(submission, features, label, spec.seed, inputs.received is not None)
        tried = f"{ATTACKS},{FORGED}" if is_clocked(submission) else ATTACKS
        with suppress_market_warnings():  # the run tells of its whole market
            found = audit(
                market,
                results.named_mechanism,
                utility,
                providers=_PLAYERS,
                only=tried,
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
    write_text(target, found.model_dump_json(indent=1) + "\n")


def read_red_team(target: Path) -> tuple[AuditReport | None, str]:
    """The audit of a run, or why there is none."""
    text = target.read_text(encoding="utf-8")
    plain = json.loads(text)
    return (None, plain["none"]) if "none" in plain else (AuditReport.model_validate_json(text), "")


def _sets(results: Results, units: int) -> int:
    """About how many sets of units all attacks together would have to evaluate; none where there is a formula."""
    if not results.payments.scores.evaluations:
        return 0
    players = min(units, results.payments.clustering.n_clusters)
    return _TRIALS * results.named_mechanism.samples * players


def _some_prior(prior: AcquiredData, seed: int) -> AcquiredData:
    """A sample of what earlier runs have bought, as large as that of the market can be; chosen by content."""
    rows = [prior.canonical[at : at + _BLOCK] for at in range(0, len(prior.canonical), _BLOCK)]
    keys = [unit_keys(prior.units.features[some], prior.units.label[some]) for some in rows]
    order = prior.canonical[np.argsort(np.concatenate(keys), kind="stable")]
    chosen = order[_some(len(order), _IDENTITIES * _UNITS, seed, "audit prior")]
    return AcquiredData(prior.units.take(chosen), np.arange(len(chosen)))


def _sample(inputs: Inputs, seed: int) -> Codes:
    """Units of a few identities, a few of each; chosen by content, not by name or row."""
    n, keys = len(inputs.identities), inputs.submission.keys
    # Identities that bring at least a handful of units, in the order of their least content key.
    least = np.full(n, b"~", dtype=keys.dtype)
    by_key = np.argsort(keys, kind="stable")[::-1]
    least[inputs.owner[by_key]] = keys[by_key]
    order = np.argsort(least, kind="stable")
    counts = np.bincount(inputs.owner, minlength=n)
    fit = [i for i in order if counts[i] >= 5] or order.tolist()
    chosen = [fit[i] for i in _some(len(fit), _IDENTITIES, seed, "audit identities")]
    rows = []
    for identity in chosen:
        mine = np.flatnonzero(inputs.owner == identity)
        mine = mine[np.argsort(keys[mine], kind="stable")]
        rows.append(mine[_some(len(mine), _UNITS, seed, "audit units")])
    return np.concatenate(rows)


def _some(n: int, most: int, seed: int, purpose: str) -> Codes:
    return np.sort(keyed_generator(seed, purpose).permutation(n)[:most])
