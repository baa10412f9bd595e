"""Compute published results again and compare them with what is stored, row by row.

    python tools/check_results.py [EXPERIMENT ...] [--jobs 2] [--runs FOLDER]
    python tools/check_results.py --bundles [NAME ...]

Experiments are compared with ``docs/results`` (six digits), bundles of the leaderboard with ``docs/leaderboard`` (ten):
a difference counts where it exceeds that of rounding by more than 1e-9. Without names: everything.
"""

import argparse
import math
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from datamarket_gym.benchmark.bundles import read_bundle
from datamarket_gym.benchmark.leaderboard import why_not
from datamarket_gym.benchmark.runner import CellRequest, cell
from datamarket_gym.benchmark.suite import public, suite
from datamarket_gym.execution.files import read_json
from datamarket_gym.execution.parallel import executor
from datamarket_gym.experiments import builtin_specs
from datamarket_gym.experiments.results import read_compact
from datamarket_gym.experiments.runner import run_suite
from datamarket_gym.experiments.summary import labels_of

DOCS = Path(__file__).parents[1] / "docs"
COLUMNS = ("pay", "pot", "paid", "worth", "fairness_loss")


def difference(stored, computed, digits):
    """Return by how much more than rounding to so many digits two numbers differ."""
    if stored is None or computed is None:
        return 0.0 if stored is computed else math.inf
    unit = 10.0 ** (math.floor(math.log10(abs(stored))) - digits + 1) if stored else 0.0
    return max(0.0, abs(stored - computed) - 0.5 * unit) / max(abs(stored), 1.0)


def report(name, pairs, missing, digits):
    """Print one line on a set of rows, and the first rows that differ; return whether all are as stored."""
    worst = [(max(difference(*pair, digits) for pair in numbers), label) for label, numbers in pairs]
    wrong = sorted(((d, label) for d, label in worst if d > 1e-9), key=lambda each: -each[0])
    largest = max((d for d, _ in worst), default=0.0)
    counts = f"{len(worst)} rows, {len(wrong)} differ, largest difference {largest:.2g}"
    print(f"{name}: {counts}, {len(missing)} not computed", flush=True)
    for d, label in wrong[:3]:
        print(f"    {d:.2g} {label}")
    for label in missing[:3]:
        print(f"    not computed: {label}")
    return not wrong


def check_experiments(names, runs, jobs):
    """Run experiments with their published seeds and compare all summary rows."""
    specs = builtin_specs()
    stored = {name: read_compact(DOCS / "results" / f"{name}.json") for name in names}
    published = [
        specs[name].model_copy(update={"seeds": each.seeds, "first_seed": each.first_seed})
        for name, each in stored.items()
    ]
    run_suite(published, runs, jobs=jobs)
    good = True
    for name, each in stored.items():
        computed = {_key(row): row for row in read_json(runs / name / "table.json")}
        rows = {_key(row): row for row in each.rows if row["metric"] != "seconds"}
        pairs = [
            # Where all seeds give one number, but for rounding, there is no standard error.
            (key, [(row["value"], new["value"]), (row["se"] or 0.0, new["se"] or 0.0)])
            for key, row in rows.items()
            if (new := computed.get(key))
        ]
        good &= report(name, pairs, [key for key in rows if key not in computed], 6)
    return good


def _key(row):
    return row["metric"], frozenset(labels_of(row))


def check_bundles(names, jobs):
    """Play every market of bundles again and compare all rows."""
    good = True
    for name in names:
        bundle = read_bundle(DOCS / "leaderboard" / name)
        if why := why_not(bundle.entry):
            print(f"{name}: not played, {why}")
            continue
        part, computed = suite().part(bundle.manifest.quick), {}
        for _, found in executor(jobs).each(cell, CellRequest(part, public(), bundle.entry), part.cells):
            for row in found["rows"]:
                computed[row["task"], row["draw"], row.get("attack") or row.get("opponent")] = row
        pairs = []
        for row in bundle.rows:
            key = row.task, row.draw, row.against
            pairs.append((key, [(getattr(row, of), computed[key][of]) for of in COLUMNS]))
        good &= report(name, pairs, [], 10)
    return good


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--bundles", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=Path)
    options = parser.parse_args()
    if options.bundles:
        folders = sorted(path.name for path in (DOCS / "leaderboard").iterdir())
        sys.exit(not check_bundles(options.names or folders, options.jobs))
    experiments = options.names or sorted(path.stem for path in (DOCS / "results").glob("*.json"))
    with TemporaryDirectory() as folder:
        sys.exit(not check_experiments(experiments, options.runs or Path(folder), options.jobs))
