"""What the site is gathered from: public names, figures, pages in sections, links that lead somewhere."""

import re

import pytest

from repository import ROOT, tool_named

site, tree, links = tool_named("docs_site"), tool_named("docs_tree"), tool_named("docs_links")
reference, gallery = tool_named("docs_reference"), tool_named("docs_gallery")


@pytest.fixture(scope="module")
def texts():
    return site.page_texts()


def test_every_public_name_is_in_the_reference(texts):
    for package in reference.packages():
        page = texts[f"api/{package.__name__}.md"]
        for name in package.__all__:
            assert name == "__version__" or f":py:obj:`{name} <" in page, f"{package.__name__}.{name}"
    assert len(reference.public()) > 200


def test_what_is_described_is_described_once(texts):
    described = [
        line.split(":: ")[1]
        for name, text in texts.items()
        if name.startswith("api/")
        for line in text.splitlines()
        if line.startswith((".. auto", ".. py:"))
    ]
    assert len(described) == len(set(described)) > 200


def test_every_figure_is_in_the_gallery_with_its_command(texts):
    for file in gallery.figures():
        assert f"](figures/{file.name})" in texts["gallery.md"]
    assert "## `datamarket figures`" in texts["gallery.md"]
    assert {file.stem for file in gallery.FIGURES.iterdir()} == {file.stem for file in gallery.figures()}


def test_a_figure_that_nothing_draws_is_an_error():
    with pytest.raises(LookupError, match="no command draws docs/figures/unheard"):
        gallery.command("unheard")


def test_every_page_is_in_one_section(texts):
    pages = [name for name in texts if not name.startswith(("source/", "files/"))]
    found = [page for mine in tree.sorted_pages(pages).values() for page in mine]
    leads = {section.lead for section in tree.SECTIONS} & set(pages)
    assert sorted([*found, *leads, "index.md"]) == sorted(pages)


def test_a_page_that_no_section_names_is_not_lost():
    found = tree.sorted_pages(["index.md", "payout.md", "new-thing.md"])
    assert found[tree.SECTIONS[-1]] == ["new-thing.md"]


def test_pages_are_in_the_order_in_which_their_lead_links_to_them():
    section = tree.Section("T", "t/index.md", "", ("t/*", "x.md"))
    lead = "[x](../x.md) [c](c.md) [b](b.md) [c](c.md)\n"  # c again, where it is listed
    assert tree.as_linked(["t/a.md", "t/b.md", "t/c.md", "x.md"], section, lead) == [
        "t/b.md", "t/c.md", "t/a.md", "x.md",
    ]  # fmt: skip


def test_questions_are_in_the_order_of_their_index(texts):
    index, tree = texts["questions/index.md"].split("{toctree}")
    listed = [name for name in tree.splitlines() if name.startswith("/questions/")]
    assert listed == [
        f"/questions/{slug}" for slug in re.findall(r"^- \*\*\[.*?\]\(([a-z-]+)\.md\)", index, re.M)
    ]
    assert len(listed) > 10


def test_a_number_and_its_error_stay_on_one_line():
    assert links.together("| 1.0 ± 0.1 [2] (p 1.1) | a ± b |") == (
        "| 1.0\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.1 [2] (p\N{NO-BREAK SPACE}1.1) | a ± b |"
    )


def test_links_out_of_the_docs_lead_to_pages_of_the_site(tmp_path):
    shown = set()
    text = links.rewritten(ROOT / "docs" / "scale.md", shown.add)
    assert "](source/src/datamarket_gym/execution/arrays.py.md)" in text
    assert ROOT / "src/datamarket_gym/execution/arrays.py" in shown
    readme = links.rewritten(ROOT / "README.md", shown.add)
    assert "](tutorials/researcher.md)" in readme
    assert "](contributing.md)" in readme
    assert "](docs/" not in readme


def test_a_file_that_a_page_includes_stands_in_it():
    text = links.rewritten(ROOT / "docs" / "protocol.md", set().add)
    assert (ROOT / "examples" / "protocol" / "nearest.py").read_text(encoding="utf-8").strip() in text
    assert "{literalinclude}" not in text


def test_links_in_code_are_left_alone(tmp_path):
    text = "a [b](c.md)\n```\n[d](e.md)\n```\n`[f](g.md)` [h](i.md)\n"
    assert [says for _, says in links.lines_of(text)] == [True, False, False, False, True]
    assert "e.md" not in links.prose(text)
    assert "g.md" not in links.prose(text)


def test_headings_of_the_same_words_have_anchors_of_their_own():
    assert links.anchors("# A b\n## `C` (d)!\n## A b\n```\n# no\n```\n") == {"a-b", "c-d", "a-b-1"}


def test_what_is_gathered_again_is_left_alone_and_what_is_stale_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(site, "page_texts", lambda: {"index.md": "# A\n", "x/y.md": "# B\n"})
    site.gather(tmp_path)
    before = (tmp_path / "x/y.md").stat().st_mtime_ns
    (tmp_path / "old.md").write_text("# C\n")
    site.gather(tmp_path)
    assert (tmp_path / "x/y.md").stat().st_mtime_ns == before
    assert not (tmp_path / "old.md").exists()
    assert (tmp_path / "figures" / "s2.svg").exists()
