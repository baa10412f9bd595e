"""Real data: tables that come with scikit-learn, and embedded images or texts of public data sets.

Each draw of a public data set takes providers' rows from the training split and the validation rows from the test
split. Image tasks draw as many classes as there are providers, and provider i holds class i of those drawn; text tasks
deal a random subset of all classes out. Where the test split has too few rows of the drawn classes, training rows
without a provider fill it up.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.arrays import Codes, Features
from datamarket_gym.market.datasets import (
    DOMAINS,
    Domain,
    Embeddings,
    find,
    load_corpus,
    load_embeddings,
)
from datamarket_gym.market.tasks.base import (
    Count,
    Dataset,
    NumberTask,
    PartitionName,
    TableTask,
    Task,
    TaskDraw,
    ValidationCount,
)
from datamarket_gym.market.tasks.partitions import PARTITIONS
from datamarket_gym.registry import register


@register("task", "digits")
@dataclass(frozen=True)
class Digits(TableTask):
    """1,797 handwritten digits of 8 x 8 grey levels (Alpaydin and Kaynak 1998), as they come with scikit-learn."""

    title = "handwritten digits"
    partition: PartitionName = "dominant_class@0.5"
    stream: ClassVar[int] = 20261119

    def table(self, rows: int, rng: np.random.Generator) -> tuple[str, Features, NDArray[Any]]:
        from sklearn.datasets import load_digits

        digits = load_digits()
        return "digits", digits.data / 16.0, digits.target.astype(np.int64)


@register("task", "breast_cancer")
@dataclass(frozen=True)
class BreastCancer(TableTask):
    """Thirty measurements of cells of 569 tumours, benign or malignant (Street et al. 1993), from scikit-learn.

    Columns are standardised on all of it. A third of the tumours are malignant: too few to deal out unevenly.
    """

    title = "tumours"
    per_provider: Count = 40
    validation: ValidationCount = 140
    stream: ClassVar[int] = 20261119

    def table(self, rows: int, rng: np.random.Generator) -> tuple[str, Features, NDArray[Any]]:
        from sklearn.datasets import load_breast_cancer

        tumours = load_breast_cancer()
        standardised = (tumours.data - tumours.data.mean(axis=0)) / tumours.data.std(axis=0)
        return "breast_cancer", standardised, tumours.target.astype(np.int64)


@register("task", "diabetes")
@dataclass(frozen=True)
class Diabetes(NumberTask):
    """Ten measurements of 442 patients and the progression of diabetes a year later (Efron et al. 2004).

    The table comes with scikit-learn. Columns are standardised on all of it.
    """

    title = "diabetes"
    n_providers: Count = 5
    validation: ValidationCount = 140

    def table(self, rows: int, rng: np.random.Generator) -> tuple[str, Features, NDArray[Any]]:
        from sklearn.datasets import load_diabetes

        patients = load_diabetes(scaled=True)
        standardised = patients.data * np.sqrt(len(patients.target))
        return "diabetes", standardised, patients.target.astype(np.float64)


_STREAM = 20260730  # keeps these draws apart from other users of the same seeds


@dataclass(frozen=True)
class DomainTask(Task):
    """A market over one public data set; ``content=True`` lets the raw texts or images travel along."""

    n_providers: Count = 4
    per_provider: Count = 50
    validation: ValidationCount = 500
    partition: PartitionName = ""
    content: Annotated[bool, "with texts or images"] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        PARTITIONS.create(self.dealt_by)

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Return the public data set."""

    @property
    def dealt_by(self) -> str:
        """Return the written partition: the domain's own where none is named."""
        return self.partition or ("class_stratified" if self.domain.kind == "image" else "iid")

    def pool(self) -> Embeddings:
        """Return the training rows, from which providers are dealt."""
        return _embeddings(embeddings_path(self.domain)).training()

    def draw(self, seed: int) -> TaskDraw:
        everything = _embeddings(embeddings_path(self.domain))
        assert everything.label is not None
        assert everything.train is not None
        rng = np.random.default_rng(np.random.SeedSequence([seed, _STREAM]))
        code = self._classes(everything.label, rng)
        dealt, validation = self._rows(code, everything.train, rng)
        rows = np.concatenate(dealt)
        content, validation_content = {}, {}
        if self.content:
            corpus = load_corpus(self.domain.name)
            content = {corpus.kind: corpus.content[rows]}
            validation_content = {corpus.kind: corpus.content[validation]}
        dataset = Dataset(
            self.domain.name,
            everything.vectors[rows],
            everything.label[rows],
            everything.vectors[validation],
            everything.label[validation],
            content,
            self.domain.encoder,
            validation_content,
        )
        ends = np.cumsum([len(part) for part in dealt])
        return TaskDraw(dataset, np.split(np.arange(len(rows)), ends[:-1]))

    def _classes(self, label: Codes, rng: np.random.Generator) -> Codes:
        """Return the position of each row's class among those drawn, -1 for classes left out."""
        classes = len(self.domain.classes)
        drawn = rng.permutation(classes)
        if self.domain.kind == "image":
            drawn = drawn[: min(max(2, self.n_providers), classes)]
        position = np.full(classes, -1)
        position[drawn] = np.arange(len(drawn))
        return position[label]

    def _rows(
        self, code: Codes, train: NDArray[np.bool_], rng: np.random.Generator
    ) -> tuple[list[Codes], Codes]:
        pool = np.flatnonzero(train & (code >= 0))
        partition = PARTITIONS.create(self.dealt_by)
        dealt = [pool[p] for p in partition.deal(code[pool], self.n_providers, self.per_provider, rng)]
        test = rng.permutation(np.flatnonzero(~train & (code >= 0)))[: self.validation]
        spare = np.setdiff1d(pool, np.concatenate(dealt))
        seen = np.unique(code[np.concatenate(dealt)])
        both = np.concatenate([test, rng.permutation(spare)[: self.validation - len(test)]])
        if len(both) < self.validation:
            raise DataMarketError(
                f"{self.domain.title} has {len(both)} rows left for validation, but {self.validation} "
                "are asked for; ask for fewer, or for fewer units per provider"
            )
        return dealt, both[np.isin(code[both], seen)]


@register("task", "cifar10")
@dataclass(frozen=True)
class Cifar10(DomainTask):
    """CIFAR-10 under a frozen ResNet-18; one class per provider."""

    title = "CIFAR-10"
    domain = DOMAINS["cifar10"]


@register("task", "stl10")
@dataclass(frozen=True)
class Stl10(DomainTask):
    """STL-10 under a frozen ResNet-18; one class per provider."""

    title = "STL-10"
    domain = DOMAINS["stl10"]


@register("task", "agnews")
@dataclass(frozen=True)
class AgNews(DomainTask):
    """AG News under frozen MiniLM-L6-v2; a random partition."""

    title = "AG News"
    domain = DOMAINS["agnews"]


@register("task", "imdb")
@dataclass(frozen=True)
class Imdb(DomainTask):
    """IMDB reviews under frozen MiniLM-L6-v2; a random partition."""

    title = "IMDB"
    domain = DOMAINS["imdb"]


def embeddings_path(which: Domain) -> Path:
    """Return the file of a domain's embeddings; an error says how to make it."""
    path = find(which.embeddings_file)
    if path is None:
        raise DataMarketError(
            f"there are no embeddings {which.embeddings_file!r} in the data folders; make them by "
            f"`datamarket embed {which.name}`, or name the folder that holds them by DATAMARKET_DATA"
        )
    return path


@lru_cache(maxsize=4)
def _embeddings(path: Path) -> Embeddings:
    embeddings = load_embeddings(path)
    if embeddings.label is None or embeddings.train is None:
        raise DataMarketError(
            f"{path.name} has no labels or no split; make it again by `datamarket embed`"
        )
    return embeddings
