"""statements: a page for each payee of a run, whatever it is called, and nothing in it that others may not know."""

import csv
import html
import re
import shutil

import numpy as np
import pytest
from checks_files import answered, drawn, paid
from payout_files import cents, copied, payments, run, units, validation
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError, RunError, UnknownNameError
from datamarket_gym.execution.files import sha256
from datamarket_gym.payout.checks.draw import read_checks
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.ledger import transactions as ledger_money
from datamarket_gym.payout.ledger.runs import approve, ledger_of, mark_paid, run_of
from datamarket_gym.payout.ledger.transactions import order
from datamarket_gym.payout.names import from_csv
from datamarket_gym.payout.statements import page as files
from datamarket_gym.payout.statements.page import (
    INDEX,
    StatementOptions,
    _letters,
    file_name,
    write_statement,
    write_statements,
)
from datamarket_gym.payout.unit_payments import read_units

HOSTILE = [
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "CON",
    "con",
    "a" * 300,
    "a" * 299 + "b",
    "alice",
    "ALICE",
    "\u0430lice",  # a Cyrillic a
    "=HYPERLINK(1);+2",
    "\u202egnorw",
    "日本",
    "\U0001f600",
    "a/b\\c:d*e?f|g",
    "{{ 7 * 7 }}{% raw %}",
    "&amp;",
]


def hostile(columns):
    """The same units under the worst names."""
    columns["identity"] = [HOSTILE[i % len(HOSTILE)] for i in range(len(columns["identity"]))]
    return columns


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(tmp_path_factory.mktemp("hostile"), hostile(units()))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A run that no test changes."""
    return run(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def pages(folder, tmp_path_factory):
    return write_statements(folder, tmp_path_factory.mktemp("out") / "statements")


def index(out):
    with (out / INDEX).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def text(page):
    """What a reader of a page sees."""
    body = re.sub(r"<style>.*?</style>", "", page.read_text(encoding="utf-8"), flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def of(folder, out, name, **options):
    """The text of a payee's page, written now."""
    return text(write_statement(folder, name, out, StatementOptions(**options)))


def test_every_payee_has_exactly_one_page(folder, pages):
    rows = index(pages)
    assert [from_csv(row["payee"]) for row in rows] == list(payments(folder))
    named = [row["file"] for row in rows]
    assert sorted(path.name for path in pages.iterdir()) == sorted([*named, INDEX])
    assert len({name.casefold() for name in named}) == len(HOSTILE)


def test_the_pages_add_up_to_the_amount(folder, pages):
    due = cents(folder)
    shown = {}
    for row in index(pages):
        name = from_csv(row["payee"])
        [amount] = re.findall(r'class="sum">EUR\s([0-9,]+\.\d\d)<', (pages / row["file"]).read_text())
        shown[name] = round(float(amount.replace(",", "")) * 100)
        assert round(float(row["amount"]) * 100) == shown[name]
    assert shown == due
    assert sum(shown.values()) == 100000


def test_names_cannot_do_anything(pages):
    for row in index(pages):
        page = (pages / row["file"]).read_text(encoding="utf-8")
        assert "<script" not in page
        assert "{{" not in page or "{{ 7 * 7 }}" in page
        assert "\u202e" not in page
        assert "default-src 'none'" in page
        body = page[page.index("</style>") :]
        assert not re.search(r"(src|href|action)\s*=|url\(|@import|https?:", body)
    for line in (pages / INDEX).read_text(encoding="utf-8").splitlines()[1:]:
        assert line[0] not in "=+-@"


@pytest.mark.parametrize("name", HOSTILE)
def test_file_names_are_plain(name):
    assert re.fullmatch(r"[a-z0-9-]{1,41}-?[0-9a-f]{16}\.html", file_name(name))
    assert files._is_statement(file_name(name))
    assert not file_name(name).startswith("-")


def test_a_page_says_what_matched_and_who_is_paid(plain, tmp_path):
    folder = plain
    said = of(folder, tmp_path / "out", "attacker", show_names=True)
    assert "6 units. Of these," in said
    assert "3 sent earlier by others, and counted for them" in said
    assert "seller 3 : 2 units of yours (exactly the same). They count for them, who sent" in said
    assert "u60 came later than u23" in said
    assert "A draft: it is not approved yet" in said
    victim = of(folder, tmp_path / "out", "seller 3", show_names=True)
    assert "attacker : 2 units of yours (exactly the same). They count for you, who sent" in victim
    assert "Nothing: no unit of yours matched another." in of(folder, tmp_path / "out", "seller 1")


def test_nobody_else_is_named_unless_it_is_asked_for(plain, tmp_path):
    folder = plain
    out = write_statements(folder, tmp_path / "out")
    names = set(payments(folder))
    theirs = {
        name: {f"u{i}" for i in range(60) if f"seller {i % 4}" == name} for name in names - {"attacker"}
    }
    theirs["attacker"] = {f"u{i}" for i in range(60, 66)}
    for name in names:
        said = text(out / file_name(name))
        assert not [other for other in names - {name} if other in said]
        words = set(re.findall(r"\bu\d+\b", said))
        assert words <= theirs[name]
    said = text(out / file_name("attacker"))
    assert "another payee (A)" in said
    assert "another payee (B)" in said
    assert [_letters(i) for i in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]


def test_a_page_says_the_share_and_what_each_unit_earns(plain, tmp_path):
    folder = plain
    by_payee = {}
    for row in read_units(folder / "units.csv"):
        by_payee.setdefault(row.payee, []).append(row)
    for name, minor in cents(folder).items():
        said = of(folder, tmp_path / "out", name)
        assert f"{minor / 100000:.1%} of the EUR 1,000.00 that were divided among 5 payees" in said
        mine = by_payee[name]
        shown = [f"{row.unit} EUR {row.amount / 100:,.2f}" for row in mine if row.amount]
        places = [said.index(each) for each in shown]
        assert places == sorted(places)  # the largest first
        copies = [row.unit for row in mine if row.reason == "matched"]
        assert all(
            f"{unit} counted for another payee, who sent the same earlier" in said for unit in copies
        )


def test_validation_rows_stay_secret(tmp_path):
    held = validation()
    columns = units()
    columns["features"][:2], columns["label"][:2] = held["features"][:2], held["label"][:2]
    columns["id"][0], columns["id"][1] = "first leak", "second leak"
    columns["identity"][1] = "seller 0"
    folder = run(tmp_path, columns, held)
    said = of(folder, tmp_path / "out", "seller 0")
    assert "2 set aside: the same, or nearly, as examples that work is measured with" in said
    assert "leak" not in said
    assert "row" not in said.lower()
    assert "identical" not in said


def test_likeness_has_no_number(tmp_path):
    folder = run(tmp_path, held=validation(120), theta="0.999")
    said = of(folder, tmp_path / "out", "attacker")
    assert "nearly the same" in said
    numbers = set(re.findall(r"\d\.\d{3,}", said))
    assert numbers == set()


def test_the_state_is_that_of_the_ledger(tmp_path):
    folder, out = run(tmp_path, period="June 2026"), tmp_path / "out"
    assert "June 2026" in of(folder, out, "attacker")
    warnings = [warning["name"] for warning in run_of(folder).warnings]
    approve(folder, sha256(folder / "manifest.json"), "R. Okafor", warnings)
    said = of(folder, out, "attacker")
    assert re.search(r"Approved on 20\d\d-\d\d-\d\d; not sent yet\.", said)
    ledger = ledger_of(folder)
    ledger_money.hold(ledger, "seller 2", "an account that is disputed", "R. Okafor")
    order(ledger, run=run_of(folder).run)
    assert "ordered at the bank" in of(folder, out, "attacker")
    mark_paid(folder, "transfer 17")
    assert re.search(r"Sent on 20\d\d-\d\d-\d\d\.", of(folder, out, "attacker"))
    held = of(folder, out, "seller 2")
    assert "held back for now" in held
    assert "disputed" not in held
    ledger_money.bounced(ledger, "attacker", "account closed")
    assert "came back from the bank" in of(folder, out, "attacker")
    payment, other = (
        next(e for e in run_of(folder).history if e.kind == "payment" and e.payee == name)
        for name in ("seller 1", "seller 2")
    )
    ledger_money.correct(ledger, "seller 1", -500, payment.number, "counted twice")
    corrected = of(folder, out, "seller 1")
    assert "corrected later by EUR \N{MINUS SIGN}5.00" in corrected
    ledger_money.correct(ledger, "seller 2", -50, other.number, "rounded")
    assert "corrected later by EUR \N{MINUS SIGN}0.50" in of(folder, out, "seller 2")
    after = payment.amount - 500
    assert f"after the correction EUR {after // 100}.{after % 100:02d}" in corrected


def test_balances_add_up(tmp_path):
    columns = units()
    columns["label"][60:] = (columns["label"][60:] + 1) % 3  # mislabelled: below zero, and carried
    folder = run(tmp_path, columns, learner="knn")
    name, row = next((n, r) for n, r in payments(folder).items() if float(r["balance"]) > 0)
    said = of(folder, tmp_path / "out", name)
    part, kept, got = (
        float(re.search(rf"{words} EUR ([-+]?[0-9.,]+)", said.replace("\N{MINUS SIGN}", "-")).group(1))
        for words in (
            "your part of this payout",
            "kept for you until the next payout",
            "this payout pays you",
        )
    )
    assert part + kept == pytest.approx(got)
    assert got == float(row["payment"])
    debtor = next(n for n, r in payments(folder).items() if float(r["balance"]) < 0)
    assert "not asked of you now" in of(folder, tmp_path / "out", debtor)


def test_checks_are_told_to_whom_they_concern(tmp_path):
    folder = paid(tmp_path)
    assert "3 units of each payee are drawn by chance" in of(folder, tmp_path / "out", "seller 1")
    drawn(folder, least="40.00")
    answered(folder, false=("seller 1",))
    found = {d.unit for d in read_checks(folder).draws if d.payee == "seller 1"}
    settle(folder, tmp_path / "new")
    failed = of(tmp_path / "new", tmp_path / "out", "seller 1")
    assert "Who fails a check is paid nothing" in failed
    assert all(unit in failed for unit in found)
    assert "looker" not in failed
    assert "neither checked nor paid" in of(tmp_path / "new", tmp_path / "out", "attacker")
    passed = of(tmp_path / "new", tmp_path / "out", "seller 2")
    assert "You passed those of the draft before this one. Looked at: u" in passed
    assert "Replaced by a later draft" in of(folder, tmp_path / "out", "seller 2")


def test_killed_it_is_run_again(plain, tmp_path, monkeypatch):
    out = tmp_path / "out"
    real, made = files._render, []

    def killed(*words):
        made.append(words)
        if len(made) == 3:
            raise KeyboardInterrupt
        return real(*words)

    monkeypatch.setattr(files, "_render", killed)
    monkeypatch.setattr(
        files.shutil, "rmtree", lambda *_, **__: None
    )  # a killed process removes nothing
    with pytest.raises(KeyboardInterrupt):
        write_statements(plain, out)
    assert not out.exists()
    assert len(list(tmp_path.glob(".out.*.part"))) == 1
    monkeypatch.undo()
    write_statements(plain, out)
    assert len(index(out)) == 5
    assert list(tmp_path.glob(".out.*")) == []


def test_statements_are_replaced_as_a_whole(plain, folder, tmp_path):
    out = tmp_path / "out"
    write_statements(plain, out)
    write_statements(folder, out)
    assert len(list(out.glob("*.html"))) == len(HOSTILE)
    assert not (out / file_name("attacker")).exists()


def test_a_folder_of_something_else_is_left_alone(plain, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(DataMarketError, match=r"thesis\.txt.*choose another --out"):
        write_statements(plain, out)
    assert (out / "thesis.txt").read_text() == "years of work"
    with pytest.raises(DataMarketError, match="choose another --out"):
        write_statements(plain, plain / "payments.csv")


def test_a_changed_table_writes_nothing(plain, tmp_path):
    folder = copied(plain, tmp_path / "copy")
    (folder / "evidence.parquet").write_bytes(b"PAR1")
    with pytest.raises(RunError, match="not as the run left it"):
        write_statements(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_command(plain, tmp_path):
    folder = copied(plain, tmp_path / "copy")
    typed = CliRunner().invoke(
        app, ["statements", str(folder), "--contact", "Write to <pay@example.org> by 15 July."]
    )
    assert typed.exit_code == 0, typed.output
    assert "5 statements in" in typed.output
    said = (folder / "statements" / file_name("attacker")).read_text(encoding="utf-8")
    assert "Write to &lt;pay@example.org&gt; by 15 July." in said
    shutil.rmtree(folder / "statements")
    typed = CliRunner().invoke(app, ["statements", str(folder), "--payee", "attacker"])
    assert typed.exit_code == 0, typed.output
    assert [path.name for path in (folder / "statements").iterdir()] == [file_name("attacker")]
    with pytest.raises(UnknownNameError, match="did you mean attacker"):
        raise CliRunner().invoke(app, ["statements", str(folder), "--payee", "atacker"]).exception


def test_the_tables_are_read_once(plain, tmp_path, monkeypatch):
    """All payees in one pass: no payee costs a scan of the tables."""
    reads = []
    real = files.RunTables.read.__func__
    monkeypatch.setattr(
        files.RunTables, "read", classmethod(lambda cls, where: reads.append(where) or real(cls, where))
    )
    write_statements(plain, tmp_path / "out")
    assert len(reads) == 1
    assert np.all([path.stat().st_size < 20_000 for path in (tmp_path / "out").glob("*.html")])
