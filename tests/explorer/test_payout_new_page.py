"""The page of a new payout run in a browser: tables, columns, settings, a dry run; numbers as the library has them."""

import contextlib
import json
import threading
from urllib.parse import parse_qs, urlsplit

import payout_new_files as files
import pytest
from payout_new_files import payout_files

from datamarket_gym.explorer.payout.form import form
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.settings import checked_spec
from datamarket_gym.payout.stored_inputs import Places

READY = "main[data-ready='payout/new']"
VALUES = {
    "currency": "USD", "period": "June 2026", "learner": "knn", "theta": "none", "checks": "2",
    "power": "0.5", "opens": "2020-01-01", "closes": "2026-06-30", "beacon": "drawn tomorrow",
    "linkage.keys": "payout, device", "linkage.fuzzy": "name", "linkage.confirm": "same",
    "encoder": "ngrams", "seed": "3", "linkage.probability": "0.9",
}  # fmt: skip


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    """A folder to pay in; one explorer serves all tests of the module."""
    folder = tmp_path_factory.mktemp("home") / "market"
    folder.mkdir()
    return folder


@pytest.fixture
def new(served, market, page):
    """The page, open."""
    page.goto(f"{served(market)}/payout/new")
    page.wait_for_selector(READY)
    return page


def settings(page):
    kept = json.loads(parse_qs(urlsplit(page.url).query).get("set", ["{}"])[0])
    return {name: value for name, value in kept.items() if name not in ("submissions", "validation")}


def put(page, role, path):
    page.set_input_files(f"[name='file-{role}']", path)
    page.wait_for_selector(f"[data-role='{role}'] .chosen bdi >> text={path.name}")


def say(page, name, value):
    page.fill(f"[name='{name}']", value)
    page.press(f"[name='{name}']", "Tab")


def choose(page, table, column, role):
    page.select_option(f"[name='column-{table}-{column}']", role)


def tags(page, table):
    """The roles that stand on the heads of a table."""
    heads = page.query_selector_all(f"[data-table={table}] th")
    return {
        head.get_attribute("data-column"): [tag.inner_text() for tag in head.query_selector_all(".tag")]
        for head in heads
    }


@contextlib.contextmanager
def busy(explorer):
    """Others' long work has all places: what is asked for now waits."""
    over = threading.Event()
    for _ in range(2):
        explorer.site.queue._long_threads.submit(over.wait)
    try:
        yield
    finally:
        over.set()


def test_from_upload_to_payments(new, market, explorers, tmp_path):
    """Columns that are called otherwise are named by clicking; a run that is stopped goes on; reload shows it again."""
    page = new
    columns = files.spread(payout_files.units())
    columns = {
        {"identity": "<b>seller</b>", "id": "=key()"}.get(n, n): column for n, column in columns.items()
    }
    units, held = files.written(tmp_path, columns)
    put(page, "submissions", units)
    put(page, "validation", held)
    page.wait_for_selector("[data-checked=refused]")
    assert "has no column 'identity' for 'identity'" in page.inner_text("[data-refused]")
    assert page.inner_text("[data-table=submissions] h3") == "Submissions 10 columns"
    choose(page, "submissions", "<b>seller</b>", "columns.identity")
    page.wait_for_selector("th[data-column='<b>seller</b>'] .tag")
    choose(page, "submissions", "=key()", "columns.id")
    page.wait_for_selector("th[data-column='=key()'] .tag")
    choose(page, "submissions", "f", "columns.features")
    page.wait_for_selector("[data-checked=good]")
    assert tags(page, "submissions") == {
        "=key()": ["Id"], "<b>seller</b>": ["Payee"], "label": ["Label"], "time": ["Time"], "f": ["Features"],
    }  # fmt: skip
    assert tags(page, "validation") == {"label": ["Label"], "f": ["Features"]}
    facts = page.inner_text("dl.facts").split("\n")
    assert dict(zip(facts[::2], facts[1::2], strict=True)) == {
        "units": "66", "payees": "5", "validation rows": "40", "features": "6", "labels": "3", "times": "yes",
    }  # fmt: skip

    assert page.is_disabled("[name=dry-run]")
    say(page, "amount", "1000.001")
    page.wait_for_selector("[data-setting=amount] .fault >> text=EUR has 2 digits after the point")
    say(page, "amount", "1000.00")
    say(page, "checks", "0")
    page.uncheck("[name=audit]")
    page.wait_for_selector("[name=dry-run]:not([disabled])")
    assert page.inner_text("[data-paid-for]").startswith("Paid for how much of the validation rows")

    page.watch.expected.append("409")
    with busy(explorers(market)):
        page.click("[name=dry-run]")
        page.click("[name=cancel]")
        page.wait_for_selector("[data-stopped]")
    page.click("[name=dry-run]")
    page.wait_for_selector("section.result")
    spec = {
        "amount": "1000.00", "checks": 0, "audit": False,
        "columns": {"identity": "<b>seller</b>", "id": "=key()", "features": "f"},
    }  # fmt: skip
    pay(Places(units, held), checked_spec(spec), tmp_path / "library" / "run")
    paid = files.payments(tmp_path / "library" / "run" / "payments.csv")
    assert shown(page) == paid
    assert page.get_attribute("[data-link=run]", "href").startswith("/payout/run?run=uploads%2Fdry-run-")
    page.reload()
    page.wait_for_selector("section.result")
    assert shown(page) == paid
    page.wait_for_selector("th[data-column='f'] .tag")
    page.click("details[name=as-command] summary")
    assert "--payee '<b>seller</b>'" in page.inner_text("[data-written=command]")
    page.click("[name=real-run]")
    page.wait_for_selector("section.result:has-text('as a draft')")
    assert shown(page) == paid


def shown(page):
    rows = page.query_selector_all(".result table tbody tr")
    cells = [[cell.inner_text() for cell in row.query_selector_all("td")] for row in rows]
    return {row[0]: row[1] for row in cells}


def test_bad_rows_are_told_and_set_aside(new, tmp_path):
    page, columns = new, payout_files.units()
    columns["id"][3] = "u2"
    (tmp_path / "units.jsonl").write_text(files.as_jsonl(columns), encoding="utf-8")
    put(page, "submissions", tmp_path / "units.jsonl")
    put(page, "validation", files.as_parquet(tmp_path / "held.parquet", payout_files.validation()))
    page.wait_for_selector("[data-bad='2']")
    assert "2 of 66 rows cannot be used: the id is that of 2 rows" in page.inner_text("[data-refused]")
    page.click("[data-bad] summary")
    assert page.locator("[data-bad] td[data-h=where]").all_inner_texts() == ["line 3", "line 4"]
    page.click("[name=set-aside]")
    page.wait_for_selector("[data-checked=good]")
    assert page.is_checked("[name=quarantine]")
    assert "2 rows are set aside and listed" in page.inner_text("[data-bad]")
    page.click("[name=remove-validation]")
    page.wait_for_selector("text=Both tables are needed")
    page.go_back()
    page.wait_for_selector("[data-role=validation] .chosen bdi >> text=held.parquet")
    page.wait_for_selector("[data-checked=good]")


def test_every_setting_is_kept_in_the_address(new):
    page = new
    for summary in page.query_selector_all(".groups details:not([open]) > summary"):
        summary.click()
    fields = {field["name"]: field for group in form()["groups"] for field in group["fields"]}
    choices = {
        name: next(each for each in field["choices"] if each != field["default"])
        for name, field in fields.items()
        if field["kind"] == "choice"
    }
    for name, value in choices.items():
        page.select_option(f"[name='{name}']", value)
    for name, value in VALUES.items():
        say(page, name, value)
    flags = [name for name, field in fields.items() if field["kind"] == "flag"]
    for name in flags:
        page.click(f"[name={name}]")
    for name in (name for name in fields if name.startswith("columns.")):
        say(page, name, f"my {name}")
    kept = settings(page)
    named = ("ledger", "run", "runs")  # of which there are none here
    assert set(kept) == {name for name in fields if fields[name]["kind"] not in named} - {"amount"}
    assert (kept["checks"], kept["power"], kept["audit"], kept["linkage.keys"]) == (
        2,
        0.5,
        False,
        ["payout", "device"],
    )
    page.reload()
    page.wait_for_selector(READY)
    assert {name: page.input_value(f"[name='{name}']") for name in VALUES | choices} == VALUES | choices
    assert settings(page) == kept
    assert {name: page.is_checked(f"[name={name}]") for name in flags} == {
        name: not fields[name]["default"] for name in flags
    }
    assert not page.query_selector("[data-setting=learner] .fault:visible")


def test_roles_are_given_and_taken(new, tmp_path):
    page = new
    units, held = files.written(
        tmp_path, files.spread(payout_files.units()) | {"lot": ["x"] * 66, "size": [1.5] * 66}
    )
    put(page, "submissions", units)
    put(page, "validation", held)
    page.wait_for_selector("th[data-column=label] .tag")
    choose(page, "submissions", "label", "columns.label")  # it has no labels after all
    page.wait_for_selector("th[data-column=label] .tag", state="detached")
    choose(page, "submissions", "size", "columns.features")
    choose(page, "submissions", "time", "columns.features")
    page.wait_for_selector("th[data-column=time] .tag >> text=Features")
    choose(page, "submissions", "lot", "linkage.keys")
    page.wait_for_selector("th[data-column=lot] .tag")
    assert settings(page) == {
        "columns.label": "",
        "columns.features": "size,time",
        "linkage.keys": ["lot"],
    }
    choose(page, "submissions", "time", "columns.features")
    choose(page, "submissions", "lot", "linkage.keys")
    page.wait_for_selector("th[data-column=lot] .tag", state="detached")
    assert settings(page) == {"columns.label": "", "columns.features": "size"}
    fixed = page.locator("[name='column-submissions-id'] option[value='columns.id']")
    assert "by its name" in fixed.inner_text()
    assert fixed.is_disabled()


def test_wrong_files_are_refused_in_words(new, tmp_path):
    page = new
    (tmp_path / "junk.parquet").write_bytes(b"\x00\xff\x10 junk")
    put(page, "submissions", tmp_path / "junk.parquet")
    page.wait_for_selector(".note.bad >> text=junk.parquet")
    assert "cannot be read as .parquet" in page.inner_text("section:has(h2:text('2. Columns'))")
    (tmp_path / "double.csv").write_text("\ufeffid;x;x\na;1;2\n", encoding="utf-8")
    put(page, "submissions", tmp_path / "double.csv")
    page.wait_for_selector(".note >> text=There are several columns 'x'; rename all but one.")


def test_too_large_a_file_is_not_sent(served, page, tmp_path):
    page.goto(f"{served(upload_limit=1)}/payout/new")
    page.wait_for_selector(READY)
    assert "up to 1 MiB" in page.inner_text("[data-role=submissions]")
    (tmp_path / "large.csv").write_bytes(b"id\n" + b"a\n" * 2**20)
    page.set_input_files("[name=file-submissions]", tmp_path / "large.csv")
    page.wait_for_selector("[data-role=submissions] .note >> text=a file may have 1 MiB here")


def test_nothing_is_wider_than_a_phone(new, tmp_path):
    page = new
    page.set_viewport_size({"width": 400, "height": 800})
    page.emulate_media(color_scheme="dark")
    units, held = files.written(tmp_path)
    put(page, "submissions", units)
    put(page, "validation", held)
    page.click("[name=suggested]")
    page.wait_for_selector("[data-checked=good]")
    assert settings(page)["columns.features"] == "f"
    for summary in page.query_selector_all("main details:not([open]) > summary:visible"):
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") == 400
