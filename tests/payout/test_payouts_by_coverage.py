"""A payout_run by coverage from end to end, what it says of itself, and that accuracy pays what it always paid."""

import csv
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from payout_files import (
    approve,
    cents,
    payments,
    run,
    run_by_accuracy,
    spec,
    units,
    validation,
    warned,
    write,
)
from typer.testing import CliRunner

from datamarket_gym.analysis.theorems.deterrence import Checks, deterrence_gap
from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.market_file import read_market
from datamarket_gym.payout.run import PayoutJob, compute_results, pay
from datamarket_gym.payout.settings import checked_spec, payout_spec
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.warnings import kappas, read_warnings
from datamarket_gym.utilities.coverage import RECOMMENDED, Coverage

GOLDEN = {  # by the version before coverage: payment, low, high, without evidence
    "seller 0": ("295.80", "177.46", "414.15", "283.10"),
    "seller 3": ("244.10", "195.77", "292.42", "233.89"),
    "seller 1": ("227.40", "165.22", "289.58", "217.67"),
    "seller 2": ("197.97", "136.09", "259.85", "190.06"),
    "attacker": ("34.73", "0.00", "89.32", "75.28"),
}


def words(text):
    return " ".join(
        re.sub(r'<a class="term"[^>]*>|</a>', "", text).split()
    )  # links to the glossary left out


def typed(*arguments):
    done = CliRunner().invoke(app, [str(word) for word in arguments])
    assert done.exit_code == 0, done.output
    return words(done.output)


def as_csv(columns, path):
    """The columns as a CSV file with numbered features."""
    flat = {name: column for name, column in columns.items() if name != "features"}
    heads = [*flat, *(f"features_{i}" for i in range(columns["features"].shape[1]))]
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(heads)
        for i, row in enumerate(columns["features"].tolist()):
            out.writerow([*(column[i] for column in flat.values()), *map(repr, row)])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(tmp_path_factory.mktemp("covered"), checks=3)


def by_hand(columns, held):
    """Shares of the pot: the sum over rows of each unit's part of what covers them, rank by rank."""
    z, u = (
        x / np.linalg.norm(x, axis=1, keepdims=True) for x in (held["features"], columns["features"])
    )
    alike = z @ z.T
    c = max(0.0, np.median(alike[np.triu_indices(len(z), 1)]))
    g = np.maximum(z @ u.T - c, 0.0) / (1 - c) * (held["label"][:, None] == columns["label"][None])
    score = np.zeros(len(u))
    for row in g:
        order = np.argsort(-row)
        falling = np.append(row[order], 0.0)
        steps = (falling[:-1] - falling[1:]) / np.arange(1, len(row) + 1)
        score[order] += np.cumsum(steps[::-1])[::-1]
    return score / score.sum()


def test_what_is_paid_is_the_coverage_of_the_validation_rows(tmp_path):
    columns, held = units(copies=0), validation()
    share = by_hand(columns, held)
    found = cents(run(tmp_path, columns, held))
    for name, paid in found.items():
        mine = np.array([other == name for other in columns["identity"]])
        assert paid == pytest.approx(100_000 * share[mine].sum(), abs=1)


def test_csv_and_parquet_pay_the_same(tmp_path):
    parquet = run(tmp_path / "parquet")
    tables = Places(as_csv(units(), tmp_path / "units.csv"), as_csv(validation(), tmp_path / "held.csv"))
    pay(tables, spec(), tmp_path / "run")
    assert payments(tmp_path / "run") == payments(parquet)


def test_by_accuracy_everybody_is_paid_what_they_were(tmp_path):
    found = payments(run_by_accuracy(tmp_path))
    columns = ("payment", "low", "high", "without_evidence")
    assert {name: tuple(row[c] for c in columns) for name, row in found.items()} == GOLDEN
    page = words((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))
    assert "by what their data teach a model" in page
    assert "accuracy over chance" in page
    assert "cover" not in page.partition("<script")[0]


def test_a_run_by_coverage_is_recomputed_to_the_byte(folder):
    assert [check.what for check in verify(folder, recompute=True) if not check.good] == []


def test_the_manifest_says_how_validation_rows_are_covered(folder, tmp_path):
    level = Coverage().baseline_similarity(validation()["features"])
    assert read_manifest(folder)["utility"] == {
        "learner": "coverage",
        "empty": "none",
        "description": f"coverage: cosine similarity, counted from {level:.3f} to 1.000",
    }
    scale = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1e4])  # one column in another unit
    columns, held = ({**each, "features": each["features"] * scale} for each in (units(), validation()))
    other = run(tmp_path, columns, held, learner="coverage@0.9")
    said = read_manifest(other)["utility"]["description"]
    assert said.startswith("coverage@0.9: standardised similarity, counted from 0.")
    assert float(said.split()[5]) > level
    assert read_manifest(run_by_accuracy(tmp_path / "knn"))["utility"] == {
        "learner": "knn",
        "empty": "chance",
        "description": "knn",
    }


@pytest.mark.parametrize("learner", ["coverage(similarity=standardised)", "coverage(labels=False)"])
def test_learners_are_written_as_everywhere(learner, tmp_path):
    assert cents(run(tmp_path / "other", learner=learner)) != cents(run(tmp_path / "plain"))


def test_the_report_says_what_is_paid_for_and_what_checks_deter(folder):
    page = words((folder / "report.html").read_text(encoding="utf-8"))
    assert "by how much of the validation rows their units cover" in page
    assert "validation rows covered" in page
    assert "No score is below zero" in page
    assert "coverage: cosine similarity, counted from 0." in page
    assert "3 units of each payee are to be checked" in page
    assert "kappa is at most 1.00" in page
    left = deterrence_gap(Checks(3, 0.8))  # every draw is a look of its own
    assert f"at most {left:.1%} of its payment" in page
    assert "is checked as often, by different people" in page
    for wrong in ("over chance", "teach a model", "carried</th>"):
        assert wrong not in page.partition("<script")[0]


def test_without_checks_a_run_by_coverage_says_so(tmp_path):
    page = words((run(tmp_path) / "report.html").read_text(encoding="utf-8"))
    assert "No checks of units are asked for" in page


def test_under_accuracy_kappa_is_larger_and_checks_deter_less(tmp_path):
    columns = units()
    wrong = np.array([i % 5 == 0 for i in range(len(columns["label"]))])
    columns["label"] = np.where(wrong, (columns["label"] + 1) % 3, columns["label"])

    def largest(**changes):
        chosen = spec(checks=3, **changes)
        places = write(tmp_path / "in", columns)
        pay(places, chosen, tmp_path / str(changes))
        page = words((tmp_path / str(changes) / "report.html").read_text(encoding="utf-8"))
        finished = _finished(tmp_path / str(changes), places, chosen)
        found = kappas(finished)
        assert f"(kappa is at most {found.max():.2f})" in page
        return found.max()

    assert largest(learner="knn") > 1.1
    assert largest(learner="knn", negative="zero") == 1.0  # what is below zero counts as nothing
    assert largest() == 1.0


def _finished(out, places, chosen):
    from datamarket_gym.payout.run import FinishedRun

    return compute_results(
        PayoutJob.read(places, chosen), FinishedRun(out, read_manifest(out)["outputs"])
    )


def test_the_console_says_what_is_paid_for(tmp_path):
    places = write(tmp_path / "in")
    common = [
        places.submissions, "--validation", places.validation, "--amount", "1000", "--theta", "none",
        "--no-audit",
    ]  # fmt: skip
    paid = typed("pay", *common, "--out", tmp_path / "covered")
    assert "Paid for how much of the validation rows their units cover" in paid
    assert "datamarket check sample" in paid
    assert "carried" not in paid
    paid = typed("pay", *common, "--utility", "knn", "--checks", "0", "--out", tmp_path / "knn")
    assert "Paid for what their data teach a model" in paid
    assert "check sample" not in paid
    assert "carried" in paid


def test_one_class_can_be_paid(tmp_path):
    columns, held = units(), validation()
    columns["label"], held["label"] = np.zeros_like(columns["label"]), np.zeros_like(held["label"])
    found = cents(run(tmp_path, columns, held, audit=True))  # the red team plays on one class, too
    assert sum(found.values()) == 100_000
    assert min(found.values()) > 0
    assert warned(tmp_path / "run") == ["loses_half"]


def test_a_label_that_nobody_submitted_is_a_warning_and_its_rows_pay_nobody(tmp_path):
    columns, held = units(), validation()
    few = np.flatnonzero(held["label"] == 2)[:4]
    names = np.array(["cat", "dog", "emu"])
    columns["label"], held["label"] = names[columns["label"]], names[held["label"]]
    held["label"][few] = "gnu"
    found = run(tmp_path / "gnu", columns, held)
    (warning,) = [each for each in read_warnings(found) if each.name == "unseen_labels"]
    assert warning.title == "1 validation label was submitted by no provider (4 rows of 40)"
    assert warning.items == ("“gnu”: 4 rows",)
    assert sum(cents(found).values()) == 100_000
    # Rows that nobody covers say nothing about anybody: the shares are those without them.
    share = by_hand(columns, held)
    mine = np.array([name == "seller 1" for name in columns["identity"]])
    alone = cents(run(tmp_path / "alone", columns, held), "without_evidence")["seller 1"]
    assert alone == pytest.approx(100_000 * share[mine].sum(), abs=1)
    assert "unseen_labels" not in warned(
        run(tmp_path / "any", columns, held, learner="coverage(labels=False)")
    )
    with pytest.raises(DataMarketError, match="unseen in training"):
        run_by_accuracy(tmp_path / "knn", columns, held)


def test_lengths_decide_nothing_and_are_not_told(tmp_path):
    columns = units(copies=0)
    plain = run(tmp_path / "plain", columns)
    columns["features"][::4] *= 0.1
    short = run(tmp_path / "short", columns)
    assert "odd_lengths" not in warned(short)
    assert cents(short) == cents(plain)


def test_old_balances_are_shown_and_settled_under_coverage_too(tmp_path):
    columns = units()
    wrong = np.array([name == "seller 2" for name in columns["identity"]])
    columns["label"] = np.where(wrong, (columns["label"] + 1) % 3, columns["label"])
    first = run_by_accuracy(tmp_path / "first", columns)
    debt = cents(first, "balance")["seller 2"]
    assert debt < 0
    approve(first)
    ledger = first.parent / "ledger.sqlite"
    second = run(tmp_path / "second", units(seed=4), validation(seed=5), ledger=ledger, amount="50.00")
    plain = run(tmp_path / "plain", units(seed=4), validation(seed=5), amount="50.00")
    assert abs(cents(second, "entitled")["seller 2"] - cents(plain, "entitled")["seller 2"] - debt) <= 1
    page = words((second / "report.html").read_text(encoding="utf-8"))
    assert "What a payee is owed or owes beyond this payment goes to the next run" in page
    assert ">carried forward</th>" in page
    (warning,) = [each for each in read_warnings(second) if each.name == "large_balances"]
    assert warning.words.startswith("No score of this run is below zero")


def test_settings_of_checks_come_from_flags_and_files(tmp_path):
    asked = checked_spec({"amount": "1"})
    assert (asked.learner, asked.checks, asked.power) == (RECOMMENDED, 3, 0.8)
    assert checked_spec({"amount": "1", "learner": "recommended"}).learner == RECOMMENDED
    file = tmp_path / "payout.toml"
    file.write_text('amount = "1"\nchecks = 5\npower = 0.5\nutility = "knn@3"\n', encoding="utf-8")
    found = payout_spec(read_market(file) | {"power": 0.9})
    assert (found.learner, found.checks, found.power) == ("knn@3", 5, 0.9)
    assert payout_spec(read_market(file) | {"checks": 0}).checks == 0
    assert (found.spot_checks.per_payee, found.spot_checks.power) == (5, 0.9)
    for change, match in (
        ({"checks": -1}, "checks"),
        ({"checks": 1.5}, "checks"),
        ({"checks": 1001}, "checks"),
        ({"power": 0}, "power"),
        ({"power": 1.1}, "power"),
        ({"learner": "coverage@2"}, "quantile"),
        ({"learner": "coverage(similarity=alike)"}, "similarity"),
    ):
        with pytest.raises(DataMarketError, match=match):
            checked_spec({"amount": "1", **change})


def test_help_names_the_new_settings():
    shown = typed("pay", "--help-all")
    for flag in ("--utility", "--checks", "--power"):
        assert flag in shown


def test_the_page_s_settings_can_be_read_and_its_bracket_is_right():
    docs = Path(__file__).parents[2] / "docs"
    (settings,) = re.findall(
        r"```toml\n(.*?)```", (docs / "settings.md").read_text(encoding="utf-8"), re.DOTALL
    )
    with TemporaryDirectory() as folder:
        file = Path(folder) / "market.toml"
        file.write_text(settings, encoding="utf-8")
        found = payout_spec(read_market(file) | {"amount": "1"})
    assert (found.learner, found.spot_checks) == (RECOMMENDED, Checks())
    page = (docs / "payout.md").read_text(encoding="utf-8")
    assert f"3 checks at 0.8 is {deterrence_gap(found.spot_checks):.3f}, at y = 1" in words(page)
