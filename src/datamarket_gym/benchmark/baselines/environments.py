"""Environments of the baselines: each has a Python and packages of its own, because their pins clash.

They lie under ``DATAMARKET_BASELINES``, or else in the user's data folder, one folder a baseline. An environment counts
as installed once its record ``installed.json``, which is written last, is
there: an installation that was interrupted is begun again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.errors import DataMarketError, MissingBaselineError, UnknownNameError
from datamarket_gym.execution.files import claimed, read_json, write_json

RECORD = "installed.json"


@dataclass(frozen=True)
class BaselinePackage:
    """A library: what to install, in as many steps (each one call of pip), and what it values by.

    ``oldest`` and ``newest`` are the minor versions of Python 3 that the requirements need; on another Python
    ``otherwise`` is installed.
    """

    name: str
    requirements: tuple[str, ...]
    valuators: tuple[str, ...]
    oldest: int = 10
    newest: int = 99
    otherwise: tuple[str, ...] = ()


BASELINES = {
    package.name: package
    for package in (
        BaselinePackage("pydvl", ("pydvl==0.10.0 numpy<2",), ("shapley", "banzhaf", "knn5")),
        BaselinePackage("shapiq", ("shapiq==1.8.0",), ("shapley", "banzhaf"), 12, otherwise=("shapiq",)),
        BaselinePackage("datascope", ("datascope==0.0.32 numpy<2",), ("shapley",)),
        # It pins torch 2.1 itself; newer versions of transformers, which it asks for too, need a newer torch.
        BaselinePackage(
            "opendataval", ("opendataval==1.3.0 transformers==4.35.2",), ("shapley", "knn5"), newest=11
        ),
    )
}


def baselines_folder() -> Path:
    if folder := os.environ.get("DATAMARKET_BASELINES"):
        return Path(folder).absolute()
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "datamarket-gym" / "baselines"


def baseline_named(name: str) -> BaselinePackage:
    if name not in BASELINES:
        raise UnknownNameError("baseline", name, BASELINES)
    return BASELINES[name]


def python_of(name: str) -> Path:
    """Return the Python of a baseline's environment, or raise with the line that installs it."""
    folder = baselines_folder() / baseline_named(name).name
    if not (folder / RECORD).is_file():
        raise MissingBaselineError(
            f"the baseline {name} is not installed here; datamarket baselines install {name}"
        )
    return _python_in(folder)


def installed(name: str) -> dict[str, Any] | None:
    """Return the record of an environment, with its Python and the versions in it; None where there is none."""
    record = baselines_folder() / baseline_named(name).name / RECORD
    return read_json(record) if record.is_file() else None


def install(name: str, python: Path | None = None, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Make a baseline's environment anew with a Python, this one if none is named; return its record."""
    folder, base = baselines_folder() / name, python or Path(sys.executable)
    requirements = _requirements_on(baseline_named(name), base)
    folder.parent.mkdir(parents=True, exist_ok=True)
    home = folder.parent / f".{name}"
    home.mkdir(exist_ok=True)
    with claimed(home, "installation"):
        if folder.exists():
            shutil.rmtree(folder)
        say(f"{name}: an environment with {base} in {folder}")
        _run([str(base), "-m", "venv", str(folder)], f"no environment can be made with {base}")
        inside = _python_in(folder)
        for requirement in requirements:
            say(f"{name}: pip install {requirement}")
            pip = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            _run([*pip, *requirement.split()], f"{requirement} cannot be installed for {name}")
        versions = json.loads(
            _run([str(inside), "-c", _VERSIONS.format(name)], f"{name} was not installed")
        )
        record = {"baseline": name, "requirements": list(requirements), **versions}
        write_json(folder / RECORD, record)
    shutil.rmtree(home, ignore_errors=True)
    return record


def _requirements_on(package: BaselinePackage, python: Path) -> tuple[str, ...]:
    """Return what to install on a Python, or raise where it does not run or is of another version than needed."""
    try:
        done = subprocess.run([str(python), "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        done = None
    match = done and re.fullmatch(r"Python 3\.(\d+)\S*", (done.stdout or done.stderr).strip())
    if not done or not match or done.returncode:
        raise DataMarketError(f"{str(python)!r} is no Python 3 that runs; check the path")
    if package.oldest <= int(match[1]) <= package.newest:
        return package.requirements
    if package.otherwise:
        return package.otherwise
    raise DataMarketError(
        f"{package.name} needs Python 3.{package.oldest} to 3.{package.newest}, and {python} is 3.{match[1]}; name "
        "one with --python"
    )


def _python_in(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _run(words: list[str], what: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise DataMarketError(f"{what}: " + "\n".join(lines[-5:]))
    return done.stdout


_VERSIONS = (
    "import json, platform; from importlib.metadata import version; "
    "print(json.dumps({{'python': platform.python_version(), 'version': version({0!r}), "
    "'numpy': version('numpy'), 'scikit-learn': version('scikit-learn')}}))"
)
