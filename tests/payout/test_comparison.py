"""Two runs held against each other: payments are those of the files, differences those of the manifests."""

import json

import pytest
from payout_files import cents, copied, run, units
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import RunError
from datamarket_gym.payout.comparison import PaymentChange, compare_runs

HOSTILE = "<b>Ann</b> \u202eoC"


def renamed(columns, **names):
    old = {key.replace("_", " "): name for key, name in names.items()}
    return columns | {"identity": [old.get(name, name) for name in columns["identity"]]}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two months: in the second there is more to divide, one seller more, and more is copied."""
    folder = tmp_path_factory.mktemp("months")
    may = run(folder / "may", renamed(units(), seller_0=HOSTILE), period="May 2026")
    more = renamed(units(n=80, identities=5, seed=3, copies=12), seller_0=HOSTILE, seller_2="late")
    june = run(folder / "june", more, period="June 2026", amount="1500.00")
    return may, june


def test_payments_are_those_of_the_files_the_largest_change_first(two):
    before, after = (cents(folder) for folder in two)
    found = compare_runs(*two)
    assert {each.identity: (each.before, each.after) for each in found.payments} == {
        name: (before.get(name), after.get(name)) for name in before | after
    }
    changes = [each.change for each in found.payments]
    assert sum(changes) == 50_000
    assert [abs(each) for each in changes] == sorted(map(abs, changes), reverse=True)


def test_settings_and_inputs_that_differ(two):
    found = compare_runs(*two)
    said = {each.name: (each.before, each.after) for each in found.settings}
    assert said == {"spec.amount": ("1000.00", "1500.00"), "spec.period": ("May 2026", "June 2026")}
    assert [each.name for each in found.inputs] == ["submissions"]


def test_a_run_is_like_itself(two):
    same = compare_runs(two[0], two[0])
    assert (same.settings, same.inputs) == ([], [])
    assert {each.change for each in same.payments} == {0}


def test_currencies_are_not_subtracted(two, tmp_path):
    yen = run(tmp_path, renamed(units(), seller_0=HOSTILE), amount="100000", currency="JPY")
    found = compare_runs(two[0], yen)
    assert found.currencies == ("EUR", "JPY")
    assert {each.change for each in found.payments} == {None}


def test_a_changed_file_is_refused(two, tmp_path):
    folder = copied(two[1], tmp_path / "copy")
    path = folder / "payments.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(RunError, match="not as the run left it"):
        compare_runs(two[0], folder)


def test_the_command_line_says_the_same(two):
    words = ["explain", str(two[1]), "--against", str(two[0])]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "spec.amount" in done.output
    assert "<b>Ann</b> ⟨U+202E⟩oC" in done.output
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    found = compare_runs(*two)
    assert [PaymentChange(**each) for each in told["payments"]] == found.payments
    one = json.loads(CliRunner().invoke(app, [*words, "--payee", "attacker", "--json"]).output)
    assert PaymentChange(**one) in found.payments


@pytest.mark.parametrize(
    ("more", "said"),
    [(["--what-if"], "leave --what-if"), (["--payee", "atacker"], "did you mean attacker")],
)
def test_what_cannot_be_compared_is_said(two, more, said):
    done = CliRunner().invoke(app, ["explain", str(two[1]), "--against", str(two[0]), *more])
    assert done.exit_code != 0
    assert said in done.output + str(done.exception or "")
