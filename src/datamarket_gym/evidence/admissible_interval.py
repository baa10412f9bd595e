"""The admissible interval: may components be made by a cosine threshold on these embeddings, and by which?

theta_min is the larger of two floors: the pairwise floor (90th percentile of the cosine of honest units of one class)
and the chaining floor (smallest theta from which on the simulated mixed-component fraction of honest providers stays
below a cutoff). theta_max is the 10th percentile of the cosine of a unit with its variants under a stated attack. It is
the paper's check before deployment, empirical and for connected components; lineage has its own (`evidence.threshold`).

The mixed-component fraction (MCF) at theta is the share of components that hold several providers. Of one partition of
the pool only the highest similarity between each two providers matters: its spanning tree gives the components at every
threshold at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import DistinctRows, keyed_generator
from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile
from datamarket_gym.data.inputs import are_numbers, unlabelled
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Screen, Shown
from datamarket_gym.errors import DataMarketError, require_count, require_extra, require_in
from datamarket_gym.evidence.graph import Edges, star
from datamarket_gym.evidence.layers.content import COSINE, require_directions
from datamarket_gym.evidence.leak_check import cosines
from datamarket_gym.evidence.spanning_forest import Pairs, spanning
from datamarket_gym.execution.arrays import Codes, Features, Values, products
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.market.attacks.base import ATTACKS, Attack
from datamarket_gym.market.datasets import Embeddings
from datamarket_gym.market.market import MarketState
from datamarket_gym.market.tasks.partitions import PARTITIONS
from datamarket_gym.plots import plot_thresholds
from datamarket_gym.registry import written

_BLOCK = 4096
_IMAGES = (".png", ".svg", ".pdf")
STEP = 0.02
"""Grid on which floors are reported, as in the paper."""
USEFUL_MARGIN = 0.02
"""An interval narrower than this leaves no room for error in either bound."""

UnitVectors = NDArray[np.float32]


def forest_of(vectors: Features) -> Edges:
    """Find the maximum spanning forest of all cosines of a few thousand rows, the strongest edge first.

    Two rows are in one component of ``cosine@theta`` exactly if edges of the forest of at least theta join them.
    Identical rows match at 1.
    """
    rows = DistinctRows(vectors)
    require_directions(rows)
    unit, place = rows[:], rows.distinct
    left, right = np.triu_indices(len(unit), 1)
    chosen = spanning(left, right, (unit @ unit.T)[left, right])
    left, right = left[chosen], right[chosen]
    cosine = np.minimum(products(unit[left], unit[right]), 1.0)
    forest = Pairs(left, right, cosine, len(cosine)).forest()
    same = star(rows.first, COSINE)
    return Edges.concat([same, Edges.of(place[forest.left], place[forest.right], COSINE, forest.cosine)])


@dataclass(frozen=True, eq=False)
class Merges:
    """Similarities at which components merge, falling, and the MCF from each of them on down."""

    similarity: Values
    mixed: Values

    def at(self, theta: Values) -> Values:
        """Return the MCF at thresholds: pairs at or above theta match."""
        merged = np.searchsorted(-self.similarity, -np.asarray(theta), side="right")
        return np.concatenate([[0.0], self.mixed])[merged]


def merges(highest: NDArray[np.floating]) -> Merges:
    """Merge the components of a symmetric matrix of highest similarities between providers."""
    from scipy.cluster.hierarchy import linkage

    n = len(highest)
    tree = linkage(-highest[np.triu_indices(n, 1)].astype(np.float64), "single")
    size = np.r_[np.ones(n), tree[:, 3]]
    both = size[tree[:, :2].astype(np.int64)] > 1
    mixed = np.cumsum(1 - both.sum(axis=1))
    return Merges(-tree[:, 2], mixed / np.arange(n - 1, 0, -1))


def highest_between(unit: UnitVectors, rows: Sequence[Codes]) -> NDArray[np.float32]:
    """Find the highest similarity between each two providers' units, some rows of each at a time."""
    n = len(rows)
    out = np.full((n, n), -1.0, dtype=np.float32)
    for i, mine in enumerate(rows):
        for at in range(0, len(mine), _BLOCK):
            some = unit[mine[at : at + _BLOCK]]
            for j in range(i, n):
                for to in range(0, len(rows[j]), _BLOCK):
                    out[i, j] = max(out[i, j], (some @ unit[rows[j][to : to + _BLOCK]].T).max())
    return np.maximum(out, out.T)


PAIRS = 200_000


def same_class_similarities(unit: UnitVectors, code: Codes, seed: int) -> Values:
    """Compute cosines of random pairs of different units of one class, each pair equally likely."""
    order = np.argsort(code, kind="stable")
    size = np.bincount(code)
    start = np.cumsum(size) - size
    weight = size * (size - 1.0)
    rng = keyed_generator(seed, "same-class pairs")
    which = rng.choice(len(size), size=PAIRS, p=weight / weight.sum())
    first = rng.integers(size[which])
    second = (first + 1 + rng.integers(size[which] - 1)) % size[which]
    left, right = order[start[which] + first], order[start[which] + second]
    blocks = [slice(at, at + _BLOCK) for at in range(0, PAIRS, _BLOCK)]
    parts = [np.einsum("ij,ij->i", unit[left[b]], unit[right[b]]) for b in blocks]
    return np.concatenate(parts).astype(np.float64)


def variant_similarities(
    pool: Embeddings, attack: Attack, rows: Codes, seed: int, encoder: str = "",
    content: dict[str, NDArray[np.object_]] | None = None,
) -> Values:  # fmt: skip
    """Compute the cosines of units of a pool with the variants that an attack by their owner makes of them."""
    label = unlabelled(len(rows)) if pool.label is None else pool.label[rows]
    ids = np.array([f"unit_{row}" for row in rows])
    owner = np.full(len(rows), "provider_0")
    sample = Submission(
        id=ids, identity=owner, features=pool.vectors[rows], label=label, source=ids,
        batch=owner, time=np.zeros(len(rows)), metadata=content or {},
    )  # fmt: skip
    truth = GroundTruth(ids, owner, ids, {"provider_0": "provider_0"})
    state = MarketState(SubmittedProfile(sample, truth), sample.features, label, seed, encoder)
    attacked = attack.apply(0, state)
    is_variant = ~np.isin(attacked.submission.id, ids) & np.isin(attacked.truth.source, ids)
    variant = np.flatnonzero(is_variant)
    if not len(variant):
        raise DataMarketError(
            f"{written(attack)} makes no variants of units; name an attack that copies them, "
            "such as near_duplicate_2x_sybils"
        )
    place = {unit: row for row, unit in enumerate(ids.tolist())}
    source = [place[unit] for unit in attacked.truth.source[variant].tolist()]
    return cosines(sample.features[source], attacked.submission.features[variant])


@dataclass(frozen=True, eq=False)
class Admissibility(Shown):
    """Bounds on a cosine threshold, and how they were measured.

    ``alike`` and ``copies`` are the similarities of which the pairwise floor and the ceiling are quantiles (honest
    units of one class, and units with their variants): for plots, and no part of the record.
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
    alike: Values = field(default_factory=lambda: np.empty(0), repr=False)
    copies: Values = field(default_factory=lambda: np.empty(0), repr=False)

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
        """Name of the floor that binds."""
        return "chaining" if self.chaining_floor >= self.pairwise_floor else "pairwise"

    @property
    def usable(self) -> bool:
        """True if a threshold can be used: the interval has a useful margin."""
        return self.margin >= USEFUL_MARGIN

    @property
    def theta(self) -> float | None:
        """Threshold to use: a third of the way up the interval, as what is missed is paid to an attacker."""
        return round(self.interval[0] + self.margin / 3, 2) if self.usable else None

    @property
    def verdict(self) -> str:
        """Say whether to use cosine evidence among identities, and what to do instead."""
        low, high = self.interval
        if self.usable:
            return (
                f"use cosine evidence with theta in [{low:.2f}, {high:.2f}], for example {self.theta}: "
                f"honest providers stay apart above {low:.2f} ({self.binding} floor) and nine of ten "
                f"variants ({self.variants}) match below {high:.2f}"
            )
        why = "is empty" if self.margin <= 0 else f"is only {self.margin:.3f} wide"
        remedy = (
            "use source or linkage evidence, an encoder that separates units of one class better, "
            "or pay identities without similarity evidence"
        )
        if self.binding == "chaining":
            remedy = (
                "match units instead of identities (granularity 'unit'), where chains join no providers, "
                "or use source or linkage evidence"
            )
        return f"do not use cosine evidence: the interval [{low:.2f}, {high:.2f}] {why}; {remedy}"

    def screen(self) -> Screen:
        """Show the verdict, and what it rests on."""
        low, high = self.interval
        bounds = {
            "pairwise floor": self.pairwise_floor,
            "chaining floor": self.chaining_floor,
            "ceiling": self.near_duplicate_p10,
            "interval": f"{low:.3f} to {high:.3f}",
            "variants": self.variants,
            "partition": self.partition,
            "units": self.units,
        }
        return Screen.of_fields(f"Admissibility: {self.verdict}", bounds)

    def plot(self) -> Any:
        """Plot by threshold the shares of mixed honest clusters and of matched pairs and variants."""
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

    def save_plot(self, path: Path) -> None:
        """Write the plot to an image file; needs matplotlib."""
        if path.suffix not in _IMAGES:
            raise DataMarketError(f"cannot draw {path.suffix!r}; use {', '.join(_IMAGES)}")
        require_extra("matplotlib", "figures")
        self.plot().savefig(path, dpi=150)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, with the time and a hash of everything but the time."""
        values = asdict(self)
        del values["alike"], values["copies"]
        values["curve_theta"] = self.curve_theta.round(6).tolist()
        values["curve"] = self.curve.round(6).tolist()
        values["chaining_floors"] = {f"{cut:g}": floor for cut, floor in self.chaining_floors.items()}
        derived = ("interval", "margin", "binding", "usable", "theta", "verdict")
        values |= {name: getattr(self, name) for name in derived}
        text = json.dumps(values, sort_keys=True)
        return {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            **values,
        }


def chaining_floors(
    simulated: Sequence[Merges], cutoffs: Sequence[float]
) -> tuple[Values, Values, dict[float, float]]:
    """Compute the mean MCF on the grid of thresholds, and per cutoff where it falls below for good."""
    theta = np.round(np.arange(0.0, 1.0 + STEP / 2, STEP), 10)
    mean = np.mean([market.at(theta) for market in simulated], axis=0)
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
    """Measure the admissible interval of cosine thresholds for a pool of embeddings.

    Parameters
    ----------
    embeddings : Embeddings or array-like of shape (n, d)
        The pool.
    label : array-like of shape (n,), optional
        Its labels, where the embeddings bring none.
    partition : str
        How honest providers come by their units: a registered partition, or ``identities``, the embeddings' own.
    n_providers, per_provider, trials : int
        Providers, units of each, and simulated markets.
    variants : str
        The attack whose copies must match.
    sample : int
        Units of which variants are made, at most.
    cutoff : float
        The mixed-component fraction that honest providers must stay below.
    seed : int
        Seed of samples, partitions and variants.
    encoder, content
        For attacks that change content: the encoder's name, and the raw content of the pool.
    progress : Progress
        Counts the simulated markets.

    Returns
    -------
    Admissibility
        The interval, the floors and the ceiling.
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
        simulated, trials = [merges(highest_between(unit, _identity_rows(pool)))], 1
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
        n_providers=len(_identity_rows(pool)) if own else n_providers,
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
    """Return the rows of each provider in one of the simulated markets of `predict_theta`."""
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
    """Return class codes (one class without labels, -1 where a unit is its only one), and how many are of one unit."""
    label = pool.label
    if label is None or are_numbers(label):
        label = unlabelled(len(pool.vectors))
    code = np.unique(label, return_inverse=True)[1].astype(np.int64)
    lonely = np.bincount(code) < 2
    number = np.cumsum(~lonely) - 1
    if lonely.all():
        raise DataMarketError("every class has a single example; give a pool with several of each")
    return np.where(lonely[code], -1, number[code]), int(lonely.sum())


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


def _identity_rows(pool: Embeddings) -> list[Codes]:
    if pool.identity is None:
        raise DataMarketError(
            "partition 'identities' needs a column 'identity'; give a table of units, or another model"
        )
    owner = np.unique(pool.identity.astype(str), return_inverse=True)[1]
    if not owner.any():
        raise DataMarketError(
            "there is a single identity, so nothing can be mixed up; give at least two"
        )
    return [np.flatnonzero(owner == i) for i in range(int(owner.max()) + 1)]
