"""What the explorer says of runs: the numbers of the files, the words of the command line, and no file beyond."""

import csv
import json
import shutil
from dataclasses import asdict

import pytest
from job_answers import followed
from run_markets import MARKUP, TURNED, market, payments_csv

from datamarket_gym.execution.progress import SILENT
from datamarket_gym.explorer.payout.payees import what_if
from datamarket_gym.explorer.payout.runs import SANDBOX, recompute
from datamarket_gym.payout.explain import explain
from datamarket_gym.payout.ledger.disputes import open_dispute
from datamarket_gym.payout.ledger.runs import ledger_of, ledger_warnings, run_of
from datamarket_gym.payout.statements.page import file_name
from datamarket_gym.payout.verify import verify
from datamarket_gym.payout.what_if import without_its_evidence


@pytest.fixture(scope="module")
def months(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place") / "market"
    market(folder)
    return folder


@pytest.fixture
def asking(lasting_client, months):
    """Asks the explorer of the market; the answer as JSON, and an error where there is one."""
    made = lasting_client(months)

    def get(path, body=None, status=200, **params):
        sent = (
            made.get(f"/api/payout/{path}", params=params)
            if body is None
            else made.post(f"/api/payout/{path}", json=body)
        )
        found = followed(made, sent)
        assert found.status_code == status, found.text
        return found.json() if "json" in found.headers["content-type"] else found

    return get


def test_the_list_names_runs_states_and_ledgers(asking):
    found = asking("runs")
    told = {run["run"]: run for run in found["runs"]}
    assert (told["market/may"]["state"], told["market/may"]["amount"]) == ("approved", "EUR 1,000.00")
    assert (told["market/june"]["state"], told["market/june"]["payees"]) == ("draft", 6)
    assert told["market/may"]["warnings"] == ["loses_half"]
    assert [ledger["runs"] for ledger in found["ledgers"]] == [2]


def test_a_broken_run_says_why_and_keeps_nobody_from_the_others(client, months, tmp_path):
    shutil.copytree(months, tmp_path / "copy")
    (tmp_path / "copy" / "june" / "manifest.json").write_text("{}")
    made = client(tmp_path / "copy")
    found = {run["run"]: run for run in followed(made, made.get("/api/payout/runs")).json()["runs"]}
    assert not found["copy/may"]["broken"]
    assert "manifest" in found["copy/june"]["broken"]


def test_payments_are_those_of_the_csv_file(asking, months):
    found = asking("table", table="payments", run="market/june")
    rows = payments_csv(months / "june")
    assert [row["identity"] for row in found["rows"]] == list(rows)
    for row in found["rows"]:
        said = rows[row["identity"]]
        for key in ("payment", "low", "high", "without_evidence"):
            assert row[key].replace(",", "") == said[key]
        assert str(row["units"]) == said["units"]


def test_payments_are_searched_and_ordered(asking, months):
    rows = payments_csv(months / "june")
    low = asking("table", table="payments", run="market/june", sort="low")["rows"]
    assert [row["identity"] for row in low] == sorted(rows, key=lambda name: float(rows[name]["low"]))
    found = asking(
        "table", table="payments", run="market/june", search="SELLER", sort="identity", down=True
    )
    assert [row["identity"] for row in found["rows"]] == ["seller 4", "seller 3", "seller 2"]
    assert (found["found"], found["in_all"]) == (3, 6)
    assert asking("table", table="payments", run="market/june", page=7)["page"] == 0
    assert (
        "choose one of"
        in asking("table", table="payments", run="market/june", sort="run", status=422)["error"]
    )


def test_the_page_says_what_comes_next(asking):
    june, may = asking("run", run="market/june"), asking("run", run="market/may")
    assert june["next"]["page"] == "checks"
    assert (may["next"]["page"], may["ledger"]) == ("checks", "market/ledger.sqlite")
    assert [each["name"] for each in may["warnings"]] == ["loses_half"]
    assert ["amount", "EUR 1,500.00"] in june["facts"]
    assert not any(each["gone"] for each in june["inputs"])


def test_why_is_the_library_s_explanation(asking, months):
    found = asking("why", run="market/june", payee="attacker")
    assert found["record"] == json.loads(json.dumps(asdict(explain(months / "june", "attacker", 20))))
    assert found["reasons"]["exact_hash"][0] == "identical content"
    assert (
        "did you mean attacker" in asking("why", run="market/june", payee="atacker", status=422)["error"]
    )


def test_units_are_those_of_the_csv_file(asking, months):
    with (months / "june" / "units.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    every = asking("table", table="units", run="market/june")
    assert every["in_all"] == len(rows)
    assert [row["amount"] for row in every["rows"]] == [row["amount"] for row in rows[:50]]
    one = next(row for row in rows if row["payee"] == "attacker" and row["matched_to"])
    found = asking("table", table="units", run="market/june", search=one["unit"])["rows"]
    assert one["matched_to"] in [row["matched_to"] for row in found]
    mine = asking("table", table="units", run="market/june", search="ATTACKER", sort="amount", down=True)
    assert {row["payee"] for row in mine["rows"]} == {"attacker"}
    amounts = [float(row["amount"]) for row in mine["rows"]]
    assert amounts == sorted(amounts, reverse=True)
    assert asking("table", table="units", run="market/june", search="nobody at all")["rows"] == []


def test_contents_are_those_of_the_inputs(asking, months):
    asked = {"run": "market/june", "payee": "attacker"}
    units = asking("contents", body=asked)["units"]
    matches = asking("why", run="market/june", payee="attacker")["record"]["matches"]
    assert set(units) == {match[end] for match in matches for end in ("unit", "other")}
    assert units[matches[0]["unit"]]["figures"] == units[matches[0]["other"]]["figures"]


def test_verify_says_what_the_library_says(asking, months):
    found = asking("verify", body={"run": "market/may"})
    assert found["checks"] == [check._asdict() for check in verify(months / "may")]
    assert found["good"]


def test_what_takes_long_asks_the_library(asking, months):
    # In this process: the pages' tests have it done in one of its own.
    found = recompute(months / "may", progress=SILENT)
    assert found["good"]
    assert "payments.parquet, recomputed" in [check["what"] for check in found["checks"]]
    paid = what_if(months / "june", "attacker", progress=SILENT)["minor"]
    assert paid == without_its_evidence(months / "june", "attacker")
    assert "nowhere" in asking("recompute", body={"run": "nowhere"}, status=404)["error"]
    assert "nowhere" in asking("what-if", body={"run": "nowhere", "payee": "x"}, status=404)["error"]


def test_a_report_has_no_rights_here(asking, months):
    page = asking("file", run="market/may", name="report.html")
    assert page.headers["content-security-policy"] == SANDBOX
    assert page.content == (months / "may" / "report.html").read_bytes()
    table = asking("file", run="market/may", name="payments.csv")
    assert table.content == (months / "may" / "payments.csv").read_bytes()
    assert table.headers["content-disposition"] == 'attachment; filename="may-payments.csv"'


@pytest.mark.parametrize(
    "name",
    ["../ledger.sqlite", "/etc/passwd", "ledger.json", "records/../../ledger.sqlite", "statements/../manifest.json",
     "..\\ledger.sqlite", "", "payments.csv\x00.html", "statements/attacker-8dd29add9992f700.html"],
)  # fmt: skip
def test_files_beyond_the_run_are_not_shown(asking, name):
    assert "error" in asking("file", run="market/may", name=name, status=404)


@pytest.mark.parametrize("run", ["../market/may", "market/../market/may", "/", "market", "", "nowhere"])
def test_runs_beyond_those_named_are_not_shown(asking, run):
    for path in ("run", "table"):
        assert "there is no payout run" in asking(path, run=run, status=404)["error"]


def test_a_link_out_of_the_run_is_not_followed(client, months, tmp_path):
    shutil.copytree(months, tmp_path / "market")
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    inside = tmp_path / "market" / "may" / "threshold.json"
    inside.unlink()
    inside.symlink_to(secret)
    made = client(tmp_path / "market")
    found = made.get("/api/payout/file", params={"run": "market/may", "name": "threshold.json"})
    assert found.status_code == 403


def test_what_the_manifest_names_is_believed_only_if_runs_write_it(client, months, tmp_path):
    shutil.copytree(months, tmp_path / "market")
    path = tmp_path / "market" / "may" / "manifest.json"
    said = json.loads(path.read_text())
    said["outputs"]["../ledger.sqlite"] = {"sha256": "0" * 64, "bytes": 1}
    path.write_text(json.dumps(said))
    made = client(tmp_path / "market")
    found = made.get("/api/payout/file", params={"run": "market/may", "name": "../ledger.sqlite"})
    assert found.status_code == 404


def test_an_approved_run_shows_the_warnings_that_were_accepted(client, months, tmp_path):
    """What comes up in the ledger later does not stand before an approval that was given."""
    shutil.copytree(months, tmp_path / "market")
    made = client(tmp_path / "market")
    may = tmp_path / "market" / "may"
    open_dispute(ledger_of(may), run_of(may).run, "attacker", "one unit is missing", by="boss")
    accounts = ledger_of(may).accounts()
    record = run_of(may, accounts)
    assert [warning.name for warning in ledger_warnings(accounts, record)] == ["disputes"]
    found = followed(made, made.get("/api/payout/run", params={"run": "market/may"})).json()
    assert [warning["name"] for warning in found["warnings"]] == ["loses_half"]
    state = followed(made, made.get("/api/payout/checks/state", params={"run": "market/may"})).json()
    assert [warning["name"] for warning in state["approval"]["warnings"]] == ["loses_half"]


class TestChangedRuns:
    @pytest.fixture
    def copy(self, client, months, tmp_path):
        shutil.copytree(months, tmp_path / "market")
        return tmp_path / "market", client(tmp_path / "market")

    def test_a_changed_table_is_told_in_words(self, copy):
        folder, made = copy
        with (folder / "may" / "payments.parquet").open("ab") as file:
            file.write(b"x")
        for path, more in (("table", {"table": "payments"}), ("why", {"payee": "attacker"})):
            found = followed(made, made.get(f"/api/payout/{path}", params={"run": "market/may", **more}))
            assert found.status_code == 422
            assert "not as the run left it" in found.json()["error"]
        checks = followed(made, made.post("/api/payout/verify", json={"run": "market/may"})).json()
        assert not checks["good"]
        assert "payments.parquet" in [check["what"] for check in checks["checks"] if not check["good"]]

    def test_a_changed_report_is_not_opened(self, copy):
        folder, made = copy
        path = folder / "may" / "report.html"
        path.write_text(path.read_text().replace("</main>", "<script>alert(1)</script></main>"))
        found = made.get("/api/payout/file", params={"run": "market/may", "name": "report.html"})
        assert found.status_code == 422
        assert "not as the run left it" in found.json()["error"]

    def test_inputs_elsewhere_are_not_read(self, copy):
        _, made = copy  # its ledger names the inputs of the first market, which is not on show
        asked = {"run": "market/june", "payee": "attacker"}
        found = followed(made, made.post("/api/payout/contents", json=asked))
        assert found.status_code in (403, 422)
        assert "lies outside" in found.json()["error"]


def test_names_stay_names(asking, months):
    for name in (MARKUP, TURNED):
        found = asking("why", run="market/june", payee=name)
        assert found["identity"] == name
        page = asking("statements", run="market/june", payee=name)
        assert file_name(name) in page.headers["content-disposition"]
        assert "<img" not in page.text
        assert "\u202e" not in page.text
