"""The answer to the page: payments by name and by the chosen mechanism, the evidence, and what is proven."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from datamarket_gym.core.progress import SILENT, Progress
from datamarket_gym.core.registry import describe
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.pipeline.mechanism import Mechanism, mechanism
from datamarket_gym.web.market.asked import AskedCheat, MarketAsked, Under
from datamarket_gym.web.market.graph import graph_of
from datamarket_gym.web.market.kept import attacked_by, market_of, paid_by
from datamarket_gym.web.market.proven import proven
from datamarket_gym.web.market.schemes import checked_scheme, expected_of, market_in_words, paid_scheme
from datamarket_gym.world.attacks.attack import ATTACKS

BY_NAME = "Shapley over names"


def answer(asked: MarketAsked, *, progress: Progress = SILENT) -> dict[str, Any]:
    """All that the page shows of one question; an error in words where it cannot be asked."""
    progress.stage("drawing the market")
    asked = asked.filled()
    under, cheat = asked.under(progress), asked.cheat()
    by_name, chosen = mechanism("shapley").seeded(asked.seed), asked.chosen()
    attack = ATTACKS.create(cheat.attack)
    attacked_by(under.draw, cheat)
    progress.stage(f"paying by {BY_NAME}", "coalitions")
    usual = paid_scheme(under, cheat, by_name)
    progress.stage(f"paying by {asked.mechanism}", "coalitions")
    ours = paid_scheme(under, cheat, chosen)
    checks, expected, checked = Checks(asked.checks, asked.power), None, None
    if checks.per_payee:
        progress.stage("paying every outcome of the checks", "outcomes")
        expected, why = expected_of(under, cheat, chosen, checks)
        checked = checked_scheme(under, cheat, chosen, checks, expected, why)
    progress.stage("asking the theorems")
    changed = asked.changed()
    label = describe("mechanism", asked.mechanism).title
    title = f"{label}, changed: {', '.join(changed)}" if changed else label
    return {
        "asked": asked.model_dump(),
        "market": {
            **market_in_words(under, cheat),
            "attack": cheat.attack,
            "attack_words": describe("attack", cheat.attack).summary,
            "assumes": attack.assumes,
        },
        "schemes": [
            {
                "key": "shapley",
                "title": BY_NAME,
                "preset": BY_NAME,
                "changed": [],
                "checked": None,
                **usual,
            },
            {
                "key": "chosen",
                "title": title,
                "preset": label,
                "changed": changed,
                "checked": checked,
                **ours,
            },
        ],
        "graph": _graph(under, cheat, chosen),
        "certificate": proven(under, cheat, chosen, expected),
    }


@lru_cache(maxsize=8)
def _graph(under: Under, cheat: AskedCheat, chosen: Mechanism) -> dict[str, Any]:
    profile, honest = attacked_by(under.draw, cheat), market_of(under.draw).honest
    return graph_of(profile, paid_by(under, cheat, chosen).paid.payments, honest)
