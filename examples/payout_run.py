"""A payout run of a small news archive: real articles, eight sellers, one attacker, one pair of twin accounts.

Usage: python examples/payout_run.py [--out runs/payout] [--rows 400]

Makes the tables an operator would have (submissions, validation rows, settings, an override), pays EUR 10,000.00,
explains the attacker's payment, approves the run and verifies it; without checks of units, which
examples/spot_checks.py shows. The articles are AG News, embedded by MiniLM; the
file agnews_minilm.npz is looked for in the folder that DATAMARKET_DATA names. Nothing of it is kept in the project.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym.market.datasets import data_file

SETTINGS = """\
amount = "10000.00"
currency = "EUR"
utility = "coverage"    # pay for how much of the validation rows units cover
checks = 0              # nobody is here to look at units, see examples/spot_checks.py; 3 of each payee are usual
theta = "auto"          # the lowest threshold that costs the honest at most 1 %
id = "article"
payee = "seller"
label = "section"
features = "embedding"
time = "submitted"
link = ["iban"]         # accounts that give one bank account are listed
confirm = "same_as"     # those that name each other are paid as one
"""

OVERRIDES = """\
[[split]]
units = ["article-0007"]
reason = "agency report that two sellers licensed independently; contracts seen"
by = "R. Okafor"
date = 2026-05-31
"""


def main() -> None:
    """Write the inputs, then run the four commands an operator needs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/payout"))
    parser.add_argument("--rows", type=int, default=400)
    chosen = parser.parse_args()
    write_inputs(chosen.out, chosen.rows)
    run, out = chosen.out / "run", chosen.out
    datamarket(
        "pay", out / "submissions.parquet", "--validation", out / "validation.parquet", "--out", run,
        "--config", out / "market.toml", "--overrides", out / "overrides.toml",
    )  # fmt: skip
    datamarket("explain", run, "--payee", "quick-copy")
    accepted = [w["name"] for w in json.loads((run / "warnings.json").read_text(encoding="utf-8"))]
    despite = [word for name in accepted for word in ("--accept", name)]  # after a look at each
    datamarket("ledger", "approve", run, "--by", "R. Okafor", *despite)
    datamarket("verify", run, "--recompute")


def write_inputs(out: Path, rows: int) -> None:
    """Submissions of eight sellers and an attacker who comes last, and validation rows from the test split."""
    with np.load(data_file("agnews_minilm.npz"), allow_pickle=False) as file:
        vectors, label, split = file["embeddings"].astype(np.float32), file["labels"], file["split"]
    rng = np.random.default_rng(0)
    train = rng.permutation(np.flatnonzero(split == "train"))[:rows]
    held = rng.permutation(np.flatnonzero(split != "train"))[:300]
    seller = [f"seller-{i % 8 + 1}" for i in range(rows)]
    stolen = rng.choice(rows, rows // 10, replace=False)
    noise = rng.normal(0, 0.01, (len(stolen), vectors.shape[1])).astype(np.float32)
    noise[::2] = 0.0  # every second one is an exact copy
    everything = np.vstack([vectors[train], vectors[train][stolen] + noise])
    names = [*seller, *["quick-copy"] * len(stolen)]
    iban = {"seller-2": "DE02 1203 0000 0000 2020 51", "seller-7": "DE02 1203 0000 0000 2020 51"}
    iban["quick-copy"] = (
        "IBAN of seller-1"  # a claim that seller-1 does not confirm, so it costs nothing
    )
    twin = {"seller-2": "seller-7", "seller-7": "seller-2"}
    out.mkdir(parents=True, exist_ok=True)
    table = {
        "article": [f"article-{i:04d}" for i in range(len(names))],
        "seller": names,
        "section": np.concatenate([label[train], label[train][stolen]]),
        "submitted": np.arange(len(names)) * np.timedelta64(60, "s")
        + np.datetime64("2026-05-01T09:00:00"),
        "iban": [iban.get(name, f"IBAN of {name}") for name in names],
        "same_as": [twin.get(name) for name in names],
        "embedding": _lists(everything),
    }
    pq.write_table(pa.table(table), out / "submissions.parquet")
    pq.write_table(
        pa.table({"section": label[held], "embedding": _lists(vectors[held])}),
        out / "validation.parquet",
    )
    (out / "market.toml").write_text(SETTINGS, encoding="utf-8")
    (out / "overrides.toml").write_text(OVERRIDES, encoding="utf-8")


def _lists(matrix: np.ndarray) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(
        pa.array(np.ascontiguousarray(matrix).ravel()), matrix.shape[1]
    )


def datamarket(*words: object) -> None:
    """Run a command as one would type it."""
    typed = [str(word) for word in words]
    sys.stdout.write(f"\n$ datamarket {shlex.join(typed)}\n")
    sys.stdout.flush()
    code = "from datamarket_gym.cli import main; main()"
    subprocess.run([sys.executable, "-c", code, *typed], check=True)


if __name__ == "__main__":
    main()
