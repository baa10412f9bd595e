"""The leaderboard: every bundle of a folder, ranked by its rows, or refused with the reason.

Ranked beside one another are submissions of one track that played the same markets: the public ones, those of one
private key, or the quick part, each in a table of its own.

Only playing markets of a bundle again tells made-up rows from computed ones. Nothing of a bundle is ever loaded or run:
a bundle names a mechanism, and what that name means is what this process has registered, parts of this package and
files that its user has loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from secrets import SystemRandom
from typing import Any

import numpy as np

from datamarket_gym.benchmark.baselines.environments import installed
from datamarket_gym.benchmark.baselines.program import Baseline
from datamarket_gym.benchmark.bundles import (
    AttackRow,
    BenchmarkEntry,
    Bundle,
    BundleError,
    MechanismRow,
    read_bundle,
)
from datamarket_gym.benchmark.runner import BenchmarkMarket, CellRequest, cell
from datamarket_gym.benchmark.scoring import (
    AttackScores,
    MechanismScores,
    attack_scores,
    mechanism_scores,
    require_complete,
)
from datamarket_gym.benchmark.suite import Draws, Suite, public, suite
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.arrays import Values
from datamarket_gym.execution.parallel import Processes
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.execution.runs import libraries
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.mechanism.pipeline import MECHANISMS, Mechanism
from datamarket_gym.registry import is_ours

_COMPARED = ("honest_pay", "pay", "pot", "paid", "providers", "worth", "fairness_loss")
TOLERANCE = 1e-6  # of the larger number: libraries of other versions round otherwise
_MOST_SAMPLES = 10_000
SECONDS = 900.0
"""What playing one market again may take."""
_BYTES = 12 * 2**30


def why_not(entry: BenchmarkEntry) -> str:
    """Return why a submission cannot be played again here; "" where it can."""
    if entry.command:
        return "a program: run it with datamarket benchmark submit --command"
    try:
        if entry.track == "attack":
            ATTACKS.create(entry.spec.replace("{", "").replace("}", ""))
            return ""
        payer = MECHANISMS.create(entry.spec)
    except DataMarketError:
        return "its name or a parameter is unknown here; give its code with --load"
    if isinstance(payer, Mechanism):
        return "" if payer.samples <= _MOST_SAMPLES else f"more than {_MOST_SAMPLES:,} samples"
    if isinstance(
        payer, Baseline
    ):  # it starts a script of ours, with a valuator's name from a list of ours
        missing = installed(payer.package) is None
        return f"not installed here; datamarket baselines install {payer.package}" if missing else ""
    # A registered object of ours may start programs, with words from a stranger's bundle.
    return "it is no mechanism of this pipeline" if is_ours(type(payer).__module__) else ""


def recompute(bundle: Bundle, part: Suite, draws: Draws, markets: int) -> int:
    """Play so many markets, drawn at random, again; return how many, or raise where a row differs.

    A stranger's spec may ask for more time or memory than there is, so that each is played in a process that is
    bounded in both.
    """
    chosen = sorted(SystemRandom().sample(part.cells, min(markets, len(part.cells))))
    for task, draw in chosen:
        try:
            request = CellRequest(part, draws, bundle.entry)
            [(_, again)] = Processes(2, timeout=SECONDS).each(_bounded, request, [(task, draw)])
        except Exception as error:
            raise BundleError(
                f"{task}, draw {draw}, cannot be played again: {type(error).__name__}: {str(error)[:120]}"
            ) from error
        _compare(bundle, again["rows"])
    return len(chosen)


def _bounded(request: CellRequest, task: str, draw: int) -> dict[str, Any]:
    """Play a market in a worker with bounded memory."""
    try:
        import resource
    except ImportError:  # not on Windows
        return cell(request, task, draw)
    allowed = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [_BYTES, *(each for each in allowed if each != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_AS, (min(bounds), allowed[1]))
    try:
        return cell(request, task, draw)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, allowed)


def _compare(bundle: Bundle, again: Sequence[dict[str, Any]]) -> None:
    reported = {(row.task, row.draw, row.against): row for row in bundle.rows}
    for row in again:
        against = row.get("attack") or row["opponent"]
        theirs = reported[row["task"], row["draw"], against]
        for name in _COMPARED:
            here, there = row[name], getattr(theirs, name)
            if abs(here - there) > TOLERANCE * max(abs(here), abs(there), 1e-9):
                versions = bundle.manifest.versions
                other = [
                    f"{library} {versions.get(library, 'unknown')} there, {version} here"
                    for library, version in libraries().items()
                    if versions.get(library) != version
                ]
                raise BundleError(
                    f"recomputed, {row['task']}, draw {row['draw']}, {against}: {name} is {here:.6g} and not "
                    f"{there:.6g}" + (f" ({'; '.join(other)})" if other else "")
                )


_MOST = 1000
"""Bundles that are read."""
_ALIKE = 10 * TOLERANCE
"""Of the larger number: by how much rows of a copy may differ."""


@dataclass(frozen=True)
class RankGroup:
    """What was played: which track, which part of the suite, and whose markets."""

    track: str
    quick: bool
    commitment: str

    @classmethod
    def of(cls, bundle: Bundle) -> RankGroup:
        return cls(bundle.entry.track, bundle.manifest.quick, bundle.manifest.commitment)

    @property
    def title(self) -> str:
        track = "Mechanisms" if self.track == "mechanism" else "Attacks"
        key = f"private markets of key {self.commitment[:12]}" if self.commitment else "public markets"
        return f"{track}, {key}{', quick part only' if self.quick else ''}"


@dataclass(frozen=True)
class RankedBundle:
    """A bundle with its scores, and how much of it was played again."""

    bundle: Bundle
    scores: MechanismScores | AttackScores
    checked: str = "as reported"


@dataclass(frozen=True)
class Refused:
    folder: str
    why: str


@dataclass(frozen=True)
class Board:
    suite: Suite
    groups: dict[RankGroup, list[RankedBundle]]
    refused: list[Refused] = field(default_factory=list)


def leaderboard(
    folder: Path, *, markets: int = 0, draws: Sequence[Draws] = (), progress: Progress = SILENT
) -> Board:
    """Read, check and rank the bundles in a folder; ``markets`` of each are played again where that can be.

    ``draws`` are the private keys that are known here.
    """
    if not folder.is_dir():
        raise DataMarketError(f"there is no folder {str(folder)!r}; name one that holds bundles")
    # A folder of bundles may hold pages and notes beside them.
    places = sorted(path for path in folder.iterdir() if path.is_dir() or path.is_symlink())
    if not 0 < len(places) <= _MOST:
        raise DataMarketError(
            f"{str(folder)!r} holds {len(places):,} folders; name one with 1 to {_MOST:,} bundles, which "
            "datamarket benchmark submit writes"
        )
    keys = {each.commitment: each for each in (public(), *draws)}
    groups: dict[RankGroup, list[RankedBundle]] = {}
    amounts: dict[RankGroup, dict[str, Values]] = {}
    refused: list[Refused] = []
    progress.stage("reading bundles", "bundles")
    for at, place in enumerate(places):
        progress.count(at, len(places))
        try:
            bundle = read_bundle(place)
            ranked = rank_bundle(bundle, keys, markets)
            others, own = amounts.setdefault(RankGroup.of(bundle), {}), _amounts(bundle)
            if first := next((name for name, other in others.items() if _same(own, other)), ""):
                raise BundleError(f"its rows are those of {first}")
            others[place.name] = own
        except DataMarketError as error:
            refused.append(Refused(printable(place.name), printable(str(error))))
            continue
        groups.setdefault(RankGroup.of(bundle), []).append(ranked)
    progress.count(len(places), len(places))
    order = sorted(groups, key=lambda g: (g.quick, g.commitment, g.track != "mechanism"))
    return Board(suite(), {group: sorted(groups[group], key=_rank) for group in order}, refused)


def _rank(ranked: RankedBundle) -> tuple[float, str]:
    scores = ranked.scores
    by = scores.loss.value if isinstance(scores, MechanismScores) else -scores.gain.value
    return by, ranked.bundle.entry.name


def _amounts(bundle: Bundle) -> Values:
    """Return what a complete bundle's rows have in a fixed order, but for seconds, which no two runs share."""
    rows = sorted(
        (row.task, row.draw, row.against, row.pay, row.paid, row.fairness_loss) for row in bundle.rows
    )
    return np.array([row[3:] for row in rows])


def _same(one: Values, other: Values) -> bool:
    """Return whether amounts are equal but for differences that playing again would let pass, and some more."""
    return bool(np.all(np.abs(one - other) <= _ALIKE * np.maximum(np.abs(one), np.abs(other)) + 1e-9))


def printable(text: str) -> str:
    """Replace what a terminal would obey in a stranger's text."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def board_of(bundle: Bundle) -> Board:
    return Board(suite(), {RankGroup.of(bundle): [rank_bundle(bundle)]})


def rank_bundle(
    bundle: Bundle, keys: Mapping[str, Draws] | None = None, markets: int = 0
) -> RankedBundle:
    """Score a complete bundle; of a stranger's the ``keys`` that are known here decide what is believed.

    Its markets must be among those of the keys, and ``markets`` of them are played again.
    """
    part = require_complete(bundle)
    scores: MechanismScores | AttackScores
    if bundle.entry.track == "mechanism":
        scores = mechanism_scores([row for row in bundle.rows if isinstance(row, MechanismRow)], part)
    else:
        scores = attack_scores([row for row in bundle.rows if isinstance(row, AttackRow)], part)
    if keys is None:
        return RankedBundle(bundle, scores)
    draws = keys.get(bundle.manifest.commitment)
    if draws is None:
        raise BundleError("its markets are of a private key that is not given here (--private-key)")
    for row in bundle.rows:
        worth, providers = _worth_and_size(draws, row.task, row.draw)
        if row.providers != providers or abs(row.worth - worth) > TOLERANCE * worth:
            raise BundleError(f"{row.task}, draw {row.draw}: its rows are of another market")
    if not markets:
        return RankedBundle(bundle, scores)
    if why := why_not(bundle.entry):
        return RankedBundle(bundle, scores, f"as reported ({why})")
    again = recompute(bundle, part, draws, markets)
    return RankedBundle(bundle, scores, f"{again} of {len(part.cells)} markets played again")


@lru_cache(maxsize=1000)
def _worth_and_size(draws: Draws, task: str, draw: int) -> tuple[float, int]:
    market = BenchmarkMarket.of(draws, suite().task(task), draw)
    return market.worth, len(market.state.providers)
