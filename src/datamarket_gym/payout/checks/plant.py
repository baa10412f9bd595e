"""Planted fakes: false units among the checks, by which it is measured how many whoever checks finds.

``--plant N`` puts N false units (`fakes`) into the list of checks under made-up payees, each with as many draws as
some real one has, at amounts like those drawn. Whoever checks cannot tell them from the others: which they are stands
in ``checks/planted.json`` alone (`sealed`), whose hash is published with the draw. They are made under a random
nonce, kept in that file, and not under the beacon alone, or anybody could work out which they are. Nobody real is
under suspicion and no payee's money depends on them. Letters to a made-up payee go to whoever planted, who answers
as a cheat would.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.errors import DataMarketError, require_count
from datamarket_gym.payout.checks.draw import Draw, DrawnChecks, read_checks
from datamarket_gym.payout.checks.fakes import FalseUnit, make_fakes
from datamarket_gym.payout.checks.made_up import made_up_name, made_up_unit
from datamarket_gym.payout.checks.record import answers_of
from datamarket_gym.payout.checks.sealed import PlantedFake, SealedPlants, read_plants, write_plants
from datamarket_gym.payout.explain import finished_results
from datamarket_gym.payout.results import Results
from datamarket_gym.payout.stages import Places
from datamarket_gym.payout.verify import places_of


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
    ]


def mixed(draws: Sequence[Draw], fakes: Sequence[Draw]) -> list[Draw]:
    """Draws and fakes in one list, payees by name and numbered from 1, so that places tell nothing."""
    order = sorted(
        [*draws, *fakes], key=lambda draw: draw.payee
    )  # stable: a payee's draws stay in order
    return [replace(draw, number=number) for number, draw in enumerate(order, 1)]


def measured_power(run: Path) -> tuple[int, int]:
    """(found, planted): how many planted fakes were answered with ``false``, and how many there are.

    One that was not answered, or for which nothing came back, was not found.
    """
    answers = answers_of(run)
    fakes = [draw for draw in read_checks(run).draws if draw.planted]
    found = sum(draw.number in answers and answers[draw.number].outcome == "false" for draw in fakes)
    return found, len(fakes)


def _made(results: Results, places: Places, drawn: DrawnChecks, n: int, beacon: str) -> SealedPlants:
    nonce = secrets.token_hex(16)
    rng = keyed_generator(nonce, drawn.run, beacon, n)
    by_payee: dict[str, list[Draw]] = {}
    for draw in drawn.draws:
        by_payee.setdefault(draw.payee, []).append(draw)
    groups: list[list[tuple[float, float]]] = []
    while sum(map(len, groups)) < n:
        groups.append(_amounts(list(by_payee.values()), rng))
    fakes = iter(make_fakes(results, places, sum(map(len, groups)), rng))
    payees, names = set(results.names), _Names(results, rng)
    made: list[PlantedFake] = []
    for group in groups:
        payee = made_up_name(list(by_payee), payees, rng)
        payees.add(payee)
        for amount, share in group:
            fake = next(fakes)
            made.append(
                PlantedFake(
                    payee, names.of(fake, payee), len(results.inputs.ids) + len(made), amount, share, fake.how,
                    [results.inputs.ids[row] for row in fake.of], fake.label, fake.features.tolist(),
                    fake.vector.tolist(), fake.text, fake.encoded_image,
                )
            )  # fmt: skip
    return SealedPlants(drawn.run, beacon, n, nonce, made)


def _amounts(payees: list[list[Draw]], rng: np.random.Generator) -> list[tuple[float, float]]:
    """What the units of a made-up payee earn and their parts of its pay, like the draws of a real one.

    Each is a little less than what it is like, so that no two are the same and the parts stay below 1 in all.
    """
    model = payees[int(rng.integers(len(payees)))]
    whole = float(rng.uniform(0.8, 1.25))
    parts = rng.uniform(0.8, 1.0, len(model)).tolist()
    return [
        (whole * part * draw.amount, part * draw.share) for part, draw in zip(parts, model, strict=True)
    ]


class _Names:
    """Names for fakes by the pattern of units that have their label."""

    def __init__(self, results: Results, rng: np.random.Generator) -> None:
        inputs = results.inputs
        self.ids, self.identities, self.owner, self.rng = (
            inputs.ids,
            inputs.identities,
            inputs.owner,
            rng,
        )
        self.taken = {*inputs.ids, *inputs.aside}
        labels, code = np.unique(inputs.submission.label, return_inverse=True)
        self.code, self.labels = code, {str(label): i for i, label in enumerate(labels.tolist())}

    def of(self, fake: FalseUnit, payee: str) -> str:
        """A name that no unit has."""
        alike = np.flatnonzero(self.code == self.labels[fake.label])
        row = int(alike[self.rng.integers(len(alike))])
        owner = self.identities[self.owner[row]]
        name = made_up_unit(self.ids[row], owner, payee, self.taken, self.rng)
        self.taken.add(name)
        return name
