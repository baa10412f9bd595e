"""The documentation site: gathers its pages in a folder of their own, then has Sphinx build it; warnings are errors.

``make docs`` runs it. Pages are those of docs/ and of the root, with links that lead somewhere on the site, pages that
show the files they link to, the API reference and the gallery.
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from docs_gallery import gallery
from docs_html import faults
from docs_links import DOCS, ROOT, pages, place, rewritten
from docs_reference import PAGE, reference
from docs_tree import INDEX, SECTIONS, as_linked, lead_page, sorted_pages, title_of, toctree

TEN = DOCS / "ten-numbers.md"
WORDS = {
    ".py": "python",
    ".toml": "toml",
    ".json": "json",
    ".sh": "bash",
    ".csv": "text",
    ".md": "markdown",
}


def shown_file(file: Path) -> str:
    """A page that shows a file of the repository."""
    language = WORDS.get(file.suffix, "text")
    name = file.relative_to(ROOT).as_posix()
    body = file.read_text(encoding="utf-8")
    return f"---\norphan: true\n---\n\n# {name}\n\n``````{language}\n{body}\n``````\n"


def page_texts() -> dict[str, str | Path]:
    """The text of every page of the site, by its place; for a download, the file."""
    found: dict[str, str] = {}
    files: set[Path] = set()
    for page in pages():
        if page != TEN:
            found[place(page).as_posix()] = rewritten(page, files.add)
    for notebook in sorted((DOCS / "notebooks").glob("*.ipynb")):
        found[place(notebook).as_posix()] = notebook.read_text(encoding="utf-8")
    found |= reference() | {"gallery.md": gallery()}
    if TEN.exists():
        found[INDEX] = found[INDEX].replace("<!-- ten-numbers -->", rewritten(TEN, files.add))
    shown = {file: place(file).as_posix() for file in files}
    return with_tree(found) | {
        name: shown_file(file) if name.startswith("source/") else file for file, name in shown.items()
    }


def with_tree(texts: dict[str, str]) -> dict[str, str]:
    """The pages, with the sections that the sidebar shows."""
    sections = sorted_pages(texts)
    leads = []
    for section in SECTIONS:
        mine, lead = sections[section], section.lead
        if not mine and lead not in texts:
            continue
        leads.append(lead)
        titles = {page: heading(page, texts[page]) for page in mine}
        text = texts.get(lead) or lead_page(section, titles)
        mine = as_linked(mine, section, text)
        is_made = lead.startswith(f"{PAGE}/")  # the reference lists its pages itself
        texts[lead] = text if is_made or not mine else text + toctree(mine, lead)
    texts[INDEX] += toctree(leads, INDEX)
    return texts


def heading(page: str, text: str) -> str:
    """The title of a page or of a notebook."""
    if page.endswith(".ipynb"):
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return title_of(text) or page


def gather(folder: Path) -> list[Path]:
    """Write the pages of the site into a folder; what is there as it should be is left alone, what is stale goes."""
    texts = {**page_texts(), "figures": DOCS / "figures"}
    folder.mkdir(parents=True, exist_ok=True)
    for file in [file for file in folder.rglob("*") if file.is_symlink() or file.is_file()]:
        name = file.relative_to(folder).as_posix()
        if file.is_symlink() or (name not in texts and not name.startswith("figures/")):
            file.unlink()
    for name, text in texts.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, Path):
            file.symlink_to(text)
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def with_own_programs() -> str:
    """The path on which programs are looked for, those beside this Python first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def build(source: Path, out: Path, *options: str) -> int:
    """Have Sphinx build the site; what it answers is not 0 where it warned of anything."""
    from sphinx.cmd.build import main

    os.environ["PATH"] = with_own_programs()  # notebooks type commands
    words = [
        "-W",
        "--keep-going",
        "-q",
        "-j",
        "auto",
        "-c",
        str(DOCS),
        "-d",
        str(out) + ".doctrees",
        *options,
    ]
    return main([*words, str(source), str(out)])


def built(arguments: list[str]) -> int:
    """The command line."""
    ask = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ask.add_argument(
        "--gather", type=Path, default=ROOT / "build" / "docs", help="folder for the gathered pages"
    )
    ask.add_argument("--out", type=Path, default=DOCS / "_build" / "html", help="folder for the site")
    ask.add_argument("--fresh", action="store_true", help="build everything anew")
    asked = ask.parse_args(arguments)
    if asked.fresh:
        for folder in (asked.gather, asked.out, Path(f"{asked.out}.doctrees")):
            shutil.rmtree(folder, ignore_errors=True)
    gather(asked.gather)
    answer = build(asked.gather, asked.out)
    for fault in faults(asked.out):
        answer = 1
        print(fault, file=sys.stderr)
    if answer == 0:
        print(f"open {os.path.relpath(asked.out / 'index.html')}")
    return answer


if __name__ == "__main__":
    sys.exit(built(sys.argv[1:]))
