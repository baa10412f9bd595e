"""Which files the explorer opens: those in folders that were named, by whatever path or link somebody asks."""

import os
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
from raw_requests import explorer

from datamarket_gym.errors import DataMarketError
from datamarket_gym.explorer.files import NamedPlaces, NotThere, OutsideFolders, Uploads

ODD = [
    "..", "../..", "../secret", "named/../../secret", "/etc/passwd", "named//etc/passwd", "named/./june", "named/june/",
    "NAMED/june", "named\\june", "named/june\x00", "\x00", "", ".", "~", "%2e%2e", "..%2fsecret", "file:///etc/passwd",
    "named/link", "named/link/passwd", "june", "x" * 5000, "<b>june</b>", "\u202ejune", "'; drop table entries; --",
    "secret", "named/.hidden",
]  # fmt: skip


def run_folder(path: Path) -> Path:
    """What looks like a payout run."""
    path.mkdir(parents=True)
    (path / "manifest.json").write_text("{}")
    (path / "payments.parquet").write_bytes(b"PAR1")
    return path


@pytest.fixture
def named(tmp_path):
    """A named folder with a run, beside a folder that was not named, and links from the one to the other."""
    run_folder(tmp_path / "named" / "june")
    run_folder(tmp_path / "named" / ".hidden")
    run_folder(tmp_path / "secret")
    (tmp_path / "secret" / "passwd").write_text("root")
    (tmp_path / "named" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "named" / "absolute").symlink_to("/etc")
    (tmp_path / "named" / "units.csv").write_text("id\n")
    (tmp_path / "named" / "stolen.csv").symlink_to(tmp_path / "secret" / "passwd")
    return tmp_path / "named"


@pytest.fixture
def places(named, tmp_path):
    return NamedPlaces([str(named)], Uploads(tmp_path / "uploads"))


class TestIds:
    def test_what_is_there(self, places):
        assert [each.id for each in places.runs()] == ["named/june"]

    @pytest.mark.parametrize("name", ODD)
    def test_anything_else_is_not(self, places, name):
        for find in (places.run, places.result, places.ledger):
            with pytest.raises(NotThere) as told:
                find(name)
            assert "secret/" not in str(told.value)

    def test_a_run_that_becomes_a_link_is_gone(self, places, named, tmp_path):
        assert places.run("named/june") == named / "june"
        shutil.rmtree(named / "june")
        (named / "june").symlink_to(tmp_path / "secret")
        with pytest.raises(NotThere):
            places.run("named/june")

    @pytest.mark.parametrize(
        "name", ["..", ".", "", "a/b", "/etc/x", "a\x00b", ".hidden", "a\nb", "../x", "\u202ea"]
    )
    def test_no_payout_is_written_elsewhere(self, places, name):
        for market in (None, "named"):
            with pytest.raises(DataMarketError):
                places.new_run(market, name)

    def test_nor_through_a_link(self, places, named):
        for name in ("link", "absolute"):
            with pytest.raises(OutsideFolders):
                places.new_run("named", name)
        with pytest.raises(NotThere):
            places.new_run("secret", "july")
        assert places.new_run("named", "july") == named / "july"


class TestPaths:
    def test_inside(self, places, named):
        assert places.inside(named / "units.csv") == named / "units.csv"
        assert places.inside(named / "june" / ".." / "units.csv") == named / "units.csv"

    @pytest.mark.parametrize(
        "way",
        [
            "../secret/passwd",
            "link/passwd",
            "stolen.csv",
            "absolute/passwd",
            "..",
            "../named-too/x",
            "june/../../secret",
        ],
    )
    def test_outside(self, places, named, way):
        (named.parent / "named-too").mkdir()
        with pytest.raises(OutsideFolders) as told:
            places.inside(named / way)
        assert str(named.parent) not in str(told.value)
        assert "command line" in str(told.value)

    @pytest.mark.parametrize("path", ["/", "/etc/passwd", "/proc/self/environ", "", ".", "~"])
    def test_elsewhere(self, places, path):
        with pytest.raises(OutsideFolders):
            places.inside(Path(path))

    def test_a_link_that_is_swapped_between_two_questions(self, places, named, tmp_path):
        link = named / "swapped.csv"
        link.symlink_to(named / "units.csv")
        assert (
            places.inside(link) == named / "units.csv"
        )  # what is opened is where it led, and no link any more
        link.unlink()
        link.symlink_to(tmp_path / "secret" / "passwd")
        with pytest.raises(OutsideFolders):
            places.inside(link)

    def test_a_path_with_nothing_in_it_is_an_error_in_words(self, places):
        with pytest.raises(DataMarketError):
            places.inside(Path("a\x00b"))


class TestThePagesOwnFiles:
    @pytest.fixture(scope="class")
    @staticmethod
    def served(tmp_path_factory):
        with explorer(named=(str(tmp_path_factory.mktemp("named")),)) as found:
            yield found

    @pytest.mark.parametrize(
        "path",
        [
            "/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static/%2e%2e%2fapp.py",
            "/static/....//app.py", "/static/..%5capp.py", "/static//etc/passwd", "/static/%2fetc%2fpasswd",
            "/static/lib/../../app.py", "/static/%00", "/static/lib%00.js", "/static/lib", "/static/", "/static",
            "/static/lib/", "//etc/passwd", "/../../etc/passwd", "/etc/passwd", "/app.py", "/static/~root",
            "/static/" + "a/" * 2000, "/static/" + "x" * 300, "/static/index.html%20", "/static/%ff",
            "/static/app.css.",
            "/api/../static/../app.py", "http://evil.example/", "*",
        ],
    )  # fmt: skip
    def test_no_others(self, served, path):
        said = served.ask(path)
        assert said.status in (400, 404, 307)
        assert b"root:" not in said.body
        assert b"import" not in said.body
        if said.status == 307:
            assert said.headers["location"][0].startswith(("/", f"http://{served.host}/"))

    def test_they_are_not_written_to(self, served):
        for method in ("PUT", "PATCH"):
            assert served.ask("/static/app.css", method=method).status == 405
        assert served.change("/static/app.css", {}).status in (404, 405)

    def test_what_was_uploaded_is_not_served(self, served):
        said = served.change(
            "/api/uploads?name=a.csv", b"<script>", headers={"content-type": "application/octet-stream"}
        )
        key = said.body.split(b'"id":"')[1][:16].decode()
        folder = served.serving.site.places.uploads.folder
        assert (folder / key / "table.csv").is_file()
        for path in (
            f"/{key}/table.csv",
            f"/uploads/{key}",
            f"/static/{quote(str(folder), safe='')}/{key}/table.csv",
        ):
            assert served.ask(path).status == 404


def test_a_folder_that_cannot_be_read_hides_itself_alone(named, tmp_path):
    os.chmod(named / "june", 0o000)
    try:
        places = NamedPlaces([str(named)], Uploads(tmp_path / "uploads"))
        assert [each.id for each in places.runs()] in ([], ["named/june"])  # root reads everything
    finally:
        os.chmod(named / "june", 0o755)


def test_names_of_folders_are_text(tmp_path):
    """A folder may be called anything; in JSON it is text, and a page shows it as text."""
    name = '<img src=x onerror="alert(1)">'
    run_folder(tmp_path / "named" / name)
    with explorer(named=(str(tmp_path / "named"),)) as found:
        said = found.ask("/api/site")
        assert said.headers["content-type"][0].startswith("application/json")
        assert said.headers["x-content-type-options"] == ["nosniff"]
        assert f"named/{name}".replace('"', '\\"').encode() in said.body


def test_a_name_that_is_no_text_hides_itself_alone(tmp_path):
    run_folder(tmp_path / "named" / "june")
    try:
        run_folder(tmp_path / "named" / os.fsdecode(b"may\xff"))
    except OSError:
        pytest.skip("this file system has names in UTF-8 alone")
    with explorer(named=(str(tmp_path / "named"),)) as found:
        said = found.ask("/api/site")
        assert said.status == 200
        assert b"named/june" in said.body
