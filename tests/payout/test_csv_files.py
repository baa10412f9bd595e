"""No cell of any CSV file that we write is a formula, in any program's settings, and every name comes back."""

import csv
import io
import re
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from payout_files import run, units

import datamarket_gym
from datamarket_gym.payout.bank.export import write_plain
from datamarket_gym.payout.checks import plan as carried
from datamarket_gym.payout.checks.draw import Draw, DrawnChecks, checks_text
from datamarket_gym.payout.checks.review_page import LetterTerms, letters_text
from datamarket_gym.payout.input_files import BadRow, quarantine_csv
from datamarket_gym.payout.ledger.account_statements import statement_csv
from datamarket_gym.payout.ledger.journal import journal_csv
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_safe, csv_text, from_csv
from datamarket_gym.payout.statements.page import _index as index_of_statements

SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20"  # the last four are those of East Asian keyboards
SEPARATORS = ";,\t\r\n"
TEXTS = st.text(
    st.one_of(st.sampled_from(f"{SIGNS}{SEPARATORS}'\" \u00a0\u3000\ufeffa1"), st.characters()),
    max_size=12,
)
HOSTILE = [
    f"{before}{sign}cmd|' /C calc'!A0"
    for sign in SIGNS
    for before in ("", " ", "'", '"', "\u3000", "\ufeff", "x;", "x; ", "x,", "x,'", 'x;"', "'x;'")
]  # fmt: skip


def dangerous(cell):
    """Whether a spreadsheet could run it: blanks and what cannot be seen forgotten, all forms of a sign one."""
    begins = unicodedata.normalize(
        "NFKC", "".join(c for c in cell if unicodedata.category(c) != "Cf")
    ).strip(' "')
    return begins.strip()[:1] in tuple("=+-@\u2212")


def cells(text):
    """The cells of a text in every program's settings."""
    return [text, *re.split(f"[{SEPARATORS}]", text)]


@given(TEXTS)
@example("'")
@example(";''=1")
@example("\t=1")
@example("a;'b")
@example("x;\u2212 1")
def test_no_part_of_a_text_is_a_formula_and_the_text_comes_back(text):
    safe = csv_safe(text)
    assert from_csv(safe) == text
    assert not [cell for cell in cells(safe) if dangerous(cell)]
    _, (back, after) = csv.reader(io.StringIO(csv_text(["a", "b"], [[text, "end"]]), newline=""))
    assert (from_csv(back), after) == (text, "end")


def test_every_form_of_a_sign_is_known():
    forms = [
        c for c in map(chr, range(0x110000)) if unicodedata.normalize("NFKC", c) in tuple("=+-@\u2212")
    ]
    assert len(forms) > 15
    assert [c for c in forms if not csv_safe(f"{c}1").startswith("'")] == []


def test_numbers_stay_numbers_where_they_are_asked_for_and_nowhere_else():
    written = csv_text(["who", "paid"], [["-5", "-5.00"], ["+1", "-5+1"], ["x", -2]], numbers=["paid"])
    assert written == "who,paid\n'-5,-5.00\n'+1,'-5+1\nx,-2\n"


def test_plain_names_are_left_alone():
    for name in ("anna-maria", "a=b", "x; y", "R&D, Ltd", "1+1", ""):
        assert csv_safe(name) == name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run in which everybody has a hostile name, and all but one of them say that they are one payee."""
    count = len(HOSTILE)
    columns = units(n=4 * count, identities=count, copies=4)
    name = {f"seller {i}": each for i, each in enumerate(HOSTILE)} | {"attacker": "=attacker"}
    columns["identity"] = [name[each] for each in columns["identity"]]
    columns["id"] = [f"{HOSTILE[i % count]} {i}" for i in range(len(columns["id"]))]
    join = tmp_path_factory.mktemp("join") / "join.toml"
    quoted = ", ".join(f"'''{each}'''" for each in (HOSTILE[0], *HOSTILE[7:9]))
    join.write_text(
        f'[[join]]\nidentities = [{quoted}]\nreason = "one person"\nby = "R. Okafor"\ndate = 2026-05-31\n'
    )
    return run(tmp_path_factory.mktemp("hostile"), columns, overrides=join)


def files_of(folder):
    return sorted(folder.rglob("*.csv"))


def test_no_cell_of_any_file_of_a_run_is_a_formula(folder):
    found = {path.name for path in files_of(folder)}
    assert {"payments.csv", "units.csv"} <= found
    for path in files_of(folder):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            for column, value in row.items():
                if not re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", value):
                    assert not [c for c in cells(value) if dangerous(c)], (path.name, column, value)
    with (folder / "payments.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {from_csv(row["identity"]) for row in rows} == {*HOSTILE, "=attacker"}
    together = {from_csv(row["paid_together_with"]) for row in rows} - {""}
    assert len(together) == 1
    assert together <= set(HOSTILE)


def test_nothing_writes_csv_but_one_function():
    root = Path(datamarket_gym.__file__).parent
    writers = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"csv\.(writer|DictWriter)|write_csv\(", path.read_text(encoding="utf-8"))
    }
    # Beside it: texts of data sets in our own cache; submissions, which are read back as they were; a column on
    # its way through pyarrow's reader, in memory; what a program is handed, which no spreadsheet opens and which must
    # say names as they are.
    others = {"market/datasets.py", "data/submission.py", "data/columns.py"}
    others |= {"benchmark/baselines/protocol.py", "benchmark/baselines/scripts/market_files.py"}
    assert writers == others


def of_quarantine(folder, text):
    return quarantine_csv([BadRow(3, text, text, text)])


def of_checks(folder, text):
    draw = Draw(1, text, text, text, 0, 1.5, 0.5)
    return checks_text(DrawnChecks("run", "beacon", 3, 0.8, [draw]))


def of_carried(folder, text):
    pq.write_table(
        pa.table({"unit": [text], "identity": [text], "row": [0], "amount": [1.0]}),
        folder / "clusters.parquet",
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(carried, "read_manifest", lambda run: {})
        patched.setattr(carried, "settled_by", lambda manifest: SimpleNamespace(carried=[text]))
        return carried.carried_text(folder)


def of_a_bank(folder, text):
    to = SimpleNamespace(name=text, number=text, bic=text, clearing="")
    transfer = SimpleNamespace(payee=text, to=to, amount=100, reference=text, text=text)
    write_plain(SimpleNamespace(currency=Currency("EUR"), transfers=[transfer]), folder / "bank.csv")
    return (folder / "bank.csv").read_bytes().decode()


def of_a_statement(folder, text):
    event = SimpleNamespace(entry=SimpleNamespace(number=1, at=text, kind=text, run=text), words=text)
    return statement_csv(
        SimpleNamespace(payee=text, accounts=[], drafts=[], events=[event], number=1, at="", tip="")
    )


def of_statements(folder, text):
    tables = SimpleNamespace(
        payments=[{"identity": text, "payment": "1.00"}], manifest={"currency": "EUR"}
    )
    return index_of_statements(tables)


def of_letters(folder, text):
    payee = {"payee": text, "units": [text], "first_words": [text], "letter": text}
    return letters_text([payee], LetterTerms(text, text))


def of_a_journal(folder, text):
    entry = SimpleNamespace(
        number=1, at=text, kind="note", run=text, payee=text, currency="", amount=0, by=text, content={"why": text},
        hash=text,
    )  # fmt: skip
    return journal_csv(SimpleNamespace(entries=[entry], runs={text: SimpleNamespace(period=text)}))


WRITERS = {
    "payout/statements/page.py": (of_statements, 1),
    "payout/input_files.py": (of_quarantine, 3),
    "payout/checks/draw.py": (of_checks, 3),
    "payout/checks/plan.py": (of_carried, 2),
    "payout/checks/review_page.py": (of_letters, 6),
    "payout/bank/export.py": (of_a_bank, 6),
    "payout/ledger/account_statements.py": (of_a_statement, 6),
    "payout/ledger/journal.py": (of_a_journal, 7),
}
"""Who writes CSV files, and into how many cells of a row texts of others go; those of a run are looked at above."""


def test_all_writers_are_known():
    root = Path(datamarket_gym.__file__).parent
    users = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if re.search(r"\bcsv_text\(", path.read_text(encoding="utf-8"))
    }
    assert users == {*WRITERS, "payout/names.py", "payout/results.py", "payout/unit_payments.py"}


@pytest.mark.parametrize("writer", WRITERS)
def test_every_text_column_of_every_writer_is_safe_and_comes_back(writer, tmp_path):
    write, columns = WRITERS[writer]
    for text in HOSTILE:
        rows = list(csv.reader(io.StringIO(write(tmp_path, text), newline="")))
        assert [from_csv(cell) for row in rows for cell in row].count(text) >= columns
        for cell in (cell for row in rows for cell in row):
            assert not [part for part in cells(cell) if dangerous(part)], (text, cell)
