"""The operator's own export, with its times: marked as such, entered once, and never against what is there."""

import csv
import re
from contextlib import chdir

import numpy as np
import pytest
from test_intake_cli import intake

from datamarket_gym.data.inputs import unlabelled
from datamarket_gym.errors import SubmissionError
from datamarket_gym.payout.intake import IntakeLog, enter_batch, read_arrivals, unit_digests
from datamarket_gym.payout.ledger.store import open_ledger
from tampering import found

HEAD = ("article_id", "contributor", "section", "text", "uploaded_at")
ROWS = [
    ("a1", "alice", "World", "red fox", "2026-10-02T10:00:00"),
    ("a2", "alice", "Sport", "blue bird", "2026-10-03T09:30:00"),
    ("b1", "bob", "World", "red fox", "2026-10-01T09:00:00"),
    ("b2", "bob", "Sport", "a, comma", "2026-10-04T00:00:00"),
]
OPTIONS = (
    "--payee-column",
    "contributor",
    "--id",
    "article_id",
    "--text",
    "text",
    "--time",
    "uploaded_at",
)
SECONDS = [1790935200.0, 1791019800.0, 1790845200.0, 1791072000.0]


def write(path, rows, head=HEAD):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    return path


@pytest.fixture
def here(tmp_path):
    write(tmp_path / "portal.csv", ROWS)
    open_ledger(tmp_path / "ledger.sqlite", new=True)
    return tmp_path


def bring(here, *more, name="portal.csv", code=0):
    return intake(here, "intake", "import", name, *OPTIONS, *more, code=code)


def asked(here, labels=("World", "Sport"), who="alice"):
    log = IntakeLog.open(str(here / "ledger.sqlite"))
    labels = unlabelled(2) if labels is None else np.array(labels)
    return log.received("text", [who, who], labels, ["red fox", "blue bird"])


def test_a_month_is_one_command_and_says_whose_word_its_times_are(here):
    said = bring(here, "--label", "section")
    assert "text: text; labels: section" in said
    assert "4 units of 2 submitters entered, as the operator's export" in said
    ledger = open_ledger(here / "ledger.sqlite")
    accounts = ledger.accounts()
    assert [(entry.payee, entry.content["source"]) for entry in accounts.received] == [
        ("alice", "portal.csv"), ("bob", "portal.csv"),
    ]  # fmt: skip
    labels, texts = np.array([row[2] for row in ROWS]), [row[3] for row in ROWS]
    times = read_arrivals(ledger).time_of([row[1] for row in ROWS], unit_digests("text", labels, texts))
    assert times == SECONDS
    times, missing = asked(here)
    assert (times.time.tolist(), missing) == (SECONDS[:2], {})
    assert times.before == ["entry 3 has it from “bob”", ""]
    assert "The times of 2 units are those of the operator's own export" in times.words
    assert found(str(here / "ledger.sqlite")) == ""
    details = {check.what: check.detail for check in ledger.examined()}
    assert "2 batches of the operator's export, with the times it had" in details["batches"]
    assert "operator's export portal.csv" in intake(here, "intake", "show")
    assert "operator's export portal.csv, 2 units" in intake(here, "ledger", "show", "--entries", "1")
    intake(here, "intake", "receipt", "--entry", "2", "--out", "r.json")
    assert "from the operator's export 'portal.csv', with its times" in intake(
        here, "intake", "check", "r.json", "--ledger", "ledger.sqlite"
    )
    said = intake(
        here, "intake", "check", "r.json", "--ledger", "ledger.sqlite", "--unit-in", "portal.csv", *OPTIONS[2:6],
        "--label", "section", code=1,
    )  # fmt: skip
    assert "the ledger shows a unit of it, not the batch" in said


def test_again_changes_nothing_and_what_is_new_is_added(here):
    bring(here, "--label", "section")
    before = (here / "ledger.sqlite").read_bytes()
    assert "0 units of 0 submitters entered" in bring(here, "--label", "section")
    assert (here / "ledger.sqlite").read_bytes() == before
    write(here / "portal.csv", [*ROWS, ("c1", "cem", "World", "new", "2026-10-05T00:00:00")])
    said = bring(here, "--label", "section")
    assert "1 unit of 1 submitter entered" in said
    assert "4 were entered before" in said


def test_another_time_is_refused_and_listed_and_nothing_is_entered(here):
    bring(here, "--label", "section")
    before = open_ledger(here / "ledger.sqlite").accounts().tip
    moved = [(*ROWS[0][:4], "2026-09-30T00:00:00"), *ROWS[1:3], (*ROWS[3][:4], "2026-10-05T00:00:00")]
    write(here / "portal.csv", [*moved, ("c1", "cem", "World", "new", "2026-10-05T00:00:00")])
    said = bring(here, "--label", "section", code=2)
    assert "2 units of" in said
    assert "'a1' of 'alice': 2026-09-30 00:00:00, before 2026-10-02 10:00:00" in said
    assert "'b2'" in said
    assert open_ledger(here / "ledger.sqlite").accounts().tip == before


def test_times_in_the_future_and_no_times_are_refused(here):
    before = open_ledger(here / "ledger.sqlite").accounts().tip
    for when, words in (("2126-10-01T00:00:00", "'x' 2126-10-01 00:00:00"), ("", "holds no time")):
        write(here / "portal.csv", [*ROWS, ("x", "bob", "World", "late", when)])
        assert words in bring(here, code=2)
    assert open_ledger(here / "ledger.sqlite").accounts().tip == before
    for when in (1e15, -1.0):
        write(here / "portal.csv", [("x", "bob", "World", "late", when)])
        assert f"'x' {'1e+15' if when > 0 else '1969-12-31 23:59:59'}" in bring(here, code=2)
    said = intake(here, "intake", "import", "portal.csv", "--text", "text", code=2)
    assert "no column 'identity'" in said


def test_what_the_clock_received_stands(here):
    ledger = open_ledger(here / "ledger.sqlite")
    labels = np.array(["World"])
    entry = enter_batch(ledger, "alice", unit_digests("text", labels, ["red fox"]), "text")
    said = bring(here, "--label", "section")
    assert "3 units of 2 submitters entered" in said
    assert "1 were received by the log's own clock" in said
    times, _ = asked(here)
    assert times.entry.tolist()[0] == entry.number
    assert times.exported.tolist() == [False, True]


@pytest.mark.parametrize("labelled", [True, False])
def test_the_clock_stands_also_where_one_of_the_two_has_no_labels(here, labelled):
    """An export with labels does not bring forward what arrived without, nor the other way round."""
    ledger, texts = open_ledger(here / "ledger.sqlite"), [row[3] for row in ROWS[:2]]
    bare = unit_digests("text", unlabelled(2), texts)
    full = unit_digests("text", np.array(["World", "Sport"]), texts)
    records = bare if labelled else [one + other for one, other in zip(full, bare, strict=True)]
    enter_batch(ledger, "alice", records, "text")
    said = bring(here, *(("--label", "section") if labelled else ()))
    assert "2 units of 1 submitter entered" in said
    assert "2 were received by the log's own clock" in said


@pytest.mark.parametrize("imported", [True, False])
def test_units_are_known_with_their_labels_and_without(here, imported):
    """The log has labels and the run has none, or the other way round; other labels are refused by name."""
    label = ("--label", "section")
    if imported:
        bring(here, *label)
    else:
        write(here / "alice.csv", [row[:4] for row in ROWS[:2]], HEAD[:4])
        intake(
            here, "intake", "add", "alice.csv", "--payee-column", "contributor", "--text", "text", *label
        )
    times, missing = asked(here, None)
    assert missing == {}
    assert "2 units are in the log, or here, without a label" in times.words
    _, missing = asked(here, ("World", "World"))
    assert missing == {
        1: "not in the intake log under this identity: the same text is there with another label, entry 2"
    }
    _, missing = asked(here, who="eve")
    assert "entry 2 has it from 'alice'" in missing[0]


def test_a_forgotten_label_is_told_and_does_no_harm(here):
    write(here / "alice.csv", [row[:4] for row in ROWS[:2]], HEAD[:4])
    add = ("intake", "add", "alice.csv", "--payee-column", "contributor", "--id", "article_id")
    said = intake(here, *add, "--text", "text")
    assert "text: text; labels: none (columns: section)" in said
    assert "a column looks like one: --label section" in said
    times, missing = asked(here)
    assert missing == {}
    assert times.unlabelled.all()
    said = intake(here, *add, "--text", "text", "--label", "section")
    assert "labels: section" in said
    assert "Warning" not in said
    times, _ = asked(here)
    assert times.entry.tolist() == [2, 2]  # the content came first without


def test_columns_that_look_like_labels(here):
    rows = [(f"u{i}", f"text {i}", ("yes", "no", "maybe")[i % 3], i % 3) for i in range(40)]
    write(here / "alice.csv", rows, ("id", "text", "verdict", "stars"))
    said = intake(here, "intake", "add", "alice.csv", "--payee", "alice", "--text", "text")
    assert "looks like one: --label verdict." in said
    assert re.search(r"labels: none \(columns: verdict, stars\)", said)


def test_a_table_and_a_log_are_two_places(here):
    with chdir(here):
        open_ledger("other.sqlite", new=True)
    assert "4 units" in intake(here, "intake", "import", "other.sqlite", "portal.csv", *OPTIONS)
    assert "give one log and one table" in intake(here, "intake", "import", "a", "b", "c", code=2)
    assert "there is no ledger" in intake(
        here, "intake", "import", "no.sqlite", "portal.csv", *OPTIONS, code=2
    )


def test_an_export_that_names_nobody_is_refused(here):
    from datamarket_gym.payout.intake import UnitBatch, enter_export

    batch = UnitBatch("x", "text", ["a"], None, [b"0" * 32])
    with pytest.raises(SubmissionError, match="does not say whose"):
        enter_export(open_ledger(here / "ledger.sqlite"), batch, "x")


def test_columns_and_the_log_are_those_of_the_settings_file(here):
    settings = (
        "payee = 'contributor'",
        "id = 'article_id'",
        "label = 'section'",
        "text = 'text'",
        "time = 'uploaded_at'",
    )
    (here / "market.toml").write_text("\n".join([*settings, "ledger = 'market.sqlite'"]))
    assert "takes batches" in intake(here, "intake", "init")
    assert "4 units of 2 submitters" in intake(here, "intake", "import", "portal.csv")
    assert len(open_ledger(here / "market.sqlite").accounts().received) == 2
    write(here / "eve.csv", [("e1", "eve", "World", "mine")], HEAD[:4])
    assert "eve" in intake(here, "intake", "add", "eve.csv")
