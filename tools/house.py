"""The picture of the house in CONTRIBUTING.md: rooms in the order in which they may import, and what is in them.

``python tools/house.py`` writes it anew; tests/test_architecture.py fails where it is stale.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "datamarket_gym"
PAGE = ROOT / "CONTRIBUTING.md"
ROOMS = (
    "core", "units", "games", "semivalues", "learners", "world", "evidence", "pipeline", "peers",
    "judge", "envs", "payout", "lab", "conformance", "arena", "web", "cli",
)  # fmt: skip
_BLOCK = re.compile(r"<!-- house -->\n.*?<!-- /house -->\n", re.S)


def contents(room: Path) -> list[str]:
    """The modules of a room, and its inner rooms with theirs."""
    modules = sorted(p.stem for p in room.glob("*.py") if p.stem != "__init__")
    inner = sorted(p for p in room.iterdir() if p.is_dir() and any(p.glob("*.py")))
    return modules + [f"{p.name}/({' '.join(contents(p))})" for p in inner]


def says(room: Path) -> str:
    """The first line of what a room says of itself."""
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0]


def picture() -> str:
    """The block that stands between the two marks."""
    lines = []
    for name in ROOMS:
        lines.append(f"{name + '/':<13}{says(PACKAGE / name)}")
        lines += [f"             {line}" for line in _wrapped(contents(PACKAGE / name))]
    return "<!-- house -->\n```\n" + "\n".join(lines) + "\n```\n<!-- /house -->\n"


def _wrapped(words: list[str], width: int = 92) -> list[str]:
    lines, line = [], ""
    for word in " ".join(words).split():
        if line and len(line) + len(word) >= width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line]


if __name__ == "__main__":
    PAGE.write_text(_BLOCK.sub(picture(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
