"""Pages lead somewhere: links name files and headings that are there, and every page is linked."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))
]  # fmt: skip


def prose(page):
    """A page without its code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)


def anchors(page):
    """What links to headings of a page are called."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page):
    """(file, heading or "") of each link to another place in the repository."""
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if not re.match(r"[a-z]+:", target):
            name, _, heading = target.partition("#")
            yield (page.parent / name if name else page).resolve(), heading


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for file, heading in links(page):
        assert file.exists(), f"{page.name} links to {file}"
        assert not heading or heading in anchors(file), (
            f"{page.name} links to #{heading}, no heading of {file.name}"
        )


def test_every_page_is_linked():
    linked = {file for page in PAGES for file, _ in links(page) if file != page}
    alone = [page.name for page in PAGES if page not in linked and page.parent != ROOT]
    assert alone == ["ten-numbers.md"]  # which is part of other pages
