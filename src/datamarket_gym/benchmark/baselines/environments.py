"""Environments of the peers: each has a Python and packages of its own, because their pins clash.

They lie under ``DATAMARKET_PEERS``, or else in the user's data folder (``~/.local/share/datamarket-gym/peers``), one
folder a peer. An environment counts as there once its record ``installed.json``, which is written last, is there: an
installation that was interrupted is begun again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.errors import DataMarketError, MissingBaselineError, UnknownNameError
from datamarket_gym.execution.files import claimed, read_json, write_json

RECORD = "installed.json"
_SEEN = range(15, 9, -1)  # minor versions of Python 3 that are looked for, the newest first


@dataclass(frozen=True)
class BaselinePackage:
    """A peer: what to install, in as many steps (each one call of pip), and what it values by.

    ``oldest`` and ``newest`` are the minor versions of Python 3 that the requirements need; where none such is found
    ``otherwise`` is installed on the Python that is there.
    """

    name: str
    requirements: tuple[str, ...]
    valuators: tuple[str, ...]
    oldest: int = 10
    newest: int = 99
    otherwise: tuple[str, ...] = ()

    def takes(self, minor: int | None) -> bool:
        """Whether the requirements can be installed on a Python."""
        return minor is not None and self.oldest <= minor <= self.newest


PEERS = {
    peer.name: peer
    for peer in (
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
    """Where environments lie: ``DATAMARKET_PEERS``, or else the user's data folder."""
    if named := os.environ.get("DATAMARKET_PEERS"):
        return Path(named).absolute()
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "datamarket-gym" / "peers"


def baseline_named(name: str) -> BaselinePackage:
    """A peer by name."""
    if name not in PEERS:
        raise UnknownNameError("peer", name, PEERS)
    return PEERS[name]


def python_of(name: str) -> Path:
    """The Python of a peer's environment, or an error with the line that installs it."""
    folder = baselines_folder() / baseline_named(name).name
    if not (folder / RECORD).is_file():
        raise MissingBaselineError(
            f"the peer {name} is not installed here; datamarket baselines install {name}"
        )
    return _python_in(folder)


def installed(name: str) -> dict[str, Any] | None:
    """What the record of an environment says: its Python and the versions in it; None where there is none."""
    record = baselines_folder() / baseline_named(name).name / RECORD
    return read_json(record) if record.is_file() else None


def install(name: str, python: Path | None = None, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Make a peer's environment anew, and say what is being done; returns its record."""
    peer, folder = baseline_named(name), baselines_folder() / name
    base, requirements = _chosen_python(peer, python)
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
        record = {"peer": name, "requirements": list(requirements), **_versions(inside, name)}
        write_json(folder / RECORD, record)
    shutil.rmtree(home, ignore_errors=True)
    return record


def _chosen_python(peer: BaselinePackage, python: Path | None) -> tuple[Path, tuple[str, ...]]:
    """The Python to make an environment with, and what to install in it."""
    if python is not None:
        minor = _minor(python)
        if minor is None:
            raise DataMarketError(f"{str(python)!r} is no Python 3 that runs; check the path")
        return python, peer.requirements if peer.takes(minor) else _otherwise(peer, minor)
    if peer.takes(sys.version_info.minor):
        return Path(sys.executable), peer.requirements
    found = next((path for path in _pythons() if peer.takes(_minor(path))), None)
    if found is not None:
        return found, peer.requirements
    return Path(sys.executable), _otherwise(peer, sys.version_info.minor)


def _otherwise(peer: BaselinePackage, minor: int) -> tuple[str, ...]:
    if not peer.otherwise:
        raise DataMarketError(
            f"{peer.name} needs Python 3.{peer.oldest} to 3.{peer.newest}, and this is 3.{minor}; name one with "
            "--python"
        )
    return peer.otherwise


def _pythons() -> Iterator[Path]:
    """Other Pythons: on the path, and in pyenv's folder (``PYENV_ROOT``, or else ``~/.pyenv``)."""
    for minor in _SEEN:
        if found := shutil.which(f"python3.{minor}"):
            yield Path(found)
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for minor in _SEEN:
        yield from sorted(versions.glob(f"3.{minor}.*/bin/python"), reverse=True)


def _minor(python: Path) -> int | None:
    """The minor version of a Python 3; None where it does not run, as a shim of pyenv may not."""
    try:
        done = subprocess.run([str(python), "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.fullmatch(r"Python 3\.(\d+)\S*", (done.stdout or done.stderr).strip())
    return int(match[1]) if done.returncode == 0 and match else None


def _python_in(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _run(words: list[str], what: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise DataMarketError(f"{what}: " + "\n".join(said[-5:]))
    return done.stdout


_ASKED = (
    "import json, platform; from importlib.metadata import version; "
    "print(json.dumps([platform.python_version(), *map(version, ({!r}, 'numpy', 'scikit-learn'))]))"
)


def _versions(python: Path, name: str) -> dict[str, str]:
    told = json.loads(_run([str(python), "-c", _ASKED.format(name)], f"{name} was not installed"))
    return dict(zip(("python", "version", "numpy", "scikit-learn"), told, strict=True))
