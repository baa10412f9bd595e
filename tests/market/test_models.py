"""The two models against independent references, and against published embeddings where they are."""

import numpy as np
import pytest

from datamarket_gym.market.datasets import DOMAINS, find, load_corpus, load_embeddings
from datamarket_gym.market.encoders.base import backend
from datamarket_gym.market.encoders.minilm import HEADS, LAYERS, sentence_vectors
from datamarket_gym.market.encoders.resnet18 import _pooled, folded_convolutions
from datamarket_gym.registry import create

WIDTH = 2 * HEADS


def transformer_weights(rng):
    def normal(*shape):
        return rng.normal(scale=0.3, size=shape).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": normal(50, WIDTH),
        "embeddings.position_embeddings.weight": normal(20, WIDTH),
        "embeddings.token_type_embeddings.weight": normal(2, WIDTH),
    }
    shapes = {"intermediate.dense": (4 * WIDTH, WIDTH), "output.dense": (WIDTH, 4 * WIDTH)}
    for name in ("self.query", "self.key", "self.value", "output.dense"):
        shapes[f"attention.{name}"] = (WIDTH, WIDTH)
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        for name, shape in shapes.items():
            weights[f"{at}.{name}.weight"], weights[f"{at}.{name}.bias"] = (
                normal(*shape),
                normal(shape[0]),
            )
        norms += [f"{at}.attention.output.LayerNorm", f"{at}.output.LayerNorm"]
    for name in norms:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = 1 + normal(WIDTH), normal(WIDTH)
    return weights


def test_the_transformer_equals_torchs_own_layers():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    weights = transformer_weights(rng)
    ids = [list(rng.integers(50, size=n)) for n in (4, 11, 7)]
    w = {name: torch.from_numpy(a) for name, a in weights.items()}

    def norm(name, x):
        return torch.nn.functional.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-12)

    expected = []
    for tokens in ids:  # one at a time: no padding, no mask
        x = w["embeddings.word_embeddings.weight"][tokens]
        x = x + w["embeddings.position_embeddings.weight"][: len(tokens)]
        x = norm("embeddings.LayerNorm", x + w["embeddings.token_type_embeddings.weight"][0])[:, None]
        for layer in range(LAYERS):
            at, attention = f"encoder.layer.{layer}", f"encoder.layer.{layer}.attention"
            parts = [f"{attention}.self.{n}" for n in ("query", "key", "value")]
            mixed, _ = torch.nn.functional.multi_head_attention_forward(
                x, x, x, WIDTH, HEADS,
                torch.cat([w[f"{p}.weight"] for p in parts]), torch.cat([w[f"{p}.bias"] for p in parts]),
                None, None, False, 0.0,
                w[f"{attention}.output.dense.weight"], w[f"{attention}.output.dense.bias"],
                training=False, need_weights=False,
            )  # fmt: skip
            x = norm(f"{attention}.output.LayerNorm", x + mixed)
            dense = torch.nn.functional.linear
            inner = dense(x, w[f"{at}.intermediate.dense.weight"], w[f"{at}.intermediate.dense.bias"])
            inner = torch.nn.functional.gelu(inner)
            out = dense(inner, w[f"{at}.output.dense.weight"], w[f"{at}.output.dense.bias"])
            x = norm(f"{at}.output.LayerNorm", x + out)
        mean = x[:, 0].mean(0)
        expected.append((mean / mean.norm()).numpy())
    for device in ("numpy", "cpu"):
        on = backend(device)
        found = sentence_vectors({name: on.array(a) for name, a in weights.items()}, ids, on)
        assert np.allclose(found, expected, atol=2e-5)


def test_the_resnet_equals_convolutions_followed_by_batch_norms():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self, width, out, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(out)
            self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(out)
            if stride == 2:
                conv = nn.Conv2d(width, out, 1, 2, bias=False)
                self.downsample = nn.Sequential(conv, nn.BatchNorm2d(out))

        def forward(self, x):
            short = self.downsample(x) if hasattr(self, "downsample") else x
            return torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))) + short)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(8)
            for layer, (width, out) in enumerate([(8, 8), (8, 16), (16, 24), (24, 32)], 1):
                blocks = nn.Sequential(Block(width, out, 1 + (layer > 1)), Block(out, out, 1))
                setattr(self, f"layer{layer}", blocks)

        def forward(self, x):
            x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
            for layer in range(1, 5):
                x = getattr(self, f"layer{layer}")(x)
            return nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)

    net = Net().eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1, 0.3)
            nn.init.normal_(module.bias, 0, 0.3)
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)
    state = {name: t.numpy() for name, t in net.state_dict().items()}
    network = {
        name: (torch.from_numpy(weight), torch.from_numpy(bias))
        for name, (weight, bias) in folded_convolutions(state).items()
    }
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.allclose(_pooled(network, images), net(images), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", sorted(DOMAINS))
def test_embeddings_agree_with_the_reference(name):
    domain = DOMAINS[name]
    if not find(domain.file) or not find(domain.embeddings_file):
        pytest.skip(f"{domain.title} is not on this machine")
    pytest.importorskip("torch")
    if domain.kind == "text":
        pytest.importorskip("tokenizers")
    corpus, reference = load_corpus(name), load_embeddings(find(domain.embeddings_file))
    assert (corpus.label == reference.label).all()
    assert (corpus.train == reference.train).all()
    rows = np.random.default_rng(0).permutation(len(corpus))[:10]
    found = create("encoder", domain.encoder).encode(corpus.content[rows].tolist())
    expected = reference.vectors[rows]
    gap = np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert gap.max() < 1e-2
