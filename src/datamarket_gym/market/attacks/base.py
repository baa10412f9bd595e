"""What an attack is: it replaces one provider's honest units by others, and carries the truth along.

Beside it are what an attacker knows of the others' units (none, a share of each provider's, or all) and what attackers
make of labels: which units they group, and which labels are wrong.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile
from datamarket_gym.data.inputs import are_numbers, is_labelled, unlabelled
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError, describe, require_in, require_instance
from datamarket_gym.execution.arrays import Codes, Features, Values
from datamarket_gym.market.market import ACCOUNT, MarketState
from datamarket_gym.registry import Component, Kind, OneOf, Range, display_name, name_of

CONTENT: Mapping[str, str | bytes] = {"text": "", "image": b""}
"""Metadata columns that hold raw content, and what stands there for none."""

ALL = "all"
"""The victim of an attack on all other providers."""

Victim = Annotated[
    int | str,
    Range(1),
    OneOf(ALL),
    "victim; the first, second, ... provider after the attacker, or all",
]
Share = Annotated[float, Range(0, 1, open_low=True), "share of the units that are copied"]
Noise = Annotated[float, Range(0), "noise on each copy; its standard deviation, 0 copies exactly"]
Identities = Annotated[int, Range(1), "further identities; each submits copies"]
First = Annotated[bool, "before all other units"]
AddedUnits = Annotated[float, Range(0, open_low=True), "added units; as a multiple of its own"]


@dataclass(frozen=True, eq=False)
class Block(Shown):
    """Describe units that the attacker submits under one of its names.

    Parameters
    ----------
    pseudonym, rows
        The number of the name (0: the attacker's own), and the honest units, of any provider, from which units derive.
    features, label, content, embedding
        What replaces the originals'; new features without content have a blank one.
    copy
        Whether the units are copies, which come after their originals.
    owner, derived
        The owner of generated content (None: of the original), and False where content has no source unit but itself.
    time, forged
        When the units came, if not last, and the times that the attacker writes, which only a log refutes.
    claims_origin, account
        Whether each unit names itself as its source, and the payout account that units name (None: the name's own).
    """

    pseudonym: int
    rows: NDArray[np.int64]
    features: Features | None = None
    label: NDArray[Any] | None = None
    content: Mapping[str, NDArray[Any]] | None = None
    copy: bool = False
    owner: str | None = None
    derived: bool = True
    embedding: Features | None = None
    time: Values | None = None
    forged: Values | None = None
    claims_origin: bool = False
    account: str | None = None


@dataclass(frozen=True, eq=False)
class Own(Shown):
    """Hold the attacker's view: the honest submission, which rows are its own, and a generator.

    Parameters
    ----------
    name, state
        The attacker and the market.
    honest, owner, rows
        The honest submission, the owner of each unit, and the attacker's own units.
    """

    name: str
    honest: Submission
    owner: NDArray[np.str_]
    rows: NDArray[np.int64]
    state: MarketState

    def rng(self, purpose: str) -> np.random.Generator:
        return self.state.rng(purpose, self.name)

    def victims(self, victim: int | str) -> list[str]:
        """Return the provider so many places after this one, or all others."""
        providers = self.state.providers
        me, others = providers.index(self.name), len(providers) - 1
        if not others:
            raise DataMarketError(
                f"{self.name} is alone in this market, or knows no unit of the others; there is no provider to attack"
            )
        if victim == ALL:
            return [name for name in providers if name != self.name]
        if not 1 <= int(victim) <= others:
            raise DataMarketError(
                f"there is no victim {victim}; {self.name} has {others} others, counted from 1, or {ALL!r}"
            )
        return [providers[(me + int(victim)) % len(providers)]]

    def rows_of(self, victim: int | str) -> NDArray[np.int64]:
        """Return the honest units of a victim, or of all others."""
        return np.flatnonzero(np.isin(self.owner, self.victims(victim)))

    @property
    def labels_count(self) -> bool:
        """Return True if a unit's label can be right or wrong for a leaked row: both have labels."""
        return is_labelled(self.honest.label) and is_labelled(self.state.leaked_label)

    @property
    def leaked_label(self) -> NDArray[Any]:
        """The labels under which leaked rows can be submitted.

        None where units have none; of rows without labels, where units have some, those of the nearest own units.
        """
        if not is_labelled(self.honest.label):
            return unlabelled(len(self.state.leaked_label))
        if is_labelled(self.state.leaked_label):
            return self.state.leaked_label
        return self.honest.label[nearest(self.honest.features, self.rows, self.state.leaked_features)]

    @property
    def clocked(self) -> bool:
        return is_clocked(self.honest)

    def earliest(self, count: int) -> Values:
        """Return increasing times before all units'; equal times where the market has no clock."""
        if not self.clocked:
            return np.full(count, self.honest.times[0])
        return self.honest.times.min() - 1.0 - np.arange(count, 0, -1) / count

    def at_once(self, rows: NDArray[np.int64]) -> Values:
        """Return the first moments after some units: the earliest at which a copy of each can be submitted."""
        return np.nextafter(self.honest.times[rows], np.inf)


def nearest(features: Features, rows: NDArray[np.int64], points: Features) -> NDArray[np.int64]:
    """Return the one of some units that is nearest to each point."""
    return rows[squares(points, features[rows]).argmin(axis=1)]


def squares(a: Features, b: Features) -> Features:
    """Compute the squared distances of all pairs."""
    squared: Features = (a**2).sum(axis=1)[:, None] - 2 * a @ b.T + (b**2).sum(axis=1)
    return np.maximum(squared, 0.0)


def choose_share(rows: Codes, share: float, rng: np.random.Generator) -> Codes:
    """Draw a share of some rows, at least one, in order."""
    return np.sort(rng.permutation(rows)[: max(1, round(share * len(rows)))])


def add_noise(features: Features, sigma: float, rng: np.random.Generator) -> Features:
    """Add Gaussian noise to features; nothing is drawn at sigma 0."""
    return features + rng.normal(scale=sigma, size=features.shape) if sigma else features


def is_clocked(submission: Submission) -> bool:
    """Return True if times say which unit came first: there are some, and they differ."""
    return submission.time is not None and bool((submission.time != submission.time[0]).any())


class Attack(Component, ABC):
    """Plug point ``attack``: a frozen dataclass that says which blocks the attacker submits."""

    tried: ClassVar[tuple[str, ...]] = ("",)
    """The parameters that audits try, each as ``name=value, ...``; `analysis.redteam` says what ``{noise}`` is."""
    needs_content: ClassVar[str] = ""
    """The raw content it changes ("text" or "image"); most attacks need none."""
    needs_labels: ClassVar[bool] = False
    """Whether it changes labels, so that it cannot be played where units have none."""
    forges_times: ClassVar[bool] = False
    """Whether it writes times at which its units did not come (`Block.forged`)."""

    @property
    def label(self) -> str:
        """Return the name that tables print."""
        return display_name(self)

    @property
    def assumes(self) -> str:
        """Return what must be broken besides the mechanism, such as the clock; most attacks need nothing."""
        return ""

    def beyond(self, label: NDArray[Any]) -> str:
        """Return why the attack cannot be played on units with such labels; "" where it can."""
        if not self.needs_labels or is_labelled(label):
            return ""
        return f"{name_of(self)} changes labels, and this market has none"

    @abstractmethod
    def blocks(self, own: Own) -> list[Block]:
        """Return what the attacker submits instead of its honest units."""

    def apply(self, provider_id: str | int, market_state: MarketState) -> SubmittedProfile:
        """Return the profile after the provider's manipulation; everyone else stays honest."""
        require_instance(
            "state", market_state, MarketState, "a MarketState, market.state of a ProviderMarket"
        )
        honest, truth = market_state.honest.submission, market_state.honest.truth
        name = market_state.provider(provider_id)
        if why := self.beyond(honest.label):
            raise DataMarketError(f"{why}; leave it out")
        own = Own(name, honest, truth.owner, np.flatnonzero(truth.owner == name), market_state)
        controller = {k: v for k, v in truth.controller.items() if v != name}
        parts = take_rows(honest, replace(truth, controller=controller), truth.owner != name)
        stem = _stem(name, controller)
        blocks = self.blocks(own)
        if not (isinstance(blocks, Sequence) and blocks and all(isinstance(b, Block) for b in blocks)):
            raise DataMarketError(
                f"{self.label}: blocks() returned {describe(blocks)}; "
                "return a list of at least one Block(pseudonym, rows)"
            )
        for number, block in enumerate(blocks, start=len(parts)):
            rows = np.asarray(block.rows)
            if len(rows) and (
                rows.dtype.kind not in "iub" or not -1 < rows.min() <= rows.max() < len(honest)
            ):
                raise DataMarketError(
                    f"{self.label}: a block's rows must be row numbers of the honest market, 0 to {len(honest) - 1}"
                )
            if not len(rows):
                raise DataMarketError(
                    f"{self.label}: pseudonym {block.pseudonym} of {name} would submit no units; "
                    f"{name} has {len(own.rows)}, so use fewer identities or a larger fraction"
                )
            identity = name if block.pseudonym == 0 else f"{stem}{block.pseudonym}"
            submission = _submit(market_state, block, identity, number)
            owner = truth.owner[rows] if block.owner is None else np.full(len(rows), block.owner)
            source = truth.source[rows] if block.derived else submission.id
            made = GroundTruth(submission.id, owner, source, {identity: name})
            parts.append(SubmittedProfile(submission, made))
        return replace(join_profiles(parts), attacker=name, attack=self.label)


ATTACKS: Kind[Attack] = Kind("attack", Attack)


def _stem(name: str, others: Mapping[str, str]) -> str:
    """Return the start of a provider's pseudonyms: its name and a tilde, more of them to differ from all others."""
    stem = f"{name}~"
    while any(other.startswith(stem) for other in others):
        stem += "~"
    return stem


def _submit(state: MarketState, block: Block, identity: str, number: int) -> Submission:
    honest, n = state.honest.submission, len(block.rows)
    changed: dict[str, NDArray[Any]] = {"identity": np.full(n, identity)}
    changed["batch"] = np.full(n, f"{identity}/{number if block.copy else 0}")
    if block.copy:
        # Copies follow the originals, in the originals' order, and get ids of their own.
        changed["id"] = np.array([f"{u}~{number}.{i}" for i, u in enumerate(honest.id[block.rows])])
        if is_clocked(honest):
            changed["time"] = honest.times[block.rows] + float(honest.times.max()) + 1.0
    time = block.time if block.forged is None or state.logged else block.forged
    if time is not None and honest.time is not None:
        changed["time"] = time
    if block.claims_origin and honest.source is not None:
        changed["source"] = changed.get("id", honest.id[block.rows])
    for name in ("embedding", "features", "label"):
        if (column := getattr(block, name)) is not None:
            changed[name] = column
    taken = honest.take(block.rows, changed)
    return replace(
        taken,
        metadata={**taken.metadata, **_content(honest, block), **_account(honest, block, identity)},
    )


def _account(honest: Submission, block: Block, identity: str) -> Mapping[str, NDArray[Any]]:
    """Return the account column: each identity has an account of its own, unless it claims another's."""
    if ACCOUNT not in honest.metadata:
        return {}
    account = block.account
    if account is None:
        accounts = honest.metadata[ACCOUNT][honest.identity == identity]
        account = str(accounts[0]) if len(accounts) else identity
    return {ACCOUNT: np.full(len(block.rows), account)}


def _content(honest: Submission, block: Block) -> Mapping[str, NDArray[Any]]:
    if block.content is not None:
        return block.content
    if block.features is None:
        return {}
    made = (block.features != honest.features[block.rows]).any(axis=1)
    blanked = {}
    for kind in CONTENT.keys() & honest.metadata.keys():
        column = honest.metadata[kind][block.rows].astype(object)
        column[made] = CONTENT[kind]
        blanked[kind] = column
    return blanked


def apply_knowing(
    attack: Attack | str, provider: str | int, state: MarketState, knowledge: float = 1.0
) -> SubmittedProfile:
    """Apply the attack of a provider who sees its own units and this share of each other provider's."""
    require_in("knowledge", knowledge, 0.0, 1.0)
    attack, name = ATTACKS.create(attack), state.provider(provider)
    if knowledge == 1.0:
        return attack.apply(name, state)
    honest, truth = state.honest.submission, state.honest.truth.aligned(state.honest.submission)
    seen = truth.owner == name
    for other in state.providers:
        theirs = np.flatnonzero(truth.owner == other)
        if other != name:
            shuffled = state.rng("known units", other).permutation(theirs)
            seen[shuffled[: round(knowledge * len(theirs))]] = True
    (visible,) = take_rows(honest, truth, seen)
    profile = attack.apply(name, replace(state, honest=visible))
    joined = join_profiles([*take_rows(honest, truth, ~seen), profile])
    return replace(profile, submission=joined.submission, truth=joined.truth)


def take_rows(
    submission: Submission, truth: GroundTruth, rows: NDArray[np.bool_]
) -> list[SubmittedProfile]:
    """Return the profile of some rows of a submission, none if there are none; its truth is aligned with it."""
    part = GroundTruth(truth.id[rows], truth.owner[rows], truth.source[rows], truth.controller)
    return [SubmittedProfile(submission.take(np.flatnonzero(rows)), part)] if rows.any() else []


def join_profiles(parts: Sequence[SubmittedProfile]) -> SubmittedProfile:
    """Concatenate profiles with their truth."""
    submission = Submission.concat([p.submission for p in parts])
    truths = [p.truth.aligned(p.submission) for p in parts]
    owner, source = (np.concatenate([getattr(t, c) for t in truths]) for c in ("owner", "source"))
    controller = {identity: name for p in parts for identity, name in p.truth.controller.items()}
    return SubmittedProfile(submission, GroundTruth(submission.id, owner, source, controller))


_PARTS = 4


def groups(label: NDArray[Any]) -> Codes:
    """Group units by their labels: by class, or by the quarter of all numbers; without labels all are one group."""
    classes, code = np.unique(label, return_inverse=True)
    if not are_numbers(label) or len(classes) <= _PARTS:
        return code.astype(np.int64)
    cuts = np.quantile(label, np.arange(1, _PARTS) / _PARTS)
    parts = np.searchsorted(cuts, label, side="right")
    return np.unique(parts, return_inverse=True)[1].astype(np.int64)


def wrong(label: NDArray[Any], among: NDArray[Any]) -> NDArray[Any]:
    """Return the class after each label, and of numbers the one half-way round all of the market's, by size."""
    labels = np.unique(among)
    step = max(1, len(labels) // 2) if are_numbers(labels) else 1
    return labels[(np.searchsorted(labels, label) + step) % len(labels)]
