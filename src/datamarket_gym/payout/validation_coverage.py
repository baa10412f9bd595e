"""Covered validation rows: a run that pays for coverage keeps which units cover which validation rows.

The record has the numbers of validation rows, and none of their content, which stays in the operator's file. Reading it
is light, as `explain` answers within a second; only computing a run needs the pipeline.
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
"""So many validation rows are kept of each cluster: those that bring it most."""


@dataclass(frozen=True, eq=False)
class Needs:
    """Validation rows by their number in the file, clusters by the number that tables give them, identities by name.

    ``row``, ``degree``, ``part`` and ``place`` are (clusters, `MOST`), the largest part first; a row of -1 is none.
    The parts of a cluster, with those that are not kept, sum to ``value``: its score.
    """

    covered: Values  # of each row: how near the nearest unit comes to it, from 0 (as strangers do) to 1 (the same)
    covered_well: np.ndarray  # whether that is half-way or more (`utilities.coverage.WELL`)
    before: Values  # how near what was acquired before comes
    units: Codes  # clusters that come nearer than that
    well: Codes  # clusters that do, and cover it well
    nearest: Codes  # a cluster that comes nearest; -1 where none does
    value: Values  # of each cluster
    rows: Codes  # how many rows it covers
    rows_well: Codes
    rows_nearest: Codes  # for how many no cluster comes nearer
    row: Codes
    degree: Values
    part: Values
    place: Codes  # 1 where no cluster comes nearer
    of_identity: Codes  # the same counts of each identity, in order of names
    of_identity_well: Codes
    of_identity_nearest: Codes

    def __len__(self) -> int:
        return len(self.covered)

    @property
    def least_covered(self) -> list[int]:
        """All rows, those first that are covered least."""
        rows: list[int] = np.argsort(self.covered, kind="stable").tolist()
        return rows

    @classmethod
    def read(cls, path: Path) -> Needs:
        """Read the record that a run left."""
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(**{field.name: file[field.name] for field in dataclasses.fields(cls)})
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise RunError(
                f"{str(path)!r} cannot be read ({error}); run verify, or pay into another folder"
            ) from error


def write_needs(results: Results, folder: Path) -> None:
    """Keep which units cover which validation rows; nothing where coverage is not what is paid for."""
    from datamarket_gym.execution.runs import write_record
    from datamarket_gym.utilities.coverage import WELL, CoverageScorer, covered_rows

    canonical, scores, names = results.payments.canonical, results.payments.scores, results.names
    clusters = scores.number[canonical.cluster]
    scorer = results.utility.scorer(
        canonical.features, canonical.label, canonical.weight, clusters, canonical.n_clusters
    )
    if not isinstance(scorer, CoverageScorer):
        empty: dict[str, Any] = {field.name: np.empty(0) for field in dataclasses.fields(Needs)}
        write_record(folder / NEEDS, Needs(**empty))
        return
    shares, by_name = results.payments.shares, np.empty(len(names), dtype=np.int64)
    by_name[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    cluster, identity = scores.number[shares.cluster], by_name[shares.identity]
    report = covered_rows(scorer, results.mechanism.semivalue, MOST, cluster, identity, len(names))
    order = results.inputs.validation_order(results.spec)
    place = np.argsort(order)
    rows, rows_well, rows_nearest = report.counts
    of_identity, of_identity_well, of_identity_nearest = report.groups
    needs = Needs(
        covered=report.covered[place],
        covered_well=report.covered[place] >= WELL,
        before=report.baseline[place],
        units=report.players[place],
        well=report.well[place],
        nearest=report.nearest[place],
        value=report.value,
        rows=rows,
        rows_well=rows_well,
        rows_nearest=rows_nearest,
        row=np.where(report.row < 0, -1, order[report.row]),
        degree=report.degree,
        part=report.part,
        place=report.place,
        of_identity=of_identity,
        of_identity_well=of_identity_well,
        of_identity_nearest=of_identity_nearest,
    )
    write_record(folder / NEEDS, needs)
