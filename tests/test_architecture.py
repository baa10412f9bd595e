"""The house: who may import whom, what rooms there are, and how quickly the door opens."""

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
HOUSE = runpy.run_path(str(REPOSITORY / "tools" / "house.py"))
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT / "peers" / "scripts")


def room(path):
    return path.relative_to(ROOT).parts[0]


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
        yield from (name.split(".")[1] for name in names if name.startswith("datamarket_gym."))


def upward(source, at, order):
    """What a module of the room ``at`` imports from rooms on its right."""
    known = [*order, "__version__"]
    for used in imports(ast.parse(source)):
        assert used in known, f"from datamarket_gym import {used} hides its room; name the module"
        if used in order and order.index(used) > order.index(at):
            yield used


def test_nothing_on_the_left_imports_from_the_right():
    order = list(HOUSE["ROOMS"])
    inside = [path for path in MODULES if path != ROOT / "__init__.py"]
    assert {room(path) for path in inside} == set(order)
    wrong = [
        (str(path.relative_to(ROOT)), used)
        for path in inside
        for used in upward(path.read_text(), room(path), order)
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
    assert list(upward(hidden, "core", HOUSE["ROOMS"])) == ["cli"]


def test_public_names_are_not_a_way_around():
    with pytest.raises(AssertionError, match="hides its room"):
        list(upward("from datamarket_gym import Metrics", "core", HOUSE["ROOMS"]))


def test_the_picture_shows_what_is_there():
    page = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert HOUSE["picture"]() in page, "run python tools/house.py"


def test_every_row_of_the_paper_has_a_place():
    page = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| `(\S+)`.* \|$", page, re.M)
    assert len(rows) > 10
    assert [row for row in rows if not (ROOT / row).exists()] == []


def test_modules_are_short():
    long = {
        str(path.relative_to(ROOT)): n
        for path in MODULES
        if (n := len(path.read_text().splitlines())) > 1000
    }
    assert long == {}


def test_no_two_classes_share_a_name():
    where = {}
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


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
