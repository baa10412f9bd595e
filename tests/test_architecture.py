"""The house: who may import whom, and how quickly the door opens."""

import ast
import subprocess
import sys
from pathlib import Path

import datamarket_gym

ROOT = Path(datamarket_gym.__file__).parent
ORDER = (
    ("core",), ("units",), ("games",), ("semivalues",), ("learners",), ("world",), ("evidence",),
    ("pipeline",), ("judge",), ("payout",), ("lab",), ("conformance",), ("bench",), ("cli",),
)  # fmt: skip
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}


def imports(path):
    """Imports that run when the module does: not those inside functions or for type checkers."""
    todo = list(ast.parse(path.read_text()).body)
    while todo:
        node = todo.pop()
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.startswith("datamarket_gym.")
        ):
            yield node.module.split(".")[1]


def test_nothing_on_the_left_imports_from_the_right():
    wrong = []
    for path in ROOT.rglob("*.py"):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        assert part in LEVEL, f"say in ORDER where {part} belongs"
        wrong += [(str(path), used) for used in imports(path) if LEVEL[used] > LEVEL[part]]
    assert wrong == []


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
