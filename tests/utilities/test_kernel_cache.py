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
LOGISTIC = "src/datamarket_gym/utilities/logistic"

HELPER = "FACTOR = {factor}\n"
ENTRY = """
    import numba
    import helper
    from helper import FACTOR
    from datamarket_gym.utilities._numba_cache import is_compiled, kept

    @numba.njit
    def inner(x):
        return FACTOR * x

    @kept(__file__, helper.__file__)
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


def wheel(folder: Path, change: tuple[str, str, str] | None = None) -> Path:
    """The package as a wheel; ``change`` is a file, a text in it, and what replaces it."""
    source = folder / "source"
    source.mkdir(parents=True)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    if change:
        file, old, new = change
        text = (source / file).read_text()
        assert text.count(old) == 1
        (source / file).write_text(text.replace(old, new))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True)
    (built,) = folder.glob("*.whl")
    return built


def install(built: Path, target: Path) -> None:
    """Over what is there; kernels that numba left in the folder stay."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    subprocess.run([*command, "--target", str(target), str(built)], check=True)


TIE = (f"{LOGISTIC}/certificate.py", "TIE = 1e-9", "TIE = 9e+9")
"""With this change no prediction is certain any more."""


def test_a_new_version_of_any_source_has_another_stamp(tmp_path: Path) -> None:
    """Installed one over the other, kernels of the first are not those of the second."""
    code = """
        from datamarket_gym.utilities.logistic._numba import solve_part
        print(solve_part._cache._cache_file._source_stamp)
    """
    site, stamps = tmp_path / "site", []
    for number, change in enumerate((None, TIE)):
        install(wheel(tmp_path / str(number), change), site)
        stamps.append(run(code, site, tmp_path / "cache"))
    for name in ("coalition", "kernel_proof", "kernels"):
        file = site / LOGISTIC.removeprefix("src/") / f"{name}.py"
        file.write_text(file.read_text() + "# another version\n")
        stamps.append(run(code, site, tmp_path / "cache"))
    assert len(set(stamps)) == len(stamps)


@pytest.mark.slow
def test_a_new_version_answers_with_its_own_proof(tmp_path: Path) -> None:
    code = """
        import numpy as np
        from datamarket_gym.utilities.base import TrainingRows, ValidationRows
        from datamarket_gym.utilities.logistic import LogisticScorer

        label = np.arange(24) % 3
        x = np.random.default_rng(0).normal(size=(24, 4)) + label[:, None]
        rows = TrainingRows(x, label, np.arange(24) % 2, 2, 3)
        scorer = LogisticScorer(rows, ValidationRows(x + 0.1, label), backend="compiled", jobs=1)
        print(scorer.engine.solve(np.ones((1, 2), dtype=bool))[1])
    """
    install(wheel(tmp_path / "old"), tmp_path / "site")
    assert run(code, tmp_path / "site", tmp_path / "cache") == "[ True]"
    install(wheel(tmp_path / "new", TIE), tmp_path / "site")
    assert run(code, tmp_path / "site", tmp_path / "cache") == "[False]"


def test_the_stamp_covers_whatever_the_kernels_import() -> None:
    from datamarket_gym.utilities.logistic import _numba as coalition

    listed = {Path(source).resolve() for source in coalition.SOURCES}
    not_compiled = {
        ROOT / "src/datamarket_gym/learners" / name for name in ("kernel_cache.py", "device_arrays.py")
    }
    for source in listed:
        assert imported(source) <= listed | not_compiled | {
            ROOT / "src/datamarket_gym/execution/arrays.py"
        }


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
