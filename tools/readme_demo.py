"""Puts what `datamarket demo` prints into the README, between the two demo comments."""

import os
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
OPEN, CLOSE = "<!-- demo -->\n", "<!-- /demo -->"


def demo_text() -> str:
    """What the demo prints on an 100-column terminal without colours."""
    shown = subprocess.run(
        [sys.executable, "-c", "from datamarket_gym.cli import main; main()", "demo"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"},
    )
    return "\n".join(line.rstrip() for line in shown.stdout.splitlines())


def block(readme: str) -> str:
    """The part of the README between the comments."""
    return readme.split(OPEN)[1].split(CLOSE)[0]


def fenced(text: str) -> str:
    """The text as a Markdown code block."""
    return f"```\n{text}\n```\n"


if __name__ == "__main__":
    readme = README.read_text(encoding="utf-8")
    README.write_text(readme.replace(OPEN + block(readme), OPEN + fenced(demo_text())), encoding="utf-8")
