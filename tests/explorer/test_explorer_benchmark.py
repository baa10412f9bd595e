"""The page of experiments in a browser: every control works, numbers are the library's, the address holds it all."""

import csv
import io
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from published_results import DOCS, published_results

from datamarket_gym.experiments.tables import attack_words, mechanism_words

READY = "main[data-ready=benchmark]"


@pytest.fixture
def at(served, page):
    """``at("?name=s2")``: the page there, when it is ready."""
    url = served(DOCS)

    def go(query):
        page.goto(f"{url}/benchmark{query}")
        page.wait_for_selector(READY)
        return page

    return go


def asked(page):
    """The state in the address."""
    return {key: values[0] for key, values in parse_qs(urlsplit(page.url).query).items()}


def saved(page, button):
    """What a button lets the reader save."""
    with page.expect_download() as waited:
        page.click(button)
    return waited.value.suggested_filename, Path(waited.value.path()).read_text(encoding="utf-8")


def test_without_results_the_page_says_how_to_make_some(served, page):
    page.goto(f"{served()}/benchmark")
    page.wait_for_selector(READY)
    assert "No result folder was named" in page.inner_text("main")
    assert "datamarket run s2" in page.inner_text("main pre")


def test_the_heat_map_shows_every_number_of_the_table(at):
    page = at("?name=s2")
    rows = [
        row
        for row in published_results()["s2"].rows
        if row["metric"] == "gain" and row["empty"] == "none"
    ]
    rows = [row for row in rows if row["representative"] == "identity"]
    heads = page.locator(".heat-table tbody th").all_inner_texts()
    columns = page.locator(".heat-table thead th").all_inner_texts()[1:]
    lines = page.locator(".heat-table tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.innerText))"
    )
    assert len(rows) == len(heads) * len(columns)
    for row in rows:
        cell = lines[heads.index(attack_words(row["attack"]))][
            columns.index(mechanism_words(row["mechanism"]))
        ]
        assert cell.startswith(f"{round(row['value'], 3) + 0.0:.3f}")
        assert ("paper" in cell) == (row["paper"] is not None)
        if row["paper"] is not None:
            assert f"{abs(row['value'] - row['paper']):.3f}" in cell
        if row.get("left_out"):
            assert f"{row['seeds']} of 50 seeds" in cell


def test_controls_of_the_heat_map_change_it_and_the_address(at):
    page = at("?name=s2")
    first = page.inner_text(".heat-table tbody")
    page.select_option("[name=label-empty]", "chance")
    page.wait_for_function(
        "text => document.querySelector('.heat-table tbody').innerText !== text", arg=first
    )
    assert '"empty":"chance"' in asked(page)["picked"]
    page.select_option("[name=metric]", "oracle_l1")
    page.wait_for_selector("text=Oracle L1 of s2")
    page.select_option("[name=down]", "mechanism")
    page.wait_for_selector(".heat-table thead th:has-text('mechanism \\\\ attack')")
    assert page.locator(".heat-table tbody tr").count() == 12
    page.select_option("[name=across]", "representative")
    page.wait_for_selector(".heat-table thead th:has-text('all units')")
    page.select_option("[name=label-attack]", "*across")
    page.wait_for_selector(".heat-table thead th:nth-child(15)")
    before = page.inner_text(".heat-table")
    page.reload()
    page.wait_for_selector(READY)
    assert page.inner_text(".heat-table") == before


def test_a_cell_opens_all_that_is_known_of_it(at):
    page = at("?name=s2")
    row = next(
        row for row in published_results()["s2"].rows
        if row["metric"] == "gain" and row.get("left_out") and row["se"] and row["paper"] is not None
        and row["empty"] == "none"
        and row["representative"] == "identity"
    )  # fmt: skip
    words = f"{attack_words(row['attack'])}, {mechanism_words(row['mechanism'])}"
    page.click(f"button.cell[aria-label^='{words}:']")
    page.wait_for_selector("dialog[open]")
    text = page.inner_text("dialog")
    for said in (
        f"{row['value']:.4f}",
        f"{row['se']:.4f}",
        f"{row['paper']:.4f}",
        "left out, as",
        "ratio of means",
    ):
        assert said in text
    page.click("dialog summary")
    assert f'"attack": "{row["attack"]}"' in page.inner_text("dialog pre")
    assert "cell" in asked(page)
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    assert "cell" not in asked(page)
    page.go_back()
    page.wait_for_function("!location.search.includes('cell')")


def test_the_heat_map_is_saved_as_csv(at):
    page = at("?name=s4")
    _, text = saved(page, "[name=csv-s4-gain]")
    rows = list(csv.DictReader(io.StringIO(text)))
    values = [row["value"] for row in published_results()["s4"].rows if row["metric"] == "gain"]
    assert sorted(float(row["value"]) for row in rows) == sorted(values)


def test_rows_are_filtered_sorted_searched_and_saved(at):
    page = at("?name=s2&view=Rows")
    rows = [row for row in published_results()["s2"].rows if row["metric"] == "gain"]
    assert f"{len(rows)} rows" in page.inner_text(".listing .tools")
    page.select_option(
        "[name=filter-attack]", "=copycat" if "copycat" in str(rows) else f"={rows[-1]['attack']}"
    )
    page.select_option("[name=filter-empty]", "=chance")
    wanted = asked(page)["filters"]
    assert '"empty":"chance"' in wanted
    page.fill("[name=search-rows]", "shapley")
    page.click("[name=sort-rows-value]")
    _, text = saved(page, "[name=csv-rows]")
    found = list(csv.DictReader(io.StringIO(text)))
    attack = found[0]["attack"]
    expected = [
        row["value"] for row in rows
        if row["attack"] == attack and row["empty"] == "chance" and "shapley" in row["mechanism"]
    ]  # fmt: skip
    assert [float(row["mean"]) for row in found] == sorted(expected, reverse=True)
    assert asked(page)["sort"] == "-value"
    page.reload()
    page.wait_for_selector(READY)
    assert page.locator("[data-table=rows] tbody tr").count() == len(expected)
    page.check("[name=every]")
    page.wait_for_selector("[name=filter-metric]")


PICTURES = {
    "s4": "Threshold frontier", "ablation-noise": "Noise grid", "best-response": "Best responses",
    "s12-dimensions": "Gain of copies", "s13-regression": "Gain where labels are numbers",
}  # fmt: skip


def test_pictures_of_every_kind_are_drawn(at):
    drawn = []
    for name, title in PICTURES.items():
        page = at(f"?name={name}&view=Pictures")
        page.wait_for_selector(f"h3.picture:has-text('{title}')")
        assert page.locator(".pictures section").count() >= 1
        assert page.locator(".pictures .main-svg, .pictures .heat-table").count() >= 1
        for button in page.locator(".pictures [name^=svg-]").all()[:1]:
            drawn.append(saved(page, f"[name={button.get_attribute('name')}]"))
    assert len(drawn) >= 2
    assert all(file.endswith(".svg") and text.startswith("<svg") for file, text in drawn)
    page = at("?name=s4&view=Pictures")
    page.wait_for_selector("[name=csv-s4-s4-1]")
    _, text = saved(page, "[name=csv-s4-s4-1]")
    found = [float(row["value"]) for row in csv.DictReader(io.StringIO(text))]
    rows = [
        r
        for r in published_results()["s4"].rows
        if r["metric"] == "gain" and r["attack"] == "near_duplicate_2x_sybils"
    ]
    assert found == [
        r["value"] for r in sorted((r for r in rows if "theta" in r), key=lambda r: r["theta"])
    ]


def test_a_picture_and_a_market_are_chosen(at):
    page = at("?name=s13-values&view=Pictures")
    page.select_option("[name=group]", "IMDB")
    page.wait_for_function("location.search.includes('group=IMDB')")
    page.select_option("[name=picture]", "s13-agreement")
    page.wait_for_selector(".pictures .heat-table")
    assert "Spearman" in page.inner_text(".pictures")


def test_the_paper_is_told(at):
    page = at("?name=s4&view=Paper")
    assert "within the tolerance" in page.inner_text(".view")
    assert page.locator("[data-table=claims] tbody tr").count() > 10


def test_experiments_are_gone_through_by_keys_and_back(at):
    page = at("?name=s4")
    page.keyboard.press("]")
    page.wait_for_selector("h2:has-text('s5:')")
    page.select_option("[name=experiment]", "s1")
    page.wait_for_selector("h2:has-text('s1:')")
    page.keyboard.press("Tab")
    page.go_back()
    page.wait_for_selector("h2:has-text('s5:')")
    page.click("[name=view-rows]")
    page.wait_for_selector("[data-table=rows]")
    assert asked(page)["view"] == "Rows"
    page.go_back()
    page.wait_for_selector(".heat-table")


def test_a_broken_result_says_so_and_others_still_open(served, page, tmp_path):
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "s4.json").write_bytes((DOCS / "s4.json").read_bytes())
    (folder / "cut.json").write_bytes((DOCS / "s5.json").read_bytes()[:2000])
    page.watch.expected.append("422")
    page.goto(f"{served(folder)}/benchmark?name=cut")
    page.wait_for_selector("main [role=alert]")
    assert "'cut.json' is not a compact result" in page.inner_text("main [role=alert]")
    page.select_option("[name=experiment]", "s4")
    page.wait_for_selector(".heat-table")


def test_nothing_is_wider_than_a_phone(at, page):
    page.set_viewport_size({"width": 400, "height": 800})
    for query in ("?name=s2", "?name=s4&view=Pictures", "?name=s2&view=Rows"):
        at(query)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, query
