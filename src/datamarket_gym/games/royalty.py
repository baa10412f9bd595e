"""The royalty game of Lee et al. (2025): what brands' images add to a diffusion model that draws their logos.

For each prompt, the model fine-tuned on all four brands drew 20 images. U(S) is their mean log-likelihood under a model
fine-tuned on the images of S. v(S) = U(S) - U(empty), where empty is the model without these brands. `royalty_data`
holds U of all 64 coalitions of six parts for four prompts, computed from the tables of
https://github.com/KiljaeL/Faithful_GSV (MIT): Google and Sprite have a Large part of 20 images and a Small one of 10;
Starbucks and Vodafone are one part each. A brand whose two parts are in S is in S as a whole.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources

import numpy as np

from datamarket_gym.errors import require_choice
from datamarket_gym.execution.arrays import CoalitionMatrix, Keys, Values
from datamarket_gym.games.game import Game
from datamarket_gym.registry import register

PARTS = ("GoogleLarge", "GoogleSmall", "SpriteLarge", "SpriteSmall", "Starbucks", "Vodafone")
PROMPTS = ("google", "sprite", "starbucks", "vodafone")
SPLITS = {"none": (), "Google": ("Google",), "Sprite": ("Sprite",), "both": ("Google", "Sprite")}


@register("game", "royalty")
class RoyaltyGame(Game):
    """Value brands by what their images add to the log-likelihood of images that a diffusion model draws.

    Parameters
    ----------
    prompt
        The brand whose logo is asked for (``google``, ``sprite``, ``starbucks``, ``vodafone``), or their ``mean``.
    split
        The brands that play as two players, a Large and a Small part: ``none``, ``Google``, ``Sprite`` or ``both``.
    keys
        The players' content keys.

    Examples
    --------
    >>> RoyaltyGame("google", split="Sprite").names
    ('Google', 'SpriteLarge', 'SpriteSmall', 'Starbucks', 'Vodafone')
    """

    title = "royalty game"

    def __init__(self, prompt: str = "mean", split: str = "none", *, keys: Keys | None = None) -> None:
        require_choice("prompt", prompt, (*PROMPTS, "mean"))
        require_choice("split", split, SPLITS)
        brands = [(part, part.removesuffix("Large").removesuffix("Small")) for part in PARTS]
        played = [part if brand in SPLITS[split] else brand for part, brand in brands]
        self.names = tuple(dict.fromkeys(played))
        brand_of = dict(zip(played, (brand for _, brand in brands), strict=True))
        self.brands = tuple(brand_of[name] for name in self.names)
        self._bits = np.zeros(len(self.names), dtype=np.int64)  # the parts that each player brings
        for bit, name in enumerate(played):
            self._bits[self.names.index(name)] += 1 << bit
        self._table = _likelihoods()[prompt]
        super().__init__(len(self.names), keys=keys, empty_value=float(self._table[0]))

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        return self._table[coalitions.astype(np.int64) @ self._bits]


@cache
def _likelihoods() -> dict[str, Values]:
    """Return, by prompt, U of all coalitions of the six parts; bit k of a coalition's number is part k."""
    file = resources.files("datamarket_gym.games") / "royalty_data" / "royalty_coalitions.csv"
    tables = {prompt: np.full(1 << len(PARTS), np.nan) for prompt in PROMPTS}
    for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines()):
        names = tuple(row["coalition"].replace("full", "Google Sprite Starbucks Vodafone").split())
        number = sum(1 << bit for bit, part in enumerate(PARTS) if part.startswith(names))
        tables[row["prompt"]][number] = float(row["mean_log_likelihood"])
    return {**tables, "mean": np.mean(list(tables.values()), axis=0)}
