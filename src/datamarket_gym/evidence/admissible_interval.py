"""What merges at every threshold at once: the maximum spanning forest of all similarities between rows.

Two rows are in one component of ``cosine@theta`` exactly if ties of the forest of at least theta join them
(`evidence.forest`), so whoever has the forest can move theta without asking again.

Not all pairs are worked out. From the highest level down, pairs are asked for between components alone: a pair within
a component is weaker than the ties that made it, closes a cycle, and is in no forest. Levels are quantiles of the
similarity of rows with their nearest other row; where few rows are left alone, little is left to ask.

The bounds on a cosine threshold: chaining, how alike honest same-class units are, and copies are.

Chaining: at which threshold do honest providers grow together into one component? For one partition
of the pool only the highest similarity between each two providers matters: its maximum spanning
forest gives the components at every threshold at once, so no graph is built per theta. The mixed-
component fraction (MCF) at theta is the share of components that hold several providers.

Admissibility: may components be made by a cosine threshold on these embeddings, and by which?

theta_min is the larger of two floors: the pairwise floor (90th percentile of the cosine of honest
units of one class) and the chaining floor (smallest theta from which on the simulated
mixed-component fraction of honest providers stays below a cutoff). theta_max is the 10th percentile
of the cosine of a unit with its variants under a stated attack. An empirically calibrated check made
before deployment, not a theorem; it concerns copies and variants, and says nothing about pure splits.
It is the paper's check, for connected components: lineage does not chain, and has a rule of its own (`choice`).

The picture of an admissibility check: the chaining curve, the two floors and the ceiling.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
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
from datamarket_gym.evidence.graph import Edges, components, star
from datamarket_gym.evidence.layers.content import COSINE, require_directions
from datamarket_gym.evidence.leakage import cosines
from datamarket_gym.evidence.spanning_forest import Pairs, similar_pairs
from datamarket_gym.execution.arrays import Codes, Features, Values
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.market.attacks.base import ATTACKS, Attack
from datamarket_gym.market.datasets import Embeddings
from datamarket_gym.market.market import MarketState
from datamarket_gym.market.tasks.partitions import PARTITIONS
from datamarket_gym.plots import plot_thresholds
from datamarket_gym.registry import written

LOWEST = float(np.nextafter(-1.0, 0.0))
"""The lowest threshold that cosine evidence takes."""
_QUANTILES = (0.9, 0.7, 0.5, 0.3, 0.1, 0.01, 0.0)


def forest_of(vectors: Features, nearest: Values, progress: Progress = SILENT) -> Edges:
    """The forest of all rows by cosine evidence, the strongest tie first; identical rows are tied at 1.

    ``nearest`` are similarities of the rows with their nearest other row, or of some of them: they decide how
    long it takes and no tie.
    """
    rows = DistinctRows(vectors)
    require_directions(rows)
    found, node = Pairs.joined([]), np.arange(len(rows))
    levels = [*_levels(nearest), LOWEST]
    for done, theta in enumerate(levels):
        progress.count(done, len(levels))
        more = similar_pairs(rows, theta, node)
        found = Pairs.joined([found, more]).forest()
        node = _joined(found, len(rows))
        if not node.any():
            break
    place = rows.distinct
    same = star(rows.first, COSINE)
    return Edges.of(
        np.concatenate([same.left, place[found.left]]),
        np.concatenate([same.right, place[found.right]]),
        COSINE,
        np.concatenate([same.score, found.cosine]),
    )


def _levels(nearest: Values) -> list[float]:
    falling = np.unique(np.quantile(nearest, _QUANTILES))[::-1].tolist() if len(nearest) else []
    return [theta for theta in falling if LOWEST < theta <= 1.0]


def _joined(found: Pairs, n: int) -> Codes:
    return components(np.arange(n), Edges.of(found.left, found.right, COSINE))


_BLOCK = 4096

UnitVectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Merges:
    """Similarities at which components merge, falling, and the MCF from each of them on down."""

    similarity: Values
    mixed: Values

    def at(self, theta: Values) -> Values:
        """The MCF at thresholds: pairs at or above theta are tied."""
        tied = np.searchsorted(-self.similarity, -np.asarray(theta), side="right")
        return np.concatenate([[0.0], self.mixed])[tied]


def merges(highest: NDArray[np.floating]) -> Merges:
    """The merges of a symmetric matrix of highest similarities between providers (Kruskal)."""
    n = len(highest)
    left, right = np.triu_indices(n, 1)
    order = np.argsort(-highest[left, right], kind="stable")
    parent, size = list(range(n)), [1] * n
    components, mixed = n, 0
    similarity, fraction = [], []

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for at in order.tolist():
        a, b = root(int(left[at])), root(int(right[at]))
        if a == b:
            continue
        mixed += 1 - (size[a] > 1) - (size[b] > 1)
        parent[b] = a
        size[a] += size[b]
        components -= 1
        similarity.append(float(highest[left[at], right[at]]))
        fraction.append(mixed / components)
        if components == 1:
            break
    return Merges(np.array(similarity), np.array(fraction))


def highest_between(unit: UnitVectors, rows: Sequence[Codes]) -> NDArray[np.float32]:
    """The highest similarity between each two providers' units, one block pair at a time."""
    n = len(rows)
    order = np.concatenate(rows)
    owner = np.repeat(np.arange(n), [len(part) for part in rows])
    out = np.full((n, n), -1.0, dtype=np.float32)
    for a in range(0, len(order), _BLOCK):
        first, owners_a = unit[order[a : a + _BLOCK]], owner[a : a + _BLOCK]
        starts_a = _starts(owners_a)
        for b in range(a, len(order), _BLOCK):
            owners_b = owner[b : b + _BLOCK]
            starts_b = _starts(owners_b)
            similar = first @ unit[order[b : b + _BLOCK]].T
            best = np.maximum.reduceat(np.maximum.reduceat(similar, starts_a, axis=0), starts_b, axis=1)
            where = np.ix_(owners_a[starts_a], owners_b[starts_b])
            out[where] = np.maximum(out[where], best)
    return np.maximum(out, out.T)


def _starts(owner: Codes) -> Codes:
    return np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])


PAIRS = 200_000


def same_class_similarities(unit: UnitVectors, code: Codes, seed: int) -> Values:
    """Cosines of random pairs of different units of one class, each pair equally likely."""
    order = np.argsort(code, kind="stable")
    size = np.bincount(code)
    start = np.cumsum(size) - size
    weight = size * (size - 1.0)
    rng = keyed_generator(seed, "same-class pairs")
    which = rng.choice(len(size), size=PAIRS, p=weight / weight.sum())
    first = rng.integers(size[which])
    second = (first + 1 + rng.integers(size[which] - 1)) % size[which]
    left, right = order[start[which] + first], order[start[which] + second]
    return np.concatenate(
        [
            np.einsum("ij,ij->i", unit[left[a : a + 10_000]], unit[right[a : a + 10_000]])
            for a in range(0, PAIRS, 10_000)
        ]
    ).astype(np.float64)


def variant_similarities(
    pool: Embeddings, attack: Attack, rows: Codes, seed: int, encoder: str = "",
    content: dict[str, NDArray[np.object_]] | None = None,
) -> Values:  # fmt: skip
    """Cosines of units with the variants that an attack makes of them.

    The attack is played by a provider who owns the given rows of the pool; every unit it adds is
    compared with the unit it derives from.
    """
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
    made = np.flatnonzero(~np.isin(attacked.submission.id, ids))
    made = made[np.isin(attacked.truth.source[made], ids)]
    if not len(made):
        raise DataMarketError(
            f"{written(attack)} makes no variants of units; name an attack that copies them, "
            "such as near_duplicate_2x_sybils"
        )
    position = {unit: row for row, unit in enumerate(ids.tolist())}
    source = [position[unit] for unit in attacked.truth.source[made].tolist()]
    return cosines(sample.features[source], attacked.submission.features[made])


FORMATS = (".png", ".svg", ".pdf")
"""Image files that a plot is written to."""

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

    def save_plot(self, path: Path) -> None:
        """Write the plot to an image file; needs matplotlib."""
        if path.suffix not in FORMATS:
            raise DataMarketError(f"cannot draw {path.suffix!r}; use {', '.join(FORMATS)}")
        require_extra("matplotlib", "figures")
        self.plot().savefig(path, dpi=150)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, with the time and a hash of everything but the time."""
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
