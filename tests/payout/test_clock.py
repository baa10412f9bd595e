"""Times that say nothing, or cannot be true: told with their number, an error with strict, and no other bytes."""

import datetime
import warnings

import numpy as np
import pytest
from payout_files import cents, outputs, run, spec, units, write
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.errors import FutureTimesWarning, ParameterError, SubmissionError
from datamarket_gym.payout import run as run_module
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.market_file import read_market
from datamarket_gym.payout.settings import checked_spec, payout_spec
from datamarket_gym.payout.warnings import describe_time_unit, read_warnings, time_warnings

DAY = 86_400.0
START = datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC).timestamp()


def dated(seconds):
    return {**units(), "time": np.asarray(seconds, dtype=np.float64)}


def undated():
    return {name: column for name, column in units().items() if name != "time"}


def told(tmp_path, columns, **changes):
    places, chosen = write(tmp_path / "in", columns), spec(**changes)
    return time_warnings(read_inputs(places, chosen), chosen)


@pytest.mark.parametrize(
    ("columns", "name", "says"),
    [
        (undated(), "undated", "No unit was first: the 66 units carry no times"),
        (
            dated(np.full(66, 7.0)),
            "equal_times",
            "No unit was first: the 66 units all carry the same time",
        ),
    ],
    ids=["none", "all equal"],
)
def test_without_an_order_the_run_says_that_copies_cannot_be_told(columns, name, says, tmp_path):
    found = run(tmp_path, columns)
    page = (found / "report.html").read_text(encoding="utf-8")
    assert says in page
    assert "Copies cannot be told from originals: k copies of a unit take k / (k + 1) of its pay" in page
    assert page.index(says) < page.index("seller 0")  # the report leads with it
    with pytest.raises(SubmissionError, match=rf"--strict asks. {name}: {says}"):
        run(tmp_path / "strict", columns, strict=True)
    assert not (tmp_path / "strict" / "run").exists()


def test_times_equal_across_names_are_counted_and_those_of_one_name_are_not(tmp_path):
    columns = units(identities=4, copies=0)
    names = np.array(columns["identity"])
    own = np.unique(names, return_inverse=True)[1].astype(float)  # everybody sent all at once
    assert told(tmp_path / "own", {**columns, "time": own}) == []
    time = np.arange(60.0)
    time[1] = time[0]  # units 0 and 1 are of two sellers
    [found] = told(tmp_path / "two", {**columns, "time": time})
    assert (found.name, found.count) == ("equal_times", 2)
    assert found.items == ("“u0” of “seller 0”", "“u1” of “seller 1”")
    assert found.title == "2 of 60 units carry the same time as a unit of another identity"


def test_up_to_one_unit_in_a_hundred_may_share_its_time(tmp_path):
    for n, told_of in ((200, []), (199, ["equal_times"])):
        columns = units(n=n, identities=4, copies=0)
        time = np.arange(float(n))
        time[1] = time[0]
        assert [w.name for w in told(tmp_path / str(n), {**columns, "time": time})] == told_of


def test_the_first_and_the_last_moment_are_of_the_market(tmp_path):
    time = START + np.arange(66.0)
    market = {"opens": str(START), "closes": str(START + 65.0)}
    assert told(tmp_path / "in", dated(time), **market) == []
    late, early = told(tmp_path / "out", dated(np.r_[time[0] - 1, time[1:-1], time[-1] + 1]), **market)
    assert (late.items, early.items) == (("“u65” of “attacker”",), ("“u0” of “seller 0”",))


def test_times_outside_the_market_are_counted(tmp_path):
    time = START + DAY * np.linspace(0.0, 29.9, 66)
    time[:3] -= DAY
    time[60:] += 5 * DAY
    market = {"opens": "2026-05-01", "closes": "2026-05-30"}
    late, early = told(tmp_path, dated(time), **market)
    assert (late.name, late.count) == ("future_times", 6)
    assert late.items == tuple(f"“u{i}” of “attacker”" for i in range(60, 66))
    assert late.title == "6 units are dated after the market closed (2026-05-30)"
    assert (early.name, early.count) == ("early_times", 3)
    found = run(tmp_path / "warned", dated(time), **market)
    said = {warning.name: warning for warning in read_warnings(found)}
    assert (said["future_times"], said["early_times"]) == (late, early)
    with pytest.raises(SubmissionError, match=r"future_times: 6 units .* early_times: 3 units"):
        run(tmp_path / "strict", dated(time), strict=True, **market)


def test_a_date_alone_is_the_whole_day_and_toml_has_dates(tmp_path):
    config = tmp_path / "payout.toml"
    config.write_text('amount = "1.00"\nopens = 2026-05-01\ncloses = 2026-05-01T12:00:00+02:00\n')
    found = payout_spec(read_market(config))
    assert (found.opening, found.closing) == (START, START + 10 * 3600)
    assert checked_spec(found.model_dump(mode="json")) == found
    assert spec(closes="2026-05-01").closing == START + DAY
    assert spec(closes=str(START)).closing == START
    with pytest.raises(ParameterError, match="write a date"):
        spec(opens="May")
    for moment in ("nan", "inf"):  # nothing is earlier or later than these
        with pytest.raises(ParameterError, match="write a date"):
            spec(opens=moment)
    with pytest.raises(ParameterError, match="later than opens"):
        spec(opens="2026-05-02", closes="2026-05-01")


def test_later_than_now_is_told_now_and_changes_no_byte(tmp_path, monkeypatch):
    time = START + np.arange(66.0)
    monkeypatch.setattr(run_module.time, "time", lambda: START + 59.0)
    with pytest.warns(FutureTimesWarning, match="6 units are dated in the future"):
        early = run(tmp_path / "early", dated(time))
    with pytest.raises(SubmissionError, match="future_times: 6 units are dated in the future"):
        run(tmp_path / "strict", dated(time), strict=True)
    monkeypatch.setattr(run_module.time, "time", lambda: START + DAY)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureTimesWarning)
        late = run(tmp_path / "late", dated(time))
        monkeypatch.setattr(run_module.time, "time", lambda: START - DAY)
        run(tmp_path / "closes", dated(time), closes="2026-05-02")  # the operator said when it ends
    assert outputs(early) == outputs(late)


def test_the_command_line_tells_and_stops(tmp_path):
    places = write(tmp_path, dated(1e15 + np.arange(66.0)))  # microseconds
    words = [
        "pay",
        str(places.submissions),
        "--validation",
        str(places.validation),
        "--amount",
        "10",
        "--theta",
        "none",
    ]
    done = CliRunner().invoke(app, [*words, "--no-audit", "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "Warning: 66 units are dated in the future." in done.output
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "other"), "--strict"])
    assert isinstance(done.exception, SubmissionError)  # exit 2 where the command is typed
    done = CliRunner().invoke(
        app, [*words, "--out", str(tmp_path / "other"), "--closes", "2026-05-31", "--no-audit"]
    )
    assert "66 units are dated after the market closed (2026-05-31)" in " ".join(done.output.split())


@pytest.mark.parametrize("blank", [None, float("nan"), float("inf"), " "])
def test_rows_without_a_time_among_others_are_named(blank, tmp_path):
    columns = units()
    kind = str if blank == " " else float
    columns["time"] = [blank if i % 10 == 3 else kind(i) for i in range(66)]
    with pytest.raises(
        SubmissionError, match=r"7 of 66 rows cannot be used: time: no time \(in 7\); mend"
    ) as error:
        run(tmp_path, columns)
    assert [f"row {row}, " in str(error.value) for row in range(3, 66, 10)] == [True] * 7


SECONDS = 1_770_000_000  # the second of February 2026
LOOKS = {
    "milliseconds": ([(SECONDS + i) * 1e3 for i in range(66)], "(2026-02-02 to 2026-02-02): divide them by 1,000,"),
    "microseconds": ([(SECONDS + i) * 1e6 for i in range(66)], "microseconds since 1970"),
    "nanoseconds": ([(SECONDS + i) * 10**9 for i in range(66)], "nanoseconds since 1970"),
    "days as numbers": ([20260501 + i % 28 for i in range(66)], "dates written as one number (20260531)"),
    "a spreadsheet": ([45000.5 + i for i in range(66)], "a spreadsheet's days since 1900 (2023-03-15 to 2023-05-19)"),
}  # fmt: skip


@pytest.mark.parametrize("looks", LOOKS)
def test_numbers_that_are_no_seconds_are_taken_and_told_what_they_look_like(looks, tmp_path):
    times, says = LOOKS[looks]
    columns = {**units(), "time": times}
    assert sum(cents(run(tmp_path / "plain", columns)).values()) == 100_000
    folder = run(tmp_path / "told", columns, opens="2026-01-01", closes="2026-12-31")
    told = [w.words for w in read_warnings(folder) if w.name in ("early_times", "future_times")]
    assert len(told) == 1
    assert says in told[0]


@pytest.mark.parametrize(
    "times", [[SECONDS, SECONDS + 5], [0, 65], [1e12, 5], [20261301, 20261302], [1.5, 2.5]]
)
def test_what_may_be_seconds_is_left_alone(times):
    assert describe_time_unit(np.array(times, dtype=float)) == ""


def test_the_markets_days_are_told_how_to_be_written_too():
    with pytest.raises(ParameterError, match=r"opens = '01\.05\.2026': it looks like a date"):
        spec(opens="01.05.2026")
    with pytest.raises(ParameterError, match="closes = 'soon': write a date"):
        spec(closes="soon")
