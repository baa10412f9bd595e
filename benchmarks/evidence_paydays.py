"""A market of AG News articles, and paydays on it as an operator holds them; for `evidence_table.py`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym import DataMarketError, Submission, Utility, UtilityOracle, create, mechanism
from datamarket_gym.core.files import read_json
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.spec import payout_spec
from datamarket_gym.payout.stages import Places
from datamarket_gym.payout.warnings import read_warnings

SELLERS, EACH, SPARE, HELD = 8, 50, 100, 300
FIRST, LAST = "seller-1", "seller-8"
OPENS = np.datetime64("2026-05-01T09:00:00", "s")


@dataclass(frozen=True, eq=False)
class Units:
    """The columns of a file of submissions; blank entries of text columns are empty."""

    id: np.ndarray
    identity: np.ndarray
    features: np.ndarray
    label: np.ndarray
    time: np.ndarray
    iban: np.ndarray
    text: np.ndarray

    def __len__(self) -> int:
        return len(self.id)

    def take(self, rows: np.ndarray) -> Units:
        """Some of the rows."""
        return Units(**{name: column[rows] for name, column in vars(self).items()})

    def __add__(self, more: Units) -> Units:
        columns = {
            name: np.concatenate([column, getattr(more, name)]) for name, column in vars(self).items()
        }
        return Units(**columns)


def made(
    features: np.ndarray, label: np.ndarray, names: Any, when: Any, tag: str = "more", iban: str = ""
) -> Units:
    """Units that a thief adds, under one name or several."""
    n = len(label)
    return Units(
        np.array([f"{tag}-{i:04d}" for i in range(n)], dtype=object),
        np.broadcast_to(np.array(names, dtype=object), n),
        features,
        label,
        np.broadcast_to(np.array(when, dtype="datetime64[s]"), n),
        np.array([iban or f"IBAN of {name}" for name in np.broadcast_to(names, n)], dtype=object),
        np.full(n, "", dtype=object),
    )


@dataclass(frozen=True, eq=False)
class Market:
    """One draw: honest units, further articles that nobody submitted, and validation rows."""

    seed: int
    honest: Units
    spare: Units
    held_features: np.ndarray
    held_label: np.ndarray

    @classmethod
    def draw(cls, seed: int) -> Market:
        """The sellers' articles arrive in turn, one a minute."""
        providers = SELLERS + SPARE // EACH
        task = f"agnews(n_providers={providers}, per_provider={EACH}, validation={HELD}, content=true)"
        drawn = create("task", task).draw(seed)
        data, turn = drawn.dataset, np.arange(EACH) * SELLERS
        parts = []
        for p, rows in enumerate(drawn.provider_partition):
            name = f"seller-{p + 1}"
            when = OPENS + 60 * (turn + p) * np.timedelta64(1, "s")
            units = made(data.features[rows], data.label[rows], name, when, f"{name}-article")
            parts.append(replace(units, text=data.content["text"][rows]))
        honest = sum(parts[1:SELLERS], parts[0])
        return cls(
            seed, honest.take(np.argsort(honest.time, kind="stable")), sum(parts[SELLERS + 1 :], parts[SELLERS]),
            data.validation_features, data.validation_label,
        )  # fmt: skip

    @property
    def closing(self) -> np.datetime64:
        """A time after all honest units."""
        return self.honest.time.max() + np.timedelta64(3600, "s")

    def rng(self) -> np.random.Generator:
        """A generator of this market."""
        return np.random.default_rng([self.seed, 12])

    def of(self, *names: str) -> np.ndarray:
        """The rows of some sellers."""
        return np.flatnonzero(np.isin(self.honest.identity.astype(str), names))

    def others(self, thief: str) -> np.ndarray:
        """The rows of everybody else."""
        return np.flatnonzero(self.honest.identity != thief)


@dataclass(frozen=True)
class Paid:
    """Payments by name, the threshold and the warnings of a payday; or the error that stopped it."""

    by_name: dict[str, float]
    theta: float | None = None
    warned: tuple[str, ...] = ()
    error: str = ""

    def total(self, names: set[str]) -> float:
        """What some names are paid together."""
        return sum(amount for name, amount in self.by_name.items() if name in names)


@dataclass(frozen=True, eq=False)
class Case:
    """An attack to be paid: the files of the honest market and of the attacked one, and their settings."""

    attacked: Units
    honest: Units
    thief: str = LAST
    settings: dict[str, Any] = field(default_factory=dict)
    timed: bool = True
    source: np.ndarray | None = None  # of the attacked units; blank for all where the market is honest


class Office:
    """Where paydays of one market are held: writes the files, pays, and reads what was paid."""

    def __init__(self, market: Market, folder: Path, learner: str) -> None:
        self.market, self.folder, self.learner, self.count = market, folder, learner, 0
        self.validation = folder / f"validation-{market.seed}.parquet"
        rows = {"label": market.held_label, "features": _lists(market.held_features)}
        pq.write_table(pa.table(rows), self.validation)
        self.honest = self.pay(market.honest, {})
        self.theta = self.honest.theta or 0.85  # where similarity is not used, nothing is lost by trying
        ranked = sorted(self.honest.by_name, key=lambda name: -self.honest.by_name[name])
        self.victims = {thief: next(name for name in ranked if name != thief) for thief in (FIRST, LAST)}

    def pay(
        self, units: Units, settings: dict[str, Any], *, timed: bool = True, source: Any = None
    ) -> Paid:
        """One payday."""
        self.count += 1
        place = self.folder / f"{self.market.seed}-{self.count:02d}"
        place.mkdir()
        table = {
            "id": units.id, "identity": units.identity, "label": units.label,
            "features": _lists(units.features), "iban": units.iban,
        }  # fmt: skip
        if timed:
            table["time"] = units.time
        flags = {
            "amount": "10000.00",
            "currency": "EUR",
            "audit": False,
            "learner": self.learner,
            **settings,
        }
        if source is not None:
            table["source"] = pa.array([each or None for each in source], pa.string())
            flags["columns.trusted_source"] = "source"
        if timed:
            flags["opens"] = str(OPENS)
        pq.write_table(pa.table(table), place / "submissions.parquet")
        try:
            places = Places(place / "submissions.parquet", self.validation)
            pay(places, payout_spec(None, flags), place / "run")
        except DataMarketError as error:
            return Paid({}, error=str(error))
        rows = pq.read_table(
            place / "run" / "payments.parquet", columns=["identity", "payment"]
        ).to_pylist()
        theta = read_json(place / "run" / "threshold.json")["theta"]
        told = tuple(warning.name for warning in read_warnings(place / "run"))
        return Paid({row["identity"]: float(row["payment"]) for row in rows}, theta, told)

    def both(self, case: Case) -> tuple[Paid, Paid]:
        """The honest and the attacked payday of a case."""
        blank = None if case.source is None else [""] * len(case.honest)
        plain = case.honest is self.market.honest and case.timed and not case.settings and blank is None
        before = self.honest
        if not plain:
            before = self.pay(case.honest, case.settings, timed=case.timed, source=blank)
        return before, self.pay(case.attacked, case.settings, timed=case.timed, source=case.source)


def _lists(matrix: np.ndarray) -> pa.FixedSizeListArray:
    flat = pa.array(np.ascontiguousarray(matrix, dtype=np.float64).ravel())
    return pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])


# Leaked rows without a payday.

ELSEWHERE = {"6d leaked rows, synthetic": "synthetic", "6e leaked rows, digits": "digits"}
"""The tasks on which leaked rows are paid by the mechanism alone."""


def leaked_elsewhere(seed: int, task: str, learner: str) -> tuple[Paid, Paid]:
    """The same on another market, through the mechanism; half of the validation rows leak."""
    features, label, held, held_label, owner = (_synthetic if task == "synthetic" else _digits)(seed)
    known = np.arange(len(held_label) // 2)
    utility = UtilityOracle(held, held_label, Utility.paying(learner))

    def paid(x: np.ndarray, y: np.ndarray, names: np.ndarray) -> Paid:
        units = Submission(
            id=np.arange(len(y)).astype(str),
            identity=names,
            features=x,
            label=y,
            time=np.arange(float(len(y))),
        )
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                found = mechanism("recommended").pay(units, utility).as_dict()
            except DataMarketError as error:
                return Paid({}, error=str(error))
        return Paid(found, warned=tuple(each.category.__name__ for each in told))

    before = paid(features, label, owner)
    after = paid(
        np.concatenate([features, held[known]]),
        np.concatenate([label, held_label[known]]),
        np.concatenate([owner, np.full(len(known), LAST)]),
    )
    rate = 10_000 / (sum(before.by_name.values()) or 1.0)
    return tuple(  # type: ignore[return-value]
        replace(each, by_name={name: rate * amount for name, amount in each.by_name.items()})
        for each in (before, after)
    )


Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _synthetic(seed: int) -> Rows:
    drawn = create("task", "synthetic").draw(seed)
    rows, data = np.concatenate(drawn.provider_partition), drawn.dataset
    owner = np.repeat([f"seller-{i + 1}" for i in range(SELLERS)], len(rows) // SELLERS)
    return data.features[rows], data.label[rows], data.validation_features, data.validation_label, owner


def _digits(seed: int) -> Rows:
    from sklearn.datasets import load_digits

    features, label = load_digits(return_X_y=True)
    rows = np.random.default_rng(seed).permutation(len(label))
    own, held = rows[: SELLERS * EACH], rows[SELLERS * EACH :][:200]
    owner = np.array([f"seller-{i % SELLERS + 1}" for i in range(len(own))])
    return features[own], label[own], features[held], label[held], owner
