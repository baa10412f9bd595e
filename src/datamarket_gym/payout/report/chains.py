"""The report's table of groups that few ties hold together."""

from __future__ import annotations

from datamarket_gym.core.screen import counted
from datamarket_gym.payout.chained import chains_of, named_unit
from datamarket_gym.payout.report.html import Row
from datamarket_gym.payout.results import Results

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
