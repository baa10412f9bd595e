"""Written forms: what is created can be written, and what is written can be created again."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from component_samples import WRITTEN
from datamarket_gym import create, get_mechanism, registry
from datamarket_gym import registry as forms
from datamarket_gym.errors import DataMarketError, ParameterError, UnknownNameError
from datamarket_gym.registry import HOMES, components, register, written
from datamarket_gym.testing.base import SAMPLE_ENCODERS

NEEDED = {
    "cosine": "cosine@0.9",
    "hybrid_hash_cosine": "hybrid_hash_cosine@0.9",
    "containment": "containment@0.4",
    "hybrid_perceptual_cosine": "hybrid_perceptual_cosine@0.9",
    "hybrid_source_cosine": "hybrid_source_cosine@0.9",
    "lineage": "lineage@0.9",
    "sklearn": "sklearn@LogisticRegression",
    "unanimity": "unanimity@3",
    "weighted_majority": "weighted_majority(weights=[2, 1, 1], quota=3)",
    "sum_of_unanimity": "sum_of_unanimity(carriers=[[True, False], [True, True]], coefficients=[1.0, 2.0])",
    "additive": "additive@[0.5, -1.0, 2.0]",
    "random_monotone": "random_monotone(n_players=3, rng=0)",
}


@pytest.fixture(scope="module")
def odd():
    """A component with a parameter of every kind, registered for the time of this module."""

    @register("attack", "odd")
    @dataclass(frozen=True)
    class Odd:
        first: object = 1.5
        second: object = "word"
        third: object = field(default=(1, 2))

    # The real kind builds attacks; a component that is none keeps this test about writing alone.
    yield Odd
    del registry._components["attack"]["odd"]


def every(kind):
    # A similarity is called cosine too, and needs nothing.
    needed = {} if kind == "similarity" else NEEDED
    return [
        create(kind, needed.get(name) or WRITTEN.get((kind, name), name)) for name in components(kind)
    ]


@pytest.mark.parametrize("kind", HOMES)
def test_every_kind_creates_all_it_lists(kind):
    made = every(kind)
    assert made
    assert all(create(kind, component) is component for component in made)


@pytest.mark.parametrize("kind", sorted(set(HOMES) - {"game"}))
def test_every_component_reads_back_what_it_wrote(kind):
    assert [create(kind, written(component)) for component in every(kind)] == every(kind)


def test_games_hold_state_and_have_no_written_form():
    for game in every("game"):
        with pytest.raises(DataMarketError, match="no written form"):
            written(game)
    first, second = (create("game", "random_monotone(n_players=4, rng=7)") for _ in range(2))
    assert (first.table == second.table).all()


@pytest.mark.parametrize(("kind", "text"), [("game", "additive"), ("evidence", "cosine")])
def test_what_has_no_default_is_asked_for(kind, text):
    with pytest.raises(ParameterError, match="give a value for"):
        create(kind, text)


@pytest.mark.parametrize("kind", HOMES)
def test_an_unknown_name_is_one_readable_error(kind):
    with pytest.raises(UnknownNameError, match="no_such_thing"):
        create(kind, "no_such_thing")
    with pytest.raises(ParameterError, match="written form"):
        create(kind, 3.5)
    with pytest.raises(UnknownNameError):
        create("nonsense", "shapley")


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)
    | st.sampled_from(["1", "True", "nan", "a, b", "f(x=1, y=2)", "cosine@0.5", "it's"])
    | st.sampled_from(['"', "\\", " padded ", "", "a\nb", "(", "x=1", "[1, 2]", "{}", "#", "\t"])
)  # fmt: skip
values = scalars | st.tuples(scalars, scalars)


@given(first=values, second=values, third=values)
def test_written_is_invertible(odd, first, second, third):
    component = odd(first, second, third)
    text = written(component)
    name, parameters = forms.parsed("attack", text)
    again = dict(zip(("first", "second", "third"), (1.5, "word", (1, 2)), strict=True))
    again |= {("first" if key == "@" else key): value for key, value in parameters.items()}
    assert name == "odd"
    assert odd(**again) == component


def test_numbers_of_numpy_are_written_as_plain_ones(odd):
    assert written(odd(np.float64(0.25))) == "odd@0.25"
    assert written(odd(np.int64(3), np.str_("a b"))) == "odd(first=3, second=a b)"
    assert math.isnan(forms.parsed("attack", written(odd(float("nan"))))[1]["@"])


def test_mechanisms_by_name_by_mapping_and_by_all_their_fields():
    assert create("mechanism", "shapley") == get_mechanism("shapley")
    assert create("mechanism", {"name": "shapley", "seed": 3}) == get_mechanism("shapley", seed=3)
    assert written(get_mechanism("recommended")) == "recommended"
    changed = get_mechanism("recommended", seed=3).model_copy(update={"name": "ours"})
    assert create("mechanism", written(changed)) == changed


def test_experiments_are_created_as_they_stand():
    spec = create("experiment", "s2")
    assert spec.name == "s2"
    with pytest.raises(ParameterError, match="change a copy"):
        create("experiment", {"name": "s2", "seeds": 3})
    with pytest.raises(DataMarketError, match="not registered as it stands"):
        written(spec.model_copy(update={"seeds": 3}))


def test_sample_encoders_exist():
    assert {create("encoder", name).kind for name in SAMPLE_ENCODERS.values()} == {"text", "image"}


def test_lists_and_mappings_of_any_depth_are_read_back(odd):
    for value in (
        ((math.inf,), [-math.inf, "inf"]), (np.float64(1.5), np.int64(2)), [(np.float32(0.5),)], {"a": math.inf},
        {"b": (1, [None])}, ((),), [],
    ):  # fmt: skip
        found = forms.parsed("attack", written(odd(value)))[1]["@"]
        assert found == forms.plain(value)
        assert type(found) is type(value)


@pytest.mark.parametrize("value", [[math.nan], range(3), frozenset({1}), float, ..., object()])
def test_what_cannot_be_read_back_is_not_written(odd, value):
    with pytest.raises(DataMarketError, match="has no written form"):
        written(odd(value))


def test_a_parameter_is_given_once():
    with pytest.raises(ParameterError, match="give 'theta' once"):
        create("evidence", "cosine(theta=0.5, theta=0.6)")


@pytest.mark.parametrize("name", ["two words", "a@b", "a/b", "", "a(b)"])
def test_a_name_that_could_not_be_written_is_not_registered(name):
    with pytest.raises(ParameterError, match="name of the attack"):
        register("attack", name)


@pytest.mark.parametrize("text", ["{", "{}", '{"name": 1}', '{"name": "x", "evidence": "no_such"}'])
def test_a_mechanism_that_is_no_json_of_one_is_one_readable_error(text):
    with pytest.raises(DataMarketError):
        create("mechanism", text)


@pytest.mark.parametrize(("word", "value"), [("true", True), ("false", False), ("False", False)])
def test_truth_values_are_read_in_either_spelling(word, value):
    assert create("attack", f"bridge(first={word})").first is value
    assert forms.text_of("false") == "'false'"  # a text that would be misread is quoted
