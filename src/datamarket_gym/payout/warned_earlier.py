"""What a run is warned of that was there before it: bought by earlier runs, or received from others."""

from __future__ import annotations

import numpy as np

from datamarket_gym.core.screen import counted
from datamarket_gym.learners.base import LEARNERS
from datamarket_gym.learners.coverage import Coverage
from datamarket_gym.learners.distinct import among
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.warnings import MOST_ITEMS, StandingWarning


def bought_from_others(results: Results) -> StandingWarning | None:
    """Units that an earlier run bought from somebody else than whoever submits them now."""
    known, prior = results.known, results.inputs.prior
    if prior is None:
        return None
    theirs = [i for i, old in enumerate(known.old) if old.owner != known.identity[i]]
    if not theirs:
        return None
    names = counted(len({known.identity[i] for i in theirs}), "identity", "identities")
    return StandingWarning.of(
        "bought_from_others",
        f"{counted(len(theirs), 'unit')} of {names} {'was' if len(theirs) == 1 else 'were'} bought before, from others",
        "They are tied to what an earlier run has bought, and earn nothing now. Somebody may have copied what others "
        "sold then, or sells under another name; or honest units were taken for older ones: look at some of them, and "
        "untie those with --overrides, naming both (prior.parquet has the names).",
        [
            f"“{visible(known.unit[i])}” of “{visible(known.identity[i])}”: bought in "
            f"{prior.runs[known.old[i].run].called} from “{visible(known.old[i].owner)}” as "
            f"“{visible(known.old[i].unit)}” ({known.reason[i]}, {known.score[i]:.3f})"
            for i in theirs[:MOST_ITEMS]
        ],
        len(theirs),
    )


def bought_rows(results: Results) -> StandingWarning | None:
    """Validation rows that earlier runs have bought, number for number."""
    inputs = results.inputs
    if inputs.prior is None or results.spec.leak_check == "off":
        return None
    art, held = inputs.prior.art, inputs.validation_features
    bought = int(among(held, art.units.features[art.beginning_like(held)]).sum())
    if not bought:
        return None
    return StandingWarning.of(
        "bought_rows",
        f"{counted(bought, 'validation row')} of {len(inputs.validation_label):,} {'was' if bought == 1 else 'were'} "
        "bought before",
        "What was bought covers them for good: nobody is paid for what is like them, and who covers the others divides "
        "the whole amount. Take validation rows that nobody has sold.",
        [],
        bought,
    )


def received_from_others(results: Results) -> StandingWarning | None:
    """Units that the intake log has from somebody else before, who does not have them in this run."""
    inputs = results.inputs
    if inputs.received is None:
        return None
    rows = [i for i, before in enumerate(inputs.received.before) if before]
    if not rows:
        return None
    names = counted(len({int(inputs.owner[i]) for i in rows}), "identity", "identities")
    return StandingWarning.of(
        "received_from_others",
        f"{counted(len(rows), 'unit')} of {names} came earlier from somebody else, who does not have them in this run",
        "The intake log holds the same content under another name, received before. Whoever was first is paid only for "
        "what is in the table, and these are paid as if they were new. If the others' units belong here, add them; if "
        "an earlier run has bought them, name it (--prior); if these are copies, leave them out and pay again.",
        [
            f"“{visible(inputs.ids[i])}” of “{visible(inputs.identities[inputs.owner[i]])}”: "
            f"{inputs.received.before[i]}"
            for i in rows[:MOST_ITEMS]
        ],
        len(rows),
    )


def lost_labels(results: Results) -> StandingWarning | None:
    """Labels of earlier runs that occur nowhere in this one: what was bought under them has no say."""
    inputs, learner = results.inputs, LEARNERS.create(results.spec.learner)
    if inputs.prior is None or (isinstance(learner, Coverage) and not learner.labels):
        return None
    if learner.target == "number":  # what was measured before has its say, whatever is measured now
        return None
    labels, units = np.unique(inputs.prior.art.label, return_counts=True)
    here = np.isin(labels, inputs.validation_label) | np.isin(labels, inputs.submission.label)
    lost = np.flatnonzero(~here)
    if not len(lost):
        return None
    return StandingWarning.of(
        "lost_labels",
        f"{counted(len(lost), 'label')} of the earlier runs {'does' if len(lost) == 1 else 'do'} not occur in this one "
        f"({int(units[lost].sum()):,} of {counted(int(units.sum()), 'unit')} that stand for what was bought)",
        "Units count for validation rows of their own label. If the label is written otherwise now, what was bought is "
        "as good as not there, and whoever submits it again is paid again: write labels as then, and pay again. If "
        "nobody asks for that label any more, nothing is wrong.",
        [f"“{visible(str(labels[i]))}”: {counted(int(units[i]), 'unit')}" for i in lost],
    )
