"""Rows for the page of thresholds: tables, a small payout run, and what the library says of them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from job_answers import followed
from PIL import Image

from datamarket_gym.data.submission import Submission
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.settings import checked_spec
from datamarket_gym.payout.stored_inputs import Places

MARKUP = "<b>bold</b> & <img src=x onerror=alert(1)>"


def vectors(n, seed, d=6):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 3, n)
    return label, 2.0 * np.eye(3, d)[label] + rng.normal(0, 0.6, (n, d))


def listed(matrix):
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def units_table(n=90, seed=0, copies=6):
    """Units of four sellers and of one who copies, with texts."""
    label, found = vectors(n, seed)
    rng = np.random.default_rng(seed + 1)
    found = np.vstack([found, found[:copies] + rng.normal(0, 0.01, (copies, found.shape[1]))])
    return pa.table(
        {
            "id": [f"u{i}" for i in range(n + copies)],
            "identity": [*(f"seller {i % 4}" for i in range(n)), *[MARKUP] * copies],
            "label": np.concatenate([label, label[:copies]]),
            "time": np.arange(n + copies, dtype=float),
            "features": listed(found),
            "text": [f"unit {i} says {MARKUP}" for i in range(n + copies)],
        }
    )


def held_table(n, seed):
    label, found = vectors(n, seed)
    return pa.table({"label": label, "features": listed(found)})


def made_run(market, run="run", inputs=None):
    """A payout run with reference rows; the inputs lie in the market's folder unless another is named."""
    inputs = inputs or market / "in"
    inputs.mkdir(parents=True, exist_ok=True)
    pq.write_table(units_table(), inputs / "units.parquet")
    pq.write_table(held_table(60, 5), inputs / "validation.parquet")
    pq.write_table(held_table(140, 6), inputs / "reference.parquet")
    places = Places(
        inputs / "units.parquet", inputs / "validation.parquet", reference=inputs / "reference.parquet"
    )
    pay(
        places,
        checked_spec({"amount": "100.00", "audit": False, "theta": "auto", "checks": 0}),
        market / run,
        ledger=str(market / "ledger.db"),
    )
    return market / run


def picture_run(market):
    """A payout run of folders of small images: sellers hold classes, and the operator holds classes."""
    rng = np.random.default_rng(3)
    for i in range(24):
        for place in (market / "units" / f"seller {i % 3}", market / "held"):
            folder = place / "ab"[i % 2]
            folder.mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{i:02d}.png")
    spec = {"amount": "100.00", "audit": False, "checks": 0, "encoder": "thumbnail"}
    pay(
        Places(market / "units", market / "held"),
        checked_spec(spec),
        market / "run",
        ledger=str(market / "ledger.db"),
    )
    return market / "run"


def asked(client, path, **body):
    """The answer, once it is there."""
    return followed(client, client.post(f"/api/threshold/{path}", json=body))


def plain(value):
    """As JSON has it."""
    return json.loads(json.dumps(value))


def merged(rows, theta, owner=None, label=None):
    """Components of cosine evidence at theta, by the library: number, largest, and how many mix."""
    names = np.array([f"u{i:05d}" for i in range(len(rows))])
    found = EvidenceGraph.build(Submission(names, names, rows), "cosine", theta).label
    sizes = np.bincount(found)

    def mixing(codes):
        return sum(
            len(set(np.asarray(codes)[found == c].tolist())) > 1 for c in np.flatnonzero(sizes > 1)
        )

    return {
        "components": len(sizes),
        "largest": int(sizes.max()),
        "owners": None if owner is None else mixing(owner),
        "classes": None if label is None else mixing(label),
    }
