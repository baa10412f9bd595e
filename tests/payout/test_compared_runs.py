"""Two runs held against each other: numbers are those of the files, reasons are what the records say."""

import json

import pytest
from payout_files import cents, payments, run, units
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.core.errors import RunError
from datamarket_gym.payout.compared import compared
from datamarket_gym.payout.report.change_chart import change_chart

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


@pytest.fixture(scope="module")
def found(two):
    return compared(*two)


def by_name(found):
    return {each.identity: each for each in found.payees}


def test_amounts_shares_and_ranks_are_those_of_the_files(two, found):
    for side, folder in zip(("before", "after"), two, strict=True):
        paid, rows = cents(folder), payments(folder)
        for name, each in by_name(found).items():
            standing = getattr(each, side)
            if name not in paid:
                assert standing is None
                continue
            assert (standing.paid, standing.units) == (paid[name], rows[name]["units"])
            assert standing.share == pytest.approx(paid[name] / sum(paid.values()))
            assert standing.rank == 1 + sum(other > paid[name] for other in paid.values())


def test_changes_are_differences_and_the_largest_come_first(two, found):
    before, after = (cents(folder) for folder in two)
    changes = {name: after.get(name, 0) - before.get(name, 0) for name in before | after}
    assert {each.identity: each.change for each in found.payees} == changes
    sizes = [abs(each.change) for each in found.payees]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(changes.values()) == 50_000


def test_who_is_in_one_alone(found):
    assert {each.identity for each in found.only_before} == {"seller 2"}
    assert {each.identity for each in found.only_after} == {"late", "seller 4"}
    assert by_name(found)["seller 2"].reasons == ("not in the second run",)
    assert by_name(found)["late"].reasons[0] == "new in the second run, with 16 units"


def test_reasons_are_what_the_records_say(found):
    thief = by_name(found)["thief"]
    assert (thief.before.for_others, thief.after.for_others) == (3, 6)
    assert thief.reasons == (
        "sent 6 units more (12, before 6)",
        "6 units are tied to units of others, who came earlier and are paid for them (before 3)",
        "EUR 1,500.00 are divided, before EUR 1,000.00",
    )


def test_settings_inputs_and_totals_that_differ(found):
    said = {each.what: (each.before, each.after) for each in found.settings}
    assert said == {"amount": ("1000.00", "1500.00"), "period": ("May 2026", "June 2026")}
    assert [each.what for each in found.inputs] == ["submissions"]
    totals = {each.what: (each.before, each.after) for each in found.totals}
    assert totals["units"] == ("66", "92")
    assert totals["amount"] == ("EUR 1,000.00", "EUR 1,500.00")


def test_warnings_that_went(two, found):
    assert [(w.name, w.before, w.after) for w in found.warnings] == [("loses_half", 1, None)]


def test_a_run_is_like_itself(two):
    same = compared(two[0], two[0])
    assert not same.settings
    assert not same.inputs
    assert not same.warnings
    assert {each.change for each in same.payees} == {0}
    assert all(each.reasons == () for each in same.payees)
    assert same.units_in_both == 63
    assert change_chart(same)["data"][1]["x"] == []


def test_the_same_part_of_another_amount(two, tmp_path):
    more = run(tmp_path, renamed(units(), seller_0=HOSTILE), amount="2000.00")
    reasons = {each.reasons for each in compared(two[0], more).payees}
    assert reasons == {
        ("the same part of another amount: EUR 2,000.00 are divided, before EUR 1,000.00",)
    }


def test_currencies_are_not_subtracted(two, tmp_path):
    yen = run(tmp_path, renamed(units(), seller_0=HOSTILE), amount="100000", currency="JPY")
    found = compared(two[0], yen)
    assert {each.change for each in found.payees} == {None}
    assert change_chart(found)["layout"]["xaxis"]["title"]["text"] == "part of all that is paid"


def test_the_picture_has_the_payments_and_no_markup(two, found):
    chart = change_chart(found)
    names = chart["layout"]["yaxis"]["ticktext"]
    after = dict(zip(names, chart["data"][2]["x"], strict=True))
    assert after["thief"] == cents(two[1])["thief"] / 100
    assert after["seller 2"] is None
    assert not any("<" in name or "\u202e" in name for name in names)


def test_a_changed_file_is_refused(two, tmp_path):
    from payout_files import copied

    folder = copied(two[1], tmp_path / "copy")
    path = folder / "payments.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(RunError, match="not as the run left it"):
        compared(two[0], folder)


def test_the_command_line_says_the_same(two, found):
    words = ["explain", str(two[1]), "--against", str(two[0])]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "Largest changes" in done.output
    assert "6 units are tied to units of others" in done.output
    assert "<b>Ann</b> ⟨U+202E⟩oC" in done.output
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)
    assert told == json.loads(json.dumps(found.plain))
    one = json.loads(CliRunner().invoke(app, [*words, "--payee", "thief", "--json"]).output)
    assert one["change"] == by_name(found)["thief"].change


@pytest.mark.parametrize(
    ("more", "said"),
    [(["--what-if"], "leave --what-if"), (["--payee", "theif"], "did you mean thief")],
)
def test_what_cannot_be_compared_is_said(two, more, said):
    done = CliRunner().invoke(app, ["explain", str(two[1]), "--against", str(two[0]), *more])
    assert done.exit_code != 0
    assert said in done.output + str(done.exception or "")
