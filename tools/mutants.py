"""Small semantic mutations of the core, and which of them the tests let pass: `make mutants`, docs/mutants.md.

A mutant is one module with one small change of meaning: a boundary, a sign, a factor, a constant, an order.
Every mutant meets the tests of its area in a copy of the tree, never in the tree itself. One that passes all of
them is a survivor: a line whose meaning no test holds.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutations import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/datamarket_gym"
EQUIVALENT = ROOT / "tools" / "mutants_equivalent.txt"
STATE = ROOT / "build" / "mutants.jsonl"
OUTPUT = "pytest.txt"
OPEN, CLOSE = "<!-- rates -->\n", "<!-- /rates -->"

# Area: the modules that are mutated, and the tests they meet. Patterns that match nothing are passed over.
AREAS = {
    "semivalues": ("games/*", "games/test_* test_theorems*"),
    "mechanism": ("mechanism/*", "mechanism/test_* meaning/test_second_sample* test_theorems*"),
    "theorems": (
        "analysis/theorems/*",
        "meaning/test_guarantee* analysis/guarantees/test_* test_theorems*",
    ),
    "ledger": (
        "payout/ledger/* payout/money*",
        "payout_ledger/test_* payout/test_cents* payout/test_verify*",
    ),
    "logistic": ("utilities/logistic/certainty*", "utilities/test_logistic*"),
    "evidence": (
        "evidence/graph* evidence/lineage* evidence/leakage* evidence/threshold* evidence/admissible*",
        "meaning/test_evidence* meaning/test_threshold* evidence/test_*",
    ),
    "metrics": ("analysis/metrics*", "meaning/test_metrics* analysis/test_*"),
    "warnings": ("payout/warning*", "payout/test_warnings* payout/test_clock* payout/test_confusables*"),
}


def matching(folder: Path, patterns: str) -> list[Path]:
    """The Python files below a folder that one of the patterns names, in the patterns' order."""
    files = sorted(
        path for path in folder.rglob("*.py") if path.name not in ("__init__.py", "conftest.py")
    )
    chosen = [
        p
        for glob in patterns.split()
        for p in files
        if fnmatch.fnmatch(str(p.relative_to(folder)), glob)
    ]
    return list(dict.fromkeys(chosen))


def copy_of_the_tree(copy: Path) -> Path:
    """All files of the work tree that git would keep, elsewhere."""
    shown = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    for name in shown.stdout.splitlines():
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    # by hash: two mutants of one size within one second must not share compiled code
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", PACKAGE],
        cwd=copy,
    )
    return copy


def outcome(copy: Path, area: str, limit: float, mutant: Mutant | None = None) -> str:
    """What the tests of the area say of the tree with this mutant: "survived", "killed" or "time"."""
    if area == "logistic":  # nothing that numba kept from before the change may answer
        shutil.rmtree(copy / "numba", ignore_errors=True)
    tests = [str(path.relative_to(copy)) for path in matching(copy / "tests", AREAS[area][1])]
    pytest = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m"]
    command = [sys.executable, *pytest, "not slow", *tests]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    env = {
        **os.environ,
        **threads,
        "PYTHONPATH": str(copy / "src"),
        "NUMBA_CACHE_DIR": str(copy / "numba"),
    }
    path = copy / PACKAGE / mutant.module if mutant else copy / PACKAGE / "__init__.py"
    kept = path.read_text(encoding="utf-8")
    path.write_text(mutant.text if mutant else kept, encoding="utf-8")
    with (copy / OUTPUT).open("w") as output:
        child = subprocess.Popen(
            command, cwd=copy, env=env, stdout=output, stderr=output, start_new_session=True
        )
        try:
            return "killed" if child.wait(timeout=limit) else "survived"
        except subprocess.TimeoutExpired:
            return "time"
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            path.write_text(kept, encoding="utf-8")


def sampled(only: list[str], per_module: int, seed: int) -> list[Mutant]:
    """The same mutants for the same seed, whichever areas or modules are asked for."""
    chosen = []
    for area, (modules, _) in AREAS.items():
        for path in matching(ROOT / PACKAGE, modules):
            module = str(path.relative_to(ROOT / PACKAGE))
            if not only or area in only or any(module.startswith(name) for name in only):
                every = mutants(area, module, path.read_text(encoding="utf-8"))
                few = random.Random(f"{seed} {path.name}").sample(every, min(per_module, len(every)))
                chosen += sorted(few, key=lambda mutant: mutant.line)
    return chosen


def equivalent() -> set[tuple[str, str, str]]:
    """Mutants that somebody examined and found to mean the same: file name, line, changed line, reason, by tabs."""
    rows = [
        line.split("\t")
        for line in EQUIVALENT.read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    wrong = [row for row in rows if len(row) != 4 or not row[3].strip()]
    if wrong:
        raise SystemExit(
            f"{EQUIVALENT.name}: a line needs file name, line, changed line and reason, by tabs: {wrong[0]}"
        )
    return {(name, before, after) for name, before, after, _ in rows}


def run_mutants(chosen: list[Mutant], jobs: int, resume: bool) -> dict[str, str]:
    """Every mutant's outcome, by key. Kept as they come; a kill stays one, a survivor meets changed tests anew."""
    STATE.parent.mkdir(exist_ok=True)
    tests = hashlib.sha256(
        b"".join(p.read_bytes() for p in sorted((ROOT / "tests").rglob("*.py")))
    ).hexdigest()[:24]
    rows = (
        [json.loads(row) for row in STATE.read_text().splitlines()] if resume and STATE.exists() else []
    )
    done = {
        row["key"]: row["outcome"]
        for row in rows
        if row["outcome"] != "survived" or row["tests"] == tests
    }
    todo = [mutant for mutant in chosen if mutant.key not in done]
    with tempfile.TemporaryDirectory() as folder, STATE.open("a" if resume else "w") as state:
        free: queue.Queue[Path] = queue.Queue()
        for job in range(jobs if todo else 0):
            free.put(copy_of_the_tree(Path(folder) / f"tree{job}"))
        limits = {}
        for area in dict.fromkeys(mutant.area for mutant in todo):
            copy, start = free.get(), time.monotonic()
            if outcome(copy, area, 1800) != "survived":
                output = (copy / OUTPUT).read_text()[-2000:]
                raise SystemExit(f"{output}\nthe tests of {area} do not pass without any mutant")
            limits[area] = 30 + 3 * (time.monotonic() - start) * (1 + 0.5 * (jobs > 1))
            free.put(copy)

        def run_mutant(mutant: Mutant) -> None:
            copy = free.get()
            done[mutant.key] = outcome(copy, mutant.area, limits[mutant.area], mutant)
            free.put(copy)
            state.write(
                json.dumps({"key": mutant.key, "outcome": done[mutant.key], "tests": tests}) + "\n"
            )
            state.flush()
            print(
                f"{done[mutant.key]:9}{mutant.module}:{mutant.line}  {mutant.after}",
                file=sys.stderr,
                flush=True,
            )

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(run_mutant, todo))
    return done


def report(chosen: list[Mutant], done: dict[str, str]) -> str:
    """The table of rates by module and area, then the survivors."""
    same = equivalent()
    rows, listed = (
        [
            "| area | module | mutants | killed | equivalent | survived | rate |",
            "|---|---|--:|--:|--:|--:|--:|",
        ],
        [],
    )
    for area in dict.fromkeys(mutant.area for mutant in chosen):
        of_area = [mutant for mutant in chosen if mutant.area == area]
        for module in [*dict.fromkeys(mutant.module for mutant in of_area), None]:
            group = [mutant for mutant in of_area if module in (None, mutant.module)]
            passed = [mutant for mutant in group if done[mutant.key] == "survived"]
            alike = [m for m in passed if (Path(m.module).name, m.before, m.after) in same]
            left = [mutant for mutant in passed if mutant not in alike]
            rate = f"{len(left) / max(1, len(group) - len(alike)):.0%}"
            cells = (
                area,
                module or "**all**",
                len(group),
                len(group) - len(passed),
                len(alike),
                len(left),
                rate,
            )
            rows.append("| " + " | ".join(map(str, cells)) + " |")
            if module:
                listed += [f"{module}:{m.line}\n    - {m.before}\n    + {m.after}" for m in left]
    survivors = "\n".join(listed) or "none"
    return "\n".join(rows) + f"\n\nSurvivors:\n\n```\n{survivors}\n```\n"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Which small changes of meaning do the tests let pass?")
    parser.add_argument(
        "--only",
        nargs="*",
        default=[],
        help="areas or module paths below the package; all areas if not given",
    )
    parser.add_argument("--per-module", type=int, default=10, help="how many mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument(
        "--resume", action="store_true", help="keep what build/mutants.jsonl already says"
    )
    parser.add_argument(
        "--page", type=Path, help="write the report into this page, between its rates comments"
    )
    options = parser.parse_args()
    chosen = sampled(options.only, options.per_module, options.seed)
    if not chosen:
        raise SystemExit(f"no module matches {options.only}; areas: {', '.join(AREAS)}")
    shown = report(chosen, run_mutants(chosen, options.jobs, options.resume))
    print(shown)
    if options.page:
        head, rest = options.page.read_text(encoding="utf-8").split(OPEN)
        only = f" --only {' '.join(options.only)}" if options.only else ""
        command = (
            f"python tools/mutants.py{only} --per-module {options.per_module} --seed {options.seed}"
        )
        text = f"`{command}` says:\n\n{shown}"
        options.page.write_text(head + OPEN + text + CLOSE + rest.split(CLOSE)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
