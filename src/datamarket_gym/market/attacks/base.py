"""What an attack is: it replaces one provider's honest units by others, and carries the truth along.

Beside it are what an attacker knows of the others' units (none, a share of each provider's, or all) and what attackers
make of labels: which units are alike by them, and which labels are wrong.
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
"""The victim of an attack on everybody else."""

Victim = Annotated[
    int | str,
    Range(1),
    OneOf(ALL),
    "victim; the first, second, ... provider after the attacker, or all",
]
Share = Annotated[float, Range(0, 1, open_low=True), "share of the units that are copied"]
Noise = Annotated[float, Range(0), "noise on each copy; its standard deviation, 0 copies exactly"]
Identities = Annotated[int, Range(1), "further identities; each submits copies"]
First = Annotated[bool, "before everybody's units"]
AddedUnits = Annotated[float, Range(0, open_low=True), "added units; as a multiple of its own"]


@dataclass(frozen=True, eq=False)
class Block(Shown):
    """Describe units that the attacker submits under one of its names.

    Parameters
    ----------
    pseudonym
        The number of the name; 0: its own.
    rows
        Honest units, any provider's, from which the block derives, one per unit.
    features, label, content
        What replaces the originals'; new features without content have a blank one.
    copy
        Whether the units are copies, which come after their originals.
    owner
        Who owns generated content; None: the owner of the original.
    derived
        False where content has no source unit but itself.
    embedding
        What replaces the originals' in markets that hold embeddings apart from features.
    time
        When the units came, where a copy does not simply come last.
    forged
        The times that the attacker writes, which a market believes unless it logs what it receives.
    claims_origin
        Whether each unit names itself as its source.
    account
        The payout account that they name; None: the name's own.
    """

    pseudonym: int
    rows: NDArray[np.int64]
    features: Features | None = None
    label: NDArray[Any] | None = None
    content: Mapping[str, NDArray[Any]] | None = None
    copy: bool = False
    owner: str | None = None  # who owns generated content; None: the owner of the original
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
    name
        The attacker.
    honest
        The honest submission.
    owner
        The owner of each unit.
    rows
        The attacker's own.
    state
        The market.
    """

    name: str
    honest: Submission
    owner: NDArray[np.str_]
    rows: NDArray[np.int64]
    state: MarketState

    def rng(self, purpose: str) -> np.random.Generator:
        """A generator for one purpose of this attacker."""
        return self.state.rng(purpose, self.name)

    def victims(self, victim: int | str) -> list[str]:
        """Return the provider so many places after this one, or all others."""
        providers = self.state.providers
        me, others = providers.index(self.name), len(providers) - 1
        if not others:
            raise DataMarketError(
                f"{self.name} is alone in this market, or knows no unit of the others; there is nobody to attack"
            )
        if victim == ALL:
            return [name for name in providers if name != self.name]
        if not 1 <= int(victim) <= others:
            raise DataMarketError(
                f"there is no victim {victim}; {self.name} has {others} others, counted from 1, or {ALL!r}"
            )
        return [providers[(me + int(victim)) % len(providers)]]

    def rows_of(self, victim: int | str) -> NDArray[np.int64]:
        """The honest units of a victim, or of all others."""
        return np.flatnonzero(np.isin(self.owner, self.victims(victim)))

    @property
    def labels_count(self) -> bool:
        """Whether a unit's label can be right for a leaked row, or wrong: both have labels."""
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
        """Whether the market's times say who came first: there are some, and they differ."""
        return is_clocked(self.honest)

    def earliest(self, count: int) -> Values:
        """Times before everybody's, in order, as of somebody who came first; equal where no clock tells."""
        if not self.clocked:
            return np.full(count, self.honest.times[0])
        return self.honest.times.min() - 1.0 - np.arange(count, 0, -1) / count

    def at_once(self, rows: NDArray[np.int64]) -> Values:
        """The first moments after some units came: nobody can hand in a copy of what is not there yet."""
        return np.nextafter(self.honest.times[rows], np.inf)


def nearest(features: Features, rows: NDArray[np.int64], points: Features) -> NDArray[np.int64]:
    """Of some units, the one nearest to each point."""
    return rows[squares(points, features[rows]).argmin(axis=1)]


def squares(a: Features, b: Features) -> Features:
    """Squared distances of all pairs."""
    found: Features = (a**2).sum(axis=1)[:, None] - 2 * a @ b.T + (b**2).sum(axis=1)
    return np.maximum(found, 0.0)


def is_clocked(submission: Submission) -> bool:
    """Whether a submission's times say who came first: there are some, and they differ."""
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
        """The name that tables print."""
        return display_name(self)

    @property
    def assumes(self) -> str:
        """What has to be broken besides for it to work, such as the clock; most attacks need nothing."""
        return ""

    def beyond(self, label: NDArray[Any]) -> str:
        """Why it cannot be played on units with such labels; nothing where it can."""
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
        others = np.flatnonzero(truth.owner != name)
        submissions = [honest.take(others)] if len(others) else []
        owners, sources = [truth.owner[others]], [truth.source[others]]
        controller = {k: v for k, v in truth.controller.items() if v != name}
        stem = _stem(name, controller)
        blocks = self.blocks(own)
        if not (isinstance(blocks, Sequence) and blocks and all(isinstance(b, Block) for b in blocks)):
            raise DataMarketError(
                f"{self.label}: blocks() returned {describe(blocks)}; "
                "return a list of at least one Block(pseudonym, rows)"
            )
        for block in blocks:
            rows = np.asarray(block.rows)
            if len(rows) and (
                rows.dtype.kind not in "iub" or not -1 < rows.min() <= rows.max() < len(honest)
            ):
                raise DataMarketError(
                    f"{self.label}: a block's rows must be row numbers of the honest market, 0 to {len(honest) - 1}"
                )
            if not len(block.rows):
                raise DataMarketError(
                    f"{self.label}: pseudonym {block.pseudonym} of {name} would submit no units; "
                    f"{name} has {len(own.rows)}, so use fewer identities or a larger fraction"
                )
            identity = name if block.pseudonym == 0 else f"{stem}{block.pseudonym}"
            controller[identity] = name
            submissions.append(_submit(market_state, block, identity, len(submissions)))
            owners.append(
                truth.owner[block.rows] if block.owner is None else np.full(len(block.rows), block.owner)
            )
            sources.append(truth.source[block.rows] if block.derived else submissions[-1].id)
        submission = Submission.concat(submissions)
        attacked = GroundTruth(
            submission.id, np.concatenate(owners), np.concatenate(sources), controller
        )
        return SubmittedProfile(submission, attacked, name, self.label)


ATTACKS: Kind[Attack] = Kind("attack", Attack)


def _stem(name: str, others: Mapping[str, str]) -> str:
    """What a provider's pseudonyms begin with: its name and a tilde, more of them where others are called so."""
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
    """Each name has an account of its own, whatever it copies, unless it claims another's."""
    if ACCOUNT not in honest.metadata:
        return {}
    account = block.account
    if account is None:
        known = honest.metadata[ACCOUNT][honest.identity == identity]
        account = str(known[0]) if len(known) else identity
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
    attack: Attack, provider: str | int, state: MarketState, knowledge: float = 1.0
) -> SubmittedProfile:
    """Apply the attack of a provider who sees its own units and this share of each other provider's."""
    require_in("knowledge", knowledge, 0.0, 1.0)
    name = state.provider(provider)
    if knowledge == 1.0:
        return attack.apply(name, state)
    honest, truth = state.honest.submission, state.honest.truth.aligned(state.honest.submission)
    seen = truth.owner == name
    for other in state.providers:
        theirs = np.flatnonzero(truth.owner == other)
        if other != name:
            shuffled = state.rng("known units", other).permutation(theirs)
            seen[shuffled[: round(knowledge * len(theirs))]] = True
    visible = SubmittedProfile(honest.take(np.flatnonzero(seen)), _of(truth, seen))
    profile = attack.apply(name, replace(state, honest=visible))
    hidden = honest.take(np.flatnonzero(~seen))
    if not len(hidden):
        return profile
    submission = Submission.concat([hidden, profile.submission])
    after, unseen = profile.truth.aligned(profile.submission), _of(truth, ~seen)
    joined = GroundTruth(
        submission.id,
        np.concatenate([unseen.owner, after.owner]),
        np.concatenate([unseen.source, after.source]),
        {**truth.controller, **after.controller},
    )
    return replace(profile, submission=submission, truth=joined)


def _of(truth: GroundTruth, rows: np.ndarray) -> GroundTruth:
    return GroundTruth(truth.id[rows], truth.owner[rows], truth.source[rows], truth.controller)


_PARTS = 4


def groups(label: NDArray[Any]) -> Codes:
    """Codes of units that are alike by their labels: of one class, or in one of four parts of all numbers, by size.

    Units without labels are all alike.
    """
    classes, code = np.unique(label, return_inverse=True)
    if not are_numbers(label) or len(classes) <= _PARTS:
        return code.astype(np.int64)
    cuts = np.quantile(label, np.arange(1, _PARTS) / _PARTS)
    parts = np.searchsorted(cuts, label, side="right")
    return np.unique(parts, return_inverse=True)[1].astype(np.int64)


def wrong(label: NDArray[Any], among: NDArray[Any]) -> NDArray[Any]:
    """Return the class after each label, and of numbers the one half-way round all of the market's, by size."""
    known = np.unique(among)
    step = max(1, len(known) // 2) if are_numbers(known) else 1
    found: NDArray[Any] = known[(np.searchsorted(known, label) + step) % len(known)]
    return found
