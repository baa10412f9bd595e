"""What may be sent to the explorer: how much, how slowly, and what is left of what was refused."""

import contextlib
import io
import json
import os
import re
import shutil
import time
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from raw_requests import OWN, answer, explorer

from datamarket_gym.explorer import security as guard
from datamarket_gym.explorer import upload_size

MIB = 2**20
BYTES = {"content-type": "application/octet-stream"}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """An explorer that takes files of one MiB."""
    with explorer(upload_limit=1, uploads=tmp_path_factory.mktemp("uploads")) as found:
        yield found


@pytest.fixture(scope="module")
def roomy(tmp_path_factory):
    """An explorer that takes large files."""
    with explorer(uploads=tmp_path_factory.mktemp("roomy")) as found:
        yield found


def kept(found):
    """All that lies among the uploads."""
    folder = found.serving.site.places.uploads.folder
    found = ((place, [*folders, *names]) for place, folders, names in os.walk(folder))
    return sorted(
        os.path.relpath(os.path.join(place, name), folder) for place, all_ in found for name in all_
    )


def begin(found, path, headers):
    """A connection on which a POST has begun, and no body has been sent."""
    line = found.line()
    said = {**OWN, "origin": f"http://{found.host}", **headers}
    text = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    line.sendall(f"POST {path} HTTP/1.1\r\nHost: {found.host}\r\n{text}\r\n".encode())
    return line


def chunk(data):
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def flooded(line, data, most):
    """Send until the other end has enough; how much went."""
    gone = 0
    try:
        while gone < most:
            line.sendall(data)
            gone += len(data)
    except OSError:
        pass
    return gone


class TestUploads:
    def test_a_file_is_kept_under_an_id_and_not_under_its_name(self, small):
        said = small.change(
            "/api/uploads?name=..%2F..%2Fetc%2Fpass%3Cb%3E.csv", b"id\n1\n", headers=BYTES
        )
        found = json.loads(said.body)
        assert (said.status, found["name"], found["size"]) == (200, "pass<b>.csv", 5)
        assert f"{found['id']}/table.csv" in kept(small)
        assert not any("pass" in path for path in kept(small))

    @pytest.mark.parametrize(
        "name", ["a.exe", "a", "", "a.csv%2Fb", "a.csv%00.exe", ".", "..", "a.html", "a.svg"]
    )
    def test_what_is_no_table_is_refused(self, small, name):
        before = kept(small)
        said = small.change(f"/api/uploads?name={name}", b"x", headers=BYTES)
        assert said.status == 422
        assert kept(small) == before

    def test_one_that_says_it_is_too_large_is_refused_before_a_byte_of_it(self, small):
        before = kept(small)
        with begin(small, "/api/uploads?name=a.csv", {**BYTES, "content-length": str(MIB + 1)}) as line:
            said = answer(line)
            assert line.recv(10) == b""  # and the line is closed
        assert said.status == 413
        assert "--upload-limit" in said.error
        assert kept(small) == before

    def test_expecting_to_be_told_to_go_on_it_is_told_not_to(self, small):
        headers = {**BYTES, "content-length": str(MIB + 1), "expect": "100-continue"}
        with begin(small, "/api/uploads?name=a.csv", headers) as line:
            assert answer(line).status == 413

    def test_one_without_end_is_cut_off_and_nothing_of_it_is_left(self, small):
        before = kept(small)
        headers = {**BYTES, "transfer-encoding": "chunked"}
        with begin(small, "/api/uploads?name=a.csv", headers) as line:
            gone = flooded(line, chunk(b"x" * 65536), 64 * MIB)
        assert gone < 32 * MIB  # what was under way when it was cut off
        assert small.ask("/api/site").status == 200
        assert kept(small) == before

    def test_one_that_is_broken_off_leaves_nothing(self, small):
        before = kept(small)
        with begin(small, "/api/uploads?name=a.csv", {**BYTES, "content-length": "1000"}) as line:
            line.sendall(b"x" * 500)
            until(lambda: any(path.endswith(".part") for path in kept(small)))
        until(lambda: kept(small) == before)

    def test_one_of_exactly_the_limit_is_kept(self, small):
        said = small.change("/api/uploads?name=a.csv", b"x" * MIB, headers=BYTES)
        assert (said.status, json.loads(said.body)["size"]) == (200, MIB)

    def test_all_of_them_together_are_bounded(self, tmp_path):
        with explorer(upload_limit=1, uploads=tmp_path) as found:
            statuses = [
                found.change("/api/uploads?name=a.csv", b"x" * MIB, headers=BYTES).status
                for _ in range(10)
            ]
            assert statuses == [200] * 8 + [413] * 2
            assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) == 8 * MIB

    def test_those_under_way_count_as_well(self, tmp_path):
        with explorer(upload_limit=1, uploads=tmp_path) as found:
            lines = []
            for _ in range(12):
                line = begin(found, "/api/uploads?name=a.csv", {**BYTES, "content-length": str(MIB)})
                line.sendall(b"x" * (MIB - 1))
                lines.append(line)
            until(lambda: _size(tmp_path) >= 7 * (MIB - 1))
            time.sleep(0.3)
            assert _size(tmp_path) <= 8 * MIB
            for line in lines:
                line.close()
            until(lambda: _size(tmp_path) == 0)

    def test_how_many_there_may_be_is_bounded(self, tmp_path, monkeypatch):
        from datamarket_gym.explorer import files as uploads

        monkeypatch.setattr(uploads, "_UPLOADS", 3)
        with explorer(uploads=tmp_path) as found:
            statuses = [
                found.change("/api/uploads?name=a.csv", b"x", headers=BYTES).status for _ in range(4)
            ]
        assert statuses == [200, 200, 200, 413]

    def test_they_are_gone_with_the_explorer(self):
        with explorer() as found:
            assert found.change("/api/uploads?name=a.csv", b"x", headers=BYTES).status == 200
            folder = found.serving.site.places.uploads.folder
            assert folder.is_dir()
            assert folder.stat().st_mode & 0o077 == 0  # nobody else on this machine reads them
        assert not folder.exists()


def workbook(sheets):
    """A packed file with members that unpack to these texts."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in sheets.items():
            file.writestr(f"xl/worksheets/{name}.xml", text)
    return packed.getvalue()


def parquet(table):
    written = io.BytesIO()
    pq.write_table(table, written)
    return written.getvalue()


def arrow(rows, columns):
    schema = pa.schema([(f"a{i}", pa.null()) for i in range(columns)])
    written = io.BytesIO()
    with pa.ipc.new_file(written, schema) as file:
        file.write_batch(pa.record_batch([pa.nulls(rows)] * columns, schema=schema))
    return written.getvalue()


def header(columns):
    return ",".join(f"c{i}" for i in range(columns)).encode()


class TestUnfolded:
    """A small file that unfolds to a large table is refused before it is read."""

    @pytest.mark.parametrize(
        ("name", "write"),
        [
            ("a.csv", lambda: header(200_000) + b"\n" + b",".join([b"1"] * 200_000)),
            ("a.csv", lambda: header(10_001) + b"\r\n"),
            ("a.tsv", lambda: header(10_001).replace(b",", b"\t")),
            ("a.jsonl", lambda: b"\n".join(b'{"k%d": 1}' % i for i in range(30_000))),
            ("a.xlsx", lambda: workbook({"a": "<c/>" * 600_000, "b": '<c r="A1">' * 600_000})),
            ("a.xlsx", lambda: workbook({f"s{i}": bytes(2**23) for i in range(9)})),
            ("a.npz", lambda: workbook({f"s{i}": bytes(2**23) for i in range(9)})),
            ("a.parquet", lambda: parquet(pa.table({f"a{i}": [1] for i in range(10_001)}))),
            ("a.parquet", lambda: parquet(pa.table({f"a{i}": np.zeros(2**21, bool) for i in range(48)}))),
            ("a.arrow", lambda: arrow(2**21, 48)),
        ],
    )  # fmt: skip
    def test_it_is_refused_and_nothing_is_left(self, roomy, name, write, monkeypatch):
        monkeypatch.setattr(upload_size, "UNPACKED", 2**26)
        said = roomy.change(f"/api/uploads?name={name}", write(), headers=BYTES)
        assert said.status == 422
        assert re.search(r"10,000 columns|,000,000 cells|unpack to 64", said.error)
        assert "command line" in said.error
        assert kept(roomy) == ["runs"]

    def test_what_is_within_the_limits_is_kept(self, roomy):
        for name, data in (
            ("a.csv", header(10_000) + b"\n" + b",".join([b"1"] * 10_000)),
            ("a.jsonl", b'{"a": "x,y"}\n' * 100_000),
            ("a.xlsx", workbook({"a": "<c/>" * 900_000})),
            ("a.parquet", parquet(pa.table({"a": np.arange(10**6)}))),
            ("a.csv", b"\xff\xfe,no table\n"),  # which is told where it is read
            ("a.parquet", b"neither"),
        ):
            said = roomy.change(f"/api/uploads?name={name}", data, headers=BYTES)
            assert said.status == 200, (name, said.body)
            shutil.rmtree(roomy.serving.site.places.uploads.folder / json.loads(said.body)["id"])


class TestOtherBodies:
    def test_json_is_bounded(self, small):
        long = json.dumps({"token": "x" * MIB}).encode()
        assert small.change("/api/enter", long).status == 413
        with begin(small, "/api/enter", {"transfer-encoding": "chunked"}) as line:
            assert flooded(line, chunk(b" " * 65536), 64 * MIB) < 32 * MIB

    def test_a_get_has_none(self, small):
        said = small.ask("/api/site", headers={"content-length": "5"}, body=b"hello")
        assert said.status in (200, 413)
        assert small.ask("/api/site").status == 200

    @pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "+5", "9" * 30, "5, 6", ""])
    def test_lengths_that_are_none_are_refused(self, small, length):
        said = small.change("/api/enter", b"hello", headers={"content-length": length})
        assert said.status in (400, 413)

    def test_two_ways_to_say_where_it_ends_are_not_taken_for_two_requests(self, small):
        body = b"0\r\n\r\nGET /api/site HTTP/1.1\r\nHost: evil.example\r\n\r\n"
        headers = {"transfer-encoding": "chunked", "content-length": str(len(body))}
        said = small.change("/api/enter", body, headers=headers)
        assert said.status in (400, 422)
        assert b"version" not in said.body

    def test_who_sends_nothing_for_long_is_not_waited_for(self, tmp_path, monkeypatch):
        monkeypatch.setattr(guard, "_PATIENCE", 0.3)
        with explorer(uploads=tmp_path) as found:
            for path, headers in (("/api/enter", {}), ("/api/uploads?name=a.csv", BYTES)):
                with begin(found, path, {**headers, "content-length": "100"}) as line:
                    line.sendall(b"x")
                    said = answer(line)
                assert said.status == 408
            until(lambda: kept(found) == ["runs"])


def until(happened, seconds=60.0):
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _size(folder):
    """All bytes in it; what goes away meanwhile has none."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.stat(os.path.join(place, name)).st_size
    return total
