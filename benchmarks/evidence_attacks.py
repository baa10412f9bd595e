"""Attacks on the evidence, as files of submissions; for `evidence_table.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from datamarket_gym.core.content import unit_keys
from datamarket_gym.world.encoders import stored
from datamarket_gym.world.tasks.domains import AgNews
from evidence_paydays import FIRST, LAST, OPENS, Case, Market, Office, Units, made

MARGIN = 0.005  # bridges stay this far above the threshold


def noised(rows: np.ndarray, cosine: float, rng: np.random.Generator) -> np.ndarray:
    """Each row turned by the angle of that cosine into a random direction."""
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    away = rng.normal(size=unit.shape)
    away -= np.einsum("ij,ij->i", away, unit)[:, None] * unit
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    return cosine * unit + np.sqrt(1 - cosine**2) * away


# Key grinding.


def ground(market: Market, thief: str, tries: int = 20) -> Units:
    """Copies of everybody's units, each noised until its content key is smaller than the original's."""
    rows, rng = market.others(thief), market.rng()
    label = market.honest.label[rows]
    wanted = unit_keys(market.honest.features[rows], label)
    best = np.array(market.honest.features[rows])
    smaller = np.zeros(len(rows), dtype=bool)
    for _ in range(tries):
        tried = noised(market.honest.features[rows], 0.9999, rng)
        found = ~smaller & (unit_keys(tried, label) < wanted)
        best[found], smaller = tried[found], smaller | found
    return made(best[smaller], label[smaller], thief, market.closing)


def grinding(office: Office, when: str) -> Case:
    """All times equal, no times, times as they were, or those of the originals for the copies."""
    market = office.market
    honest, more = market.honest, ground(market, LAST)
    if when == "equal":
        both, alone = (replace(u, time=np.full(len(u), OPENS)) for u in (honest + more, honest))
        return Case(both, alone)
    if when == "of the originals":
        nearest = np.argmax(more.features @ honest.features.T, axis=1)
        more = replace(more, time=honest.time[nearest])
    return Case(honest + more, honest, timed=when != "none")


# Bridges.


def steps_between(a: np.ndarray, b: np.ndarray, theta: float) -> np.ndarray:
    """Points on the arc from a to b, neighbours (a and b included) as alike as the threshold asks."""
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    angle = float(np.arccos(np.clip(a @ b, -1, 1)))
    count = max(0, int(np.ceil(angle / np.arccos(min(theta + MARGIN, 1 - 1e-9)))) - 1)
    at = np.arange(1, count + 1)[:, None] / (count + 1) * angle
    return (np.sin(angle - at) * a + np.sin(at) * b) / np.sin(angle)


def spanning(features: np.ndarray) -> Iterator[tuple[int, int]]:
    """The edges of a tree that joins all rows by their smallest angles."""
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    near = unit @ unit.T
    best, nearest = near[0].copy(), np.zeros(len(unit), dtype=int)
    left = np.ones(len(unit), dtype=bool)
    left[0] = False
    while left.any():
        row = int(np.argmax(np.where(left, best, -np.inf)))
        left[row] = False
        yield int(nearest[row]), row
        closer = near[row] > best
        best[closer], nearest[closer] = near[row][closer], row


def earlier_pairs(market: Market, victim: str) -> list[tuple[int, int]]:
    """Each of the victim's units with the most similar earlier one of somebody else."""
    unit = market.honest.features / np.linalg.norm(market.honest.features, axis=1, keepdims=True)
    theirs = market.honest.identity != victim
    pairs = []
    for row in market.of(victim):
        may = theirs & (market.honest.time < market.honest.time[row])
        if may.any():
            pairs.append((int(np.argmax(np.where(may, unit @ unit[row], -np.inf))), int(row)))
    return pairs


def bridges(office: Office, pairs: list[tuple[int, int]], thief: str) -> Units:
    """The units between the rows of each pair, labelled as the second of it."""
    honest = office.market.honest
    arcs = [steps_between(honest.features[a], honest.features[b], office.theta) for a, b in pairs]
    label = np.repeat(honest.label[[b for _, b in pairs]], [len(arc) for arc in arcs])
    return made(np.concatenate(arcs), label, thief, office.market.closing)


def bridging(office: Office, what: str) -> Case:
    """The victim's units, everybody's to the thief's earliest one, or all."""
    market = office.market
    if what == "victim":
        more, thief = bridges(office, earlier_pairs(market, office.victims[LAST]), LAST), LAST
    else:
        thief = FIRST if what == "to the earliest" else LAST
        rows = np.r_[0, market.others(FIRST)] if thief == FIRST else np.arange(len(market.honest))
        edges = [(int(rows[a]), int(rows[b])) for a, b in spanning(market.honest.features[rows])]
        more = bridges(office, edges, thief)
    return Case(market.honest + more, market.honest, thief)


@dataclass(eq=False)
class Blend:
    """Texts on the way from one article to another, word by word in a random order, with their embeddings."""

    first: list[str]
    second: list[str]
    turn: np.ndarray  # the order in which the places take the second text's word
    vectors: dict[
        int, np.ndarray
    ]  # by the number of steps taken, two a place: both words, then the second

    @classmethod
    def between(cls, units: Units, a: int, b: int, rng: np.random.Generator) -> Blend:
        """From one unit to another."""
        first, second = units.text[a].split(), units.text[b].split()
        places = max(len(first), len(second))
        ends = {0: units.features[a], 2 * places: units.features[b]}
        return cls(first, second, rng.permutation(places), ends)

    def text(self, steps: int) -> str:
        """The text after so many steps."""
        words: list[str] = []
        for place, turn in enumerate(self.turn):
            taken = steps - 2 * turn
            words += self.first[place : place + 1] if taken < 2 else []
            words += self.second[place : place + 1] if taken > 0 else []
        return " ".join(words)

    def gaps(self, theta: float) -> list[int]:
        """The middles of steps that are too wide."""
        known = sorted(self.vectors)
        wide = [
            (a, b)
            for a, b in pairwise(known)
            if b - a > 1 and cosine(self.vectors[a], self.vectors[b]) < theta + MARGIN
        ]
        return [(a + b) // 2 for a, b in wide]

    def bridge(self, theta: float) -> np.ndarray:
        """The embeddings of the fewest texts that lead from one article to the other; none if none do."""
        points = np.array([self.vectors[k] for k in sorted(self.vectors)])
        return points[chain(points, theta)]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """The cosine of two vectors."""
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def chain(vectors: np.ndarray, theta: float) -> list[int]:
    """The shortest way from the first row to the last by steps as alike as theta; empty if there is none."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    tied = unit @ unit.T >= theta + MARGIN / 5
    ways, reached = {0: [0]}, [0]
    for row in reached:  # grows as it goes: breadth first
        for other in np.flatnonzero(tied[row]).tolist():
            if other not in ways:
                ways[other] = [*ways[row], other]
                reached.append(other)
    return ways.get(len(unit) - 1, [])[1:-1]


def blending(office: Office, tries: int = 3) -> Case:
    """Articles blended word by word between the victim's and others'; in another order where one leads nowhere."""
    honest, rng = office.market.honest, office.market.rng()
    left, arcs, label = earlier_pairs(office.market, office.victims[LAST]), [], []
    for _ in range(tries):
        ways = [Blend.between(honest, a, b, rng) for a, b in left]
        refine(ways, office.theta)
        found = {pair: way.bridge(office.theta) for pair, way in zip(left, ways, strict=True)}
        left = [pair for pair in left if not len(found[pair])]
        arcs += list(found.values())
        label += [honest.label[b] for (_, b), arc in found.items() for _ in arc]
    more = made(np.concatenate(arcs), np.array(label), LAST, office.market.closing)
    return Case(honest + more, honest)


def refine(ways: list[Blend], theta: float) -> None:
    """Embed texts in the middle of every step that is too wide, until there are none in between."""
    while wide := [(way, steps) for way in ways for steps in way.gaps(theta)]:
        found = stored("minilm").encode([way.text(steps) for way, steps in wide])
        for (way, steps), vector in zip(wide, found, strict=True):
            way.vectors[steps] = vector


# Clocks and sources.


def backdating(office: Office, before: str) -> Case:
    """Exact copies of the victim's units, dated before the market or a second before each original."""
    market = office.market
    stolen = market.honest.take(market.of(office.victims[LAST]))
    day = OPENS - np.timedelta64(86400, "s")
    when = day if before == "the market" else stolen.time - np.timedelta64(1, "s")
    return Case(market.honest + made(stolen.features, stolen.label, LAST, when), market.honest)


def own_source(office: Office, named: str) -> Case:
    """Late copies of the victim's units that name a source of the thief's; nobody else names any."""
    market, thief = office.market, LAST if named == "themselves" else FIRST
    stolen = market.honest.take(market.of(office.victims[thief]))
    more = made(stolen.features, stolen.label, thief, market.closing)
    sources = more.id if named == "themselves" else np.full(len(more), market.honest.id[0], dtype=object)
    source = np.concatenate([np.full(len(market.honest), "", dtype=object), sources])
    return Case(market.honest + more, market.honest, thief, source=source)


# Validation rows.


def switching_off(office: Office, rows: int, cosine: float = 1.0) -> Case:
    """Noisy copies that the honest threshold catches, and some known validation rows."""
    market, rng = office.market, office.market.rng()
    copied = rng.permutation(market.others(LAST))[:100]
    copies = noised(market.honest.features[copied], min(0.99, office.theta + 0.02), rng)
    features, label = known_rows(market, rows, cosine, rng)
    more = made(
        np.concatenate([copies, features]),
        np.concatenate([market.honest.label[copied], label]),
        LAST,
        market.closing,
    )
    return Case(market.honest + more, market.honest)


def leaking(office: Office, cosine: float) -> Case:
    """Fifty leaked validation rows as units, as they are or disguised."""
    market = office.market
    more = made(*known_rows(market, 50, cosine, market.rng()), LAST, market.closing)
    return Case(market.honest + more, market.honest)


def known_rows(
    market: Market, count: int, cosine: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Some validation rows, as they are (cosine 1) or turned by that much, with their labels."""
    known = rng.permutation(len(market.held_label))[:count]
    rows = market.held_features[known]
    return rows if cosine == 1 else noised(rows, cosine, rng), market.held_label[known]


# Attacks on the scores rather than the evidence, to tell the two apart.


def means(
    features: np.ndarray, label: np.ndarray, count: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means of like units, of length one, with their commonest labels."""
    from sklearn.cluster import KMeans

    found = KMeans(count, n_init=1, random_state=seed).fit(features)
    groups = [label[found.labels_ == c] for c in range(count)]
    centres = found.cluster_centers_ / np.linalg.norm(found.cluster_centers_, axis=1, keepdims=True)
    return centres, np.array([np.bincount(group).argmax() for group in groups])


def squatting(office: Office) -> Case:
    """A hundred means of public articles, where others' units will be near, submitted first instead of last."""
    market, pool = office.market, AgNews().pool()
    assert pool.label is not None
    rows = market.rng().permutation(len(pool.vectors))[:4000]
    made_up = means(pool.vectors[rows], pool.label[rows], 100, market.seed)
    early, late = (made(*made_up, FIRST, when) for when in (OPENS, market.closing))
    return Case(market.honest + early, market.honest + late, FIRST)


def distilling(office: Office) -> Case:
    """Fifty means of everybody else's units, submitted last."""
    market = office.market
    stolen = market.honest.take(market.others(LAST))
    more = made(*means(stolen.features, stolen.label, 50, market.seed), LAST, market.closing)
    return Case(market.honest + more, market.honest)


def shortening(office: Office) -> Case:
    """One's own units at half their length: no cosine changes, distances do."""
    honest = office.market.honest
    length = np.where(honest.identity == LAST, 0.5, 1.0)
    return Case(replace(honest, features=length[:, None] * honest.features), honest)


# Linkage.

LINKED = {"linkage.keys": ["iban"]}


def mislabelled(market: Market, names: list[str], iban: str) -> Units:
    """Sixty articles of nobody's with wrong labels, dealt out to some names that state one account."""
    bad = market.spare.take(np.arange(60))
    wrong = (bad.label + 1) % 4
    dealt = [names[i % len(names)] for i in range(len(bad))]
    return made(bad.features, wrong, dealt, market.closing, iban=iban)


def borrowed(office: Office, against: str) -> Case:
    """Bad units under further names that state the victim's account, against the same with their own, or without."""
    market = office.market
    names = [f"further-{i + 1}" for i in range(3)]
    bad, own = (mislabelled(market, names, iban) for iban in (f"IBAN of {office.victims[LAST]}", ""))
    before = market.honest + own if against == "own accounts" else market.honest
    return Case(market.honest + bad, before, settings=LINKED)


def shared(office: Office) -> Case:
    """One's own bad units under 21 further names of one's own account, against under one such name."""
    market = office.market
    many, one = (
        market.honest + mislabelled(market, [f"further-{i + 1}" for i in range(n)], f"IBAN of {LAST}")
        for n in (21, 1)
    )
    return Case(many, one, settings=LINKED)


CASES: dict[str, Callable[[Office], Case]] = {
    "1a key grinding, equal times": lambda o: grinding(o, "equal"),
    "1b key grinding, no times": lambda o: grinding(o, "none"),
    "1c* key grinding, copies come later": lambda o: grinding(o, "as they were"),
    "1d* key grinding, copies state the originals' times": lambda o: grinding(o, "of the originals"),
    "2a bridges to the victim's units": lambda o: bridging(o, "victim"),
    "2b blended texts to the victim's units": blending,
    "2c bridges of all others to one's earliest unit": lambda o: bridging(o, "to the earliest"),
    "2d bridges of everything": lambda o: bridging(o, "everything"),
    "3a copies dated before the market": lambda o: backdating(o, "the market"),
    "3b* copies dated a second before each original": lambda o: backdating(o, "each"),
    "4a late copies that name themselves as source": lambda o: own_source(o, "themselves"),
    "4b* late copies that name one's earliest unit as source": lambda o: own_source(o, "the earliest"),
    "5a 100 noisy copies, 3 validation rows": lambda o: switching_off(o, 3),
    "5b* 100 noisy copies alone": lambda o: switching_off(o, 0),
    "5c* 100 noisy copies, 10 validation rows at cosine .9": lambda o: switching_off(o, 10, 0.9),
    "6a 50 leaked rows": lambda o: leaking(o, 1.0),
    "6b* 50 leaked rows at cosine .99": lambda o: leaking(o, 0.99),
    "6c* 50 leaked rows at cosine .9": lambda o: leaking(o, 0.9),
    "7a bad units that state the victim's account, against their own": lambda o: borrowed(
        o, "own accounts"
    ),
    "7b 22 names of one account, against 2": shared,
    "7c* bad units that state the victim's account, against none": lambda o: borrowed(o, "none"),
    "8* means of public articles, first instead of last": squatting,
    "9a* means of others' units": distilling,
    "9b* own units at half their length": shortening,
}
"""The attacks by name; a star marks what the list of attacks that must fail does not hold."""
