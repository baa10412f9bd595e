"""Runs whose files were cut, emptied or edited: an error that names the file and the remedy, never a traceback."""

import json
import shutil

import pytest
from payout_files import cents, run, spec, write

from datamarket_gym.errors import DataMarketError, RunError
from datamarket_gym.execution.runs import Format, open_run
from datamarket_gym.payout import run as payout_runs
from datamarket_gym.payout.ledger.runs import run_of
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.warnings import read_warnings
from datamarket_gym.payout.what_if import without_its_evidence

NUMBERS = Format(
    ".json",
    lambda path, value: path.write_text(json.dumps(value)),
    lambda path: json.loads(path.read_text())["value"],
)


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    """A folder with a finished run and its ledger in it."""
    return run(tmp_path_factory.mktemp("whole")).parent


@pytest.fixture
def folder(market, tmp_path):
    return shutil.copytree(market, tmp_path / "copy") / "run"


def edited(folder, **changes):
    data = json.loads((folder / "manifest.json").read_text())
    for name, value in changes.items():
        if value is None:
            del data[name]
        else:
            data[name] = value
    (folder / "manifest.json").write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"outputs": None}, "has no 'outputs'"),
        ({"outputs": []}, "'outputs'"),
        ({"outputs": {"payments.csv": 7}}, r"'outputs\.payments\.csv'"),
        ({"outputs": {"payments.csv": {"sha256": "a"}}}, r"has no 'outputs\.payments\.csv\.bytes'"),
        ({"amount": "100"}, "'amount'"),
        ({"run": None}, "has no 'run'"),
        ({"inputs": {"submissions": "x"}}, r"'inputs\.submissions'"),
        ({"opening_balances": {"anna": "5"}}, r"'opening_balances\.anna'"),
        ({"spec": "none"}, "'spec'"),
        ({"versions": None}, "has no 'versions'"),
        ({"currency": 5}, "'currency'"),
    ],
    ids=str,
)
def test_a_manifest_without_something_is_said_to_be_damaged(changes, says, folder):
    edited(folder, **changes)
    with pytest.raises(
        DataMarketError, match=rf"manifest\.json' is damaged.*{says}.*restore it from a copy"
    ):
        read_manifest(folder)
    with pytest.raises(DataMarketError, match=says):
        verify(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", "\x00\x01", '{"format": 99}'])
def test_a_manifest_that_is_none_is_said_so(text, folder):
    (folder / "manifest.json").write_text(text)
    for use in (read_manifest, verify, run_of):
        with pytest.raises(DataMarketError, match=r"manifest\.json"):
            use(folder)
    with pytest.raises(DataMarketError, match=r"manifest\.json|holds another run"):
        pay(write(folder.parent / "again"), spec(), folder)


@pytest.mark.parametrize("text", ["{}", '[{"name": "leak"}]', "[7]", "["])
def test_damaged_warnings_are_named(text, folder):
    (folder / "warnings.json").write_text(text if text != "{}" else '{"a": 1}')
    with pytest.raises(RunError, match=r"warnings\.json"):
        read_warnings(folder)


def killed(tmp_path, monkeypatch):
    """A payout_run that was killed before its report; its places and its folder."""

    def dies(*_):
        raise KeyboardInterrupt

    places = write(tmp_path / "in")
    with monkeypatch.context() as patched:
        patched.setattr(payout_runs, "write_report", dies)
        with pytest.raises(KeyboardInterrupt):
            pay(places, spec(), tmp_path / "run")
    assert (tmp_path / "run" / ".state").is_dir()
    return places, tmp_path / "run"


def test_a_state_of_which_every_file_was_cut_is_worked_out_again(market, tmp_path, monkeypatch):
    places, out = killed(tmp_path, monkeypatch)
    for path in (out / ".state").rglob("*.done"):
        path.write_bytes(b"\xff\xfe")
    pay(places, spec(), out)
    assert cents(out) == cents(market / "run")


def test_a_cut_mark_of_the_run_says_what_to_delete(tmp_path, monkeypatch):
    places, out = killed(tmp_path, monkeypatch)
    for text in ("", '{"run": "ab'):
        (out / ".state" / "run.json").write_text(text)
        with pytest.raises(RunError, match=r"run\.json' cannot be read.*delete the folder '.*\.state'"):
            pay(places, spec(), out)
    shutil.rmtree(out / ".state")
    (out / ".state").write_text("")
    with pytest.raises(
        RunError, match=r"\.state' is a file where the folder of the steps must be; delete it"
    ):
        pay(places, spec(), out)
    (out / ".state").unlink()
    (out / ".state").mkdir()
    assert pay(places, spec(), out)["run"]


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", "7"])
def test_a_cut_step_is_named_and_computed_again_once_it_is_gone(text, tmp_path):
    def work():
        with open_run(tmp_path / "run", "key", "run", "1", lasting="steps") as opened:
            return opened.steps(lambda shared, i: {"value": i}, None, {"a": (1,)}, NUMBERS)

    assert work() == [1]
    (step,) = (tmp_path / "run" / "steps").glob("a-*.json")
    step.write_text(text)
    with pytest.raises(RunError, match=r"is damaged .*; delete it, it will be computed again"):
        work()
    step.unlink()
    assert work() == [1]


def test_records_that_were_cut_between_a_kill_and_the_next_run_are_made_again(
    market, tmp_path, monkeypatch
):
    places, out = killed(tmp_path, monkeypatch)
    for path in (out / "records").iterdir():
        path.write_bytes(path.read_bytes()[:50])
    (out / "threshold.json").unlink()
    (out / "threshold.json").mkdir()
    with pytest.raises(RunError, match=r"threshold\.json"):
        pay(places, spec(), out)
    (out / "threshold.json").rmdir()
    pay(places, spec(), out)
    assert cents(out) == cents(market / "run")


@pytest.mark.parametrize("name", ["payments.parquet", "warnings.json"])
@pytest.mark.parametrize("how", ["cut", "empty", "gone", "a folder"])
def test_a_finished_run_whose_payments_were_changed_is_not_entered(name, how, folder):
    """Between its manifest and the ledger a run lies open: what was changed there must not be paid."""
    path = folder / name
    text = path.read_bytes()
    path.unlink()
    if how == "a folder":
        path.mkdir()
    elif how != "gone":
        path.write_bytes(text[:20] if how == "cut" else b"")
    with pytest.raises(
        DataMarketError, match=rf"{name}' is missing or not as the run left it; run verify"
    ):
        pay(write(folder.parent / "in"), spec(), folder)


def test_a_record_that_became_a_folder_is_said_to_be_missing(folder):
    (folder / "records" / "matches.npz").unlink()
    (folder / "records" / "matches.npz").mkdir()
    with pytest.raises(DataMarketError, match=r"matches\.npz' is missing or not as the run left it"):
        without_its_evidence(folder, "seller 1")
