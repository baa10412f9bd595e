"""The gallery: every figure of docs/figures with a line that says what it shows and the command that makes it."""

import re
from pathlib import Path

from docs_links import DOCS, pages

FIGURES = DOCS / "figures"
_SHOWN = re.compile(r"!\[([^\]]*)\]\((?:[^()\s]*/)?figures/([^()\s]+)\)")


def figures() -> list[Path]:
    """Each figure once: the drawing where there is one, else the picture."""
    drawn = {file.stem for file in FIGURES.glob("*.svg")}
    return sorted(
        file
        for file in FIGURES.iterdir()
        if file.suffix == ".svg" or (file.suffix == ".png" and file.stem not in drawn)
    )


def command(name: str) -> str:
    """What makes a figure."""
    if name.startswith("explorer-"):
        return "python tools/screenshots.py"
    if name == "overview":
        return "python tools/readme.py"
    if name.startswith("scale-"):
        return "python benchmarks/scaling.py --draw docs/benchmarks/scale.json docs/figures"
    from datamarket_gym.experiments.presets import presets

    if name not in presets():
        raise LookupError(
            f"no command draws docs/figures/{name}; say in tools/docs_gallery.py what does"
        )
    return "datamarket figures"


def shown() -> dict[str, tuple[str, Path]]:
    """By the name of a figure, what the pages call it and the page that shows it first."""
    found: dict[str, tuple[str, Path]] = {}
    for page in pages():
        for words, name in _SHOWN.findall(page.read_text(encoding="utf-8")):
            found.setdefault(Path(name).stem, (words, page))
    return found


def gallery() -> str:
    """The page of the gallery; a figure that no page shows is an error."""
    told, parts = shown(), ["# Gallery", ""]
    lost = [file.name for file in figures() if file.stem not in told]
    if lost:
        raise LookupError(f"no page shows these figures of docs/figures: {', '.join(lost)}")
    makes: dict[str, list[Path]] = {}
    for file in figures():
        makes.setdefault(command(file.stem), []).append(file)
    for typed, files in makes.items():
        parts += [f"## `{typed}`", ""]
        for file in files:
            words, page = told[file.stem]
            place = page.relative_to(DOCS) if page.is_relative_to(DOCS) else Path(page.name.lower())
            parts += [
                f"![{words}](figures/{file.name})",
                "",
                f"{words}: [{place.as_posix()}]({place.as_posix()})",
                "",
            ]
    return "\n".join(parts)
