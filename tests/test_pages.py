"""Pages lead somewhere: links name files and headings that are there, and every page is linked."""

import pytest

from repository import ROOT, tool_named

tool = tool_named("docs_links")
PAGES = tool.pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for file, heading in tool.links(page):
        assert file.exists(), f"{page.name} links to {file}"
        assert not heading or heading in tool.anchors(file.read_text(encoding="utf-8")), (
            f"{page.name} links to #{heading}, no heading of {file.name}"
        )


def test_every_page_is_linked():
    linked = {file for page in PAGES for file, _ in tool.links(page) if file != page}
    alone = [page.name for page in PAGES if page not in linked and page.parent != ROOT]
    assert alone in ([], ["ten-numbers.md"])  # which is part of index.md
