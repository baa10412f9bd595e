"""init reads two tables, writes market.toml, and the commands of the folder then need no options."""

import csv
import os
import pty
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.market_file import (
    file_settings,
    market_toml,
    read_market,
)
from datamarket_gym.payout.settings import SETTINGS, PayOptions, settings_of

REPOSITORY = Path(__file__).parents[2]
WORDS = ["purr", "nap", "stove", "mouse", "whisker", "tail", "roof", "milk", "claw", "moon", "sofa"]


def text(rng):
    return " ".join(rng.choice(WORDS, 12))


def table(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def here(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    units = [
        {
            "article_id": f"A{i:03d}",
            "contributor": f"person{i % 24}@example.org",
            "uploaded_at": f"2026-10-{1 + i % 28:02d}T08:00:{i % 60:02d}",
            "section": ["world", "sport"][i % 2],
            "body": text(rng),
            "iban": f"DE{i % 24}",
        }
        for i in range(120)
    ]
    table(tmp_path / "october.csv", units)
    wanted = [{"section": ["world", "sport"][i % 2], "body": text(rng)} for i in range(150)]
    table(tmp_path / "wanted.csv", wanted)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def typed(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})


def test_what_the_tables_say_is_found(here):
    done = typed("init", "october.csv", "wanted.csv")
    assert done.exit_code == 0, done.output
    found = tomllib.loads((here / "market.toml").read_text(encoding="utf-8"))
    assert found == {
        "validation": "wanted.csv", "payee": "contributor", "id": "article_id", "time": "uploaded_at",
        "label": "section", "text": "body", "link": ["iban"], "currency": "EUR", "utility": "recommended",
        "checks": 3, "ledger": "ledger.sqlite",
    }  # fmt: skip


def test_options_answer_and_a_file_that_is_there_is_kept(here):
    assert (
        typed("init", "october.csv", "wanted.csv", "--checks", "0", "--by", "R. Okafor").exit_code == 0
    )
    before = (here / "market.toml").read_text(encoding="utf-8")
    assert read_market(here / "market.toml")["checks"] == 0
    again = typed("init", "october.csv", "wanted.csv")
    assert "--force" in str(again.exception)
    assert (here / "market.toml").read_text(encoding="utf-8") == before
    assert typed("init", "october.csv", "wanted.csv", "--force").exit_code == 0
    assert read_market(here / "market.toml")["checks"] == 3


def test_numbers_in_a_parquet_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    numbers = {f"f_{j}": rng.normal(size=60) for j in range(3)}
    names = {"seller": [f"s{i % 5}" for i in range(60)], "key": [f"k{i}" for i in range(60)]}
    pq.write_table(
        pa.table(names | {"received": pa.array(range(60), pa.timestamp("s"))} | numbers), "u.parquet"
    )
    pq.write_table(pa.table(numbers), "v.parquet")
    assert typed("init", "u.parquet", "v.parquet").exit_code == 0
    found = read_market(tmp_path / "market.toml")
    assert found["columns.features"] == "f"
    assert found["columns.identity"] == "seller"
    assert found["columns.id"] == "key"
    assert found["columns.time"] == "received"
    assert "columns.label" not in found


def test_the_file_takes_several_runs_and_refuses_what_cannot_be_meant(tmp_path):
    (tmp_path / "runs").mkdir()
    file = tmp_path / "runs" / "market.toml"
    for text in ('acquired = ["may", "june"]', 'acquired = "may"'):
        file.write_text(text, encoding="utf-8")
        found = read_market(file)["acquired"]
        assert found == [str(tmp_path / "runs" / name) for name in ("may", "june") if name in text]
        assert PayOptions.model_validate({"validation": "v", "acquired": found}).acquired
    for text, why in (
        ('acquired = ["may", ""]', "name a file, or leave the key out"),
        ('reference = ""', "name a file, or leave the key out"),
        ('trusted_source = "a"\ntrusted-source = "b"', "has it twice; keep one"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(DataMarketError, match=why):
            read_market(file)


def test_who_is_paid_cannot_be_guessed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "u.csv", [{"x": i, "text": "one two three four five"} for i in range(9)])
    table(tmp_path / "v.csv", [{"text": "six seven eight nine ten"} for i in range(9)])
    done = typed("init", "u.csv", "v.csv")
    assert "--payee COLUMN; there are x, text" in str(done.exception)
    assert not (tmp_path / "market.toml").exists()
    assert typed("init", "u.csv", "v.csv", "--payee", "x").exit_code == 0
    assert "no column 'y'" in str(typed("init", "u.csv", "v.csv", "--payee", "y", "--force").exception)


def test_a_terminal_is_asked(here):
    """A dash takes none, a wrong name is asked again, Enter takes the suggestion."""
    ours, theirs = pty.openpty()
    answers = "nobody\ncontributor\n\n\n\n-\ncount\nUSD\n2\n"
    os.write(ours, answers.encode())
    command = "from datamarket_gym.cli.app import main; main()"
    run = [sys.executable, "-c", command, "init", "october.csv", "wanted.csv"]
    run += ["--by", "R. Okafor", "--link", "iban"]  # what options answer is not asked
    done = subprocess.run(
        run, stdin=theirs, capture_output=True, text=True, timeout=120, cwd=here, check=False
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert "There is no column 'nobody'" in done.stdout
    found = read_market(here / "market.toml")
    assert (found["learner"], found["currency"], found["checks"], found["by"]) == (
        "count",
        "USD",
        2,
        "R. Okafor",
    )
    assert found["columns.label"] == ""
    assert found["linkage.keys"] == ["iban"]


def test_a_month_needs_a_table_and_an_amount_alone(here):
    assert (
        typed("init", "october.csv", "wanted.csv", "--checks", "0", "--by", "R. Okafor").exit_code == 0
    )
    pay = ("pay", "october.csv", "--amount", "100", "--encoder", "ngrams", "--no-audit")
    dry = typed(*pay, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "dry run" in dry.output
    assert all(f"person{i}@example.org" in dry.output for i in range(24))  # no file has the others
    assert sorted(path.name for path in here.iterdir()) == ["market.toml", "october.csv", "wanted.csv"]
    real = typed(*pay)
    assert real.exit_code == 0, real.output
    assert (here / "october" / "payments.csv").exists()
    shown = typed("ledger", "show")
    assert shown.exit_code == 0, shown.output
    assert "october" in shown.output
    assert "R. Okafor" not in shown.output  # nothing is approved yet


def test_the_time_of_an_import_is_no_time_beside_a_log(here):
    """intake import reads the column of times that market.toml names; pay takes times from the log alone."""
    assert typed("init", "october.csv", "wanted.csv", "--checks", "0").exit_code == 0
    assert typed("intake", "init", "log.sqlite").exit_code == 0
    assert typed("intake", "import", "log.sqlite", "october.csv").exit_code == 0
    pay = ("pay", "october.csv", "--amount", "100", "--encoder", "ngrams", "--no-audit", "--dry-run")
    paid = typed(*pay, "--intake", "log.sqlite")
    assert paid.exit_code == 0, paid.output + str(paid.exception)
    refused = typed(*pay, "--intake", "log.sqlite", "--time", "section")
    assert "times are from the intake log alone" in str(refused.exception)


def test_pay_warns_of_what_was_paid_before(here):
    assert typed("init", "october.csv", "wanted.csv", "--checks", "0").exit_code == 0
    pay = ("pay", "october.csv", "--encoder", "ngrams", "--no-audit", "--amount")
    first = typed(*pay, "100")
    names = [
        line.split("(")[-1].rstrip(")") for line in first.output.splitlines() if line.startswith("Warn")
    ]
    approved = typed("ledger", "approve", "october", *(w for name in names for w in ("--accept", name)))
    assert approved.exit_code == 0, approved.output + str(approved.exception)
    again = typed(*pay, "90", "--out", "again")
    assert "the same submissions were paid for before" in again.output


class TestMarketFile:
    def test_every_setting_of_a_run_can_stand_there(self):
        known = {name for name, _ in file_settings().values()}
        assert set(SETTINGS) <= known
        assert {name for name, _ in settings_of(PayOptions)} - known == {"out", "reuse"}

    def test_the_page_has_them_as_they_are(self):
        page = (REPOSITORY / "docs" / "settings.md").read_text(encoding="utf-8")
        tool = runpy.run_path(str(REPOSITORY / "tools" / "settings_page.py"))
        assert tool["page"](page) == page, "run: python tools/settings_page.py"

    def test_what_is_written_is_read(self, tmp_path):
        values = {
            "validation": "w.csv", "columns.identity": "se\"ller", "checks": 2, "power": 0.5, "audit": False,
            "linkage.keys": ["iban", "a+b"], "opens": "2026-05-01", "by": "Ö\\x7f",
        }  # fmt: skip
        (tmp_path / "market.toml").write_text(market_toml(values), encoding="utf-8")
        found = read_market(tmp_path / "market.toml")
        assert found.pop("validation") == str(tmp_path / "w.csv")
        assert found == {n: v for n, v in values.items() if n != "validation"}

    @pytest.mark.parametrize(
        ("line", "wrong"),
        [
            ("paye = 'x'", "did you mean payee"),
            ("[columns]\nidentity = 'x'", "no [table]"),
            ("checks = '3'", "write a whole number"),
            ("checks = true", "write a whole number"),
            ("checks = -1", "checks"),
            ("audit = 1", "true or false"),
            ("payee = ['a']", "one text in quotes"),
            ("theta = 'x'", "choose auto"),
            ("cluster = 'tcp://a:1'", "no setting of a run; say --cluster"),
            ("payee = ", "not a readable TOML file"),
        ],
    )
    def test_a_mistake_is_named(self, tmp_path, line, wrong):
        (tmp_path / "market.toml").write_text(line, encoding="utf-8")
        with pytest.raises(DataMarketError) as error:
            read_market(tmp_path / "market.toml")
        assert wrong in str(error.value)

    def test_queries_and_absolute_files_stay(self, tmp_path):
        query = "duckdb:x.db#SELECT 1"
        lines = (
            f'validation = "postgresql://me@host/db"\nledger = "/srv/l.sqlite"\nreference = "{query}"'
        )
        (tmp_path / "market.toml").write_text(lines, encoding="utf-8")
        found = read_market(tmp_path / "market.toml")
        assert found["validation"].startswith("postgresql://")
        assert found["ledger"] == "/srv/l.sqlite"
        assert found["reference"] == query
