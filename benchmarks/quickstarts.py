"""The code of docs/quickstarts.md run in all three libraries: lines, values, time, and the page's table.

    python benchmarks/quickstarts.py [--write]

Each block runs in the Python of its library (``datamarket baselines install pydvl shapiq``), one process, one thread,
its body twice. Times are CPU seconds of the faster time: the first pays for what is compiled and imported late.
`--write` puts the table into the page. tests/baselines/test_quickstarts.py compares the values.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datamarket_gym.benchmark.baselines.environments import installed, python_of
from datamarket_gym.execution.arrays import Values
from datamarket_gym.execution.files import write_text

PAGE = Path(__file__).parents[1] / "docs" / "quickstarts.md"
LIBRARIES = {"datamarket_gym": "DataMarket-Gym", "pydvl": "pyDVL", "shapiq": "shapiq"}
SECTIONS = {"Training rows, by any": "rows", "Owners of rows": "owners", "Training rows, by k": "knn"}
Changes = dict[str, str]

PIPELINE = "make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))"
REGRESSION: Changes = {
    "from sklearn.svm import SVC": "from sklearn.linear_model import LogisticRegression\n"
    "from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler",
    r"SVC\(kernel.*?\)": PIPELINE,
}
"""Logistic regression in the place of the support vector machine."""
SAMPLED: dict[str, Changes] = {
    "pydvl": REGRESSION | {r"UniformSampler\(.*?\)": "PermutationSampler(seed=seed)"}
    | {"UniformSampler,": "PermutationSampler,", r"MinUpdates\(1000\)": "MinUpdates(8)"},
    "shapiq": REGRESSION | {r"256 \*": "8 *"},
    "datamarket_gym": REGRESSION | {"utility=model": "utility=model, samples=8"},
}  # fmt: skip
"""Eight orders of joining of the 90 rows of Iris."""

_RUN = """
import ast, json, sys, time
tree, space, seconds = ast.parse(sys.stdin.read()), {}, []
imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
body = [node for node in tree.body if node not in imports]
exec(compile(ast.Module(imports, []), "imports", "exec"), space)
for _ in range(int(sys.argv[1])):
    started = time.process_time()
    exec(compile(ast.Module(body, []), "quickstart", "exec"), space)
    seconds.append(time.process_time() - started)
result = space["sv_test" if "sv_test" in space else "result"]
if hasattr(result, "by_unit"):
    values = (result.by_owner() if result.has_owners else result.by_unit())["value"]
elif hasattr(result, "to_first_order_array"):
    values = result.to_first_order_array()
elif hasattr(result, "indices"):
    result.sort(key="index")
    values = result.values
else:
    values = result
print(json.dumps([list(map(float, values)), seconds]))
"""


@dataclass(frozen=True)
class Quickstart:
    """A block of code of the page, and the library that it shows."""

    library: str
    code: str

    @property
    def lines(self) -> int:
        """The statements of the code: lines with one statement each, without blank ones and comments."""
        return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(self.code)))

    def run(self, changes: Changes | None = None, times: int = 1) -> tuple[Values, list[float]]:
        """Run the code, changed by regular expressions, in its library: the values, and CPU seconds without imports."""
        code = self.code
        for old, new in ({r"n_jobs=\d+": "n_jobs=1", "progress=True": "progress=False"}).items():
            code = re.sub(old, new, code)
        for old, new in (changes or {}).items():
            code, found = re.subn(old, new, code)
            if not found:
                raise ValueError(f"{old!r} is not in the code of {self.library}")
        python = sys.executable if self.library == "datamarket_gym" else str(python_of(self.library))
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        done = subprocess.run(
            [python, "-W", "ignore", "-c", _RUN, str(times)],
            input=code, capture_output=True, text=True, env=os.environ | threads,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{self.library} failed: {done.stderr}")
        values, seconds = json.loads(done.stdout.splitlines()[-1])
        return np.array(values), seconds


def quickstarts(page: Path = PAGE) -> dict[str, list[Quickstart]]:
    """The page's blocks by section, in order."""
    found: dict[str, list[Quickstart]] = {}
    for part in page.read_text(encoding="utf-8").split("\n## ")[1:]:
        name = next((name for title, name in SECTIONS.items() if part.startswith(title)), None)
        if name is not None:
            codes = re.findall(r"```python\n(.*?)```", part, re.S)
            found[name] = [Quickstart(next(k for k in LIBRARIES if k in code), code) for code in codes]
    return found


def shown(section: list[Quickstart]) -> dict[str, Quickstart]:
    """The first block of each library."""
    return {one.library: one for one in reversed(section)}


def table() -> str:
    """What the page says in short."""
    blocks = {name: shown(section) for name, section in quickstarts().items()}
    rows = [
        _row(f"lines, {title}", [str(blocks[name][library].lines) for library in LIBRARIES])
        for name, title in (
            ("rows", "rows by an estimator"),
            ("owners", "owners"),
            ("knn", "rows by k-NN"),
        )
    ]
    exact: dict[str, Changes] = {}
    engine = SAMPLED | {
        "datamarket_gym": REGRESSION | {"utility=model": "utility='logistic', samples=8"}
    }
    for name, changes, title in (
        ("rows", SAMPLED, "90 rows of Iris, 8 orders, `LogisticRegression` in all three"),
        ("rows", engine, '90 rows of Iris, 8 orders, here `utility="logistic"`'),
        ("owners", exact, "8 owners of 90 rows of Iris, exact, `LogisticRegression` in all three"),
        ("knn", exact, "1,000 rows, exact, 5-NN"),
    ):  # fmt: skip
        found = {
            library: blocks[name][library].run(changes.get(library), times=2) for library in LIBRARIES
        }
        (values, seconds), *others = [(values, min(seconds)) for values, seconds in found.values()]
        cells = [_figures(seconds)]
        for theirs, slower in others:
            cells.append(f"{_figures(slower)} ({_figures(slower / seconds)} x)")
            if changes is exact:
                cells[-1] += f", values within {np.abs(values - theirs).max():.0e}"
        rows.append(_row(f"seconds, {title}", cells))
    names = [LIBRARIES["datamarket_gym"]] + [
        f"{LIBRARIES[baseline]} {(installed(baseline) or {})['version']}"
        for baseline in ("pydvl", "shapiq")
    ]
    return "\n".join([_row("", names), "|---" * 4 + "|", *rows]) + "\n"


def _row(title: str, cells: list[str]) -> str:
    return f"| {title} | " + " | ".join(cells) + " |"


def _figures(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def page(text: str, made: str) -> str:
    """The page with its table made anew."""
    before, rest = text.split("<!-- quickstarts -->\n")
    return f"{before}<!-- quickstarts -->\n{made}<!-- /quickstarts -->{rest.split('<!-- /quickstarts -->')[1]}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    asked = parser.parse_args()
    made = table()
    print(made)
    if asked.write:
        write_text(PAGE, page(PAGE.read_text(encoding="utf-8"), made))
