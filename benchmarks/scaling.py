"""Measure how seconds and memory grow with units and validation rows, one workload at a time.

    python benchmarks/scaling.py search coverage knn --units 1000 10000 100000
    python benchmarks/scaling.py payout --units 100000 1000000 --identities 1000 --stages
    python benchmarks/scaling.py coverage knn --units 100000 --validation 100 1000 10000 --device cuda
    python benchmarks/scaling.py payout --units 100000 --keep NEW      # keeps the market and the run
    python benchmarks/scaling.py --compare OLD/run NEW/run             # the identities that are paid differently
    python benchmarks/scaling.py --draw docs/benchmarks/scale.json docs/figures

Each figure is measured in a process of its own. Units have 384 numbers around 20 broad topics; every tenth is a noisy
copy. `WORKLOADS` lists what is measured. `pass` is the least that anybody who compares all units with all validation
rows does: one float32 product and the selection of the five nearest units of each row, on one core.

Exponents are slopes of log CPU seconds on log size over the largest three sizes: there work takes the time, not
start-up.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DIMENSIONS, TOPICS, CLASSES, NEAREST, THETA = 384, 20, 4, 5, 0.95
BLOCK = 8192  # rows that are drawn and written at a time
UNITS, VALIDATION = "units.parquet", "validation.parquet"
Row = dict[str, Any]
Work = Callable[[], Any]


class Market:
    """Units, every tenth of them a noisy copy of an earlier one, and validation rows, drawn in blocks."""

    def __init__(self, units: int, validation: int) -> None:
        self.units, self.validation = units, validation
        self.rng = np.random.default_rng(0)
        self.spectrum = np.arange(1, DIMENSIONS + 1) ** -0.5
        self.centres = self.rng.normal(size=(TOPICS, DIMENSIONS)) * self.spectrum

    def rows(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Unit vectors with a power-law spectrum, as sentence embeddings have, and their labels."""
        topic = self.rng.integers(0, TOPICS, n)
        vectors = 0.6 * self.centres[topic] + self.rng.normal(size=(n, DIMENSIONS)) * self.spectrum
        label = np.where(self.rng.random(n) < 0.9, topic % CLASSES, self.rng.integers(0, CLASSES, n))
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), label

    def draw(self, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Features and labels of the units in this kind of number, and of the validation rows."""
        held = self.rows(self.validation)
        vectors, label = np.empty((self.units, DIMENSIONS), kind), np.empty(self.units, np.int64)
        for at in range(0, self.units, BLOCK):
            some = slice(at, min(at + BLOCK, self.units))
            vectors[some], label[some] = self.rows(some.stop - some.start)
        originals = self.units - self.units // 10
        source = self.rng.choice(originals, self.units - originals, replace=False)
        for at in range(0, len(source), BLOCK):
            copied = source[at : at + BLOCK]
            noise = self.rng.normal(0, 0.01, (len(copied), DIMENSIONS))
            vectors[originals + at : originals + at + len(copied)] = vectors[copied] + noise
        label[originals:] = label[source]
        return vectors, label, *held

    def write(self, folder: Path, identities: int) -> None:
        """Write both tables as float16 lists, the units of several identities in order of time."""
        vectors, label, held, held_label = self.draw("float16")
        owner = self.rng.integers(0, identities, self.units)
        pq.write_table(pa.table({"label": held_label, "features": lists(held)}), folder / VALIDATION)
        writer = None
        for at in range(0, self.units, BLOCK):
            end = min(at + BLOCK, self.units)
            columns = {
                "id": [f"unit {i}" for i in range(at, end)],
                "identity": [f"provider {i}" for i in owner[at:end]],
                "label": label[at:end],
                "time": np.arange(at, end, dtype=np.float64),
                "features": lists(vectors[at:end]),
            }
            table = pa.table(columns)
            # float16 in a dictionary takes five times as long to read
            writer = writer or pq.ParquetWriter(
                folder / UNITS, table.schema, use_dictionary=["identity", "label"]
            )
            writer.write_table(table)
        if writer is not None:
            writer.close()


def lists(matrix: np.ndarray) -> pa.FixedSizeListArray:
    """Return a matrix as a list column of float16."""
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.astype("float16").ravel()), DIMENSIONS)


def search(market: Market) -> Work:
    """Prepare the search for the nearest earlier unit of each at cosine .95 and more."""
    from datamarket_gym.evidence.similarity_search import nearest_rows
    from datamarket_gym.execution.arrays import LowPrecisionRows as Narrow

    features = Narrow([market.draw("float32")[0]])
    return lambda: nearest_rows(features, THETA)


def texts(market: Market) -> Work:
    """Find the earlier text that shares most word pairs with each: articles of AG News, and halves of two of them."""
    from datamarket_gym.evidence.text_containment import WordPairs, common_pairs, match_earlier_texts
    from datamarket_gym.market.datasets import load_corpus

    corpus, rng = load_corpus("agnews").content, np.random.default_rng(0)
    n = market.units
    articles = corpus[rng.permutation(len(corpus))].tolist()
    common = common_pairs(tuple(articles[:500]))
    made = articles[500 : 500 + n]
    while len(made) < n:
        first, second = (articles[i].split() for i in rng.integers(len(articles), size=2))
        made.append(" ".join([*first[: len(first) // 2], *second[len(second) // 2 :]]))
    return lambda: match_earlier_texts(WordPairs.of(made), common, 0.38)


def pairs(market: Market) -> Work:
    """Prepare the search for all pairs at cosine .95 and more."""
    from datamarket_gym.data.content_keys import DistinctRows
    from datamarket_gym.evidence.spanning_forest import similar_pairs
    from datamarket_gym.execution.arrays import LowPrecisionRows as Narrow

    features = Narrow([market.draw("float32")[0]])
    return lambda: similar_pairs(DistinctRows(features), THETA)


def scores(learner: str) -> Callable[[Market], Work]:
    """Return what prepares the Shapley values of all units in closed form."""

    def prepare(market: Market) -> Work:
        from datamarket_gym import create
        from datamarket_gym.execution.arrays import LowPrecisionRows as Narrow
        from datamarket_gym.games import Shapley
        from datamarket_gym.utilities import TrainingRows, ValidationRows

        vectors, label, held, held_label = market.draw("float32")
        rows = TrainingRows(Narrow([vectors]), label, np.arange(len(label)), len(label), CLASSES)
        validation = ValidationRows(held, held_label)

        def work() -> None:
            scorer = create("learner", learner).scorer(rows, validation)
            assert scorer.closed_form(Shapley(), 0.0) is not None

        return work

    return prepare


def one_pass(market: Market) -> Work:
    """Prepare one float32 product with the selection of the nearest units, on one core."""
    from datamarket_gym.execution.parallel import one_thread

    vectors, _, held, _ = (np.asarray(part, dtype=np.float32) for part in market.draw("float32"))
    squares = np.einsum("ij,ij->i", vectors, vectors)

    def work() -> None:
        with one_thread("blas"):
            for at in range(0, len(held), 64):
                distances = squares - 2.0 * (held[at : at + 64] @ vectors.T)
                np.argpartition(distances, NEAREST, axis=1)[:, :NEAREST].copy()

    return work


WORKLOADS: dict[str, Callable[[Market], Work] | None] = {
    "pass": one_pass,
    "search": search,
    "texts": texts,
    "pairs": pairs,
    "coverage": scores("coverage"),
    "recommended": scores("recommended"),
    "coverage-unlabelled": scores("coverage(labels=False)"),
    "knn": scores("knn@5"),
    "knn-truncated": scores("knn_truncated(k=5)"),
    "reading": None,  # these two read a market from files
    "payout": None,
}
SIZE_ALONE = ("search", "texts", "pairs", "reading")
"""Workloads in which validation rows take no part."""


def measure_here(name: str, chosen: argparse.Namespace) -> Row:
    """Measure one figure in this process."""
    from datamarket_gym.execution.parallel import Compute, computing

    market = Market(chosen.units[0], chosen.validation[0])
    compute = Compute(chosen.device, chosen.memory)
    prepare = WORKLOADS[name]
    if prepare is not None:
        work = prepare(market)
        if chosen.device == "cuda":  # what the libraries take to start does not count
            import torch

            torch.ones(1, device="cuda") @ torch.ones(1, device="cuda")
        with computing(compute):
            return measured(work)
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        apart(lambda: market.write(folder, chosen.identities))
        with computing(compute):
            return read(folder) if name == "reading" else pay_market(folder, chosen)


def read(folder: Path) -> Row:
    """Measure reading, checking and hashing all units."""
    from datamarket_gym.payout.inputs import read_inputs
    from datamarket_gym.payout.settings import checked_spec
    from datamarket_gym.payout.stored_inputs import Places

    spec = checked_spec({"amount": "1.00"})
    places = Places(folder / UNITS, folder / VALIDATION)
    return measured(lambda: read_inputs(places, spec).submission.keys)


def pay_market(folder: Path, chosen: argparse.Namespace) -> Row:
    """Measure a whole payout run as ``datamarket pay`` does it, the red team and the report included."""
    from datamarket_gym.payout.run import pay as pay
    from datamarket_gym.payout.settings import checked_spec
    from datamarket_gym.payout.stored_inputs import Places as Places

    settings = {"amount": "10000.00", "learner": chosen.utility, "theta": str(THETA)}
    spec = checked_spec({**settings, "audit": not chosen.no_audit})
    stages = Stages()
    row = measured(
        lambda: pay(Places(folder / UNITS, folder / VALIDATION), spec, folder / "run", stages)
    )
    stages.end()
    return {**row, "peak_gib": max(row["peak_gib"], stages.peak), "stages": stages.rows}


class Stages:
    """Progress of a payout run that measures each stage: its seconds and the most memory that it held."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.peak = 0.0
        self.since = time.perf_counter()

    def stage(self, name: str, unit: str = "") -> None:
        """Begin a stage."""
        self.end()
        self.rows.append({"stage": name})

    def count(self, done: int, total: int) -> None:
        """Ignore steps within a stage."""

    def end(self) -> None:
        """End the present stage."""
        now, held = time.perf_counter(), peak_gib()
        if self.rows:
            self.rows[-1] |= {"seconds": round(now - self.since, 1), "peak_gib": round(held, 2)}
        self.since, self.peak = now, max(self.peak, held)
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak


def measured(work: Work) -> Row:
    """Return seconds by the clock and of all cores, and the peak memory with what the work adds to it."""
    before = peak_gib()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {
        "seconds": round(time.perf_counter() - wall, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "peak_gib": round(peak_gib(), 3),
        "work_gib": round(max(0.0, peak_gib() - before), 3),
    }


def peak_gib() -> float:
    """Return the most memory that this process held, without that of its parent, which getrusage counts."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20


def apart(work: Work) -> None:
    """Do some work in a process whose memory does not count."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise RuntimeError("the market could not be written")


def measure(chosen: argparse.Namespace) -> Iterator[Row]:
    """Measure all figures, each in a process of its own."""
    for name in chosen.workload:
        for units in chosen.units:
            for validation in chosen.validation[:1] if name in SIZE_ALONE else chosen.validation:
                command = [sys.executable, __file__, name, "--one", "--units", str(units)]
                command += ["--validation", str(validation), "--identities", str(chosen.identities)]
                command += ["--device", chosen.device, "--memory", str(chosen.memory)]
                command += ["--utility", chosen.utility]
                command += ["--no-audit"] if chosen.no_audit else []
                command += ["--keep", str(chosen.keep)] if chosen.keep else []
                result = output_of(command, chosen.limit)
                none = dict.fromkeys(("seconds", "cpu_seconds", "peak_gib", "work_gib"))
                figures = (
                    {"note": "", **result} if isinstance(result, dict) else {**none, "note": result}
                )
                yield {
                    "workload": name, "who": "datamarket-gym", "units": units, "validation": validation, **figures,
                }  # fmt: skip


def output_of(command: list[str], limit: float) -> Row | str:
    """Return what a process prints as JSON, or why there is nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"over {limit:g} s"
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1][:120]}"
    row: Row = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def exponents(rows: list[Row]) -> Iterator[str]:
    """Say how CPU seconds grow, along units and along validation rows."""
    for name in dict.fromkeys(row["workload"] for row in rows):
        mine = [row for row in rows if row["workload"] == name and row["seconds"]]
        for axis, other in (("units", "validation"), ("validation", "units")):
            for base in dict.fromkeys(row[other] for row in mine):
                along = sorted((row for row in mine if row[other] == base), key=lambda row: row[axis])[
                    -3:
                ]
                if len(along) > 1:
                    size, cpu = (
                        [np.log(max(row[key], 1e-9)) for row in along] for key in (axis, "cpu_seconds")
                    )
                    slope = np.polyfit(size, cpu, 1)[0]
                    yield f"{name}, {base:,} {other}: CPU seconds grow as {axis}^{slope:.2f}"


def differences(run: Path, other: Path) -> list[str]:
    """List the identities that two runs do not pay the same amount, with both amounts."""
    tables = [pq.read_table(folder / "payments.parquet") for folder in (run, other)]
    one, two = (
        dict(zip(*(t[c].to_pylist() for c in ("identity", "payment")), strict=True)) for t in tables
    )
    names = sorted(one.keys() | two.keys())
    return [f"{n}: {one.get(n)} and {two.get(n)}" for n in names if one.get(n) != two.get(n)]


def draw_figures(saved: Path, folder: Path) -> None:
    """Draw CPU seconds and peak memory along units and along validation rows."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "scale"
    from matplotlib import pyplot as plt

    rows = [row for row in json.loads(saved.read_text())["rows"] if row["units"] and row["seconds"]]
    lines = list(dict.fromkeys((row["who"], row["workload"]) for row in rows))
    for axis, other in (("units", "validation"), ("validation", "units")):
        base = 1_000 if other == "validation" else 100_000
        figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for panel, key, label in zip(
            panels, ("cpu_seconds", "peak_gib"), ("CPU seconds", "peak memory, GiB"), strict=True
        ):
            for who, name in lines:
                along = [
                    row for row in rows if (row["who"], row["workload"], row[other]) == (who, name, base)
                ]
                along.sort(key=lambda row: row[axis])
                if len(along) > 1:
                    style = "o-" if who == "datamarket-gym" else "x--"
                    xy = ([row[k] for row in along] for k in (axis, key))
                    panel.plot(
                        *xy, style, label=f"{name}, {who}", color=f"C{lines.index((who, name))}", ms=4
                    )
            panel.set(xscale="log", yscale="log", xlabel=axis, ylabel=label)
            panel.grid(alpha=0.25)
        panels[0].legend(fontsize=7, frameon=False)
        figure.savefig(folder / f"scale-{axis}.svg", metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    """Measure and print a table, compare two runs, or draw saved rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload", nargs="*", choices=[*WORKLOADS, []], help="what to measure")
    parser.add_argument("--units", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--validation", type=int, nargs="+", default=[1_000])
    parser.add_argument("--identities", type=int, default=1_000)
    parser.add_argument("--utility", default="coverage", help="by which a payout run pays")
    parser.add_argument("--no-audit", action="store_true", help="attack no sample in a payout run")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--memory", type=float, default=4.0, help="GiB for blocks and buffers")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one figure")
    parser.add_argument("--stages", action="store_true", help="show the stages of payout runs, too")
    parser.add_argument("--save", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--keep", type=Path, help="folder for the market and the run (one size alone)")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("RUN", "OTHER"))
    parser.add_argument("--draw", type=Path, nargs=2, metavar=("ROWS", "FOLDER"))
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.draw:
        draw_figures(*chosen.draw)
    elif chosen.compare:
        print("\n".join(differences(*chosen.compare)) or "every identity is paid the same amount")
    elif chosen.one:
        print(json.dumps(measure_here(chosen.workload[0], chosen)))
    else:
        print(
            f"{'workload':<20}{'units':>10}{'validation':>11}{'seconds':>10}{'CPU s':>10}{'peak GiB':>9}"
        )
        rows = []
        for row in measure(chosen):
            rows.append(row)
            line = f"{row['workload']:<20}{row['units']:>10,}{row['validation']:>11,}"
            figures = (
                "{seconds:>10.2f}{cpu_seconds:>10.2f}{peak_gib:>9.2f}".format(**row)
                if row["seconds"]
                else ""
            )
            print(f"{line}{figures}  {row['note']}".rstrip(), flush=True)
            for stage in row.get("stages", ()) if chosen.stages else ():
                print("    {stage:<47}{seconds:>10.1f}{peak_gib:>19.2f}".format(**stage))
        print("\n".join(exponents(rows)))
        if chosen.save:
            command = "python benchmarks/scaling.py " + " ".join(sys.argv[1:])
            machine = {"machine": f"{os.cpu_count()} cores, {chosen.device}"}
            saved = {"title": "A million units", "command": command, "machine": machine, "rows": rows}
            chosen.save.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
