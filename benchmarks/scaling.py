"""How time and memory grow with units (10^3 to 10^6) and validation rows (10^2 to 10^4), beside what peers can do.

Each figure is measured in a process of its own on the market of `payout_scale`: the search for copies (the nearest
earlier unit at cosine 0.95 and more), the scores of all units by coverage and by 5 nearest neighbours, and the whole
payday as ``datamarket pay --theta 0.95`` does it. Peers are measured in an environment of their own (``--peers``: a
Python that has faiss-cpu, semhash and pydvl) on the same rows, as far as they come within ``--limit`` seconds: faiss
and semhash find near copies, pyDVL values units by nearest neighbours. What is left out for the limit is said, not
guessed.

Exponents are slopes of log seconds (or memory above that of the smallest market) on log size, over the sizes at which
work, not start-up, takes the time: the largest three.

Usage: python benchmarks/scaling.py --units 1000 10000 100000 1000000 --save docs/benchmarks/scale.json
       python benchmarks/scaling.py --draw docs/benchmarks/scale.json docs/figures
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

WHAT = ("search", "coverage", "knn", "payday")
PEERS = {"faiss flat": "search", "faiss IVF": "search", "semhash": "search", "pydvl": "knn"}
THETA = 0.95
BASE_UNITS, BASE_VALIDATION = 100_000, 1_000
Row = dict[str, Any]


def market(units: int, validation: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features and labels of units, every tenth of them a noisy copy, and of validation rows; single precision."""
    from payout_scale import DIMENSIONS, TOPICS, draw, spectrum

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(TOPICS, DIMENSIONS)) * spectrum()
    features, label = np.empty((units, DIMENSIONS), dtype=np.float32), np.empty(units, dtype=np.int64)
    for at in range(0, units, 50_000):
        some = slice(at, min(at + 50_000, units))
        features[some], label[some] = draw(rng, some.stop - some.start, centres)
    copies = units // 10
    source = rng.choice(units - copies, copies, replace=False)
    features[units - copies :] = features[source] + rng.normal(0, 0.01, (copies, DIMENSIONS)).astype(
        np.float32
    )
    label[units - copies :] = label[source]
    return features, label, *draw(rng, validation, centres)


def search(units: int) -> Callable[[], Any]:
    """The nearest earlier unit of each."""
    from datamarket_gym.core.narrow import Narrow
    from datamarket_gym.evidence.nearest import nearest_rows

    features = Narrow([market(units, 1)[0]])
    return lambda: nearest_rows(features, THETA)


def scores(learner: str, units: int, validation: int) -> Callable[[], Any]:
    """The Shapley value of each unit."""
    from datamarket_gym.core.narrow import Narrow
    from datamarket_gym.games.semivalue import SEMIVALUES
    from datamarket_gym.learners.oracle import Utility, UtilityOracle

    features, label, held, held_label = market(units, validation)
    oracle = UtilityOracle(held, held_label, Utility.paying(learner))
    rows, shapley = Narrow([features]), SEMIVALUES.create("shapley")

    def work() -> Any:
        scorer = oracle.scorer(rows, label, None, np.arange(units), units)
        return scorer.closed_form(shapley, oracle.empty_value)

    return work


def ours(what: str, units: int, validation: int, device: str) -> Row:
    """One figure, measured here and now; what a GPU's libraries take to start is not of it."""
    if what == "payday":
        return payday(units, validation, device)
    from datamarket_gym.core.compute import Compute, computing

    if device == "cuda":
        import torch

        torch.ones(1, device="cuda") @ torch.ones(1, device="cuda")
    work = search(units) if what == "search" else scores(what, units, validation)
    # Nothing is paid by these scores: a device may add in an order of its own.
    with computing(Compute(device=device)):
        return measured(work)


def measured(work: Callable[[], Any]) -> Row:
    """Seconds by the clock and of all cores, and the memory that the work needs beyond its inputs."""
    before = peak()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {
        "seconds": round(time.perf_counter() - wall, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "peak_gib": round(peak(), 3),
        "work_gib": round(peak() - before, 3),
    }


def peak() -> float:
    """The most memory that this process had so far, in GiB; what getrusage says counts its parent's, too."""
    said = Path("/proc/self/status").read_text()
    return int(said.split("VmHWM:")[1].split()[0]) / 2**20


def payday(units: int, validation: int, device: str) -> Row:
    """A whole payday; `payout_scale` prints its summary last."""
    script = Path(__file__).with_name("payout_scale.py")
    asked = [sys.executable, str(script), str(units), "1000", "--validation", str(validation)]
    asked += ["--device", device, "--theta", str(THETA)]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout.strip().splitlines()[-1])
    return {
        "seconds": said["wall_s"], "cpu_seconds": said["cpu_s"], "peak_gib": said["peak_gib"], "work_gib": None,
    }  # fmt: skip


def peer(who: str, folder: Path) -> Row:
    """One figure of a peer; called in its environment, with the rows in files."""
    features, label = np.load(folder / "features.npy"), np.load(folder / "label.npy")
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    n, d = features.shape
    if who == "faiss flat":
        import faiss

        faiss.omp_set_num_threads(1)
        index = faiss.IndexFlatIP(d)

        def work() -> None:
            index.add(features)
            for at in range(0, n, 1000):
                index.range_search(features[at : at + 1000], THETA)

    elif who == "faiss IVF":
        import faiss

        faiss.omp_set_num_threads(1)
        cells = max(8, int(2 * n**0.5))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(d), d, cells, faiss.METRIC_INNER_PRODUCT)

        def work() -> None:
            index.train(features[:: max(1, n // (40 * cells))])
            index.add(features)
            index.nprobe = 16
            for at in range(0, n, 1000):
                index.range_search(features[at : at + 1000], THETA)

    elif who == "semhash":
        from semhash import SemHash

        names = [str(i) for i in range(n)]

        def work() -> None:
            SemHash.from_embeddings(features, names, model=None).self_deduplicate(threshold=THETA)

    else:
        from pydvl.valuation import Dataset, KNNShapleyValuation
        from sklearn.neighbors import KNeighborsClassifier

        held, held_label = np.load(folder / "held.npy"), np.load(folder / "held_label.npy")

        def work() -> None:
            test = Dataset(held.astype(np.float64), held_label)
            valuation = KNNShapleyValuation(KNeighborsClassifier(n_neighbors=5), test, progress=False)
            valuation.fit(Dataset(features.astype(np.float64), label))

    return measured(work)


def rows(chosen: argparse.Namespace) -> Iterator[Row]:
    """All figures, each in a process of its own."""
    sizes = [(units, BASE_VALIDATION) for units in chosen.units]
    base = min(BASE_UNITS, max(chosen.units))
    sizes += [(base, v) for v in chosen.validation if v != BASE_VALIDATION]
    for what in chosen.what:
        for units, validation in sizes:
            if what == "search" and validation != BASE_VALIDATION:
                continue  # nothing of it is about validation rows
            asked = [sys.executable, __file__, "--one", what, "--device", chosen.device]
            asked += ["--units", str(units), "--validation", str(validation)]
            yield row(what, "datamarket-gym", units, validation, told(asked, chosen.limit))
    for who, what in PEERS.items() if chosen.peers else ():
        gone = False
        for units, validation in sizes:
            if what not in chosen.what or validation != BASE_VALIDATION:
                continue
            if gone:
                yield row(what, who, units, validation, "not tried: the size before was over the limit")
                continue
            with tempfile.TemporaryDirectory() as folder:
                parts = zip(
                    ("features", "label", "held", "held_label"), market(units, validation), strict=True
                )
                for name, part in parts:
                    np.save(Path(folder) / f"{name}.npy", part)
                found = told([chosen.peers, __file__, "--peer", who, folder], chosen.limit)
            gone = isinstance(found, str)
            yield row(what, who, units, validation, found)


def told(asked: list[str], limit: float) -> Row | str:
    """What a process prints as JSON, or why there is nothing."""
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"over {limit:g} s"
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1][:120]}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def row(what: str, who: str, units: int, validation: int, found: Row | str) -> Row:
    """One row of the table."""
    none = dict.fromkeys(("seconds", "cpu_seconds", "peak_gib", "work_gib"))
    figures = found if isinstance(found, dict) else none
    return {
        "workload": what, "who": who, "units": units, "validation": validation, **figures,
        "note": "" if isinstance(found, dict) else found,
    }  # fmt: skip


def exponents(measured_rows: list[Row]) -> Iterator[Row]:
    """How CPU seconds grow, along units and along validation rows."""
    for what in WHAT:
        mine = [
            r
            for r in measured_rows
            if r["workload"] == what and r["who"] == "datamarket-gym" and r["seconds"]
        ]
        for axis, other, base in (
            ("units", "validation", BASE_VALIDATION),
            ("validation", "units", min(BASE_UNITS, max((r["units"] for r in mine), default=0))),
        ):
            along = sorted((r for r in mine if r[other] == base), key=lambda r: r[axis])[-3:]
            if len(along) < 2:
                continue
            size, cpu = ([np.log(max(r[k], 1e-9)) for r in along] for k in (axis, "cpu_seconds"))
            slope = float(np.polyfit(size, cpu, 1)[0])
            said = row(
                f"fitted, {what}: CPU seconds grow as {axis}^{slope:.2f}", "datamarket-gym", 0, 0, ""
            )
            yield {**said, "units": None, "validation": None}


def draw_figures(saved: Path, folder: Path) -> None:
    """Seconds and memory along units and along validation rows, as vector pictures."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "scale"
    from matplotlib import pyplot as plt

    kept = [r for r in json.loads(saved.read_text())["rows"] if r["units"] and r["seconds"]]
    names = {
        "search": "search for copies", "coverage": "scores by coverage", "knn": "scores by 5-NN",
        "payday": "whole payday",
    }  # fmt: skip
    colours = {
        pair: f"C{i}" for i, pair in enumerate(dict.fromkeys((r["who"], r["workload"]) for r in kept))
    }
    for axis, other, base, title in (
        ("units", "validation", BASE_VALIDATION, "units"),
        ("validation", "units", min(BASE_UNITS, max(r["units"] for r in kept)), "validation rows"),
    ):
        figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for panel, key, words in zip(
            panels, ("cpu_seconds", "peak_gib"), ("CPU seconds", "peak memory, GiB"), strict=True
        ):
            for who, what in colours:
                along = sorted(
                    (r for r in kept if (r["who"], r["workload"], r[other]) == (who, what, base)),
                    key=lambda r: r[axis],
                )
                if len(along) < 2 or (axis == "validation" and what == "search"):
                    continue
                mine = who == "datamarket-gym"
                panel.plot(
                    [r[axis] for r in along], [r[key] for r in along], "o-" if mine else "x--",
                    label=names[what] if mine else f"{who} ({'search' if what == 'search' else '5-NN'})",
                    color=colours[who, what], lw=1.6 if mine else 1, ms=4,
                )  # fmt: skip
            panel.set(xscale="log", yscale="log", xlabel=title, ylabel=words)
            panel.grid(alpha=0.25)
        panels[0].legend(fontsize=7, frameon=False)
        figure.savefig(folder / f"scale-{axis}.svg", metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    """Measure, or draw what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--units", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--validation", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--what", nargs="+", choices=WHAT, default=list(WHAT))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--peers", help="a Python with faiss-cpu, semhash and pydvl")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one figure")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--one", choices=WHAT, help=argparse.SUPPRESS)
    parser.add_argument("--peer", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--draw", type=Path, nargs=2, metavar=("ROWS", "FOLDER"))
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(ours(chosen.one, chosen.units[0], chosen.validation[0], chosen.device)))
    elif chosen.peer:
        print(json.dumps(peer(chosen.peer[0], Path(chosen.peer[1]))))
    elif chosen.draw:
        draw_figures(*chosen.draw)
    else:
        from datamarket_gym.core.machine import machine

        done: list[Row] = []
        for each in rows(chosen):
            print(json.dumps(each), flush=True)
            done.append(each)
        for each in exponents(done):
            print(each["workload"], flush=True)
            done.append(each)
        if chosen.save:
            words = " ".join(["python benchmarks/scaling.py", *shown(sys.argv[1:])])
            saved = {
                "title": "A million units" + (" on a GPU" if chosen.device == "cuda" else ""),
                "command": words,
                "machine": {"machine": machine(chosen.device)},
                "rows": done,
            }
            chosen.save.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


def shown(words: list[str]) -> list[str]:
    """The command as typed, without the folders of this machine."""
    for option in ("--save", "--peers"):
        if option in words:
            at = words.index(option)
            words = words[:at] + words[at + 2 :]
    return words


if __name__ == "__main__":
    main()
