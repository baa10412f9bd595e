"""Checkers for what makes markets: attacks, partitions, tasks and encoders."""

from __future__ import annotations

import numpy as np

from datamarket_gym.conformance.promise import (
    ConformanceError,
    check_written,
    promise,
    samples,
    small_market,
)
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.world.attacks.attack import Attack
from datamarket_gym.world.encoders.base import KINDS, ContentError, Encoder
from datamarket_gym.world.market import MarketState
from datamarket_gym.world.tasks.base import Task
from datamarket_gym.world.tasks.partitions import Partition


def check_encoder(encoder: Encoder) -> None:
    """One finite vector per item, whatever its neighbours in the batch; bad content is named."""
    check_written("encoder", encoder)
    promise(encoder.kind in KINDS, f"kind {encoder.kind!r} is none of {KINDS}")
    items = samples(encoder.kind, small_market().dataset.features[:6]).tolist()
    found = encoder.encode(items)
    promise(found.ndim == 2 and len(found) == len(items), "not one vector per item")
    promise(np.isfinite(found).all(), "a vector is not finite")
    promise((np.linalg.norm(found, axis=1) > 0).all(), "a vector has zero norm")
    promise((encoder.encode(items) == found).all(), "the same items gave two sets of vectors")
    alone = np.concatenate([encoder.encode([item]) for item in items[::-1]])[::-1]
    gap = np.linalg.norm(alone - found, axis=1) / np.linalg.norm(found, axis=1)
    promise((gap < 1e-2).all(), "a vector depends on the other items of its batch")
    for bad in ("", b"", None):
        try:
            encoder.encode([items[0], bad])
        except ContentError as error:
            promise(error.row == 1, f"bad content in row 1 was reported in row {error.row}")
        else:
            promise(False, f"{bad!r} was embedded")


def check_attack(attack: Attack) -> None:
    """Any provider can attack; others' units stay as they were; the truth covers every unit.

    So it is in a market without labels, or the attack says why it cannot be played there.
    """
    check_written("attack", attack)
    _check_played(attack, small_market(attack.needs_content).state)
    bare = small_market(attack.needs_content, labels=False).state
    try:
        _check_played(attack, bare)
    except DataMarketError as error:
        promise(
            not isinstance(error, ConformanceError) and attack.beyond(bare.honest.submission.label),
            f"in a market without labels: {error}",
        )


def _check_played(attack: Attack, state: MarketState) -> None:
    before = state.honest.submission.features.copy()
    for provider in range(len(state.providers)):
        first, again = attack.apply(provider, state), attack.apply(provider, state)
        _same(first, again)
        attacker = first.attacker
        promise(attacker in state.providers, f"{attacker!r} is not a provider of the market")
        promise(first.identities_of(str(attacker)), f"{attacker} is left without an identity")
        _others_untouched(first, state.honest)
    promise((state.honest.submission.features == before).all(), "the honest market was changed")


def _same(first: SubmittedProfile, again: SubmittedProfile) -> None:
    a, b = first.submission, again.submission
    promise(
        len(a) == len(b) and (a.features == b.features).all() and (a.identity == b.identity).all(),
        "applied twice to the same market, the attack gives two different profiles",
    )


def _others_untouched(attacked: SubmittedProfile, honest: SubmittedProfile) -> None:
    truth = attacked.truth.aligned(attacked.submission)
    controllers = truth.controllers(attacked.submission)[attacked.submission.identity_codes]
    theirs = controllers != attacked.attacker
    before = honest.truth.owner != attacked.attacker
    promise(
        set(attacked.submission.id[theirs]) == set(honest.submission.id[before]),
        "other providers' units went missing or were added",
    )
    rows = np.argsort(attacked.submission.id[theirs])
    kept = np.argsort(honest.submission.id[before])
    promise(
        (attacked.submission.features[theirs][rows] == honest.submission.features[before][kept]).all(),
        "other providers' features were changed",
    )


def check_partition(partition: Partition) -> None:
    """Everyone gets as many rows as asked, and no row is dealt twice."""
    check_written("partition", partition)
    label = np.repeat(np.arange(4), 100)
    dealt = partition.deal(label, 5, 12, np.random.default_rng(0))
    promise(len(dealt) == 5, f"5 providers asked, {len(dealt)} dealt to")
    promise(all(len(rows) == 12 for rows in dealt), "a provider got another number of rows than 12")
    everything = np.concatenate(dealt)
    promise(len(np.unique(everything)) == len(everything), "a row was dealt twice")


def check_task(task: Task) -> None:
    """The same seed gives the same draw, and another seed another."""
    check_written("task", task)
    first, again, other = task.draw(0), task.draw(0), task.draw(1)
    promise((first.dataset.features == again.dataset.features).all(), "seed 0 gave two draws")
    promise(
        first.dataset.features.shape != other.dataset.features.shape
        or (first.dataset.features != other.dataset.features).any(),
        "seeds 0 and 1 gave the same draw",
    )
