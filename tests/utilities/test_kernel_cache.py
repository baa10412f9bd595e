"""Machine code on disk is used only while every source compiled into it is unchanged."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("numba")

ROOT = Path(__file__).parents[2]
LOGISTIC = ROOT / "src/datamarket_gym/utilities/logistic"

HELPER = "FACTOR = {factor}\n"
ENTRY = """
    import numba
    import helper
    from helper import FACTOR
    from datamarket_gym.utilities.accelerators import compile_cached, is_compiled

    @numba.njit
    def inner(x):
        return FACTOR * x

    @compile_cached(__file__, helper.__file__)
    def entry(x):
        return inner(x)

    print(is_compiled(entry), entry(1.0), is_compiled(entry))
"""


def run(code: str, path: Path, folder: Path) -> str:
    """What a new process prints, with packages from ``path`` and numba's files in ``folder``."""
    given = os.environ | {"PYTHONPATH": str(path), "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_changed_helper_is_compiled_anew_and_the_old_code_does_not_stay(tmp_path: Path) -> None:
    """Same size and same time stamp: only the bytes tell."""
    (tmp_path / "entry.py").write_text(textwrap.dedent(ENTRY))
    path = Path(f"{tmp_path}{os.pathsep}{ROOT / 'src'}")
    said = []
    for factor in (2.0, 2.0, 3.0):
        (tmp_path / "helper.py").write_text(HELPER.format(factor=factor))
        os.utime(tmp_path / "helper.py", (1_000_000_000, 1_000_000_000))
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)  # Python's own trap is not ours
        said.append(run("import entry", path, tmp_path / "cache"))
    assert said == ["False 2.0 True", "True 2.0 True", "False 3.0 True"]
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == 1


def test_the_stamp_covers_whatever_the_kernels_import() -> None:
    from datamarket_gym.utilities.logistic import _numba as coalition

    listed = {Path(source).resolve() for source in coalition.SOURCES}
    package = ROOT / "src/datamarket_gym"
    not_compiled = {package / "utilities/accelerators.py", package / "execution/arrays.py"}
    for source in listed:
        found = {file for file in imported(source) if file.name != "__init__.py"}
        assert found <= listed | not_compiled | {LOGISTIC / "problem.py"}


def imported(source: Path) -> set[Path]:
    """The project's files that a file imports anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    files = {ROOT / "src" / Path(*name.split(".")).with_suffix(".py") for name in names}
    return {file for file in files if file.exists()}
