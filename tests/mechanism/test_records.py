"""Every stage's record survives a file to the last bit; nothing else may be in it, and nothing half-written."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence import Clusters
from datamarket_gym.execution.runs import read_record, write_record
from datamarket_gym.mechanism import CanonicalUnits, get_mechanism, match_units, represent_clusters
from datamarket_gym.mechanism.allocation import Amounts
from datamarket_gym.mechanism.quotient_game import Scores
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility


def same(one, other):
    """Whether two records are equal in every field, to the bit and in kind."""
    assert type(one) is type(other)
    for field in (f for f in dataclasses.fields(one) if f.metadata.get("recorded", True)):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if dataclasses.is_dataclass(a):
            same(a, b)
        elif isinstance(a, np.ndarray):
            assert a.dtype == b.dtype and a.shape == b.shape, field.name  # noqa: PT018
            assert a.tobytes() == b.tobytes(), field.name
        else:
            assert type(a) is type(b) and a == b, field.name  # noqa: PT018


@dataclass(frozen=True, eq=False)
class Inner:
    """A record within a record."""

    names: np.ndarray
    why: str


@dataclass(frozen=True, eq=False)
class Outer:
    """One of every kind of field."""

    inner: Inner
    numbers: np.ndarray
    empty: np.ndarray
    keys: np.ndarray
    count: int
    part: float
    sure: bool
    maybe: float | None = None
    absent: np.ndarray | None = None


def outer(**changes):
    inner = Inner(np.array(["ü", "", "a" * 30]), "because")
    numbers = np.array([[0.1, -0.0], [np.nan, 5e-324]])
    keys = np.array([b"k", b"key"], dtype="S64")
    return Outer(inner, numbers, np.empty((0, 7)), keys, 3, 1 / 3, True, **changes)


def test_all_kinds_of_fields_survive(tmp_path):
    for record in (outer(), outer(maybe=0.5, absent=np.arange(3))):
        write_record(tmp_path / "deep" / "r.npz", record)
        same(read_record(tmp_path / "deep" / "r.npz", Outer), record)


def test_the_same_record_gives_the_same_bytes_and_nothing_is_left_aside(tmp_path):
    for name in ("a.npz", "b.npz"):
        write_record(tmp_path / name, outer())
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with pytest.raises(ValueError, match="Object arrays"):
        write_record(tmp_path / "a.npz", Inner(np.array([None, {}]), "no objects"))
    same(read_record(tmp_path / "a.npz", Outer), outer())
    assert {path.name for path in tmp_path.iterdir()} == {"a.npz", "b.npz"}


def test_a_damaged_or_foreign_file_is_named(tmp_path):
    write_record(tmp_path / "inner.npz", outer().inner)
    whole = (tmp_path / "inner.npz").read_bytes()
    (tmp_path / "short.npz").write_bytes(whole[: len(whole) // 2])
    for name, kind in (("short.npz", Inner), ("inner.npz", Outer), ("absent.npz", Inner)):
        with pytest.raises(DataMarketError, match=name):
            read_record(tmp_path / name, kind)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"representative": "weight_normalized@2.0", "normalize": True, "semivalue": "banzhaf"},
        {"representative": "capped(kappa=2, pick=centroid)", "allocation": "latent_share"},
    ],
)
def test_what_was_paid_can_be_read_back(market, tmp_path, changes):
    profile = create("attack", "near_duplicate_2x_sybils").apply(0, market.state)
    m = get_mechanism("recommended", **changes)
    paid = m.pay(profile.submission, market.utility_oracle(Utility("knn", "chance")), profile.truth)
    kinds = {"clustering": Clusters, "canonical": CanonicalUnits, "scores": Scores, "shares": Amounts}
    for name, kind in kinds.items():
        write_record(tmp_path / f"{name}.npz", getattr(paid, name))
        same(read_record(tmp_path / f"{name}.npz", kind), getattr(paid, name))


@pytest.mark.parametrize("representative", ["capped", "identity", "capped(kappa=1, pick=centroid)"])
def test_rows_that_are_submitted_units_are_kept_as_numbers(market, tmp_path, representative):
    submission = create("attack", "exact_dup_2x_sybils").apply(0, market.state).submission
    m = get_mechanism("recommended", representative=representative, evidence="hybrid_hash_cosine@0.9")
    canonical = represent_clusters(match_units(m, submission), m.representative)
    kept = canonical.stored()
    assert (
        len(kept.features)
        == len(kept.keys)
        == (len(canonical.unit) if "centroid" in representative else 0)
    )
    write_record(tmp_path / "r.npz", kept)
    same(read_record(tmp_path / "r.npz", CanonicalUnits).restored(submission), canonical)


@dataclasses.dataclass(frozen=True)
class _Older:
    """What a version before wrote: no bias."""

    number: int


@dataclasses.dataclass(frozen=True)
class _Newer:
    number: int
    bias: float = 0.0
    live: dict | None = dataclasses.field(default=None, metadata={"recorded": False})


def test_a_field_that_came_later_has_its_default_and_what_is_not_recorded_stays_out(tmp_path):
    write_record(tmp_path / "old.npz", _Older(3))
    assert read_record(tmp_path / "old.npz", _Newer) == _Newer(3, 0.0)
    write_record(tmp_path / "new.npz", _Newer(3, 0.5, {"a": 1}))
    assert read_record(tmp_path / "new.npz", _Newer) == _Newer(3, 0.5)
