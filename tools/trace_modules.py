"""Count the modules that a unit passes through: those of which a function runs, imports aside.

    python tools/trace_modules.py [--list]

Traces `datamarket pay` on 60 units without the audit, and `Mechanism.pay` of "recommended" on the same units.
"""

import inspect
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from datamarket_gym import UtilityOracle, get_mechanism, read_submission
from datamarket_gym.cli.app import app

PACKAGE = "datamarket_gym."


def modules_of(call: Callable[[], Any]) -> set[str]:
    """Return the modules of the package in which a function runs during a call, imports aside."""
    found: set[str] = set()
    importing = 0

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal importing
        code = frame.f_code
        if code.co_name == "<module>" and event in ("call", "return"):
            importing += 1 if event == "call" else -1
        elif event == "call" and not importing and code.co_flags & inspect.CO_OPTIMIZED:
            name = frame.f_globals.get("__name__", "")
            if name.startswith(PACKAGE):
                found.add(name.removeprefix(PACKAGE))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def write_market(folder: Path) -> tuple[Path, Path]:
    """Write 60 units of six identities, and 40 validation rows."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 100)
    features = list(rng.normal(size=(100, 8)) + 2 * label[:, None])
    units, held = folder / "units.parquet", folder / "validation.parquet"
    pq.write_table(
        pa.table({
            "id": [f"u{i}" for i in range(60)], "identity": [f"seller {i % 6}" for i in range(60)],
            "features": features[:60], "label": label[:60], "time": np.arange(60.0),
        }),
        units,
    )  # fmt: skip
    pq.write_table(pa.table({"features": features[60:], "label": label[60:]}), held)
    return units, held


def main() -> None:
    """Print the two counts, with ``--list`` the modules as well."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        units, held = write_market(Path(name))
        command = ["pay", str(units), "--validation", str(held), "--out", f"{name}/run"]
        command += ["--amount", "100", "--no-audit"]

        def pay() -> None:
            done = CliRunner().invoke(app, command)
            if done.exit_code:
                raise SystemExit(done.output)

        submission, rows = read_submission(units), pq.read_table(held).to_pydict()
        oracle = UtilityOracle(np.array(rows["features"]), np.array(rows["label"]), "coverage")
        with redirect_stdout(StringIO()):
            library = modules_of(lambda: get_mechanism("recommended").pay(submission, oracle))
            command_line = modules_of(pay)
    for title, modules in (("datamarket pay", command_line), ("Mechanism.pay", library)):
        print(f"{title}: {len(modules)} modules")
        if "--list" in sys.argv:
            print(*(f"  {name}" for name in sorted(modules)), sep="\n")


if __name__ == "__main__":
    main()
