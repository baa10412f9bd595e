"""The four public domains: their files, their classes, and the encoder that embeds them."""

from __future__ import annotations

from dataclasses import dataclass

from datamarket_gym.core.errors import UnknownNameError


@dataclass(frozen=True)
class Domain:
    """A public data set: raw content in one file, reference embeddings in another."""

    name: str
    title: str
    kind: str  # what a unit is: "text" or "image"
    encoder: str
    file: str
    classes: tuple[str, ...]

    @property
    def embeddings_file(self) -> str:
        """Name of the file of embeddings, in the order of the content file."""
        return f"{self.name}_{self.encoder}.npz"


_TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_STL = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")

DOMAINS = {
    each.name: each
    for each in (
        Domain("cifar10", "CIFAR-10", "image", "resnet18", "cifar10.npz", _TEN),
        Domain("stl10", "STL-10", "image", "resnet18", "stl10.npz", _STL),
        Domain(
            "agnews", "AG News", "text", "minilm", "agnews.csv.gz",
            ("World", "Sports", "Business", "Sci/Tech"),
        ),
        Domain("imdb", "IMDB", "text", "minilm", "imdb.csv.gz", ("negative", "positive")),
    )
}  # fmt: skip
"""The domains by name."""


def domain(name: str) -> Domain:
    """A domain by name."""
    if name not in DOMAINS:
        raise UnknownNameError("domain", name, DOMAINS)
    return DOMAINS[name]
