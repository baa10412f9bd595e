"""Small tables of units for the payout tests, and a run over them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym.execution.files import sha256
from datamarket_gym.payout.ledger import runs
from datamarket_gym.payout.ledger.runs import ledger_of, ledger_warnings, run_of
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.settings import checked_spec
from datamarket_gym.payout.stored_inputs import Places

DIMENSIONS = 6


def units(n=60, identities=4, seed=0, copies=6):
    """A dict of columns: units of a few identities, the last of whom copies some of the others'."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n)
    centres = 2.0 * np.eye(3, DIMENSIONS)
    features = centres[label] + rng.normal(0, 0.6, (n, DIMENSIONS))
    identity = [f"seller {i % identities}" for i in range(n)]
    time = np.arange(n, dtype=np.float64)
    stolen = rng.choice(n, copies, replace=False)
    half = copies // 2
    noisy = features[stolen[half:]] + rng.normal(0, 0.01, (copies - half, DIMENSIONS))
    features = np.vstack([features, features[stolen[:half]], noisy])
    total = n + copies
    return {
        "id": [f"u{i}" for i in range(total)],
        "identity": [*identity, *["attacker"] * copies],
        "label": np.concatenate([label, label[stolen]]),
        "time": np.concatenate([time, 1000.0 + np.arange(copies)]),
        "features": features,
    }


def validation(n=40, seed=1):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n)
    return {
        "label": label,
        "features": 2.0 * np.eye(3, DIMENSIONS)[label] + rng.normal(0, 0.6, (n, DIMENSIONS)),
    }


def bare(columns, label=None):
    """The columns without their labels, or with others."""
    left = {name: column for name, column in columns.items() if name != "label"}
    return left if label is None else left | {"label": label}


def table(columns):
    out = {}
    for name, column in columns.items():
        if isinstance(column, np.ndarray) and column.ndim == 2:
            flat = pa.array(np.ascontiguousarray(column).ravel())
            out[name] = pa.FixedSizeListArray.from_arrays(flat, column.shape[1])
        else:
            out[name] = pa.array(column)
    return pa.table(out)


def rows(columns, order):
    """The same columns with rows in another order."""
    return {
        n: c[order] if isinstance(c, np.ndarray) else [c[i] for i in order] for n, c in columns.items()
    }


def write(folder, submitted=None, held=None):
    """Parquet files of both tables; their places."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(submitted or units()), folder / "units.parquet")
    pq.write_table(table(held or validation()), folder / "validation.parquet")
    return Places(folder / "units.parquet", folder / "validation.parquet")


def spec(**changes):
    """Settings of a payout run by plain coverage; checks are asked for by the tests that are about them."""
    plain = {"learner": "coverage", "audit": False, "theta": "none", "checks": 0}
    return checked_spec({"amount": "1000.00", **plain, **changes})


def run(folder, submitted=None, held=None, overrides=None, ledger=None, **changes):
    """Pay the tables; the folder of the run. Its ledger lies beside it, unless another is named."""
    places = write(folder / "in", submitted, held)
    places = Places(places.submissions, places.validation, overrides)
    pay(places, spec(**changes), folder / "run", ledger=None if ledger is None else str(ledger))
    return folder / "run"


def copied(folder, place):
    """A copy of a run and of all that lies beside it, its ledger above all; the run's folder in the copy."""
    shutil.copytree(folder.parent, place)
    return place / folder.name


def approve(folder, by="tester"):
    """Approve a run whatever its warnings, and those of the ledger, say; its state."""
    accounts = ledger_of(folder).accounts()
    found = ledger_warnings(accounts, run_of(folder, accounts))
    accepted = [*warned(folder), *(warning.name for warning in found)]
    return runs.approve(folder, sha256(folder / "manifest.json"), by, accepted)


def events(folder):
    """What has happened to a run, by the ledger; its payments and balances left out."""
    kinds = [entry.kind for entry in run_of(folder).history]
    return [kind for kind in kinds if kind not in ("payment", "carried_forward")]


def run_by_accuracy(folder, *tables, **changes):
    """The same by k-NN accuracy: coverage has no scores below zero, so that netting would cost nobody anything."""
    return run(folder, *tables, **{"learner": "knn", **changes})


def payments(folder):
    """Rows of payments.parquet by identity."""
    return {row["identity"]: row for row in pq.read_table(folder / "payments.parquet").to_pylist()}


def cents(folder, column="payment"):
    return {name: round(float(row[column]) * 100) for name, row in payments(folder).items()}


def warned(folder):
    """The names of a run's warnings."""
    return [row["name"] for row in json.loads((folder / "warnings.json").read_text())]


def outputs(folder):
    """The bytes of every file that follows from the inputs."""
    manifest = json.loads((folder / "manifest.json").read_text())
    names = [*manifest["outputs"], "manifest.json"]
    return {name: Path(folder / name).read_bytes() for name in names}
