"""Admissibility: may components be made by a cosine threshold on these embeddings, and by which?

theta_min is the larger of two floors: the pairwise floor (90th percentile of the cosine of honest
units of one class) and the chaining floor (smallest theta from which on the simulated
mixed-component fraction of honest providers stays below a cutoff). theta_max is the 10th percentile
of the cosine of a unit with its variants under a stated attack. An empirically calibrated check made
before deployment, not a theorem; it concerns copies and variants, and says nothing about pure splits.
It is the paper's check, for connected components: lineage does not chain, and has a rule of its own (`choice`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.errors import DataMarketError, require_count, require_in
from datamarket_gym.core.plots import plot_thresholds
from datamarket_gym.core.progress import SILENT, Progress
from datamarket_gym.core.registry import written
from datamarket_gym.core.screen import Screen, Shown
from datamarket_gym.evidence.threshold.floors import (
    Merges,
    UnitVectors,
    highest_between,
    merges,
    same_class_similarities,
    variant_similarities,
)
from datamarket_gym.units.labels import are_numbers, unlabelled
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.data.embeddings import Embeddings
from datamarket_gym.world.tasks.partitions import PARTITIONS

STEP = 0.02
"""Grid on which floors are reported, as in the paper."""

USEFUL_MARGIN = 0.02
"""An interval narrower than this leaves no room for error in either bound."""

_NONE: Values = np.empty(0)


@dataclass(frozen=True, eq=False)
class Admissibility(Shown):
    """Bounds on a cosine threshold, and how they were found.

    ``alike`` and ``copies`` are the similarities of which the pairwise floor and the ceiling are quantiles: honest
    units of one class, and units with their variants. They are for whoever draws them, and no part of the record.
    """

    units: int
    dimensions: int
    median_norm: float
    pairwise_floor: float
    chaining_floors: dict[float, float]  # by cutoff
    cutoff: float
    near_duplicate_p10: float
    partition: str
    n_providers: int
    per_provider: int | None
    trials: int
    variants: str
    lonely_classes: int
    curve_theta: Values
    curve: Values
    alike: Values = field(default_factory=_NONE.copy, repr=False)
    copies: Values = field(default_factory=_NONE.copy, repr=False)

    @property
    def chaining_floor(self) -> float:
        """The chaining floor at the chosen cutoff."""
        return self.chaining_floors[self.cutoff]

    @property
    def interval(self) -> tuple[float, float]:
        """[theta_min, theta_max]; empty where the first exceeds the second."""
        return max(self.pairwise_floor, self.chaining_floor), self.near_duplicate_p10

    @property
    def margin(self) -> float:
        """Width of the interval; negative where it is empty."""
        low, high = self.interval
        return high - low

    @property
    def binding(self) -> str:
        """Which floor binds."""
        return "chaining" if self.chaining_floor >= self.pairwise_floor else "pairwise"

    @property
    def usable(self) -> bool:
        """Whether a threshold can be used: the interval has a useful margin."""
        return self.margin >= USEFUL_MARGIN

    @property
    def theta(self) -> float | None:
        """The threshold to use: a third of the way up the interval, to two decimals.

        Nearer to the floor, because what slips through above is paid to a cheat, while what is
        tied just above the floor is rare.
        """
        return round(self.interval[0] + self.margin / 3, 2) if self.usable else None

    @property
    def verdict(self) -> str:
        """Use, or do not use and what to do instead, in one sentence, where identities play."""
        low, high = self.interval
        if self.usable:
            return (
                f"use cosine evidence with theta in [{low:.2f}, {high:.2f}], for example {self.theta}: "
                f"honest providers stay apart above {low:.2f} ({self.binding} floor) and nine of ten "
                f"variants ({self.variants}) are tied below {high:.2f}"
            )
        why = "is empty" if self.margin <= 0 else f"is only {self.margin:.3f} wide"
        if self.binding == "chaining":
            instead = (
                "let units play instead of identities (granularity 'unit'), where chains tie no providers, "
                "or use source or linkage evidence"
            )
        else:
            instead = (
                "use source or linkage evidence, an encoder that separates units of one class better, "
                "or pay identities without similarity evidence"
            )
        return f"do not use cosine evidence: the interval [{low:.2f}, {high:.2f}] {why}; {instead}"

    def screen(self) -> Screen:
        """The verdict, and what it rests on."""
        low, high = self.interval
        found = {
            "pairwise floor": self.pairwise_floor,
            "chaining floor": self.chaining_floor,
            "ceiling": self.near_duplicate_p10,
            "interval": f"{low:.3f} to {high:.3f}",
            "variants": self.variants,
            "partition": self.partition,
            "units": self.units,
        }
        return Screen.of_fields(f"Admissibility: {self.verdict}", found)

    def plot(self) -> Any:
        """Plot by threshold how many honest clusters are mixed, and how many pairs and variants match.

        Returns
        -------
        matplotlib.figure.Figure or plotly.graph_objects.Figure
            The figure of the library that is installed; of matplotlib where both are.

        Raises
        ------
        ImportError
            If neither matplotlib nor plotly is installed.
        """
        at, (low, high) = self.curve_theta, self.interval
        matched = {"variants matched": self.copies, "honest pairs of one class matched": self.alike}
        shares = {n: (v >= at[:, None]).mean(axis=1) for n, v in matched.items() if len(v)}
        return plot_thresholds(
            at,
            {**shares, "clusters that mix honest providers": self.curve},
            title=f"Similarity thresholds for {self.units:,} units, variants {self.variants}",
            ylabel="share (%)",
            chosen=self.theta,
            bounds={"lowest that may be used": low, "highest": high},
            limit=self.cutoff,
        )

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, with the time and a hash of everything but the time."""
        values = asdict(replace(self, alike=_NONE, copies=_NONE))
        del values["alike"], values["copies"]
        values["curve_theta"] = [round(float(t), 6) for t in self.curve_theta]
        values["curve"] = [round(float(m), 6) for m in self.curve]
        values["chaining_floors"] = {f"{cut:g}": floor for cut, floor in self.chaining_floors.items()}
        values |= {
            "interval": list(self.interval), "margin": self.margin, "binding": self.binding,
            "usable": self.usable, "theta": self.theta, "verdict": self.verdict,
        }  # fmt: skip
        text = json.dumps(values, sort_keys=True)
        return {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            **values,
        }


def chaining_floors(
    simulated: Sequence[Merges], cutoffs: Sequence[float]
) -> tuple[Values, Values, dict[float, float]]:
    """The mean MCF on the grid of thresholds, and per cutoff where it falls below for good."""
    theta = np.round(np.arange(0.0, 1.0 + STEP / 2, STEP), 10)
    mean = np.mean([each.at(theta) for each in simulated], axis=0)
    floors = {}
    for cutoff in cutoffs:
        above = np.flatnonzero(mean >= cutoff)
        last = int(above[-1]) + 1 if len(above) else 0
        floors[cutoff] = float(theta[last]) if last < len(theta) else 1.0
    return theta, mean, floors


__all__ = ["CUTOFFS", "IDENTITIES", "Admissibility", "honest_market", "predict_theta"]

CUTOFFS = (0.05, 0.10, 0.15, 0.20)
IDENTITIES = "identities"
"""The partition model that takes the submission's own identities as the providers."""


def predict_theta(
    embeddings: Embeddings | Features,
    label: NDArray[np.generic] | None = None,
    *,
    partition: str = "iid",
    n_providers: int = 4,
    per_provider: int = 50,
    trials: int = 30,
    variants: str = "near_duplicate_2x_sybils@0.02",
    sample: int = 5000,
    cutoff: float = 0.10,
    seed: int = 0,
    encoder: str = "",
    content: dict[str, NDArray[np.object_]] | None = None,
    progress: Progress = SILENT,
) -> Admissibility:
    """The admissible interval of cosine thresholds for a pool of embeddings.

    ``partition`` says how honest providers come by their units: a registered partition, or
    ``identities``, which takes the embeddings' own. ``variants`` is the attack whose copies must be
    tied; one that changes content also needs the pool's ``content`` and the ``encoder``'s name.
    ``progress`` counts the simulated markets.
    """
    require_in("cutoff", cutoff, 0.0, 1.0, open_low=True)
    for name, count in (("trials", trials), ("sample", sample), ("per_provider", per_provider)):
        require_count(name, count)
    require_count("n_providers", n_providers, at_least=2)
    pool = embeddings if isinstance(embeddings, Embeddings) else Embeddings(embeddings, label)
    unit, median_norm = _directions(pool.vectors)
    code, skipped = _classes(pool)
    own = partition == IDENTITIES
    if own:
        simulated, trials = [_own_identities(unit, pool)], 1
    else:
        progress.stage("simulating honest markets", "markets")
        simulated = []
        for trial in range(trials):
            dealt = _deal(code, partition, n_providers, per_provider, seed, trial)
            simulated.append(merges(highest_between(unit, dealt)))
            progress.count(trial + 1, trials)
    progress.stage("making variants")
    rows = np.sort(keyed_generator(seed, "variants").permutation(len(unit))[:sample])
    some = None if content is None else {kind: column[rows] for kind, column in content.items()}
    attack = ATTACKS.create(variants)
    copies = variant_similarities(pool, attack, rows, seed, encoder, some)
    alike = same_class_similarities(unit[code >= 0], code[code >= 0], seed)
    curve_theta, curve, floors = chaining_floors(simulated, sorted({*CUTOFFS, cutoff}))
    return Admissibility(
        units=len(unit),
        dimensions=unit.shape[1],
        median_norm=median_norm,
        pairwise_floor=float(np.quantile(alike, 0.90)),
        chaining_floors=floors,
        cutoff=cutoff,
        near_duplicate_p10=float(np.quantile(copies, 0.10)),
        partition=partition,
        n_providers=len(set(_identities(pool))) if own else n_providers,
        per_provider=None if own else per_provider,
        trials=trials,
        variants=written(attack),
        lonely_classes=skipped,
        curve_theta=curve_theta,
        curve=curve,
        alike=alike,
        copies=copies,
    )


def honest_market(
    pool: Embeddings, partition: str, n_providers: int, per_provider: int, seed: int = 0, trial: int = 0
) -> list[Codes]:
    """The rows of each provider in one of the simulated markets of `predict_theta`."""
    return _deal(_classes(pool)[0], partition, n_providers, per_provider, seed, trial)


def _directions(vectors: Features) -> tuple[UnitVectors, float]:
    norms = np.linalg.norm(vectors, axis=1)
    zero = np.flatnonzero(norms == 0)
    if len(zero):
        raise DataMarketError(
            f"embedding {zero[0]} has zero norm ({len(zero)} in all), so its cosine is undefined; "
            "remove those units or embed them again"
        )
    if (vectors == vectors[0]).all():
        raise DataMarketError(
            f"all {len(vectors)} embeddings are identical, so no threshold can tell units apart; "
            "check the encoder and embed again"
        )
    return (vectors / norms[:, None]).astype(np.float32), float(np.median(norms))


def _classes(pool: Embeddings) -> tuple[Codes, int]:
    """Class codes (one class where there are no labels, or numbers); -1 for units that are alone in their class.

    A unit that is alone has no same-class pair and cannot be dealt by class: it is left out, and
    its class counted.
    """
    label = pool.label
    if label is None or are_numbers(label):
        label = unlabelled(len(pool.vectors))
    code = np.unique(label, return_inverse=True)[1].astype(np.int64)
    lonely = np.bincount(code) < 2
    kept = np.cumsum(~lonely) - 1
    if lonely.all():
        raise DataMarketError("every class has a single example; give a pool with several of each")
    return np.where(lonely[code], -1, kept[code]), int(lonely.sum())


def _deal(code: Codes, partition: str, n: int, per_provider: int, seed: int, trial: int) -> list[Codes]:
    if len(code) < n:
        raise DataMarketError(
            f"there are {len(code)} units for {n} providers; ask for at most {len(code)} providers"
        )
    usable = np.flatnonzero(code >= 0)
    rng = keyed_generator(seed, "partition", trial)
    shuffled = rng.permutation(int(code.max()) + 1)[code[usable]]  # which classes come first is chance
    dealt = PARTITIONS.create(partition).deal(shuffled, n, per_provider, rng)
    return [usable[rows] for rows in dealt]


def _identities(pool: Embeddings) -> list[str]:
    if pool.identity is None:
        raise DataMarketError(
            "partition 'identities' needs a column 'identity'; give a table of units, or another model"
        )
    return [str(name) for name in pool.identity.tolist()]


def _own_identities(unit: UnitVectors, pool: Embeddings) -> Merges:
    names, owner = np.unique(_identities(pool), return_inverse=True)
    if len(names) < 2:
        raise DataMarketError(
            "there is a single identity, so nothing can be mixed up; give at least two"
        )
    rows: Sequence[Codes] = [np.flatnonzero(owner == i) for i in range(len(names))]
    return merges(highest_between(unit, rows))
