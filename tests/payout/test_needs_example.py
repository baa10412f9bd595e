"""examples/unlabelled_texts.py pays for what is needed, and neither copies nor padding; its page is what it printed."""

import re
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from repository import ROOT, require_data, tool_named

tool, months = tool_named("unlabelled_page"), tool_named("three_months")
PAGE = (ROOT / "docs" / "unlabelled-texts.md").read_text(encoding="utf-8")
SMALL = 24  # articles of an author


@pytest.fixture(scope="module")
def data():
    require_data("agnews.csv.gz", "agnews_minilm.npz")


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    return tmp_path_factory.mktemp("unlabelled") / "market"


@pytest.fixture(scope="module")
def scenes(data, market):
    return tool.play(market, SMALL)


def earned(table):
    """What an article of each row of the table earns."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return [float(row[-1].replace(",", "")) for row in rows]


def test_what_is_needed_is_paid_and_neither_copies_nor_padding(scenes):
    wanted, others, own, copies, padder_wanted, padding = earned(scenes["money"])
    assert wanted > 5 * others
    assert own > 5 * copies
    assert padder_wanted > 3 * padding


def test_no_table_has_labels_and_no_page_speaks_of_them(scenes, market):
    for name in ("texts", "needs", "reference"):
        assert "label" not in pq.read_schema(market / f"{name}.parquet").names
    pages = [market / "june" / "report.html", *(market / "june" / "statements").glob("*.html")]
    assert len(pages) == 21
    for path in pages:
        page = path.read_text(encoding="utf-8")
        plain = re.sub(
            r"<script(?! type=\"application/json\").*?</script>|<style.*?</style>|aria-label",
            "",
            page,
            flags=re.S,
        )
        # Attacks that change labels say why they were not tried; nothing else speaks of any.
        plain = re.sub(r"[^<>]*have no labels[^<>]*", "", plain)
        assert not re.findall(r".{0,60}label.{0,60}", plain, flags=re.IGNORECASE), path


def commands(text):
    """What is typed in a text; who is paid most, the size of the market decides."""
    typed = re.findall(r"^\$ (.*(?:\\\n.*)*)", text, flags=re.MULTILINE)
    plain = [re.sub(r"\s*\\\n\s*", " ", each) for each in typed]
    return [re.sub(r"author-\d\d", "AUTHOR", each) for each in plain]


def test_the_page_shows_the_commands_that_are_typed(scenes):
    shown = months.shown(PAGE)
    assert set(shown) == set(scenes)
    for name, block in shown.items():
        assert commands(block) == commands(scenes[name]), "run: python tools/unlabelled_page.py"


def test_of_a_long_scene_the_middle_is_left_out():
    long = "\n".join(map(str, range(40)))
    kept = tool.cut("draft", long).split("\n")
    assert (len(kept), kept[0], kept[-1]) == (tool.LONGEST["draft"] + 1, "0", "39")
    assert months.LEFT_OUT in kept
    assert tool.cut("money", long) == long


@pytest.mark.slow
def test_the_page_is_what_the_example_prints(data):
    with tempfile.TemporaryDirectory() as folder:  # a short name, as lines are folded by their length
        played = tool.filled(PAGE, tool.play(Path(folder) / "market"))
    assert months.lasting(played) == months.lasting(PAGE), "run: python tools/unlabelled_page.py"
