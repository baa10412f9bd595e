"""What somebody tries who wants the operator's files, passwords or money, by a link or by a folder that they made."""

import csv
import io
import json
import shutil
import socket
from dataclasses import replace

import pytest
from job_answers import followed

from datamarket_gym.errors import UnknownNameError
from datamarket_gym.execution.files import read_json
from datamarket_gym.explorer.files import OutsideFolders
from datamarket_gym.explorer.payout.runs import require_openable_inputs, require_openable_log
from datamarket_gym.payout.ledger.runs import ledger_of, run_of
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.names import csv_safe, visible
from datamarket_gym.utilities.sklearn import estimator_named
from explorer.payout_story import market
from payout.payout_files import units

CALLS = "sklearn@subprocess.getoutput(cmd='touch {}')"
CHECKS = "/api/payout/checks"
NAMES = [
    "plain", "=1+1", "a;=1+1", "a,@b", "a\tb\t-c", "\u200b=x", " \" +x", "\uff1dx", "'quoted", "a\n=b", "Bob\ufe0f",
    "\u17b4Bob", "Bob\u202ereLL\u00fcM", "\U000e0101x", "\u3164", "a\u00adb", "x-y", "a = b", "M\u00fcller",
]  # fmt: skip
"""What names are written as in downloads, and on pages: the library has a rule for each."""


@pytest.fixture
def june(tmp_path):
    return market(tmp_path / "market", checks=0)


@pytest.fixture
def server():
    """A port at which an attacker waits for somebody's password."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        yield listening


def address(server):
    return f"postgresql://operator@127.0.0.1:{server.getsockname()[1]}/ledger?connect_timeout=2"


def rewritten(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


class TestCodeInSettings:
    """A link to the page of a new payout run holds its settings, and the page asks at once whether they are good."""

    def test_nothing_is_called(self, tmp_path, client):
        asked = client()
        body = {"values": {"amount": "1", "learner": CALLS.format(tmp_path / "stolen")}}
        for path, sent in (("settings", body), ("check", body), ("dry-run", body)):
            refused = asked.post(f"/api/payout/new/{path}", json=sent)
            assert refused.status_code == 422, path
            assert "names a module" in refused.json()["error"]
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "learner", ["coverage@0.9", "knn@3", "sklearn@DecisionTreeClassifier(max_depth=2)"]
    )
    def test_what_is_no_code_is_taken(self, client, learner):
        body = {"values": {"amount": "1", "learner": learner}}
        assert client().post("/api/payout/new/settings", json=body).json()["faults"] == {}

    @pytest.mark.parametrize("name", ["out", "files.images", "columns.image", "columns", "linkage"])
    def test_nor_is_anything_that_the_page_does_not_show(self, client, name):
        body = {"values": {"amount": "1", name: "7"}}
        assert client().post("/api/payout/new/settings", json=body).status_code == 422

    @pytest.mark.parametrize("name", ["subprocess.getoutput(cmd='true')", "os.getcwd", "pathlib.Path"])
    def test_a_model_is_a_class_that_can_be_fitted(self, name):
        with pytest.raises(UnknownNameError, match="scikit-learn"):
            estimator_named(name)
        assert estimator_named("sklearn.tree.DecisionTreeClassifier(max_depth=2)").max_depth == 2

    def test_nor_by_the_settings_of_a_run(self, june, client, tmp_path):
        said = read_json(june / "manifest.json")["spec"]
        rewritten(june / "manifest.json", spec={**said, "learner": CALLS.format(tmp_path / "stolen")})
        asked = client(june.parent)
        for path in ("run?run=market/june", "checks/state?run=market/june"):
            assert followed(asked, asked.get(f"/api/payout/{path}")).status_code == 422
        assert not (tmp_path / "stolen").exists()


class TestServersThatAFolderNames:
    def test_no_page_connects_to_the_ledger_of_a_run(self, june, client, server):
        rewritten(june / "ledger.json", ledger=address(server))
        asked = client(june.parent)
        for path in ("runs", "run?run=market/june", "new/form", "checks/state?run=market/june"):
            followed(asked, asked.get(f"/api/payout/{path}"))
        with pytest.raises(TimeoutError):
            server.accept()

    def test_nor_to_its_intake_log(self, june, client, server, tmp_path):
        places, record = client(june.parent).site.places, run_of(june)
        for log in (address(server), str(tmp_path / "elsewhere.sqlite")):
            with pytest.raises(OutsideFolders):
                require_openable_log(places, replace(record, places={**record.places, "intake": log}))
        require_openable_log(
            places, replace(record, places={**record.places, "intake": str(ledger_of(june).path)})
        )


class TestFilesElsewhere:
    @pytest.mark.parametrize("way", ["{}", "{}/x://..", "{}/../in#/../../secret"])
    def test_settings_of_a_run_lead_nowhere_else(self, june, client, tmp_path, way):
        secret = tmp_path / "secret"
        secret.mkdir()
        (june.parent / "in#").mkdir()
        said = read_manifest(june)["spec"]
        said["files"]["images"] = way.format(secret)
        if "in#" in way:
            said["files"]["images"] = f"{june.parent}/in#/../../secret"
        rewritten(june / "manifest.json", spec=said)
        with pytest.raises(OutsideFolders):
            require_openable_inputs(client(june.parent).site.places, june)

    @pytest.mark.parametrize("name", ["manifest.json", "payments.parquet", "records"])
    def test_files_of_a_run_that_are_links(self, june, client, tmp_path, name):
        shutil.move(june / name, tmp_path / name)
        (june / name).symlink_to(tmp_path / name)
        asked = client(june.parent)
        for path in ("run?run=market/june", "table?run=market/june&table=payments"):
            assert asked.get(f"/api/payout/{path}").status_code == 403
        assert "outside" in asked.get("/api/payout/runs").json()["runs"][0]["broken"]

    def test_inputs_elsewhere_are_not_read_for_any_step(self, june, client, tmp_path):
        """Named without its tables, a run can be looked at; what opens the tables says what to name."""
        asked = client(june)
        token, run = asked.site.token.text, run_of(june).run
        assert followed(asked, asked.get(f"{CHECKS}/state?run=june")).status_code == 200
        for path, more in (
            ("sample", {"beacon": "1"}),
            ("settle", {}),
            ("approve", {"token": token, "shown": run}),
        ):
            refused = asked.post(f"{CHECKS}/{path}", json={"run": "june", "by": "attacker", **more})
            assert refused.status_code == 403, path
            assert "command line" in refused.json()["error"]

    def test_results_that_are_links(self, client, tmp_path):
        for name, folder in (("mine", tmp_path / "named"), ("stolen", tmp_path / "secret")):
            folder.mkdir()
            (folder / f"{name}.json").write_text('{"name": "x", "seeds": [0, 1]}')
        (tmp_path / "named" / "stolen.json").symlink_to(tmp_path / "secret" / "stolen.json")
        asked = client(tmp_path / "named")
        found = asked.get("/api/benchmark/experiments?result=named").json()["experiments"]
        assert [each["name"] for each in found] == ["mine"]


def test_another_run_than_the_one_that_was_shown_is_not_approved(june, client):
    asked = client(june.parent)
    state = followed(asked, asked.get(f"{CHECKS}/state?run=market/june")).json()
    body = {
        "run": "market/june", "shown": state["run"], "by": "boss", "token": asked.site.token.text,
        "accept": [each["name"] for each in state["approval"]["warnings"]],
    }  # fmt: skip
    away = june.with_name("away")
    june.rename(away)
    market(june.parent, checks=0, submitted=units(48, 3, seed=9))
    refused = followed(asked, asked.post(f"{CHECKS}/approve", json=body))
    assert refused.status_code == 422
    assert "another run" in refused.json()["error"]
    for path, more in (("paid", {"reference": "7"}), ("export", {"export": {}})):
        sent = {key: value for key, value in body.items() if key != "accept"} | more
        assert (
            "another run" in followed(asked, asked.post(f"{CHECKS}/{path}", json=sent)).json()["error"]
        )


def test_pages_write_names_as_the_library_does(served, page):
    page.goto(f"{served()}/payout")
    page.wait_for_selector("main[data-ready=payout]")
    asked = """async (names) => {
        const [files, dom] = await Promise.all([import('/static/lib/files.js'), import('/static/lib/dom.js')]);
        const rows = names.map((name) => ({ name }));
        return [files.csvOf({ columns: ['name'], rows }), names.map(dom.seen)];
    }"""
    table, seen = page.evaluate(asked, NAMES)
    assert seen == [visible(name) for name in NAMES]
    cells = [row[0] for row in csv.reader(io.StringIO(table, newline=""))][1:]
    assert cells == [csv_safe(name) for name in NAMES]


def test_a_report_that_somebody_made_fetches_nothing(served, page, june):
    """It may show what it likes under the explorer's address, a field for the token too."""
    at = served(june.parent)
    tried = """async (at) => {
        const gone = await Promise.allSettled([fetch(`${at}/api/site`), fetch('http://127.0.0.1:9/stolen')]);
        return [gone.map((each) => each.status), self.origin, Boolean(window.opener)];
    }"""
    page.watch.expected += ["Content Security Policy", "fetch", "failed", "CSP"]
    page.goto(f"{at}/api/payout/file?run=market/june&name=report.html")
    assert page.evaluate(tried, at) == [["rejected", "rejected"], "null", False]
