"""Planted fakes: false units among the checks, by which it is measured how many whoever checks finds.

``--plant N`` puts N false units (`fakes`) into the list of checks under made-up payees, each with as many units, and
looks at them, as some real one has, at amounts like those drawn. Whoever checks cannot tell them from the others:
which they are stands in ``checks/planted.json`` alone (`sealed`), whose hash is published with the draw. They are made
under a random nonce, kept in that file, and not under the beacon alone, or anybody could work out which they are.
Nobody real is under suspicion and no payee's money depends on them. Letters to a made-up payee go to whoever planted,
who answers as a cheat would.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.errors import DataMarketError, require_count
from datamarket_gym.evidence.order import seniority_ranks
from datamarket_gym.payout.checks.draw import Draw, DrawnChecks, read_checks
from datamarket_gym.payout.checks.fakes import FalseUnit, make_fakes
from datamarket_gym.payout.checks.made_up import made_up_name, made_up_unit, named_after
from datamarket_gym.payout.checks.neighbours import NEAREST, Ranked, nearest_others
from datamarket_gym.payout.checks.record import NOT_MADE, answers_of, ever_answered, outcome_of
from datamarket_gym.payout.checks.sealed import PlantedFake, SealedPlants, read_plants, write_plants
from datamarket_gym.payout.kept import places_of
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.stages import Places
from datamarket_gym.payout.what_if import finished_results

_NOTHING = 1e-9  # of a payee's pay: its units are all drawn


def planted(
    run: Path, drawn: DrawnChecks, n: int, beacon: str, places: Places | None = None
) -> list[Draw]:
    """At least ``n`` fakes for a draw, made once: where the sealed list is there already, those in it.

    Made-up payees have as many draws as some real one, so n is rounded up to whole payees. Needs the run's inputs.
    """
    require_count("plant", n)
    plants = read_plants(run)
    if plants is None:
        if not drawn.draws:
            raise DataMarketError("nothing was drawn, so there is nothing to plant fakes among")
        places = places or places_of(run)
        _, results = finished_results(run, places)
        write_plants(run, _made(results, places, drawn, n, beacon))
    elif (plants.run, plants.beacon, plants.asked) != (drawn.run, beacon, n):
        raise DataMarketError(
            f"{plants.asked} fakes were planted in {str(run)!r} before, for another draw or number; draw with the "
            "same beacon and the same --plant"
        )
    return planted_before(run)


def planted_before(run: Path) -> list[Draw]:
    """The fakes in the sealed list of a run, without numbers; needs nothing else of the run."""
    plants = read_plants(run)
    return [
        Draw(0, fake.payee, fake.payee, fake.unit, fake.row, fake.amount, fake.share, planted=True)
        for fake in (plants.fakes if plants else [])
        for _ in range(fake.looks)
    ]


def mixed(draws: Sequence[Draw], fakes: Sequence[Draw]) -> list[Draw]:
    """Draws and fakes in one list, payees by name and numbered from 1, so that places tell nothing."""
    order = sorted(
        [*draws, *fakes], key=lambda draw: draw.payee
    )  # stable: a payee's draws stay in order
    return [replace(draw, number=number) for number, draw in enumerate(order, 1)]


def measured_power(run: Path) -> tuple[int, int]:
    """(found, planted): how many planted fakes were answered with ``false``, and how many there are.

    One that was not answered, or for which nothing came back, was not found; nor was one that was ever taken for
    genuine, whatever the correction says: who corrects may know by then which were planted. Of a fake that was drawn
    twice the first look that was made counts: two at one fake are not two independent trials of the power.
    """
    answers, missed = answers_of(run), ever_answered(run, "genuine")
    outcome: dict[str, str] = {}
    for draw in (draw for draw in read_checks(run).draws if draw.planted):
        said = "genuine" if draw.number in missed else outcome_of(draw, answers)
        if said != NOT_MADE:
            outcome.setdefault(draw.unit, said)
    return sum(said == "false" for said in outcome.values()), len(outcome)


def _made(results: Results, places: Places, drawn: DrawnChecks, n: int, beacon: str) -> SealedPlants:
    nonce = secrets.token_hex(16)
    rng = keyed_generator(nonce, drawn.run, beacon, n)
    by_payee: dict[str, list[Draw]] = {}
    for draw in drawn.draws:
        by_payee.setdefault(draw.payee, []).append(draw)
    groups: list[list[tuple[float, float, int]]] = []
    models = list(by_payee.values())
    while sum(map(len, groups)) < n:
        groups.append(_amounts(models[int(rng.integers(len(models)))], rng))
    fakes = make_fakes(results, places, sum(map(len, groups)), rng)
    payees, names = set(results.names), _Names(results, drawn, fakes, rng)
    made: list[PlantedFake] = []
    for group in groups:
        payee = made_up_name(list(by_payee), payees, rng)
        payees.add(payee)
        giver = names.giver(len(group))
        for amount, share, looks in group:
            fake = fakes[len(made)]
            made.append(
                PlantedFake(
                    payee, names.of(fake, payee, giver), len(results.inputs.ids) + len(made), amount, share, fake.how,
                    [results.inputs.ids[row] for row in fake.of], fake.label, fake.features.tolist(),
                    fake.vector.tolist(), fake.text, fake.encoded_image, looks,
                )
            )  # fmt: skip
    return SealedPlants(drawn.run, beacon, n, nonce, made)


def _amounts(model: list[Draw], rng: np.random.Generator) -> list[tuple[float, float, int]]:
    """What the units of a made-up payee earn, their parts of its pay and the looks at each, like those of a real one.

    The parts, and what is left of the pay, are each made larger or smaller, and add up to 1 again: all units of
    somebody who has few of them are drawn, and then nothing is left.
    """
    parts, looks = {draw.unit: draw.share for draw in model}, Counter(draw.unit for draw in model)
    pay = float(rng.uniform(0.8, 1.25)) * model[0].amount / model[0].share
    left = 1.0 - sum(parts.values())
    weight = np.array([*parts.values(), left if left > _NOTHING else 0.0])
    weight *= rng.uniform(0.8, 1.25, len(weight))
    changed = dict(zip(parts, (weight / weight.sum()).tolist(), strict=False))
    return [(pay * part, part, looks[unit]) for unit, part in changed.items()]


class _Names:
    """Names for fakes: those of units of the run that nobody who checks gets to see, so that no number is out of range.

    All names of a made-up payee are those of one real payee, where one has enough of them: numbers often follow from
    who submitted. Where labels stand in names, they are those of units of the fake's label.
    """

    def __init__(
        self, results: Results, drawn: DrawnChecks, fakes: Sequence[FalseUnit], rng: np.random.Generator
    ) -> None:
        inputs = results.inputs
        self.ids, self.identities, self.owner, self.rng = (
            inputs.ids,
            inputs.identities,
            inputs.owner,
            rng,
        )
        self.payee = results.payees.group[inputs.owner]
        self.taken = {*inputs.ids, *inputs.aside}
        self.free = np.ones(len(inputs.ids), dtype=bool)
        self.free[_shown(results, drawn, fakes)] = False
        self.label = inputs.submission.label.astype(str)
        written = [named_after(name, label) for name, label in zip(self.ids, self.label, strict=True)]
        self.labelled = inputs.submission.labelled and 2 * sum(written) > len(written)

    def giver(self, count: int) -> int:
        """The number of a payee who has so many names to give; -1 where nobody does."""
        payees, spare = np.unique(self.payee[self.free], return_counts=True)
        able = payees[spare >= count]
        return int(able[self.rng.integers(len(able))]) if len(able) else -1

    def of(self, fake: FalseUnit, payee: str, giver: int) -> str:
        """A name that stands on the page once."""
        alike = self.label == fake.label if self.labelled else np.ones(len(self.ids), dtype=bool)
        theirs = self.payee == giver
        rows = next(
            np.flatnonzero(pool)
            for pool in (theirs & alike & self.free, alike & self.free, alike)
            if pool.any()
        )
        row = int(rows[self.rng.integers(len(rows))])
        owner, name = self.identities[self.owner[row]], self.ids[row]
        if not self.free[row] or named_after(name, owner):
            name = made_up_unit(name, owner, payee, self.taken, self.rng)
        self.free[row] = False
        self.taken.add(name)
        return name


def _shown(results: Results, drawn: DrawnChecks, fakes: Sequence[FalseUnit]) -> list[int]:
    """The units that the page shows: those drawn, and what is nearest to each, or to a fake."""
    submission = results.inputs.submission
    payee = results.payees.group[results.inputs.owner]
    rank = seniority_ranks(submission, results.payments.clustering.lot)
    place = {name: i for i, name in enumerate(results.inputs.ids)}
    rows = np.array([place[draw.unit] for draw in drawn.draws], dtype=np.int64)
    made, last = np.array([fake.vector for fake in fakes]), np.full(len(fakes), len(rank))
    units = Ranked(submission.vectors, rank, payee)
    near = [
        nearest_others(units, Ranked(submission.vectors[rows], rank[rows], payee[rows]), NEAREST)[0],
        nearest_others(units, Ranked(made, last, np.full(len(fakes), -1)), NEAREST)[0],
    ]
    return sorted({*rows.tolist(), *(int(u) for part in near for u in part.ravel() if u >= 0)})
