"""Downloads, against a local stand-in for the public hub."""

import io
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.market.datasets import (
    cache_folder,
    data_file,
    find,
    folders,
    load_corpus,
    looking_in,
)


def parquet(columns):
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


class Hub(ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.files, self.asked, self.cut = {}, [], False

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.server.cut else body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    server = Hub()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.delenv("DATAMARKET_DATA", raising=False)
    monkeypatch.setenv("DATAMARKET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DATAMARKET_HUB", server.url)
    yield server
    server.shutdown()
    server.server_close()


AGNEWS = "/datasets/fancyzhx/ag_news/resolve/main/data/{}-00000-of-00001.parquet"
CIFAR = "/datasets/uoft-cs/cifar10/resolve/main/plain_text/{}-00000-of-00001.parquet"


def serve_news(hub):
    hub.files[AGNEWS.format("train")] = parquet({"text": ['a "quoted", text', "b\nc"], "label": [2, 0]})
    hub.files[AGNEWS.format("test")] = parquet({"text": ["d"], "label": [3]})


def test_texts_are_downloaded_once_and_read_back(hub):
    serve_news(hub)
    corpus = load_corpus("agnews")
    assert corpus.content.tolist() == ['a "quoted", text', "b\nc", "d"]
    assert corpus.label.tolist() == [2, 0, 3]
    assert corpus.train.tolist() == [True, True, False]
    load_corpus("agnews")
    assert len(hub.asked) == 2
    assert [path.name for path in cache_folder().iterdir()] == ["agnews.csv.gz"]


def test_images_are_downloaded_as_a_blob(hub):
    for split, files in (("train", [b"one", b"second"]), ("test", [b"3"])):
        columns = {"img": [{"bytes": f, "path": ""} for f in files], "label": list(range(len(files)))}
        hub.files[CIFAR.format(split)] = parquet(columns)
    corpus = load_corpus("cifar10")
    assert corpus.content.tolist() == [b"one", b"second", b"3"]
    assert corpus.train.tolist() == [True, True, False]


def test_weights_become_npz(hub):
    numpy = pytest.importorskip("safetensors.numpy")
    arrays = {"conv1.weight": np.ones((2, 3), np.float32)}
    hub.files["/timm/resnet18.tv_in1k/resolve/main/model.safetensors"] = numpy.save(arrays)
    with np.load(data_file("resnet18_imagenet.npz")) as file:
        assert (file["conv1.weight"] == 1).all()


def test_a_broken_download_leaves_nothing_behind(hub):
    serve_news(hub)
    hub.cut = True
    with pytest.raises(DataMarketError, match=r"broke off|cannot be downloaded"):
        load_corpus("agnews")
    assert find("agnews.csv.gz") is None
    assert list(cache_folder().iterdir()) == []
    hub.cut = False
    assert len(load_corpus("agnews")) == 3


@pytest.mark.parametrize(
    ("train", "says"),
    [(None, "cannot be downloaded"), (b"not parquet", "not Parquet"),
     (parquet({"body": ["x"]}), "no column 'text'")],
)  # fmt: skip
def test_what_the_hub_does_not_have_or_gives_wrongly(hub, train, says):
    serve_news(hub)
    hub.files[AGNEWS.format("train")] = train
    with pytest.raises(DataMarketError, match=says):
        load_corpus("agnews")
    assert find("agnews.csv.gz") is None


def test_without_a_network_the_error_says_what_to_do(hub, monkeypatch):
    monkeypatch.setenv("DATAMARKET_HUB", "http://127.0.0.1:9")
    with pytest.raises(DataMarketError, match="holds it by DATAMARKET_DATA"):
        data_file("imdb.csv.gz")
    with pytest.raises(DataMarketError, match="put it there or name its folder"):
        data_file("imdb_minilm.npz")


def test_folders_are_looked_through_in_order(hub, tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    (tmp_path / "shared" / "data").mkdir(parents=True)
    cache_folder().mkdir()
    named = tmp_path / "named"
    named.mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "shared" / "data" / "agnews.csv.gz").write_bytes(b"")
    assert find("agnews.csv.gz") is None  # nothing is looked for relative to the working directory
    (cache_folder() / "agnews.csv.gz").write_bytes(b"")
    assert find("agnews.csv.gz") == cache_folder() / "agnews.csv.gz"
    (named / "agnews.csv.gz").write_bytes(b"")
    with looking_in(named):
        assert find("agnews.csv.gz") == named / "agnews.csv.gz"
        with looking_in(None):
            assert folders()[0] == named
    assert named not in folders()  # nothing is left of it, in this process or in its environment
    monkeypatch.setenv("DATAMARKET_DATA", str(named))
    assert folders()[0] == named
    monkeypatch.setenv("DATAMARKET_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataMarketError, match="is not a folder"):
        find("agnews.csv.gz")


def test_a_damaged_corpus_is_named(hub):
    cache_folder().mkdir()
    (cache_folder() / "agnews.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(DataMarketError, match=r"agnews\.csv\.gz' cannot be read"):
        load_corpus("agnews")
