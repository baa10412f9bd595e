"""Units that were paid for before are noticed, whatever the file looks like that they are in now."""

import numpy as np
import payout_files as files
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from datamarket_gym.payout.ledger.runs import ledger_of, ledger_warnings, run_of
from datamarket_gym.payout.manifest import LEAST, Contents
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import Places


@pytest.fixture
def june(tmp_path):
    folder = files.run(tmp_path / "market")
    files.approve(folder)
    return folder


def said_of(folder):
    accounts = ledger_of(folder).accounts()
    return {w.name: w for w in ledger_warnings(accounts, run_of(folder, accounts))}


def paid_again(june, submitted, name="units.parquet", write=pq.write_table, **changes):
    """The folder of another run in the same ledger, of a file that is written so."""
    place = june.parent / "again"
    place.mkdir()
    write(files.table(submitted), place / name)
    places = Places(place / name, june.parent / "in" / "validation.parquet")
    pay(places, files.spec(**changes), place / "run", ledger=str(june.parent / "ledger.sqlite"))
    return place / "run"


def single(columns):
    return columns | {"features": columns["features"].astype(np.float32)}


@pytest.mark.parametrize(
    "disguise",
    [
        lambda u: files.rows(u, [1, 0, *range(2, len(u["id"]))]),
        lambda u: u | {"note": ["mine"] * len(u["id"])},
        lambda u: u | {"id": [f"new {name}" for name in u["id"]]},
        lambda u: files.rows(u, range(1, len(u["id"]))),
        single,
    ],
    ids=["two rows moved", "a column more", "other names", "a row less", "other numbers"],
)
def test_the_same_units_in_another_file_are_noticed(june, disguise):
    again = paid_again(june, disguise(files.units()), period="July 2026", currency="USD")
    assert said_of(again)["same_submissions"].title == "the same submissions were paid for before"


def test_another_format_is_no_disguise(june):
    flat = files.units()
    features = flat.pop("features")
    names = [f"f{i}" for i in range(features.shape[1])]
    flat |= {name: features[:, i] for i, name in enumerate(names)}
    place = june.parent / "again"
    place.mkdir()
    pyarrow.csv.write_csv(files.table(flat), place / "units.csv")
    found = pyarrow.csv.read_csv(place / "units.csv")
    read = np.stack([found[name].to_numpy() for name in names], axis=1)
    assert Contents.of(read) == run_of(june).contents


def test_some_units_that_were_paid_for_are_counted_and_new_ones_are_not(june):
    new, old = files.units(seed=9, n=66, copies=0), files.units()
    mixed = new | {"features": np.vstack([old["features"][:20], new["features"][20:]])}
    assert said_of(paid_again(june, mixed))["same_submissions"].title.startswith("about 3")


def test_a_new_month_has_no_such_warning(june):
    assert "same_submissions" not in said_of(paid_again(june, files.units(seed=9)))


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 1.0])
def test_the_estimate_for_many_units_is_near(part):
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 20_000, 3))
    other[: int(part * 20_000)] = one[: int(part * 20_000)]
    first, second = Contents.of(one), Contents.of(other[::-1])
    assert len(first.least) == LEAST
    assert first.distinct == 20_000
    # Of LEAST sampled of the union a part J is shared; four standard errors of it, as units.
    union = part / (2 - part)
    near = 4 * 40_000 * np.sqrt(union * (1 - union) / LEAST) / (1 + union) ** 2
    assert abs(first.shared(second) - part * 20_000) <= near + 1e-6
