"""What careless and dishonest operators did, as they typed it; each was possible once."""

import hashlib
import json
import re
import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from payout_files import outputs, units, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.ledger.store import open_ledger


def typed(*words):
    """What a command prints, and how it ends; an error of ours ends it as `main` would."""
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    if done.exception and not isinstance(done.exception, SystemExit | DataMarketError):
        raise done.exception
    return done.exit_code, " ".join(f"{done.output} {done.exception or ''}".split())


def did(*words):
    code, told = typed(*words)
    assert code == 0, told
    return told


def refused(*words):
    code, told = typed(*words)
    assert code == 1, told
    return told


def in_debt(seed=0):
    """One seller's labels are wrong: by accuracy its score is below zero, and it carries a debt."""
    columns = units(seed=seed)
    wrong = np.array([name == "seller 2" for name in columns["identity"]])
    columns["label"] = np.where(wrong, (columns["label"] + 1) % 3, columns["label"])
    return columns


class Operator:
    """Somebody with a folder for all runs, and the ledger that lies in it."""

    def __init__(self, place):
        self.place = place

    @property
    def ledger(self):
        return self.place / "ledger.sqlite"

    def words(self, run, submitted=None, *more, currency="EUR", held=None):
        name = hashlib.sha256(repr(submitted).encode()).hexdigest()[:8]
        places = write(self.place / f"in-{name}", submitted, held)
        amount = "100000" if currency == "JPY" else "1000.00"
        return (
            "pay", places.submissions, "--validation", places.validation, "--amount", amount, "--currency", currency,
            "--out", self.place / run, "--theta", "none", "--no-audit", "--checks", "0", *more,
        )  # fmt: skip

    def pay(self, run, submitted=None, *more, **options):
        did(*self.words(run, submitted, *more, **options))
        return self.place / run

    def approve(self, run, *more):
        """With every warning accepted, as somebody does who reads none."""
        code, told = typed("ledger", "approve", run, "--by", "R. Okafor", *more)
        accepted = [word for name in re.findall(r"--accept (\w+)", told) for word in ("--accept", name)]
        return (
            told if code == 0 else did("ledger", "approve", run, "--by", "R. Okafor", *more, *accepted)
        )

    def entries(self):
        with closing(sqlite3.connect(self.ledger)) as connection:
            return [
                json.loads(b)
                for (b,) in connection.execute("SELECT body FROM ledger_entries ORDER BY number")
            ]

    def total(self, kind):
        found = Counter()
        for entry in self.entries():
            found[entry["currency"]] += entry["amount"] * (entry["kind"] == kind)
        return {currency: amount for currency, amount in found.items() if amount}

    def balances(self):
        found = Counter()
        for entry in self.entries():
            sign = {"carried_forward": 1, "funded": -1, "written_off": -1}.get(entry["kind"], 0)
            found[entry["payee"], entry["currency"]] += sign * entry["amount"]
        return {key: left for key, left in found.items() if left}

    def rewrite(self, change):
        """Write the whole ledger anew with hashes, head and checksum that fit, as a forger does."""
        last, rows = "0" * 64, []
        for number, entry in enumerate(self.entries(), 1):
            body = json.dumps(change(entry), sort_keys=True, separators=(",", ":"))
            last = hashlib.sha256(f"{last}\n{body}".encode()).hexdigest()
            rows.append((number, body, last))
        with closing(sqlite3.connect(self.ledger)) as connection:
            rules = connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall()
            for name, _ in rules:
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute("DELETE FROM ledger_entries")
            connection.executemany("INSERT INTO ledger_entries VALUES (?, ?, ?)", rows)
            connection.execute("UPDATE ledger_tip SET number = ?, hash = ?", (len(rows), last))
            for _, sql in rules:
                connection.execute(sql)
            connection.commit()
        said = {
            "tip": {"number": len(rows), "hash": last},
            "sha256": hashlib.sha256(self.ledger.read_bytes()).hexdigest(),
        }
        self.ledger.with_name("ledger.sqlite.checksum").write_text(
            json.dumps(said, indent=1, sort_keys=True) + "\n"
        )
        return rows


@pytest.fixture(scope="module")
def paid_by_accuracy(tmp_path_factory):
    """June, by accuracy, approved: balances are carried."""
    operator = Operator(tmp_path_factory.mktemp("june"))
    operator.approve(operator.pay("june", in_debt(), "--utility", "knn"))
    assert sum(operator.balances().values()) == 0
    assert operator.balances()["seller 2", "EUR"] < 0
    return operator.place


@pytest.fixture
def after_june(paid_by_accuracy, tmp_path):
    return Operator(shutil.copytree(paid_by_accuracy, tmp_path / "market"))


@pytest.fixture(scope="module")
def drafted(tmp_path_factory):
    operator = Operator(tmp_path_factory.mktemp("drafted"))
    operator.pay("june")
    return operator.place


@pytest.fixture
def operator(drafted, tmp_path):
    """June, by coverage, is a draft."""
    return Operator(shutil.copytree(drafted, tmp_path / "market"))


def test_the_same_run_in_two_folders_is_paid_once(operator):
    june, again = operator.place / "june", operator.place / "again"
    did(*operator.words("again"))
    assert [e["kind"] for e in operator.entries()] == ["opened", "draft"]
    operator.approve(june)
    assert "nothing changed" in operator.approve(again)
    did("ledger", "paid", june, "--reference", "transfer 1")
    assert "transfer 1" in refused("ledger", "paid", again, "--reference", "transfer 2")
    assert operator.total("payment") == operator.total("sent") == {"EUR": 100_000}
    did("verify", june)
    did("verify", again)


def test_the_same_run_is_told_to_be_approved_before_anything_is_worked_out(operator):
    operator.approve(operator.place / "june")
    code, told = typed(*operator.words("third"))
    assert code == 1 or "approved" in told
    assert [e["kind"] for e in operator.entries()].count("draft") == 1


def test_a_copied_folder_is_not_carried_again(after_june):
    copy = shutil.copytree(after_june.place / "june", after_june.place / "copy")
    assert "nothing changed" in after_june.approve(copy)
    before = after_june.balances()
    july = after_june.pay("july", in_debt(seed=3), "--utility", "knn")
    other = after_june.pay("other", in_debt(seed=4), "--utility", "knn")
    opening = json.loads((july / "manifest.json").read_text())["opening_balances"]
    assert {(who, "EUR"): left for who, left in opening.items()} == before
    after_june.approve(july)
    beside = ("--accept", "unnamed_earlier_runs")  # both were drafts when they were worked out
    told = refused("ledger", "approve", other, "--by", "R. Okafor", *despite(other), *beside)
    assert "have changed since" in told
    assert sum(after_june.balances().values()) == 0
    assert after_june.total("payment") == {"EUR": 200_000}


def despite(run):
    names = [row["name"] for row in json.loads((run / "warnings.json").read_text())]
    return [word for name in names for word in ("--accept", name)]


def test_euros_are_not_carried_into_a_run_in_yen(after_june):
    before = after_june.balances()
    tokyo = after_june.pay("tokyo", in_debt(seed=3), "--utility", "knn", currency="JPY")
    assert json.loads((tokyo / "manifest.json").read_text())["opening_balances"] == {}
    after_june.approve(tokyo)
    after = after_june.balances()
    assert {key: left for key, left in after.items() if key[1] == "EUR"} == before
    assert sum(left for key, left in after.items() if key[1] == "JPY") == 0


def test_a_balance_that_was_edited_by_hand_does_not_get_into_the_next_run(after_june):
    with closing(sqlite3.connect(after_june.ledger)) as connection:
        connection.execute("DROP TRIGGER ledger_entries_kept")
        changed = connection.execute(
            "UPDATE ledger_entries SET body = replace(body, '\"amount\":-', '\"amount\":-9') "
            "WHERE body LIKE '%\"kind\":\"carried_forward\"%' AND body LIKE '%seller 2%'"
        ).rowcount
        connection.commit()
    assert changed == 1
    assert "was changed" in refused(*after_june.words("july", in_debt(seed=3), "--utility", "knn"))
    assert not (after_june.place / "july" / "manifest.json").exists()
    refused("verify", after_june.place / "june")
    refused("verify", after_june.ledger)
    refused("ledger", "paid", after_june.place / "june", "--reference", "transfer 1")


def test_credits_whose_debtor_has_left_are_shown_funded_and_written_off(after_june):
    left = after_june.balances()
    creditor = max(left, key=left.get)[0]
    stayed = {
        name: [
            value
            for value, who in zip(column, units(seed=3)["identity"], strict=True)
            if who != "seller 2"
        ]
        for name, column in units(seed=3).items()
    }
    stayed = {k: np.array(v) if k in ("features", "label", "time") else v for k, v in stayed.items()}
    july = after_june.pay("july", stayed)
    told = refused("ledger", "approve", july, "--by", "R. Okafor", *despite(july))
    assert "left_behind" in told
    assert "seller 2 owes" in told
    ledger = after_june.ledger
    assert creditor in did("ledger", "show", ledger)
    did("ledger", "fund", ledger, "--payee", creditor, "--why", "seller 2 has left")
    did("ledger", "write-off", ledger, "--payee", "seller 2", "--why", "has left")
    rest = {key: amount for key, amount in left.items() if key[0] not in (creditor, "seller 2")}
    assert after_june.balances() == rest
    assert after_june.total("funded") == {"EUR": left[creditor, "EUR"]}
    stale = ("ledger", "approve", july, "--by", "R. Okafor", *despite(july), "--accept", "left_behind")
    assert "have changed since" in refused(*stale)
    after_june.approve(after_june.pay("july again", stayed))
    did("verify", ledger)


@pytest.mark.parametrize("field", ["inputs", "spec", "amount", "opening_balances", "units"])
def test_a_manifest_that_was_edited_with_its_hash_in_the_ledger_is_found(operator, field):
    """And with the ledger's chain, head and checksum, and the run's receipt, all made to fit."""
    june = operator.place / "june"
    path = june / "manifest.json"
    manifest = json.loads(path.read_text())
    if field == "inputs":
        manifest["inputs"]["submissions"]["sha256"] = "0" * 64
    elif field == "spec":
        manifest["spec"]["learner"] = "knn"
    elif field == "opening_balances":
        manifest["opening_balances"] = {"seller 1": 1}
    else:
        manifest[field] += 1
    path.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()

    def change(entry):
        return (
            entry
            if entry["kind"] != "draft"
            else entry | {"content": entry["content"] | {"manifest": digest}}
        )

    rows = operator.rewrite(change)
    receipt = json.loads((june / "ledger.json").read_text()) | {
        "number": rows[-1][0],
        "tip": rows[-1][2],
    }
    (june / "ledger.json").write_text(json.dumps(receipt))
    if field not in ("units", "identities"):  # counts decide nothing: recomputing finds them
        assert "manifest" in refused("verify", june)
    assert "differ" in refused("verify", june, "--recompute")
    refused("ledger", "approve", june, "--by", "R. Okafor", *despite(june))
    assert "approved" not in [e["kind"] for e in operator.entries()]


def test_a_ledger_that_was_written_anew_is_found_by_the_runs_in_it_and_by_an_anchor(tmp_path):
    operator = Operator(tmp_path)
    june = operator.pay("june")
    operator.approve(june)
    did("ledger", "checkpoint", operator.ledger, "--checkpoints", operator.place / "checkpoints.txt")
    did("verify", operator.ledger, "--checkpoints", operator.place / "checkpoints.txt")

    def change(entry):
        return entry | {"by": "S. Lund"} if entry["kind"] == "approval" else entry

    operator.rewrite(change)
    assert "S. Lund" in did("ledger", "show", operator.ledger, "--entries", "20")
    assert "written anew" in refused("ledger", "show", june)
    assert "written anew" in refused("verify", june)
    assert "written anew" in refused("verify", operator.ledger)
    assert "of the checkpoint" in refused(
        "verify", operator.ledger, "--checkpoints", operator.place / "checkpoints.txt"
    )


def test_an_older_copy_of_the_ledger_with_its_seal_is_found_by_a_run_that_was_entered_later(operator):
    names = ("ledger.sqlite", "ledger.sqlite.checksum")
    older = {name: (operator.place / name).read_bytes() for name in names}
    july = operator.pay("july", units(seed=5))
    for name, content in older.items():
        (operator.place / name).write_bytes(content)
    assert "cut short" in refused("verify", july)
    refused("ledger", "approve", july, "--by", "R. Okafor", *despite(july))
    did("verify", operator.ledger)  # by itself it is whole: it was so once


def test_what_was_edited_between_a_kill_and_its_resumption_is_not_paid(tmp_path, monkeypatch):
    calm, operator = Operator(tmp_path / "calm"), Operator(tmp_path / "market")
    whole = calm.pay("june")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("datamarket_gym.payout.run.write_report", killed)
        assert CliRunner().invoke(app, [str(w) for w in operator.words("june")]).exit_code != 0
    june = operator.place / "june"
    assert not (june / "manifest.json").exists()
    edited = 0
    for path in [*june.glob("records/*.npz"), *june.glob(".state/**/*")]:
        if path.suffix == ".npz":
            with np.load(path) as file:
                arrays = {name: file[name] for name in file.files}
            for name, array in arrays.items():
                if array.dtype == np.float64 and array.size:
                    arrays[name] = array * np.linspace(1, 5, array.size).reshape(array.shape)
                    edited += 1
            with path.open("wb") as out:
                np.savez(out, **arrays)
    assert edited
    operator.pay("june")
    assert outputs(june) == outputs(whole)
    operator.approve(june)


def test_an_input_that_has_another_name_now_is_no_failure(tmp_path):
    operator = Operator(tmp_path)
    june = operator.pay("june")
    (submitted,) = operator.place.glob("in-*/units.parquet")
    renamed = submitted.rename(submitted.with_name("june.parquet"))
    assert "cannot be read" in refused("verify", june, "--recompute")
    did("verify", june, "--recompute", "--submissions", renamed)
    operator.approve(june, "--submissions", renamed)
    shutil.copy(write(tmp_path / "other", units(seed=8)).submissions, renamed)  # another content is one
    assert "are not those of the run" in refused("verify", june, "--recompute", "--submissions", renamed)


def test_an_approval_is_by_two_people_where_the_ledger_says_so(operator):
    june = operator.place / "june"
    did("ledger", "rules", operator.ledger, "--approvals", "2", "--by", "R. Okafor")
    operator.approve(june)
    operator.approve(june)
    assert "approved" not in [e["kind"] for e in operator.entries()]
    refused("ledger", "paid", june, "--reference", "transfer 1")
    did("ledger", "approve", june, "--by", "M. Ito", *despite(june))
    assert operator.total("payment") == {"EUR": 100_000}


def test_the_same_on_postgresql(tmp_path, postgres_ledger, postgres):
    import psycopg

    operator = Operator(tmp_path)
    june = operator.pay("june", None, "--ledger", postgres_ledger)
    assert postgres.password not in "".join(
        p.read_text("latin-1") for p in tmp_path.rglob("*") if p.is_file()
    )
    did(*operator.words("again", None, "--ledger", postgres_ledger))
    operator.approve(june)
    assert "nothing changed" in operator.approve(operator.place / "again")
    did("ledger", "paid", june, "--reference", "transfer 1")
    assert "transfer 1" in refused(
        "ledger", "paid", operator.place / "again", "--reference", "transfer 2"
    )
    did("verify", june)
    did("verify", postgres_ledger)
    assert sum(open_ledger(postgres_ledger).accounts().sent.values()) == 100_000
    with psycopg.connect(postgres_ledger) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            "UPDATE ledger_entries SET body = replace(body, 'R. Okafor', 'S. Lund') WHERE body LIKE '%\"approval\"%'"
        )
    assert "was changed" in refused("verify", june)
    assert "was changed" in refused("verify", postgres_ledger)
    assert not (tmp_path / "ledger.sqlite").exists()


def test_a_ledger_that_cannot_be_read_is_told_and_the_files_of_the_run_are_looked_at(operator):
    june = operator.place / "june"
    operator.ledger.write_bytes(b"no ledger at all\n" * 1000)
    (june / "payments.csv").write_text("nothing\n")
    told = refused("verify", june)
    assert "not a database" in told
    assert "payments.csv changed since it was written" in told
    assert "not a database" in refused("verify", operator.ledger)
