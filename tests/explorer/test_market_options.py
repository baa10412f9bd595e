"""What the page "Market" offers: everything that is registered, described by its own refusals, within bounds."""

import pytest

pytest.importorskip("fastapi", reason="the extra explorer is not installed")

import re
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from component_samples import PRESETS
from datamarket_gym import Utility, get_mechanism, register, registry
from datamarket_gym.errors import DataMarketError
from datamarket_gym.explorer.market.choices import KINDS, choices
from datamarket_gym.explorer.market.request import PARTS, MarketRequest, controls_of, validate_spec
from datamarket_gym.market.attacks import Attack, Block
from datamarket_gym.market.datasets import looking_in
from datamarket_gym.registry import Range, components, create

EVERY = [
    (kind, name, control.parameter.name)
    for kind in KINDS.values()
    for name in components(kind)
    for control in controls_of(kind, name)
]


def the(kind, name, parameter):
    return next(each for each in controls_of(kind, name) if each.parameter.name == parameter)


def test_everything_registered_is_offered():
    found = choices()
    for shown, kind in {**KINDS, "mechanisms": "mechanism"}.items():
        assert [each["name"] for each in found[shown]] == list(components(kind))
        assert all(each["title"] and each["help"] for each in found[shown])
        assert all(each["available"] or each["why"] for each in found[shown])


def test_it_begins_with_the_market_of_the_demo():
    found = choices()["defaults"]
    assert (found["task"], found["providers"], found["units"]) == ("synthetic", 4, 40)
    assert (found["attack"], found["mechanism"]) == ("near_duplicate_2x_sybils", "recommended")
    assert (found["learner"], found["empty"], found["checks"], found["power"]) == (
        "recommended",
        "none",
        3,
        0.8,
    )
    assert asdict(create("learner", found["learner"])) == asdict(
        create("learner", Utility.paying().learner)
    )
    assert MarketRequest(**found).filled() == MarketRequest().filled()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_fill_the_parts(name):
    found = next(each for each in choices()["mechanisms"] if each["name"] == name)
    named = f"{name}/cosine@0.99" if name.startswith("quotient") else name
    assert found["parts"] == get_mechanism(named).model_dump(mode="json", include=set(PARTS))
    asked = MarketRequest(mechanism=name, **found["parts"])
    assert asked.chosen() == get_mechanism(named)
    assert asked.filled().changed() == []


@pytest.mark.parametrize(("kind", "name", "parameter"), EVERY)
def test_defaults_ends_and_choices_are_accepted_and_nothing_beyond(kind, name, parameter):
    found = the(kind, name, parameter)
    bounds, words = found.parameter.range, found.parameter.choices
    assert (
        found.default in (*found.choices, *words)
        or found.kind in ("bool", "text")
        or (bounds.low <= found.default <= bounds.high)
    )
    if kind == "learner" and name == "sklearn":
        return  # loads all of scikit-learn
    others = {
        "informative": {"classes": 2, "features": 100},
        "features": {"classes": 2, "informative": 1},
    }.get(parameter, {})
    others = {key: value for key, value in others.items() if kind == "task" and name == "synthetic"}
    if parameter == "classes":
        others = {"informative": 10}
    for value in (*found.choices, *words):
        create(kind, validate_spec(kind, {"name": name, parameter: value}))
    if bounds is not None:
        for value in (bounds.low, bounds.high):
            create(kind, validate_spec(kind, {"name": name, **others, parameter: value}))
        for value in (bounds.low - 1, bounds.high + 1, "nonsense", True):
            with pytest.raises(DataMarketError, match=f"{parameter} of {kind} {name}"):
                validate_spec(kind, {"name": name, parameter: value})


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("estimator", "permutation(checkpoint=/tmp/somewhere)"),
        ("learner", "logistic(jobs=64)"),
        ("learner", "logistic(device=cuda)"),
        ("learner", "sklearn@subprocess.Popen"),
        ("learner", "sklearn(estimator='os.system(command=1)')"),
        ("task", "synthetic(n_providers=100000)"),
        ("task", "synthetic@100000"),
        ("task", "without_labels(of='synthetic(validation=10000000)')"),
        ("attack", "provider_zero_attack(attack='sybil_split_k@100000')"),
        ("attack", "near_duplicate_2x_sybils(sigma=inf)"),
        ("attack", "near_duplicate_2x_sybils(sigma=nan)"),
        ("attack", "nobody_knows_it"),
    ],
)
def test_a_page_cannot_ask_for_files_secrets_processors_or_what_never_ends(kind, spec):
    with pytest.raises(DataMarketError) as refused:
        MarketRequest(**{kind: spec}).filled()
    assert len(str(refused.value)) > 20


def test_what_a_task_lacks_is_said():
    found = choices()
    texts = next(each for each in found["evidence"] if each["name"] == "minhash")
    assert "looks at texts" in texts["not_for"]["synthetic"]
    assert "agnews" not in texts["not_for"]
    logistic = next(each for each in found["learners"] if each["name"] == "logistic")
    assert set(logistic["not_for"]) == {"diabetes", "synthetic_regression", "without_labels"}
    scores = next(each for each in found["learners"] if each["name"] == "scores")
    assert not scores["available"]


def test_real_domains_only_where_their_embeddings_are(tmp_path, monkeypatch):
    monkeypatch.delenv("DATAMARKET_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with looking_in(tmp_path):
        found = {each["name"]: each for each in choices()["tasks"]}
    assert not found["agnews"]["available"]
    assert "datamarket embed agnews" in found["agnews"]["why"]
    assert found["synthetic"]["available"]


@pytest.fixture
def half_told():
    """An attack of somebody's own, known while a test runs."""

    @register("attack", "half_told")
    @dataclass(frozen=True)
    class HalfTold(Attack):
        """Submits a share ``told`` of its units, ``how`` it likes."""

        told: Annotated[float, Range(0.25, 1)] = 0.5
        how: Literal["first", "last"] = "first"

        def blocks(self, own):
            count = max(1, round(self.told * len(own.rows)))
            return [Block(0, own.rows[:count] if self.how == "first" else own.rows[-count:])]

    yield HalfTold
    registry._components["attack"].pop("half_told")


def test_a_component_of_ones_own_describes_itself(half_told):
    found = next(each for each in choices()["attacks"] if each["name"] == "half_told")
    told, how = found["parameters"]
    assert (told["kind"], told["min"], told["max"], told["default"]) == ("float", 0.25, 1.0, 0.5)
    assert told["help"] == "Submits a share told of its units, how it likes."
    assert [each["value"] for each in how["choices"]] == ["first", "last"]
    assert MarketRequest(attack={"name": "half_told", "told": 0.3}).filled().attack == "half_told@0.3"


def test_options_over_http(client):
    explorer = client()
    found = explorer.get("/api/market/choices")
    while found.status_code == 202:
        found = explorer.get(f"/api/jobs/{found.json()['job']}")
    assert found.json() == choices()


def test_all_that_ships_is_called_by_words_and_not_by_names_in_python():
    found = choices()
    for group in KINDS:
        for choice in found[group]:
            words = [choice["label"], choice["title"], *(p["label"] for p in choice["parameters"])]
            assert not [each for each in words if re.search(r"_|``|=|\bv\(", each)], choice["name"]
