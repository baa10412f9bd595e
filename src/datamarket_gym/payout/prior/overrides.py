"""Overrides of what was bought before: a unit of an earlier run is named ``RUN:UNIT``, as prior.parquet has it.

A split that names a unit and the earlier one that it was taken for says that it is another. A split that names the unit
alone unties it from units of its own run and from no earlier one: a decision about one period, which stands for all
later ones, must not let the same unit be sold again. A join with an earlier unit says that it is that one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from datamarket_gym.payout.names import visible
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.prior.runs import PriorError
from datamarket_gym.payout.prior.units import PriorUnits
from datamarket_gym.pipeline.prior import Known


def overridden_known(
    known: Known, overrides: Sequence[Override], prior: PriorUnits, ids: Sequence[str]
) -> tuple[Known, list[Override]]:
    """What was bought before, after the overrides that name earlier units; and what they say of new units alone."""
    place = {name: i for i, name in enumerate(ids)} if overrides else {}
    rest = []
    for each in overrides:
        earlier = {name: row for name in each.units if (row := prior.row_of(name)) is not None}
        if twice := next((name for name in earlier if name in place), None):
            raise PriorError(
                f"an override names {visible(twice)!r}, which is a unit of this run and one of an earlier run, too: "
                "whoever submits a unit writes its id. Give that unit of this run another id, and pay again"
            )
        if not earlier:
            rest.append(each)
            continue
        known, done = _applied(known, each, earlier, place)
        if left := [name for name in each.units if name not in done]:
            rest.append(each.model_copy(update={"units": left}))
    for each in rest:
        if each.action == "split" and each.dispute is None:
            _require_free(known, each, prior, place, ids)
    return known, rest


def _applied(
    known: Known, override: Override, earlier: Mapping[str, int], place: Mapping[str, int]
) -> tuple[Known, set[str]]:
    """Known units after an override that names earlier ones, and the names that it is done with."""
    rows = np.array(list(earlier.values()), dtype=np.int64)
    named = {place[name]: name for name in override.units if name in place}
    ours = np.array(list(named), dtype=np.int64)
    if override.action == "join":
        if not len(ours):
            raise PriorError(
                f"an override joins {visible(next(iter(earlier)))!r}, which was bought before, with no unit of this "
                "run; name one"
            )
        others = known.where(~np.isin(known.unit, ours))
        joined = Known(
            np.concatenate([others.unit, ours]),
            np.concatenate([others.old, np.full(len(ours), rows[0])]),
            np.concatenate([others.score, np.ones(len(ours))]),
            np.concatenate([others.reason, np.full(len(ours), "override")]),
        )
        return joined.where(np.argsort(joined.unit)), {*earlier, *named.values()}
    freed = np.isin(known.unit, ours) & np.isin(known.old, rows)
    if not freed.any() and override.dispute is None:
        raise PriorError(
            f"an override splits from {visible(next(iter(earlier)))!r}, which was bought before, and none of the units "
            "that it names was taken for that one; prior.parquet says which was taken for what (tied_to)"
        )
    return known.where(~freed), {*earlier, *(named[unit] for unit in known.unit[freed].tolist())}


def _require_free(
    known: Known, split: Override, prior: PriorUnits, place: Mapping[str, int], ids: Sequence[str]
) -> None:
    """Refuse a split of a unit that was bought before, which would change nothing."""
    ours = np.array([place[name] for name in split.units if name in place], dtype=np.int64)
    for i in np.flatnonzero(np.isin(known.unit, ours)).tolist():
        unit, tied = visible(ids[known.unit[i]]), visible(prior.name(int(known.old[i])))
        raise PriorError(
            f"an override splits {unit!r}, which was taken for a unit that was bought before; if it is another, name "
            f"both: units = [{unit!r}, {tied!r}]"
        )
