"""Writes docs/unlabelled-texts.md: what examples/unlabelled_texts.py types and what it is answered, scene by scene.

As tools/three_months.py does with its story; of a long answer the middle is left out. `python tools/unlabelled_page.py`
takes two minutes and needs AG News (see docs/real-domains.md).
"""

from pathlib import Path

import three_months

EXAMPLE = three_months.ROOT / "examples" / "unlabelled_texts.py"
PAGE = three_months.ROOT / "docs" / "unlabelled-texts.md"
ARTICLES = 60
LONGEST = {"draft": 12, "copier": 22, "needs-of-one": 32}
LAST = 4
"""Lines that are shown of scenes that are long, and how many of them are its last."""


def play(folder: Path, number: int = ARTICLES) -> dict[str, str]:
    """Play the example in a folder that is not there yet; what each scene printed."""
    return three_months.scenes_of(EXAMPLE, folder, "--articles", str(number))


def cut(name: str, said: str) -> str:
    """A scene without its middle, if it is long."""
    lines = said.split("\n")
    most = LONGEST.get(name, len(lines))
    if len(lines) <= most:
        return said
    return "\n".join([*lines[: most - LAST], three_months.LEFT_OUT, *lines[-LAST:]])


def filled(page: str, scenes: dict[str, str]) -> str:
    """The page with its scenes as they were played."""
    return three_months.filled(page, {name: cut(name, said) for name, said in scenes.items()})


if __name__ == "__main__":
    three_months.write(PAGE, play, filled)
