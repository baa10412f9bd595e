"""A new payout run by the questions of its page: uploads, files that lie about, settings, a dry run, the run itself."""

import shlex

import payout_new_files as files
import pytest
from job_answers import followed
from payout_new_files import payout_files
from typer.testing import CliRunner

from datamarket_gym.cli.app import app
from datamarket_gym.explorer.payout.form import OPTIONS, fields, for_page, form
from datamarket_gym.explorer.payout.new_run import MOST_LISTED
from datamarket_gym.payout.ledger.store import open_ledger
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.settings import checked_spec
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.verify import verify

AT = "/api/payout/new"
PLAIN = {"amount": "1000.00", "audit": False, "checks": 0, "columns.features": "f"}


def uploaded(client, path):
    kept = client.post(
        "/api/uploads", params={"name": path.name}, content=path.read_bytes(),
        headers={"content-type": "application/octet-stream"},
    )  # fmt: skip
    assert kept.status_code == 200, kept.text
    return f"upload:{kept.json()['id']}"


def asked(client, paths, **settings):
    ids = {
        role: uploaded(client, path)
        for role, path in zip(("submissions", "validation"), paths, strict=True)
    }
    return {"values": PLAIN | settings | ids}


@pytest.fixture
def market(tmp_path):
    """A folder to pay in."""
    folder = tmp_path / "market"
    folder.mkdir()
    return folder


def test_a_payout_from_upload_to_draft(client, market, tmp_path, monkeypatch):
    paths = files.written(tmp_path / "mine")
    site = client(market)
    target = asked(site, paths) | {"market": "market", "name": "june"}
    found = followed(site, site.post(f"{AT}/check", json={"values": target["values"]})).json()
    assert (found["refused"], found["facts"]["units"]) == (None, 66)

    spec = checked_spec({"amount": "1000.00", "audit": False, "checks": 0, "columns": {"features": "f"}})
    pay(Places(*paths), spec, tmp_path / "library" / "run")
    paid = files.payments(tmp_path / "library" / "run" / "payments.csv")

    dry = followed(site, site.post(f"{AT}/dry-run", json=target)).json()
    assert {row["identity"]: row["payment"] for row in dry["payments"]} == paid
    assert list(market.iterdir()) == []  # nothing of the market is touched
    assert dry["dry"]
    assert [place.id for place in site.site.places.runs()] == [dry["place"]]

    real = followed(site, site.post(f"{AT}/run", json=target)).json()
    assert {row["identity"]: row["payment"] for row in real["payments"]} == paid
    assert (real["dry"], real["place"]) == (False, "market/june")
    assert dry["run"] == real["run"]  # the same inputs and settings
    (record,) = open_ledger(market / "ledger.sqlite").accounts().runs.values()
    assert record.state == "draft"
    assert record.places["submissions"] == str(
        market / "june-inputs" / "units.csv"
    )  # whence it is worked out again
    assert all(check.good for check in verify(market / "june", recompute=True))

    written = site.post(f"{AT}/settings", json=target).json()
    assert written["faults"] == {}
    monkeypatch.chdir(tmp_path / "mine")
    (tmp_path / "mine" / "market.toml").write_text(written["toml"], encoding="utf-8")
    for way, out in (("command", "by flags"), ("config", "by file")):
        words = shlex.split(
            written[way].replace(str(market / "june"), shlex.quote(str(tmp_path / out / "run")))
        )
        assert words[:2] == ["datamarket", "pay"]
        ended = CliRunner().invoke(app, words[1:])
        assert ended.exit_code == 0, ended.output
        assert files.payments(tmp_path / out / "run" / "payments.csv") == paid


def test_a_dry_run_takes_up_the_balances_of_the_market(client, market, tmp_path):
    """Somebody below zero is carried; the next dry run must pay as the next payout run would, and change nothing."""
    paths = files.written(tmp_path / "mine")
    spec = checked_spec(
        {"amount": "10.00", "audit": False, "checks": 0, "learner": "knn", "columns": {"features": "f"}}
    )
    pay(Places(*paths), spec, market / "june")
    payout_files.approve(market / "june")
    before = (market / "ledger.sqlite").read_bytes()
    later = files.written(tmp_path / "later", files.spread(payout_files.units(seed=5)))
    site = client(market)
    target = asked(site, later, learner="knn", amount="20.00") | {"market": "market", "name": "july"}
    dry = followed(site, site.post(f"{AT}/dry-run", json=target)).json()
    assert (market / "ledger.sqlite").read_bytes() == before
    changed = spec.model_copy(update={"amount": "20.00"})
    pay(Places(*later), changed, market / "july")
    assert {row["identity"]: row["payment"] for row in dry["payments"]} == files.payments(
        market / "july" / "payments.csv"
    )


def test_a_run_that_is_refused_says_why_by_the_names_of_the_files(client, tmp_path):
    columns = files.spread(payout_files.units())
    columns["id"][1] = "u0"
    site = client()
    target = asked(site, files.written(tmp_path, columns)) | {"name": "x"}
    refused = followed(site, site.post(f"{AT}/dry-run", json=target))
    assert refused.status_code == 422
    assert refused.json()["error"].startswith("'units.csv': 2 of 66 rows cannot be used")
    assert str(site.site.places.uploads.folder) not in refused.text
    nowhere = site.post(f"{AT}/run", json=target)
    assert (nowhere.status_code, "datamarket explore MARKET/" in nowhere.text) == (422, True)


class TestNewPayoutFiles:
    """Only what was uploaded, or lies in a folder that was named, is read."""

    def test_files_of_named_folders_can_be_chosen(self, client, tmp_path):
        files.written(tmp_path / "data")
        (tmp_path / "data" / "secret.txt").write_text("no table")
        (tmp_path / "elsewhere.csv").write_text("id\na\n")
        (tmp_path / "data" / "link.csv").symlink_to(tmp_path / "elsewhere.csv")
        site = client(tmp_path / "data")
        about = site.get(f"{AT}/form").json()
        assert {each["id"] for each in about["files"]} == {"data/held.csv", "data/units.csv"}
        found = site.post(f"{AT}/preview", json={"file": "data/units.csv"})
        assert followed(site, found).json()["read"] == 66

    def test_nothing_else_is_read(self, client, tmp_path):
        files.written(tmp_path / "data")
        (tmp_path / "elsewhere.csv").write_text("id\na\n")
        (tmp_path / "data" / "link.csv").symlink_to(tmp_path / "elsewhere.csv")
        site = client(tmp_path / "data")
        for file in ("/etc/passwd", "data/../elsewhere.csv", "data/link.csv", "upload:../x", "data"):
            refused = site.post(f"{AT}/preview", json={"file": file})
            assert refused.status_code in (404, 422), file
            assert "error" in refused.json()

    def test_settings_name_no_paths(self, client, tmp_path):
        site = client()
        named = {
            "files.features": "/etc/passwd", "linkage.edges": "/etc/passwd", "acquired": [str(tmp_path)],
            "reuse": str(tmp_path), "intake": str(tmp_path / "x.sqlite"), "ledger": "postgresql://host/db",
        }  # fmt: skip
        for name, value in named.items():
            assert site.post(f"{AT}/check", json={"values": {name: value}}).status_code == 404, name
        for name in ("files.images", "out", "no setting"):
            refused = site.post(f"{AT}/check", json={"values": {name: "x"}})
            assert (refused.status_code, "no setting of this page" in refused.text) == (422, True)
        assert site.post(f"{AT}/settings", json={"market": "..", "name": "x"}).status_code == 404
        target = {"market": tmp_path.name, "name": "../x"}
        told = client(tmp_path).post(f"{AT}/settings", json=target).json()
        assert "no name of a folder" in told["faults"]["name"]

    def test_the_tables_of_a_month_stay_a_list(self, client, tmp_path):
        """Of a folder with a batch for each day none is listed, and the page says so."""
        files.written(tmp_path / "data")
        (tmp_path / "data" / "batches").mkdir()
        for i in range(MOST_LISTED + 1):
            (tmp_path / "data" / "batches" / f"{i}.csv").write_text("id\na\n")
        site = client(tmp_path / "data")
        about = site.get(f"{AT}/form").json()
        assert {each["id"] for each in about["files"]} == {"data/held.csv", "data/units.csv"}
        assert about["left_out"] == [f"{MOST_LISTED + 1} tables in data/batches"]


def test_market_toml_fills_the_form(client, market, tmp_path):
    """What its settings name is chosen by its id; what is not on show is said, and a fault in it, too."""
    files.written(market)
    (market / "market.toml").write_text(
        'validation = "held.csv"\npayee = "identity"\nfeatures = "f"\nchecks = 0\naudit = false\n'
        'ledger = "ledger.sqlite"\n'
        f'reference = "{tmp_path / "elsewhere.csv"}"\n'
    )
    site = client(market)
    first = site.get(f"{AT}/form").json()["markets"]["market"]
    assert first["values"] == {
        "validation": "market/held.csv", "columns.identity": "identity", "columns.features": "f", "checks": 0,
        "audit": False,
    }  # fmt: skip
    assert ["elsewhere.csv" in note for note in first["notes"]] == [True]
    values = first["values"] | {"submissions": "market/units.csv", "amount": "1000.00"}
    target = {"values": values, "market": "market", "name": "june"}
    written = site.post(f"{AT}/settings", json=target).json()
    assert "checks = 0" in written["toml"]
    ended = CliRunner().invoke(app, shlex.split(written["command"])[1:])
    assert ended.exit_code == 0, ended.output
    real = followed(site, site.post(f"{AT}/run", json=target)).json()  # the same run: taken up
    assert {row["identity"]: row["payment"] for row in real["payments"]} == files.payments(
        market / "june" / "payments.csv"
    )
    (market / "market.toml").write_text('payeee = "x"\n')
    assert "did you mean" in site.get(f"{AT}/form").json()["markets"]["market"]["notes"][0]


class TestNewPayoutSettings:
    """Faults stand at the settings that they are of; words are those of the command line."""

    def test_every_option_of_pay_is_on_the_page(self):
        """Whoever adds a setting to a model finds it here; its help speaks of no other option."""
        shown = fields()
        apart = {
            "out",
            "columns.image",
            "files.images",
            "files.validation_images",
            "files.reference_images",
        }
        assert shown.keys() == ({"submissions"} | OPTIONS.keys()) - apart
        for name in shown.keys() - {"submissions"}:
            assert shown[name]["label"].lower() == OPTIONS[name].option.replace("-", " ")
        assert not [each for each in shown.values() if "--" in each["help"] or not each["help"]]
        on_page = {field["name"] for group in form()["groups"] for field in group["fields"]}
        assert on_page | form()["inputs"].keys() == shown.keys()

    def test_messages_speak_of_the_page(self):
        said = for_page(
            "Pay with --intake and this ledger, pay --acquired FOLDER, or with --negative zero; "
            "name it by --payee NAME."
        )
        assert said == (
            "Pay with “Intake” and this ledger, “Acquired”, or with “Negative” zero; name it by “Payee”."
        )
        assert for_page("start with --upload-limit") == "start with --upload-limit"

    def test_faults_by_name(self, client):
        wrong = {
            "currency": "euro",
            "checks": "many",
            "opens": "2026-06-02",
            "learner": "magic",
            "theta": "7",
        }
        told = client().post(f"{AT}/settings", json={"values": wrong}).json()
        assert set(told["faults"]) == {"amount", "currency", "checks", "learner", "theta"}
        assert told["faults"]["amount"] == "say how much is to be divided"
        assert told["faults"]["theta"] == "choose auto, none or a number in (-1, 1]"
        order = {"amount": "1", "opens": "2026-06-02", "closes": "2026-06-01"}
        told = client().post(f"{AT}/settings", json={"values": order}).json()
        assert told["faults"] == {"closes": "it must be later than opens (2026-06-02)"}
        assert "coverage" not in told["faults"]
        assert told["paid_for"].startswith("Paid for how much of the validation rows")

    def test_odd_names_survive_the_shell_and_toml(self, client, tmp_path, monkeypatch):
        """Names of columns and files are text, in a shell and in TOML, too."""
        columns = files.spread(payout_files.units())
        columns = {
            {"identity": "-who's $(x)", "id": 'the "id"'}.get(name, name): each
            for name, each in columns.items()
        }
        mine = tmp_path / "my data; rm -rf"
        path, held = files.written(mine)
        path.write_text(
            files.as_csv({f'"{n.replace(chr(34), chr(34) * 2)}"': c for n, c in columns.items()})
        )
        site = client()
        names = {"columns.identity": "-who's $(x)", "columns.id": 'the "id"', "period": "June \\ 2026"}
        told = site.post(
            f"{AT}/settings", json=asked(site, (path, held), **names) | {"name": "run"}
        ).json()
        monkeypatch.chdir(mine)
        (mine / "market.toml").write_text(told["toml"], encoding="utf-8")
        for way, out in (("command", "run"), ("config", "again")):
            words = [out if word == "run" else word for word in shlex.split(told[way])]
            ended = CliRunner().invoke(app, words[1:])
            assert ended.exit_code == 0, ended.output
        assert files.payments(mine / "run" / "payments.csv") == files.payments(
            mine / "again" / "payments.csv"
        )


def test_uploads_of_another_run_are_not_written_over(client, market, tmp_path):
    site = client(market)
    (market / "june-inputs").mkdir()
    (market / "june-inputs" / "units.csv").write_text("of another run")
    target = asked(site, files.written(tmp_path / "mine")) | {"market": "market", "name": "june"}
    refused = followed(site, site.post(f"{AT}/run", json=target))
    assert "holds another 'units.csv' already" in refused.json()["error"]
    assert (market / "june-inputs" / "units.csv").read_text() == "of another run"
