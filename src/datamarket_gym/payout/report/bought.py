"""The report's section on what earlier runs have bought: from whom, who submits it again, and what v(all) means now."""

from __future__ import annotations

from collections import Counter

from datamarket_gym.core.screen import counted, listed
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.prior.price import price_words, priced_given
from datamarket_gym.payout.report.html import Row
from datamarket_gym.payout.results import Results

_MOST_UNITS, _MOST_PAIRS, _FEW = 500, 200, 5


def bought_section(results: Results) -> Row | None:
    """What the section shows; None for a run that is priced given nothing."""
    prior, known, spec = results.inputs.prior, results.known, results.spec
    if prior is None:
        return None
    pairs = Counter(
        (old.run, old.owner, who) for old, who in zip(known.old, known.identity, strict=True)
    )
    order = sorted(pairs.items(), key=lambda item: (item[0][1] == item[0][2], -item[1], item[0]))
    return {
        "words": f"{_words(results)} {price_words(priced_given(results), spec.minor, spec.currency)}",
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
