"""How long the question "why did I get this?" takes: for one payee (explain), and a page for each (statements).

The market: 384 numbers per unit; every fifth unit is an exact copy of an earlier one, a quarter of these copies of the
same unit, which so stands in one cluster with thousands. Each command is a new process, its start included. Seconds
are those of the clock, and those that the process had of the processors: on a busy machine the latter count.

Usage: python benchmarks/explain_scale.py 100000 1000
       python benchmarks/explain_scale.py 100000 1000 --run RUN/    (an earlier run of this benchmark, or any other)
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym.payout.run import pay
from datamarket_gym.payout.spec import checked_spec
from datamarket_gym.payout.stages import Places
from payout_scale import DIMENSIONS, TOPICS, draw, lists, spectrum

_COMMAND = "from datamarket_gym.cli import main; main()"
_TIMES = 20


def write(folder: Path, n: int, payees: int, validation: int) -> Places:
    """The market's tables."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(TOPICS, DIMENSIONS)) * spectrum()
    vectors, label = draw(rng, n, centres)
    last = np.arange(n - n // 5, n)  # copies of earlier units, a quarter of them of the first
    source = rng.integers(0, n - len(last), len(last))
    source[: n // 20] = 0
    vectors[last], label[last] = vectors[source], label[source]
    held, held_label = draw(rng, validation, centres)
    identity = [f"payee {i}" for i in rng.integers(0, payees - 1, n)]
    identity[0] = "the most copied"
    columns = {
        "id": [f"unit {i}" for i in range(n)],
        "identity": identity,
        "label": label,
        "time": np.arange(n, dtype=np.float64),
        "features": lists(vectors),
    }
    pq.write_table(pa.table(columns), folder / "units.parquet")
    held_table = pa.table({"label": held_label, "features": lists(held)})
    pq.write_table(held_table, folder / "validation.parquet")
    return Places(folder / "units.parquet", folder / "validation.parquet")


def timed(*words: str) -> tuple[float, float]:
    """Seconds of a command as a new process: of the clock and of the processors."""
    started, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-c", _COMMAND, *words], check=True, stdout=subprocess.DEVNULL)
    spent, after = time.perf_counter() - started, os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return round(spent, 2), round(used, 2)


def main() -> None:
    """Make a run, unless one is given, and ask."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("units", type=int)
    parser.add_argument("payees", type=int)
    parser.add_argument("--validation", type=int, default=500)
    parser.add_argument("--run", type=Path, help="a run's folder, made there where it is not yet")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        run = chosen.run or Path(base) / "run"
        if not (run / "manifest.json").exists():
            places = write(Path(base), chosen.units, chosen.payees, chosen.validation)
            used = time.process_time()
            pay(places, checked_spec({"amount": "100000.00", "audit": False, "theta": "none"}), run)
            sys.stdout.write(f"pay: {time.process_time() - used:.1f} s of one processor\n")
        manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
        payments = pq.read_table(run / "payments.parquet")["identity"].to_pylist()
        clusters = pq.read_table(run / "clusters.parquet", columns=["identity", "units_in_cluster"])
        largest = int(np.argmax(clusters["units_in_cluster"].to_numpy()))
        asked = {
            "who came first in the largest cluster": clusters["identity"][largest].as_py(),
            "who came second in it": clusters["identity"][largest + 1].as_py(),
            "the best paid": payments[0],
            "the one in the middle": payments[len(payments) // 2],
        }
        seconds = {
            f"explain, {who}": [timed("explain", str(run), "--payee", name) for _ in range(_TIMES)]
            for who, name in asked.items()
        }
        seconds["statements"] = [timed("statements", str(run), "--out", str(Path(base) / "statements"))]
        for what, each in seconds.items():
            (best, middle), (least, half) = (
                (min(values), round(median(values), 2)) for values in zip(*each, strict=True)
            )
            sys.stdout.write(
                f"{what}: {best} s by the clock at best, {middle} in the middle of {len(each)}; {least} and {half} of "
                "processors\n"
            )
        size = clusters["units_in_cluster"][largest].as_py()
        told = {name: manifest[name] for name in ("units", "identities", "clusters", "ties")}
        sys.stdout.write(json.dumps({**told, "largest_cluster": size, "seconds": seconds}) + "\n")


if __name__ == "__main__":
    main()
