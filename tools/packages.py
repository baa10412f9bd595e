"""The picture of the packages in CONTRIBUTING.md: in the order in which they may import, and what is in them.

``python tools/packages.py`` writes it anew; tests/test_architecture.py fails where it is stale.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "datamarket_gym"
PAGE = ROOT / "CONTRIBUTING.md"
ORDER = (
    "display", "errors", "registry", "result_table", "execution", "plots", "data", "games", "utilities",
    "market", "evidence", "mechanism", "benchmark/baselines", "analysis", "envs", "payout", "experiments", "testing",
    "benchmark", "explorer", "cli",
)  # fmt: skip
"""Modules of the root and packages; each may import those before it."""
_BLOCK = re.compile(r"<!-- packages -->\n.*?<!-- /packages -->\n", re.S)


def place_of(path: Path) -> str:
    """Return the entry of the order that a module belongs to."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return "/".join(parts[:2]) if "/".join(parts[:2]) in ORDER else parts[0]


def contents(folder: Path) -> list[str]:
    """Return the modules of a package, and its inner packages with theirs."""
    modules = sorted(p.stem for p in folder.glob("*.py") if p.stem != "__init__")
    inner = sorted(p for p in folder.iterdir() if p.is_dir() and any(p.glob("*.py")))
    return modules + [f"{p.name}/({' '.join(contents(p))})" for p in inner]


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]


def picture() -> str:
    """Return the block that stands between the two marks."""
    lines = []
    for name in ORDER:
        folder = PACKAGE / name
        if folder.is_dir() and "/" not in name:
            lines.append(f"{name + '/':<13}{first_line(folder / '__init__.py')}")
            lines += [f"             {line}" for line in _wrap(contents(folder))]
        elif "/" not in name:
            lines.append(f"{name:<13}{first_line(PACKAGE / f'{name}.py')}")
    return "<!-- packages -->\n```\n" + "\n".join(lines) + "\n```\n<!-- /packages -->\n"


def _wrap(words: list[str], width: int = 92) -> list[str]:
    lines, line = [], ""
    for word in " ".join(words).split():
        if line and len(line) + len(word) >= width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line]


if __name__ == "__main__":
    PAGE.write_text(_BLOCK.sub(picture(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
