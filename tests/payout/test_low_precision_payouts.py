"""A payout_run of units that are stored narrow is, to the byte, that of the same numbers as float64."""

import numpy as np
import pytest
from acquired_files import again, fresh, july, june, stacked
from logged_files import log, paid_by_log
from payout_files import DIMENSIONS, outputs, run, units, validation

from datamarket_gym.execution import arrays as narrow_module
from datamarket_gym.execution.arrays import LowPrecisionRows
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.settings import checked_spec
from datamarket_gym.payout.stored_inputs import Places


def halves(columns):
    """The same columns with numbers that half precision holds."""
    return {
        name: column.astype(np.float16)
        if isinstance(column, np.ndarray) and column.ndim == 2
        else column
        for name, column in columns.items()
    }


def with_embedding(columns, seed):
    vectors = np.random.default_rng(seed).normal(size=(len(columns["label"]), DIMENSIONS))
    return {**columns, "embedding": vectors.astype(np.float16)}


def plain(folder):
    return run(folder, halves(units()), halves(validation()), theta="0.9")


def embedded(folder):
    held = with_embedding(halves(validation()), 1)
    return run(folder, with_embedding(halves(units()), 2), held, theta="0.9", learner="knn")


def attacked(folder):
    few, held = halves(units(n=8, copies=2, identities=2)), halves(validation())
    return run(folder, few, held, learner="ridge", audit=True)


def set_aside(folder):
    submitted = halves(units())
    submitted["features"][7, 2], submitted["features"][9, 1] = np.nan, -np.inf
    return run(folder, submitted, halves(validation()), quarantine=True)


def leaked(folder):
    submitted, held = halves(units()), halves(validation())
    submitted["features"][3], submitted["label"][3] = held["features"][5], held["label"][5]
    return run(folder, submitted, held, theta="0.9")


def second_month(folder):
    first = june(folder)
    submitted = stacked(fresh(), again(units(), [3, 4], "seller 1"))
    return july(folder, halves(submitted), [first], held=halves(validation())) or folder / "july" / "run"


def by_log(folder):
    """Dated by one log, which was entered before units were narrow: they have the digests that it holds."""
    where = folder.parents[1] / "log.sqlite"
    if not where.exists():
        log(where, halves(units()))
    return paid_by_log(folder, halves(units()), halves(validation()), where)


@pytest.mark.parametrize("paid", [plain, embedded, attacked, set_aside, leaked, second_month, by_log])
def test_all_that_is_written_is_the_same_to_the_byte(tmp_path, paid, monkeypatch):
    wide = outputs(paid(tmp_path / "wide" / "same"))
    monkeypatch.setattr(narrow_module, "WHOLE", 0)
    if paid is plain:  # they are narrow indeed
        folder = tmp_path / "wide" / "same" / "in"
        found = read_inputs(
            Places(folder / "units.parquet", folder / "validation.parquet"),
            checked_spec({"amount": "1.00"}),
        )
        assert isinstance(found.submission.features, LowPrecisionRows)
    narrow = outputs(paid(tmp_path / "narrow" / "same"))
    assert wide.keys() == narrow.keys()
    assert [name for name in wide if wide[name] != narrow[name]] == []
