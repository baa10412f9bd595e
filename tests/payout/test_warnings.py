"""Warnings stand before money: in the run's folder, on the report's first screen, and before an approval."""

import json
import re
import shutil
import sqlite3
from types import SimpleNamespace

import numpy as np
import pytest
from forged_ledger import redrafted, told
from payout_files import copied, events, payments, run, spec, units, validation, warned
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import UnknownNameError
from datamarket_gym.execution.files import sha256
from datamarket_gym.payout.ledger import runs
from datamarket_gym.payout.ledger.runs import run_of
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.warnings import (
    MOST_ITEMS,
    NAMES,
    AcceptedWarningError,
    UnresolvedWarning,
    _joined,
    _loses_half,
    read_warnings,
    require_answered,
    write_warnings,
)

SCRIPT = "<script>alert(1)</script>"


def market(names, shared=0, copies=0):
    """Units of the names in turn; an attacker who submits some again; then all submit the first one's first units."""
    columns = units(n=12 * len(names), identities=len(names), copies=0)
    n = 12 * len(names)
    owner = [names[i % len(names)] for i in range(n)] + ["attacker"] * copies
    again = np.arange(0, len(names) * shared, len(names))
    rows = np.concatenate([np.arange(n), np.arange(n - copies, n), np.tile(again, len(names) - 1)])
    owner += [name for name in names[1:] for _ in again]
    return {
        "id": [f"u{i}" for i in range(len(rows))],
        "identity": owner,
        "label": columns["label"][rows],
        "time": np.arange(len(rows), dtype=np.float64),
        "features": columns["features"][rows],
    }


def typed(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "400"})


def found(folder):
    return {warning.name: warning for warning in read_warnings(folder)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A market with something wrong in several ways, hostile names among them."""
    names = ["alice", "\u0430lice", "None", SCRIPT, "five [bold]", "six"]
    columns = market(names, shared=3, copies=12)
    return run(tmp_path_factory.mktemp("warned"), columns)


@pytest.fixture
def copy(folder, tmp_path):
    return copied(folder, tmp_path / "copy")


def approve(folder, *despite, by="tester"):
    return runs.approve(folder, sha256(folder / "manifest.json"), by, despite)


def test_a_run_without_anything_odd_has_no_warnings(tmp_path):
    clean = run(tmp_path, units(copies=0))
    assert read_warnings(clean) == []
    assert "No warnings." in (clean / "report.html").read_text(encoding="utf-8")
    assert approve(clean) == "approved"
    assert events(clean) == ["draft", "approval", "approved"]


def test_the_file_is_an_output_that_verify_checks(copy):
    assert warned(copy) == ["loses_half", "joined_identities", "look_alikes", "odd_identities"]
    assert "warnings.json" in json.loads((copy / "manifest.json").read_text())["outputs"]
    assert all(check.good for check in verify(copy))
    write_warnings([], copy)
    assert [c.what for c in verify(copy) if not c.good] == ["warnings.json"]


def test_a_warning_that_is_taken_out_of_the_ledger_is_missed(copy):
    left = [said for said in run_of(copy).warnings if said["name"] != "loses_half"]
    redrafted(copy, warnings=left)
    assert [c.what for c in verify(copy) if not c.good] == ["warnings.json, ledger"]
    words = [word for said in left for word in ("--accept", said["name"])]
    done = typed("ledger", "approve", copy, *words)
    assert done.exit_code == 1
    assert "warnings.json, ledger" in done.output
    assert run_of(copy).state == "draft"


def test_approval_is_refused_until_each_is_named(copy):
    names = warned(copy)
    for given in ([], names[:1], names[1:]):
        with pytest.raises(AcceptedWarningError) as refused:
            approve(copy, *given)
        for warning in read_warnings(copy):
            missing = warning.name not in given
            assert (f"--accept {warning.name}\n" in str(refused.value)) == missing
            assert (warning.words in str(refused.value)) == missing
    assert events(copy) == ["draft"]
    assert approve(copy, *names, by="R. Okafor") == "approved"
    accepted = [e for e in run_of(copy).history if e.kind == "accepted"]
    assert [(e.by, e.content["warning"]) for e in accepted] == [("R. Okafor", name) for name in names]
    assert events(copy) == ["draft", *["accepted"] * len(names), "approval", "approved"]


def test_a_name_too_many_is_refused(copy):
    names = warned(copy)
    with pytest.raises(
        AcceptedWarningError, match=r"no warning 'leak' \(it has loses_half, .*leave --accept leak out"
    ):
        approve(copy, *names, "leak")
    with pytest.raises(UnknownNameError, match="unknown warning 'lose_half'; did you mean loses_half"):
        approve(copy, *names, "lose_half")
    assert run_of(copy).state == "draft"
    with pytest.raises(AcceptedWarningError, match="it has none"):
        require_answered([], ["leak"])


@pytest.mark.parametrize(
    "statement",
    [
        """DELETE FROM ledger_entries WHERE body LIKE '%"kind":"accepted"%'""",
        "UPDATE ledger_entries SET body = replace(body, 'loses_half', 'leak')",
        "UPDATE ledger_entries SET body = replace(body, 'tester', 'nobody')",
    ],
)
def test_what_was_accepted_stays_in_the_ledger(copy, statement):
    approve(copy, *warned(copy))
    with pytest.raises(sqlite3.IntegrityError):
        told(copy, statement)


def test_the_command_asks_for_each(copy):
    done = typed("ledger", "approve", copy, "--by", "R. Okafor")
    assert isinstance(done.exception, AcceptedWarningError)
    words = [word for name in warned(copy) for word in ("--accept", name)]
    done = typed("ledger", "approve", copy, "--by", "R. Okafor", *words)
    assert done.exit_code == 0, done.output
    shown = typed("ledger", "show", copy).output
    assert shown.count("accepted") == len(warned(copy))
    assert "loses_half: 1 payee loses more than half" in shown
    assert "--accept" in typed("ledger", "approve", "--help").output


def test_the_report_leads_with_them_and_shows_names_as_names(folder):
    page = (folder / "report.html").read_text(encoding="utf-8")
    places = [page.index(f'id="warning-{name}"') for name in warned(folder)]
    first = min(page.index(mark) for mark in ('class="facts"', "Divided among", 'id="payments"'))
    assert places == sorted(places)
    assert page.index("<h1>") < places[0] < places[-1] < first
    body = page[: page.index("<script>")]
    assert SCRIPT not in body
    assert "cyrillic small letter a, U+0430" in body


def test_the_terminal_shows_them_before_any_amount(tmp_path):
    import pyarrow.parquet as pq
    from payout_files import table

    pq.write_table(table(market(["one", "[red]two", "None"], copies=12)), tmp_path / "units.parquet")
    pq.write_table(table(validation()), tmp_path / "validation.parquet")
    done = typed(
        "pay", tmp_path / "units.parquet", "--validation", tmp_path / "validation.parquet", "--amount", "100",
        "--out", tmp_path / "run", "--theta", "none", "--no-audit",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert set(warned(tmp_path / "run")) >= {"loses_half", "odd_identities"}
    for warning in read_warnings(tmp_path / "run"):
        at = done.output.index(f"Warning: {warning.title}. ({warning.name})")
        assert at < done.output.index("EUR 100.00 among")
        assert all(f"- {item}" in done.output for item in warning.items)
    assert "with --accept WARNING for each warning" in done.output


def test_who_loses_more_than_half_is_compared_with_a_run_without_evidence(folder):
    warning = found(folder)["loses_half"]
    row = payments(folder)["attacker"]
    assert 2 * float(row["payment"]) < float(row["without_evidence"])
    assert warning.count == 1
    assert warning.items == (f"“attacker”: EUR {row['payment']} instead of {row['without_evidence']}",)
    others = [r for name, r in payments(folder).items() if name != "attacker"]
    assert all(2 * float(r["payment"]) >= float(r["without_evidence"]) for r in others)


def test_half_of_a_clear_payment_is_the_bar_and_payees_are_netted():
    """Of 100,000 cents among five payees, 2,000 are a tenth of an equal share: up to that nothing was clear."""
    paid = [49_999, 50_000, 0, 0, 20, 10]
    without = [100_000, 100_000, 2_000, 2_001, 100, 3_000]
    results = SimpleNamespace(
        inputs=SimpleNamespace(
            identities=["less", "half", "unclear", "clear", "one of two", "two of two"]
        ),
        payees=SimpleNamespace(group=np.array([0, 1, 2, 3, 4, 4])),
        division=SimpleNamespace(paid=paid),
        without_evidence=without,
        spec=spec(),
    )
    assert results.spec.minor == 100_000
    (warning,) = _loses_half(results)
    assert warning.count == 3
    assert warning.items == (
        "“less”: EUR 499.99 instead of 1000.00",
        "“one of two”: EUR 0.30 instead of 31.00",
        "“clear”: EUR 0.00 instead of 20.01",
    )  # the largest loss first


def test_the_tree_of_most_payees_leads():
    """Six payees in tree 7, five in tree 3, four in tree 1, which are not many."""
    label = np.repeat([0, 1, 2], [6, 4, 5])
    owner = np.concatenate([np.arange(6), np.arange(4), np.arange(5)])
    results = SimpleNamespace(
        inputs=SimpleNamespace(identities=list("abcdef"), owner=owner),
        payees=SimpleNamespace(group=np.arange(6)),
        payments=SimpleNamespace(
            clustering=SimpleNamespace(label=label, n_clusters=3),
            scores=SimpleNamespace(number=np.array([7, 1, 3])),
            shares=SimpleNamespace(
                cluster=np.array([0, 1, 2]), identity=np.array([1, 0, 4]), share=np.ones(3)
            ),
        ),
    )
    (warning,) = _joined(results)
    assert warning.count == 2
    assert warning.words.endswith("The largest joins 6 payees.")
    assert warning.items == (
        "tree 7: 6 units of 6 payees, owned by “b”",
        "tree 3: 5 units of 5 payees, owned by “e”",
    )


def test_trees_count_payees_not_names(tmp_path):
    names = [f"seller {i}" for i in range(6)]
    apart = run(tmp_path / "apart", market(names, shared=2))
    assert found(apart)["joined_identities"].count == 2
    assert "2 trees of matched units join 5 payees or more" in found(apart)["joined_identities"].title
    assert "owned by “seller 0”" in found(apart)["joined_identities"].items[0]
    once = run(tmp_path / "once", market(names, shared=1))
    assert found(once)["joined_identities"].title == "1 tree of matched units joins 5 payees or more"
    four = run(tmp_path / "four", market(names[:4], shared=2))
    assert "join 4 payees or more" in found(four)["joined_identities"].title  # all there are
    two = run(tmp_path / "two", market(names[:2], shared=2))
    assert "joined_identities" not in found(two)
    signed = tmp_path / "same.toml"
    signed.write_text(
        '[[join]]\nidentities = ["seller 4", "seller 5"]\nreason = "one person"\nby = "R. Okafor"\n'
        "date = 2026-05-31\n"
    )
    columns = market([*names, *(f"alone {i}" for i in range(3))])
    again = np.arange(0, 9, 9)
    extra = [(i, name) for i in again for name in names[1:]]
    columns = {
        "id": [*columns["id"], *(f"copy {k}" for k in range(len(extra)))],
        "identity": [*columns["identity"], *(name for _, name in extra)],
        "label": np.concatenate([columns["label"], [columns["label"][i] for i, _ in extra]]),
        "time": np.arange(len(columns["id"]) + len(extra), dtype=np.float64),
        "features": np.vstack([columns["features"], *(columns["features"][i] for i, _ in extra)]),
    }
    six = found(run(tmp_path / "six", columns))["joined_identities"]
    five = found(run(tmp_path / "five", columns, overrides=signed))["joined_identities"]
    assert "6 units of 6 payees" in six.items[0]
    assert "6 units of 5 payees" in five.items[0]


def test_what_a_folder_leaves_unread_is_named_and_part_of_the_run(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    for who in ("anna", "bert"):
        for what in ("cat", "dog"):
            for k in range(4):
                place = tmp_path / "units" / who / what / f"{k}.png"
                place.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(place)
                held = tmp_path / "held" / what / f"{who}{k}.png"
                held.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(held)
    places = Places(tmp_path / "units", tmp_path / "held")
    how = spec(encoder="thumbnail", amount="10.00")
    clean = pay(places, how, tmp_path / "clean")
    assert "skipped_files" not in found(tmp_path / "clean")
    (tmp_path / "units" / "anna" / "cat" / "late.heic").write_bytes(b"a photograph")
    (tmp_path / "units" / "bert" / "deep" / "er").mkdir(parents=True)
    shutil.copy(
        tmp_path / "units" / "anna" / "cat" / "0.png",
        tmp_path / "units" / "bert" / "deep" / "er" / "0.png",
    )
    (tmp_path / "units" / "carl").symlink_to(tmp_path / "units" / "anna")
    (tmp_path / "held" / "stray.png").write_bytes(b"")
    told = pay(places, how, tmp_path / "told")
    assert told["run"] != clean["run"]
    warning = found(tmp_path / "told")["skipped_files"]
    assert warning.count == 4
    assert warning.items == (
        "submissions: anna/cat/late.heic: .heic is not read: save it as .jpg or .png",
        "submissions: bert/deep/er/0.png: lies too deep: move it to identity/label/image",
        "submissions: carl: a link to a folder; put the folder itself there",
        "validation: stray.png: lies too high: move it to label/image",
    )


def test_a_long_list_is_counted_in_full():
    warning = UnresolvedWarning.of("leak", "t", "w", [f"unit {i}" for i in range(MOST_ITEMS + 7)])
    assert (warning.count, len(warning.items), warning.more) == (MOST_ITEMS + 7, MOST_ITEMS, 7)
    assert UnresolvedWarning.of("leak", "t", "w", count=9).more == 0
    assert UnresolvedWarning.of("leak", "t", "w", ["a\u202eb"]).items == ("a⟨U+202E⟩b",)
    with pytest.raises(UnknownNameError):
        UnresolvedWarning.of("leaks", "t", "w")


def test_the_manual_lists_every_warning_and_no_other():
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "payout.md").read_text(encoding="utf-8")
    table = page.partition("## Warnings before money")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(NAMES)
