"""Checkers for what makes markets: attacks, partitions, tasks and encoders."""

from __future__ import annotations

import numpy as np

from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.errors import DataMarketError
from datamarket_gym.market.attacks.base import Attack
from datamarket_gym.market.encoders.base import KINDS, ContentError, Encoder
from datamarket_gym.market.market import MarketState
from datamarket_gym.market.tasks.base import Task
from datamarket_gym.market.tasks.partitions import Partition
from datamarket_gym.testing.base import (
    ConformanceError,
    changed,
    check_written,
    fresh_market,
    promise,
    samples,
    small_market,
)


def validate_encoder(encoder: Encoder) -> None:
    """Validate that each item gets one finite vector, in any batch, and that bad content is named.

    Parameters
    ----------
    encoder
        The encoder, or its written form.
    """
    check_written("encoder", encoder)
    promise(encoder.kind in KINDS, f"kind {encoder.kind!r} is none of {KINDS}")
    items = samples(encoder.kind, small_market().dataset.features[:6]).tolist()
    vectors = encoder.encode(items)
    promise(vectors.ndim == 2 and len(vectors) == len(items), "not one vector per item")
    promise(np.isfinite(vectors).all(), "a vector is not finite")
    length = np.linalg.norm(vectors, axis=1)
    promise((length > 0).all(), "a vector has zero norm")
    promise((encoder.encode(items) == vectors).all(), "the same items gave two sets of vectors")
    alone = np.concatenate([encoder.encode([item]) for item in items[::-1]])[::-1]
    near = np.linalg.norm(alone - vectors, axis=1) < 1e-2 * length
    promise(near.all(), "a vector depends on the other items of its batch")
    for bad in ("", b"", None):
        try:
            encoder.encode([items[0], bad])
        except ContentError as error:
            promise(error.row == 1, f"bad content in row 1 was reported in row {error.row}")
        else:
            promise(False, f"{bad!r} was embedded")


def validate_attack(attack: Attack) -> None:
    """Validate that any provider can attack, in one way each time, and that others' units stay as they were.

    So it is in a market without labels, or the attack says why it cannot be played there.

    Parameters
    ----------
    attack
        The attack, or its written form.
    """
    check_written("attack", attack)
    _check_played(attack, fresh_market(attack.needs_content).state)
    bare = fresh_market(attack.needs_content, labels=False).state
    try:
        _check_played(attack, bare)
    except DataMarketError as error:
        promise(
            not isinstance(error, ConformanceError) and attack.beyond(bare.honest.submission.label),
            f"in a market without labels: {error}",
        )


def _check_played(attack: Attack, state: MarketState) -> None:
    honest = state.honest.submission
    before = honest.take(np.arange(len(honest)))
    for provider in range(len(state.providers)):
        first, again = attack.apply(provider, state), attack.apply(provider, state)
        column = changed(honest, before)
        promise(not column, f"the honest market was changed: {column}")
        _same(first, again)
        attacker = first.attacker
        promise(attacker in state.providers, f"{attacker!r} is not a provider of the market")
        promise(first.identities_of(str(attacker)), f"{attacker} is left without an identity")
        _others_untouched(first, state.honest)


def _same(first: SubmittedProfile, again: SubmittedProfile) -> None:
    broken = "applied twice to the same market, the attack gives two different profiles"
    promise(len(first.submission) == len(again.submission), broken)
    column = changed(first.submission, again.submission)
    promise(not column, f"{broken}: {column}; draw random numbers from own.rng")
    one, other = (p.truth.aligned(p.submission) for p in (first, again))
    same = (one.owner == other.owner).all() and (one.source == other.source).all()
    promise(same and dict(one.controller) == dict(other.controller), f"{broken}: the truth")


def _others_untouched(attacked: SubmittedProfile, honest: SubmittedProfile) -> None:
    truth = attacked.truth.aligned(attacked.submission)
    controllers = truth.controllers(attacked.submission)[attacked.submission.identity_codes]
    owners = honest.truth.aligned(honest.submission).owner
    now, then = (
        units.take(rows[np.argsort(units.id[rows])])
        for units, rows in (
            (attacked.submission, np.flatnonzero(controllers != attacked.attacker)),
            (honest.submission, np.flatnonzero(owners != attacked.attacker)),
        )
    )
    same = np.array_equal(now.id, then.id)
    promise(same, "other providers' units went missing or were added")
    column = changed(now, then)
    promise(not column, f"other providers' units were changed: {column}")


def validate_partition(partition: Partition) -> None:
    """Validate that each provider gets as many rows as asked, and no row is dealt twice.

    Parameters
    ----------
    partition
        The partition, or its written form.
    """
    check_written("partition", partition)
    label = np.repeat(np.arange(4), 100)
    dealt = partition.deal(label, 5, 12, np.random.default_rng(0))
    promise(len(dealt) == 5, f"5 providers asked, {len(dealt)} dealt to")
    promise(all(len(rows) == 12 for rows in dealt), "a provider got another number of rows than 12")
    promise(len(np.unique(dealt)) == 60, "a row was dealt twice")


def validate_task(task: Task) -> None:
    """Validate that a seed always gives the same draw, and another seed another.

    Parameters
    ----------
    task
        The task, or its written form.
    """
    check_written("task", task)
    first, again, other = (task.draw(seed).dataset.features for seed in (0, 0, 1))
    promise(np.array_equal(first, again), "seed 0 gave two draws")
    promise(not np.array_equal(first, other), "seeds 0 and 1 gave the same draw")
