"""examples/unlabelled_texts.py pays for what is needed, and neither copies nor padding."""

import re

import pyarrow.parquet as pq
import pytest

from example_scenes import play
from repository import require_data

pytestmark = pytest.mark.slow  # a month of real texts, an audit included

SMALL = 24  # articles of an author


@pytest.fixture(scope="module")
def data():
    require_data("agnews.csv.gz", "agnews_minilm.npz")


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    return tmp_path_factory.mktemp("unlabelled") / "market"


@pytest.fixture(scope="module")
def scenes(data, market):
    return play("unlabelled_texts.py", market, "--articles", str(SMALL))


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
            r"<script(?! type=\"application/json\").*?</script>|<style.*?</style>|aria-label|<bdi>.*?</bdi>",
            "",
            page,
            flags=re.S,
        )
        # Attacks that change labels say so, and why they were not tried; nothing else speaks of any.
        plain = re.sub(r"[^<>]*have no labels[^<>]*", "", plain)
        plain = re.sub(r"<dd>Add random units with random labels[^<>]*", "", plain)
        assert not re.findall(r".{0,60}label.{0,60}", plain, flags=re.IGNORECASE), path
