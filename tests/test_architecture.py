"""The layout: who may import whom, what packages there are, and how quickly the package is imported."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import datamarket_gym

ROOT = Path(datamarket_gym.__file__).parent
REPOSITORY = Path(__file__).parents[1]
PACKAGES = runpy.run_path(str(REPOSITORY / "tools" / "packages.py"))
ORDER = list(PACKAGES["ORDER"])
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.parent.name != "scripts")


def imports(tree):
    """Every import of the package: at the top, under ``if`` and ``try``, and inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            raise AssertionError("relative imports hide where a module comes from")
        else:
            continue
        for name in names:
            if name.startswith("datamarket_gym."):
                parts = name.split(".")[1:]
                yield "/".join(parts[:2]) if "/".join(parts[:2]) in ORDER else parts[0]


def upward(source, place):
    """What a module at a ``place`` of the order imports from places on its right."""
    for used in imports(ast.parse(source)):
        assert used in [*ORDER, "__version__"], f"from datamarket_gym import {used}: name the module"
        if used in ORDER and ORDER.index(used) > ORDER.index(place):
            yield used


def test_nothing_on_the_left_imports_from_the_right():
    place_of = PACKAGES["place_of"]
    inside = [path for path in MODULES if path != ROOT / "__init__.py"]
    assert {place_of(path) for path in inside} == set(ORDER)
    wrong = [
        (str(path.relative_to(ROOT)), used)
        for path in inside
        for used in upward(path.read_text(), place_of(path))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "hidden",
    [
        "if True:\n    from datamarket_gym.cli import app",
        "try:\n    import datamarket_gym.cli\nexcept ImportError:\n    pass",
        "def f():\n    from datamarket_gym.cli.app import app",
        "from datamarket_gym import cli",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from datamarket_gym.cli import app",
    ],
)
def test_no_import_escapes_the_test(hidden):
    assert list(upward(hidden, "data")) == ["cli"]


def test_public_names_are_not_a_way_around():
    with pytest.raises(AssertionError, match="name the module"):
        list(upward("from datamarket_gym import Metrics", "data"))


def test_the_picture_shows_what_is_there():
    page = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert PACKAGES["picture"]() in page, "run python tools/packages.py"


def test_every_row_of_the_paper_has_a_place():
    page = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| `(\S+)`.* \|$", page, re.M)
    assert len(rows) > 10
    assert [row for row in rows if not (ROOT / row).exists()] == []


def test_the_environment_is_read_and_never_written():
    writes = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Store | ast.Del)
            and ast.unparse(node.value) == "os.environ"
        )
        or (
            isinstance(node, ast.Call)
            and ast.unparse(node.func)
            in (
                "os.putenv",
                "os.unsetenv",
                "os.environ.setdefault",
                "os.environ.update",
                "os.environ.pop",
            )
        )
    ]
    assert writes == []


def test_importing_the_package_is_quick():
    code = "import time; t = time.perf_counter(); import datamarket_gym; print(time.perf_counter() - t)"
    seconds = min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(3)
    )
    assert seconds < 0.5


def test_public_names_resolve():
    for name in datamarket_gym.__all__:
        assert getattr(datamarket_gym, name) is not None
