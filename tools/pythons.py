"""Runs the part of the tests that a Python version decides most with this Python, and writes docs/pythons.md.

Usage: python3.13 tools/pythons.py [PATH ...]

Start it with the Python of an environment in which the project is installed with what its tests need. What came out is
kept in docs/pythons/VERSION.json, one file a minor version, and the page is written from these files alone.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT, PAGE = ROOT / "docs/pythons", ROOT / "docs/pythons.md"
PART = (
    "semivalues", "games", "core/test_content_keys.py", "core/test_registry.py", "core/test_runs.py",
    "pipeline/test_mechanism.py", "pipeline/test_stages.py", "payout/test_run_id.py", "payout/test_payout_cli.py",
)  # fmt: skip
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow")
WORDS = """# Pythons

CI runs all tests on Python 3.11. This part of them was run last with each version below, by `python tools/pythons.py`,
which writes this page: {part}.

| Python | system | day | passed | failed | skipped | {libraries} |
|---|---|---|---|---|---|{lines}|
{rows}
The workflow in `.github/workflows/ci.yml` runs all tests on 3.11 to 3.14. `requirements.lock` is for all of them: where
versions need different pins it has both, and pip takes the one that fits. No Python 3.14 could be had on the machine of
these runs; the first command below, which finds a wheel of every pin for it, ended without an error there.

<!-- not run: minutes -->
```
pip install --dry-run --python-version 3.14 --only-binary=:all: --target wheels --require-hashes -r requirements.lock
make test PYTHON=python3.13 VENV=.venv-3.13    # an environment of its own beside .venv
```
"""


def main() -> None:
    """Run, keep what came out, write the page; end with what the tests ended with."""
    part = sys.argv[1:] or [f"tests/{name}" for name in PART]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "not slow", f"--junitxml={report}", *part]
        given = {**os.environ, "OMP_NUM_THREADS": "1"}
        ended = subprocess.run(command, cwd=ROOT, env=given, check=False).returncode
        if not report.is_file():
            sys.exit(f"the tests did not run: pytest ended with {ended}")
        (suite,) = ET.parse(report).getroot().iter("testsuite")
    counts = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    failed = counts["failures"] + counts["errors"]
    found = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "day": datetime.now(UTC).date().isoformat(),
        "passed": counts["tests"] - failed - counts["skipped"],
        "failed": failed,
        "skipped": counts["skipped"],
        "libraries": {name: version(name) for name in LIBRARIES},
        "part": part,
    }
    KEPT.mkdir(exist_ok=True)
    minor = ".".join(platform.python_version_tuple()[:2])
    (KEPT / f"{minor}.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    sys.exit(ended)


def page() -> str:
    """The page, from what is kept."""
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in KEPT.glob("*.json")]
    kept.sort(key=lambda one: tuple(map(int, one["python"].split("+")[0].split("."))))
    columns = ("python", "system", "day", "passed", "failed", "skipped")
    rows = "".join(
        "| "
        + " | ".join(str(cell) for cell in [*(one[c] for c in columns), *one["libraries"].values()])
        + " |\n"
        for one in kept
    )
    parts = {" ".join(f"`{name}`" for name in one["part"]) for one in kept}
    if len(parts) > 1:
        sys.exit("docs/pythons holds runs of different parts of the tests; run the same with each")
    return WORDS.format(
        part=parts.pop() if parts else "",
        libraries=" | ".join(LIBRARIES), lines="|".join(["---"] * len(LIBRARIES)), rows=rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
