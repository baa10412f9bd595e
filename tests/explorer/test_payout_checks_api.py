"""From a draft to its payment over the pages' own requests: the same entries as by the library, and what is refused."""

import hashlib
import threading
import time

import pytest
from job_answers import followed

from datamarket_gym.execution.files import sha256
from datamarket_gym.execution.progress import SILENT
from datamarket_gym.explorer import security as token_module
from datamarket_gym.explorer.payout.checks import approve
from datamarket_gym.payout.checks.draw import read_checks
from datamarket_gym.payout.checks.outcomes import answers_of
from datamarket_gym.payout.checks.plan import PlanRequest, preview_plan
from datamarket_gym.payout.ledger.runs import ledger_of, run_of
from explorer.payout_story import accounts_of, by_library, entries, looker, market, told

API = "/api/payout/checks"


@pytest.fixture
def june(tmp_path):
    """A draft that asks for two checks of each payee."""
    return market(tmp_path / "market")


def bytes_of(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def state(asked, run="market/june", by=""):
    return told(asked, asked.get(f"{API}/state", params={"run": run, "by": by}))


def planned(asked, run="market/june", beacon="block 1"):
    wishes = {"announce": f"the hash of {beacon}"}
    body = {"run": run, "by": "planner", "plan": wishes}
    assert told(asked, asked.post(f"{API}/sample", json=body))["drawn"] is False
    body = {"run": run, "by": "drawer", "beacon": beacon}
    assert told(asked, asked.post(f"{API}/sample", json=body))["drawn"] is True
    return state(asked, run)


def answer(asked, found, false=(), run="market/june"):
    answers = [
        {
            "number": check["number"], "outcome": "false" if check["payee"] in false else "genuine",
            "note": "seen", "by": looker(check["nth"], check["before"]),
        }
        for check in found["checks"]
    ]  # fmt: skip
    body = {"run": run, "by": "recorder", "answers": answers}
    return told(asked, asked.post(f"{API}/record", json=body))


def test_the_story_makes_the_entries_of_the_command_line(june, tmp_path, client):
    asked = client(june.parent)
    token = asked.site.token.text
    first = planned(asked)
    loser = first["checks"][0]["payee"]
    assert answer(asked, first, false=[loser])["refused"] == {}
    seen = told(asked, asked.post(f"{API}/settling", json={"run": "market/june"}))
    assert seen["failed"] == [loser]
    assert seen["name"] == "june-2"
    body = {"run": "market/june", "by": "settler", "name": "june-2"}
    settled = told(asked, asked.post(f"{API}/settle", json=body))
    assert settled["new"] == "june-2"
    assert loser in settled["words"][0]
    assert state(asked)["later"]["id"] == "market/june-2"
    second = planned(asked, "market/june-2", "block 2")
    if second["checks"]:
        assert answer(asked, second, run="market/june-2")["refused"] == {}
    settled = told(asked, asked.post(f"{API}/settle", json={"run": "market/june-2", "by": "settler"}))
    assert settled["checked"]
    now = state(asked, "market/june-2")
    accepted = [warning["name"] for warning in now["approval"]["warnings"]]
    shown = now["run"]
    body = {"run": "market/june-2", "shown": shown, "by": "boss", "accept": accepted, "token": token}
    assert told(asked, asked.post(f"{API}/approve", json=body))["words"] == "approved"
    accounts = accounts_of(tmp_path, [line.identity for line in run_of(june).lines])
    kept = asked.post(
        "/api/uploads?name=accounts.csv",
        content=accounts.read_bytes(),
        headers={"content-type": "application/octet-stream"},
    ).json()["id"]
    export = {"accounts": kept, "name": "Market", "account": "DE89370400440532013000"}
    body = {"run": "market/june-2", "shown": shown, "by": "banker", "token": token, "export": export}
    file = told(asked, asked.post(f"{API}/export", json=body))
    assert file == {**told(asked, asked.post(f"{API}/export", json=body)), "again": False}
    body = {**body, "reference": "transfer 7"}
    body.pop("export")
    assert told(asked, asked.post(f"{API}/paid", json=body))["words"] == "marked as paid"
    assert state(asked, "market/june-2")["state"] == "paid"

    other, xml = by_library(tmp_path / "elsewhere" / "market", [loser], accounts)
    assert entries(ledger_of(june)) == entries(ledger_of(other))
    assert ordered(file["text"]) == ordered(xml)


def ordered(message):
    """To which account each transfer of a message goes, and how much: ids and days differ from story to story."""
    return [part for part in message.split("><") if part.startswith(("InstdAmt", "IBAN"))]


def test_looking_changes_nothing(june, client):
    asked = client(june.parent)
    planned(asked)
    before = bytes_of(june.parent)
    ledger = asked.get("/api/site").json()["places"]["ledgers"][0]
    payee = run_of(june).lines[0].identity
    for path, params in (
        (f"{API}/state", {"run": "market/june", "by": "me"}),
        (f"{API}/unit", {"run": "market/june", "number": 1}),
        ("/api/payout/statements", {"run": "market/june"}),
        ("/api/payout/statements", {"run": "market/june", "payee": payee}),
        ("/api/payout/ledger/overview", {"ledger": ledger}),
        ("/api/payout/ledger/payees", {"ledger": ledger}),
        ("/api/payout/ledger/entries", {"ledger": ledger}),
        ("/api/payout/ledger/payee", {"ledger": ledger, "payee": payee}),
        ("/api/payout/ledger/statement", {"ledger": ledger, "payee": payee}),
        ("/api/payout/ledger/statement", {"ledger": ledger, "payee": payee, "form": "csv"}),
    ):
        assert followed(asked, asked.get(path, params=params)).status_code == 200, path
    for name in ("sample", "record", "settle", "approve", "paid", "export"):
        refused = asked.get(
            f"{API}/{name}", params={"run": "market/june", "token": asked.site.token.text}
        )
        assert refused.status_code == 405, name
    body = {"run": "market/june", "plan": {"checks": 5, "price": "2.50"}}
    found = told(asked, asked.post(f"{API}/preview", json=body))
    wanted = preview_plan(june, PlanRequest(checks=5, price="2.50")).rows("EUR")
    assert [tuple(row) for row in found["rows"]] == wanted
    told(
        asked,
        asked.post(f"{API}/settling", json={"run": "market/june", "settling": {"unanswered": "false"}}),
    )
    for which in ("payee", "statement"):  # a day that is none is told
        at = {"ledger": ledger, "payee": payee, "until": "June"}
        said = asked.get(f"/api/payout/ledger/{which}", params=at)
        assert (said.status_code, said.json()["error"].startswith("until: ")) == (422, True)
    assert bytes_of(june.parent) == before


def test_approving_needs_the_token_typed_by_its_own_page(june, client, monkeypatch):
    monkeypatch.setattr(token_module, "_WAIT", 0.2)
    asked = client(june.parent)
    before, token = sha256(june.parent / "ledger.sqlite"), asked.site.token.text
    body = {"run": "market/june", "shown": run_of(june).run, "by": "boss", "accept": []}
    for path in ("approve", "paid", "export"):
        more = {"paid": {"reference": "x"}, "export": {"export": {}}}.get(path, {})
        sent = {**body, **more}
        if path != "approve":
            sent.pop("accept")
        began = time.monotonic()
        wrong = asked.post(f"{API}/{path}", json={**sent, "token": "wrong"})
        assert time.monotonic() - began > 0.19  # whoever guesses waits
        assert wrong.status_code == 403
        assert "token" in wrong.json()["error"]
        in_url = asked.post(f"{API}/{path}?token={token}", json=sent)
        assert in_url.status_code == 422
        other = asked.post(
            f"{API}/{path}", json={**sent, "token": token}, headers={"origin": "http://evil.example"}
        )
        assert other.status_code == 403
        form = asked.post(
            f"{API}/{path}", data={**body, "token": token}, headers={"origin": "http://evil.example"}
        )
        assert form.status_code == 403
    assert sha256(june.parent / "ledger.sqlite") == before


def test_two_browsers_lose_no_answer(june, client):
    asked = client(june.parent)
    found = planned(asked)
    halves = [found["checks"][::2], found["checks"][1::2]]
    wrong = []

    def browser(checks):
        for check in checks:
            by = looker(check["nth"], check["before"])
            given = {"number": check["number"], "outcome": "genuine", "by": by}
            body = {"run": "market/june", "by": by, "answers": [given]}
            got = followed(asked, asked.post(f"{API}/record", json=body))
            if got.status_code != 200 or got.json()["refused"]:
                wrong.append(got.text)

    threads = [threading.Thread(target=browser, args=(half,)) for half in halves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert set(answers_of(june)) == {draw.number for draw in read_checks(june).draws}


def test_a_table_of_answers_is_recorded_whole_or_not_at_all(june, client):
    asked = client(june.parent)
    checks = planned(asked)["checks"]

    def recorded(outcome, correct=False, most=None):
        rows = [f"{c['number']},{outcome},{looker(c['nth'], c['before'])}" for c in checks[:most]]
        sent = asked.post(
            "/api/uploads",
            params={"name": "from the field.csv"},
            content="\n".join(["number,outcome,by", *rows]).encode(),
            headers={"content-type": "application/octet-stream"},
        )
        body = {"run": "market/june", "by": "recorder", "upload": sent.json()["id"], "correct": correct}
        return followed(asked, asked.post(f"{API}/record-table", json=body))

    refused = recorded("perhaps")
    assert (refused.status_code, answers_of(june)) == (422, {})
    assert "from the field.csv" in refused.json()["error"]
    assert recorded("genuine").json()["words"].startswith(f"{len(checks)} new answers")
    assert set(answers_of(june)) == {check["number"] for check in checks}
    assert recorded("false", most=1).status_code == 422
    assert recorded("false", correct=True, most=1).status_code == 200
    assert answers_of(june)[checks[0]["number"]].outcome == "false"


def test_an_answer_that_was_not_seen_is_not_written_over(june, client):
    asked = client(june.parent)
    single = next(check for check in planned(asked)["checks"] if check["times"] == 1)
    number = single["number"]

    def give(outcome, by, seen=None):
        given = {"number": number, "outcome": outcome, "by": by, "seen": seen}
        body = {"run": "market/june", "by": by, "answers": [given]}
        return told(asked, asked.post(f"{API}/record", json=body))

    assert give("genuine", "ann")["new"] == 1
    refused = give("false", "ben")
    assert "ann answered this check meanwhile" in refused["refused"][str(number)]
    assert answers_of(june)[number].outcome == "genuine"
    seen = {"outcome": "genuine", "note": "", "by": "ann"}
    assert give("false", "ben", seen)["refused"] == {}
    assert give("false", "ben", seen)["new"] == 0  # pressed twice
    assert answers_of(june)[number].outcome == "false"
    assert [e.kind for e in run_of(june).history].count("answers") == 2
    unknown = give("perhaps", "ben")
    assert "perhaps" in unknown["refused"][str(number)]


def test_who_looks_second_is_not_told_what_the_first_found(june, client):
    asked = client(june.parent)
    found = told_twice(asked)
    number = str(found["number"])
    body = {
        "run": "market/june", "by": "ann",
        "answers": [{"number": found["number"], "outcome": "genuine", "by": "ann", "note": "the licence is there"}],
    }  # fmt: skip
    told(asked, asked.post(f"{API}/record", json=body))
    assert state(asked, by="ann")["answers"][number]["outcome"] == "genuine"
    hidden = state(asked, by="ben")["answers"][number]
    assert hidden == {"outcome": "answered", "note": "", "by": "ann", "secret": True}
    again = found["number"] + 1
    body = {
        "run": "market/june",
        "by": "ann",
        "answers": [{"number": again, "outcome": "genuine", "by": "ann"}],
    }
    other = next(c["number"] for c in state(asked)["checks"] if c["times"] == 1)
    body["answers"].append({"number": other, "outcome": "genuine", "by": "ann"})
    got = told(asked, asked.post(f"{API}/record", json=body))
    assert (list(got["refused"]), got["new"]) == ([str(again)], 1)
    assert "checked it before" in got["refused"][str(again)]
    assert [e.kind for e in run_of(june).history].count("answers") == 2  # one for each recording
    for number, by, refused in ((again, "ben", False), (found["number"], "ben", True)):
        seen = {"outcome": "answered", "by": "ann"} if refused else None
        given = {"number": number, "outcome": "genuine", "by": by, "seen": seen}
        body = {"run": "market/june", "by": by, "answers": [given]}
        got = told(asked, asked.post(f"{API}/record", json=body))
        assert (str(number) in got["refused"]) is refused  # ben has made the other check of this unit


def told_twice(asked):
    """A check of a unit that was drawn twice."""
    body = {"run": "market/june", "by": "p", "plan": {"checks": 12}}
    told(asked, asked.post(f"{API}/sample", json=body))
    return next(c for c in state(asked)["checks"] if c["times"] > 1 and c["nth"] == 1)


def test_two_people_approve_and_one_cannot_for_both(tmp_path, client):
    run = market(tmp_path / "market", checks=0)
    asked = client(run.parent)
    token = asked.site.token.text
    ledger = asked.get("/api/site").json()["places"]["ledgers"][0]
    rules = {
        "ledger": ledger, "once": "once-upon-a-time", "token": token,
        "action": {"action": "rules", "by": "boss", "approvals": 2},
    }  # fmt: skip
    assert (
        "2 people approve" in told(asked, asked.post("/api/payout/ledger/act", json=rules))["words"][0]
    )
    assert asked.post("/api/payout/ledger/act", json=rules).status_code == 422  # pressed twice
    dispute = {
        "run": "market/june", "by": "boss", "once": "once-more-upon-a-time",
        "dispute": {"payee": run_of(run).lines[0].identity, "about": "one unit is missing"},
    }  # fmt: skip
    told(asked, asked.post("/api/payout/ledger/dispute/open", json=dispute))
    accepted = [warning["name"] for warning in state(asked)["approval"]["warnings"]]
    assert "disputes" in accepted

    shown = run_of(run).run
    body = {"run": "market/june", "shown": shown, "by": "Ann", "accept": accepted, "token": token}
    unread = body | {"accept": [each for each in accepted if each != "disputes"]}
    refused = followed(asked, asked.post(f"{API}/approve", json=unread))
    assert (refused.status_code, "disputes" in refused.json()["error"]) == (422, True)
    words = told(asked, asked.post(f"{API}/approve", json=body))["words"]
    assert "another person must approve it, too" in words
    assert (
        "another person must" in approve(run, shown, " ann", tuple(accepted), progress=SILENT)["words"]
    )
    assert approve(run, shown, "Ben", tuple(accepted), progress=SILENT)["words"] == "approved"
    again = approve(run, shown, "Ben", tuple(accepted), progress=SILENT)["words"]
    assert again == "was approved before, by Ann, Ben; nothing changed"
