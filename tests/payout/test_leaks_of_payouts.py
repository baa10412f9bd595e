"""A payout_run sets leaked validation rows aside, lists them, and pays everybody else as if they were not there."""

import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from payout_files import cents, copied, payments, run, spec, table, units, validation, warned, write
from typer.testing import CliRunner

from datamarket_gym.analysis.redteam import AuditReport
from datamarket_gym.cli.app import app
from datamarket_gym.errors import LeakedRowsWarning, LeakError, SubmissionError
from datamarket_gym.evidence.leak_check import Leaks
from datamarket_gym.execution.runs import read_record
from datamarket_gym.mechanism import Mechanism
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.warnings import read_warnings
from datamarket_gym.payout.what_if import without_its_evidence
from table_files import write as write_as

HELD = validation()
LEAKED = 5


def stuffed(first=True):
    """Rows 0 to 4 of the validation rows submitted first of all: three by a leaker, two by an honest seller."""
    columns = units()
    n = LEAKED
    label = (HELD["label"][:n] + np.array([0, 0, 0, 0, 1])) % 3  # one under another label
    more = {
        "id": [f"leak {i}" for i in range(n)],
        "identity": ["leaker"] * 3 + ["seller 1"] * 2,
        "label": label,
        "time": np.full(n, -1.0) if first else np.full(n, 5000.0),
        "features": HELD["features"][:n],
    }
    return {
        name: np.concatenate([more[name], c]) if isinstance(c, np.ndarray) else more[name] + c
        for name, c in columns.items()
    }


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    return run(tmp_path_factory.mktemp("calm"), units(), HELD, theta="auto")


@pytest.fixture(scope="module")
def loud(tmp_path_factory):
    return run(tmp_path_factory.mktemp("loud"), stuffed(), HELD, theta="auto")


def test_leaks_change_no_payment(calm, loud):
    assert cents(loud) == {**cents(calm), "leaker": 0}
    assert cents(loud, "without_evidence") == {**cents(calm, "without_evidence"), "leaker": 0}
    assert (loud / "threshold.json").read_bytes() == (calm / "threshold.json").read_bytes()


def test_without_the_check_they_pay(tmp_path, calm):
    off = run(tmp_path, stuffed(), HELD, theta="auto", leak_check="off")
    assert cents(off)["leaker"] > 0
    assert len(pq.read_table(off / "leaks.parquet")) == 0


def test_leaks_are_listed_with_the_unit_the_identity_and_the_row(loud):
    listed = pq.read_table(loud / "leaks.parquet").to_pylist()
    assert [(r["unit"], r["identity"], r["validation_row"], r["by"]) for r in listed] == [
        *((f"leak {i}", "leaker", i, "identical") for i in range(3)),
        *((f"leak {i}", "seller 1", i, "identical") for i in (3, 4)),
    ]
    assert [r["likeness"] for r in listed] == [1.0] * LEAKED
    rows = payments(loud)
    assert (rows["leaker"]["units"], rows["leaker"]["leaked"], rows["leaker"]["clusters"]) == (3, 3, 0)
    assert (rows["seller 1"]["units"], rows["seller 1"]["leaked"]) == (17, 2)
    manifest = json.loads((loud / "manifest.json").read_text())
    assert (manifest["units"], manifest["leaked"]) == (71, LEAKED)
    [told] = [warning for warning in read_warnings(loud) if warning.name == "leak"]
    assert told.title == "5 units of 2 identities equal validation rows, or nearly"
    assert (told.count, told.items[0]) == (LEAKED, "“leak 0” of “leaker” is row 0 (identical, 1.000)")
    page = (loud / "report.html").read_text()
    assert "Units that are validation rows" in page
    assert "leak 4" in page
    assert "leak 4" not in (loud / "clusters.parquet").read_bytes().decode("latin1")


def test_a_run_without_leaks_says_nothing_of_them(calm):
    assert "Units that are validation rows" not in (calm / "report.html").read_text()
    assert "leak" not in warned(calm)


def test_explain_says_it(loud):
    found = explain(loud, "leaker")
    assert (found.paid, found.units, found.counted) == (0, 3, 0)
    assert [(row["unit"], row["row"]) for row in found.leaked] == [(f"leak {i}", i) for i in range(3)]
    assert (found.without_its_evidence, found.without_any_evidence) == (None, 0)
    assert without_its_evidence(loud, "leaker") == 0
    assert len(explain(loud, "seller 1").leaked) == 2
    assert explain(loud, "seller 0").leaked == []


def typed(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})


def test_explain_prints_it(loud):
    done = typed("explain", loud, "--payee", "leaker")
    assert done.exit_code == 0, done.output
    assert "3 of its units are validation rows" in " ".join(done.output.split())


def test_the_flag(tmp_path):
    places = write(tmp_path, stuffed(), HELD)
    words = (
        "pay",
        places.submissions,
        "--validation",
        places.validation,
        "--amount",
        "10",
        "--no-audit",
    )
    with pytest.raises(LeakError):
        raise typed(*words, "--out", tmp_path / "a", "--leak-check", "error").exception
    assert typed(*words, "--out", tmp_path / "b", "--leak-check", "drop").exit_code == 0
    refused = typed(*words, "--out", tmp_path / "c", "--leak-check", "maybe")
    assert refused.exit_code == 2
    assert "'maybe' is not one of 'off', 'drop', 'error'" in " ".join(refused.output.split())


def test_the_run_verifies_and_its_record_is_watched(loud, tmp_path):
    assert all(check.good for check in verify(loud, recompute=True))
    copy = copied(loud, tmp_path / "copy")
    (copy / "records" / "leaks.npz").write_bytes(b"no leaks here")
    assert "records/leaks.npz" in [check.what for check in verify(copy) if not check.good]


def test_both_ways_set_the_same_units_aside(tmp_path, loud):
    places = write(tmp_path, stuffed(), HELD)
    inputs = read_inputs(places, spec(theta="auto"))
    m = Mechanism.model_validate(json.loads((loud / "manifest.json").read_text())["mechanism"])
    utility = inputs.utility_oracle(spec(theta="auto"))
    with pytest.warns(LeakedRowsWarning):
        paid = m.pay(inputs.submission, utility)
    kept = read_record(loud / "records" / "leaks.npz", Leaks)
    for name in ("unit", "id", "identity", "likeness", "by"):
        assert getattr(paid.leaks, name).tolist() == getattr(kept, name).tolist()
    # the utility holds the rows in another order: the rows themselves are the same
    assert (utility.features[paid.leaks.row] == HELD["features"][kept.row]).all()
    assert paid.identities.tolist() == inputs.submission.identities.tolist()
    assert paid.totals[inputs.identities.index("leaker")] == 0.0


def test_error_stops_before_anything_is_written(tmp_path):
    with pytest.raises(LeakError, match=r"5 units of 2 identities.*leak 0 of leaker is row 0"):
        run(tmp_path, stuffed(), HELD, leak_check="error")
    assert not (tmp_path / "run").exists()
    assert run(tmp_path / "calm", units(), HELD, leak_check="error").is_dir()


def test_ties_and_overrides_may_name_leaked_units(tmp_path, calm):
    (tmp_path / "edges.csv").write_text("id_l,id_r,probability\nleak 0,u3,1.0\nu1,u2,1.0\n")
    (tmp_path / "overrides.toml").write_text(
        '[[join]]\nunits = ["leak 1", "u5", "u6"]\nreason = "x"\nby = "y"\ndate = 2026-05-31\n'
        '[[split]]\nunits = ["leak 2", "u1"]\nreason = "x"\nby = "y"\ndate = 2026-05-31\n'
    )
    linkage = {"edges": str(tmp_path / "edges.csv"), "between": "units"}
    folder = run(
        tmp_path, stuffed(), HELD, overrides=tmp_path / "overrides.toml", theta="auto", linkage=linkage
    )
    ties = pq.read_table(folder / "evidence.parquet").to_pylist()
    named = {
        (row["left"], row["right"])
        for row in ties
        if row["reason"] in ("override", "supplied by edges.csv")
    }
    assert named == {("u5", "u6")}
    assert all("leak" not in row["left"] + row["right"] for row in ties)


def texts(n, seed):
    words = [f"w{i}" for i in range(400)]
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(words, 30)) for _ in range(n)]


def test_texts_are_compared(tmp_path):
    columns, held = units(), validation()
    columns["words"], held["words"] = texts(66, 0), texts(40, 1)
    columns["words"][3] = held["words"][9].upper().replace("W17", "x")
    folder = run(tmp_path, columns, held, columns={"text": "words", "features": "features"})
    listed = pq.read_table(folder / "leaks.parquet").to_pylist()
    assert [(r["unit"], r["validation_row"], r["by"]) for r in listed] == [("u3", 9, "text")]


def test_an_audit_sets_aside_what_pay_does_and_plays_with_the_texts(tmp_path):
    columns, held = units(), validation()
    del columns["features"], held["features"]
    columns["words"], held["words"] = texts(66, 0), texts(40, 1)
    columns["words"][3] = f"{held['words'][9].title()} {texts(1, 7)[0]}"
    columns["time"] = [float("nan") if i == 8 else float(i) for i in range(66)]
    config = tmp_path / "market.toml"
    config.write_text('quarantine = true\nencoder = "ngrams"\ntext = "words"\n')
    tables = [str(write_as(tmp_path, "csv", columns))]
    (tmp_path / "held").mkdir()
    tables += ["--validation", str(write_as(tmp_path / "held", "csv", held)), "--config", str(config)]
    paid = ["--amount", "10", "--theta", "none", "--no-audit", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, ["pay", *tables, *paid], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    leaks = pq.read_table(tmp_path / "run" / "leaks.parquet").to_pylist()
    assert [(leak["unit"], leak["validation_row"], leak["by"]) for leak in leaks] == [("u3", 9, "text")]
    asked = ["--only", "text_variants,copycat", "--providers", "1", "--jobs", "1", "--out"]
    done = CliRunner().invoke(app, ["audit", *tables, *asked, str(tmp_path / "audit")])
    assert done.exit_code == 0, done.output
    report = AuditReport.model_validate_json((tmp_path / "audit" / "audit.json").read_text())
    assert (
        f"u3 of {leaks[0]['identity']} is row 9 (text, {leaks[0]['likeness']:.3f})" in report.warnings[0]
    )
    assert {
        trial.attack.split("@")[0].split("(")[0] for trial in report.trials if trial.why is None
    } == {
        "text_variants",
        "copycat",
    }


def test_texts_are_matched_by_words(tmp_path):
    columns, held = units(), validation(n=120)
    columns["words"], held["words"] = texts(66, 0), texts(120, 1)
    columns["words"][65] = (
        f"{columns['words'][2].title()} {texts(1, 7)[0]}"  # a padded copy beside other features
    )
    given = {"text": "words", "features": "features"}
    folder = run(tmp_path, columns, held, columns=given, theta="auto", audit=True)
    assert "none" not in json.loads((folder / "audit.json").read_text())
    threshold = json.loads((folder / "threshold.json").read_text())
    assert (threshold["words"], threshold["words_cost"]["rows"]) == (0.38, 120)
    pairs = pq.read_table(folder / "evidence.parquet").to_pylist()
    found = [(row["left"], row["right"], row["score"]) for row in pairs if row["reason"] == "words"]
    assert ("u2", "u65", 1.0) in found
    page = (folder / "report.html").read_text()
    assert "shared words" in page
    assert "of the pairs of the shorter one" in page


@pytest.mark.parametrize("copied", [False, True])
def test_one_file_as_both_is_an_error(tmp_path, copied):
    path, other = tmp_path / "units.parquet", tmp_path / "copy.parquet"
    pq.write_table(table(units()), path)
    shutil.copy(path, other)
    with pytest.raises(SubmissionError, match="the same data, as submissions and as validation rows"):
        pay(Places(path, other if copied else path), spec(), tmp_path / "run")
    with pytest.raises(SubmissionError, match="the same data"):
        raise typed(
            "audit", path, "--validation", other if copied else path, "--out", tmp_path / "a"
        ).exception


def test_the_same_rows_in_another_file_are_an_error_too(tmp_path):
    columns = units(copies=0)
    held = {name: columns[name] for name in ("label", "features")}
    with pytest.raises(LeakError, match="every unit equals a validation row"):
        run(tmp_path, columns, held)
