"""What the buyer needs, and who covers it: a run that pays for coverage keeps which units cover which validation rows.

The record has the numbers of validation rows, and nothing that is in them: their content stays in the operator's file.
Reading it is light, as `explain` answers within a second; only whoever works a run out needs the pipeline.
"""

from __future__ import annotations

import dataclasses
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from datamarket_gym.errors import RunError
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.payout.manifest import NEEDS

if TYPE_CHECKING:
    from datamarket_gym.payout.results import Results


MOST = 5
"""Validation rows that are kept of each cluster: those that bring it most."""


@dataclass(frozen=True, eq=False)
class Needs:
    """Validation rows by their number in the file, clusters by the number that tables give them, identities by name.

    ``row``, ``degree``, ``part`` and ``place`` are (clusters, `MOST`), the largest part first; a row of -1 is none.
    The parts of a cluster, with those that are not kept, sum to ``value``: its score.
    """

    covered: Values  # of each row: how near the nearest unit comes to it, from 0 (as strangers do) to 1 (the same)
    covered_well: np.ndarray  # whether that is half-way or more (`utilities.coverage.WELL`)
    before: Values  # how near what was bought before comes
    units: Codes  # clusters that come nearer than that
    well: Codes  # clusters that do, and cover it well
    nearest: Codes  # a cluster that comes nearest; -1 where none does
    value: Values  # of each cluster
    rows: Codes  # how many rows it covers
    rows_well: Codes
    rows_nearest: Codes  # for how many nobody comes nearer
    row: Codes
    degree: Values
    part: Values
    place: Codes  # 1 where nobody comes nearer
    of_identity: Codes  # the same counts of each identity, in order of names
    of_identity_well: Codes
    of_identity_nearest: Codes

    def __len__(self) -> int:
        return len(self.covered)

    @property
    def least_covered(self) -> list[int]:
        """All rows, those first that are covered least."""
        found: list[int] = np.argsort(self.covered, kind="stable").tolist()
        return found

    @classmethod
    def none(cls) -> Needs:
        """Of a run that pays for something else."""
        empty: dict[str, Any] = {field.name: np.empty(0) for field in dataclasses.fields(cls)}
        return cls(**empty)

    @classmethod
    def read(cls, path: Path) -> Needs:
        """The record that a run left."""
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(**{field.name: file[field.name] for field in dataclasses.fields(cls)})
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise RunError(
                f"{str(path)!r} cannot be read ({error}); run verify, or pay into another folder"
            ) from error


def write_needs(results: Results, folder: Path) -> None:
    """Keep which units cover which validation rows."""
    from datamarket_gym.execution.runs import write_record

    write_record(folder / NEEDS, needs_of(results))


def needs_of(results: Results) -> Needs:
    """Which clusters of a run cover which validation rows; none where coverage is not what is paid for."""
    from datamarket_gym.utilities.coverage import WELL, CoverageScorer, covered_rows

    inputs, canonical, scores = results.inputs, results.payments.canonical, results.payments.scores
    scorer = results.utility.scorer(
        canonical.features,
        canonical.label,
        canonical.weight,
        scores.number[canonical.cluster],
        canonical.n_clusters,
    )
    if not isinstance(scorer, CoverageScorer):
        return Needs.none()
    shares, by_name = results.payments.shares, np.empty(len(results.names), dtype=np.int64)
    by_name[sorted(range(len(by_name)), key=results.names.__getitem__)] = np.arange(len(by_name))
    report = covered_rows(
        scorer,
        results.mechanism.semivalue,
        MOST,
        scores.number[shares.cluster],
        by_name[shares.identity],
        len(results.names),
    )
    order = inputs.validation_order(results.spec)
    place = np.argsort(order)
    return Needs(
        **{name: getattr(report, name)[place] for name in ("covered", "well", "nearest")},
        covered_well=report.covered[place] >= WELL,
        before=report.baseline[place],
        units=report.players[place],
        value=report.value,
        rows=report.counts[0],
        rows_well=report.counts[1],
        rows_nearest=report.counts[2],
        row=np.where(report.row < 0, -1, order[report.row]),
        degree=report.degree,
        part=report.part,
        place=report.place,
        of_identity=report.groups[0],
        of_identity_well=report.groups[1],
        of_identity_nearest=report.groups[2],
    )
