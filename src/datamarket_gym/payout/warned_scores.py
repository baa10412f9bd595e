"""What a run by scores from elsewhere is warned of: units without scores, and equal units with unequal ones."""

from __future__ import annotations

from datamarket_gym.core.screen import counted
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.warnings import MOST_ITEMS, StandingWarning


def unscored_units(results: Results) -> StandingWarning | None:
    """Units that stand for themselves or others, of which the file of scores has none of equal content."""
    scored, inputs = results.inputs.scored, results.inputs
    if scored is None:
        return None
    standing = {inputs.ids[i] for i in results.payments.canonical.unit}  # the others earn nothing anyway
    unscored = [unit for unit in scored.unscored if unit in standing]
    if not unscored:
        return None
    return StandingWarning.of(
        "unscored_units",
        f"{counted(len(unscored), 'unit has', 'units have')} no scores",
        "The file of scores does not name them, nor any unit of equal content: they count as 0 and earn nothing. Where "
        "they came in after the scores were computed, compute these again and pay again.",
        [f"“{visible(unit)}”" for unit in unscored[:MOST_ITEMS]],
        len(unscored),
    )


def uneven_scores(results: Results) -> StandingWarning | None:
    """Units of equal content to which the tool gave different scores."""
    scored = results.inputs.scored
    if scored is None or not scored.table.uneven:
        return None
    table = scored.table
    return StandingWarning.of(
        "uneven_scores",
        f"{counted(table.uneven, 'group')} of units of equal content have different scores (by up to "
        f"{table.spread:.3g} on a validation row)",
        "What is the same is worth the same, so each counts with the mean of its group. A tool that draws random "
        "numbers, or trains on one copy and not on the other, tells equal units apart; if the difference is not small "
        "beside the scores themselves, have it average over more models.",
        count=table.uneven,
    )
