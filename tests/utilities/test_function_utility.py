"""A utility of one's own: what the function is given, what it may return, and that it is a learner like any other."""

import pickle
import sys

import numpy as np
import pytest

import datamarket_gym
from datamarket_gym import (
    ProviderMarket,
    Submission,
    Utility,
    UtilityOracle,
    create,
    get_mechanism,
    registry,
    utility,
)
from datamarket_gym import registry as scripts
from datamarket_gym.analysis.metrics import provider_totals
from datamarket_gym.data import AcquiredData
from datamarket_gym.errors import DataMarketError, ParameterError, SubmissionError, UtilityError
from datamarket_gym.execution.parallel import Processes, in_order
from datamarket_gym.testing import ConformanceError, validate_utility
from datamarket_gym.utilities.base import LEARNERS, TrainingRows, ValidationRows

pytestmark = pytest.mark.filterwarnings("ignore::datamarket_gym.UndatedMarketWarning")

RNG = np.random.default_rng(5)
FEATURES = RNG.normal(size=(8, 3))
LABEL = np.array(["cat", "dog"] * 4)
HELD = RNG.normal(size=(6, 3))
HELD_LABEL = np.array(["dog", "cat"] * 3)


@pytest.fixture(autouse=True)
def as_before():
    """What a test registers is gone after it."""
    known = set(registry.components("learner"))
    yield
    for name in set(registry.components("learner")) - known:
        del registry._components["learner"][name]


def nearest_distance(train, validation):
    far = ((validation.features[:, None] - train.features) ** 2).sum(axis=2)
    return np.exp(-far.min(axis=1)).mean()


def nearest_distances(train, coalitions, validation):
    far = ((validation.features[:, None] - train.features) ** 2).sum(axis=2)
    return np.array([np.exp(-far[:, inside].min(axis=1)).mean() for inside in coalitions])


def submission(order=None, label=LABEL):
    order = np.arange(8) if order is None else order
    return Submission(
        np.array([f"u{i}" for i in order]),
        np.array([f"p{i % 3}" for i in order]),
        FEATURES[order],
        None if label is None else label[order],
        time=order.astype(float),
    )


def oracle(name, held_label=HELD_LABEL):
    return UtilityOracle(HELD, held_label, Utility.paying(name))


def pay(name, **how):
    return get_mechanism("recommended", samples=16).pay(submission(**how), oracle(name)).as_dict()


def test_a_function_is_a_learner_by_its_name():
    made = utility("reach", target="none")(nearest_distance)
    assert isinstance(create("learner", "reach"), made)
    assert "reach" in registry.components("learner")
    assert registry.written(made()) == "reach"
    assert made.function is nearest_distance
    assert datamarket_gym.utility is utility
    paid = pay("reach")
    grand = nearest_distance(submission(), type("", (), {"features": HELD}))
    assert sum(paid.values()) == pytest.approx(grand, abs=1e-12)


def test_batched_or_not_the_same_is_paid():
    utility("one", target="none")(nearest_distance)
    utility("many", target="none", batched=True)(nearest_distances)
    assert pay("one") == pay("many")


def test_each_set_is_asked_for_once():
    asked = []

    @utility("counted", target="none")
    def counted(train, validation):
        asked.append(train.features.tobytes())
        return len(train) / 8

    pay("counted")
    assert len(asked) == len(set(asked)) > 50


@pytest.mark.parametrize("batched", [False, True])
def test_names_and_the_order_of_submission_change_no_bit(batched):
    sums = np.array([1e8, 1.0, 1e-8])  # a sum that depends on the order of its terms

    def rough(train, validation):
        return float((train.features @ sums).sum() + (validation.features @ sums).sum())

    def roughs(train, coalitions, validation):
        return np.array([rough(train.take(inside), validation) for inside in coalitions])

    utility("rough", target="none", batched=batched)(roughs if batched else rough)
    first = pay("rough")
    for _ in range(4):
        assert pay("rough", order=RNG.permutation(8)) == first
    mixed = RNG.permutation(6)
    turned = UtilityOracle(HELD[mixed], HELD_LABEL[mixed], Utility("rough"))
    assert get_mechanism("recommended", samples=16).pay(submission(), turned).as_dict() == first


@pytest.mark.parametrize("attack", ["sybil_split_k@3", "exact_dup_2x_sybils"])
def test_splits_and_exact_copies_gain_exactly_nothing(attack):
    utility("reach", target="none")(nearest_distance)
    market = ProviderMarket.from_task(
        "synthetic(n_providers=4, per_provider=5)", seed=1, learner="reach"
    )
    payer, value = get_mechanism("recommended", samples=8), market.utility_oracle()
    before = provider_totals(payer.pay(market.honest.submission, value), market.honest)
    attacked = create("attack", attack).apply(0, market.state)
    assert provider_totals(payer.pay(attacked.submission, value), attacked) == before
    assert max(before.values()) > 0


def test_labels_come_as_they_were_submitted_or_as_numbers_or_not_at_all():
    seen = {}

    def look(train, validation):
        seen["train"], seen["validation"] = train, validation
        return len(train)

    utility("named", target="class")(look)
    pay("named")
    assert set(seen["validation"].label.tolist()) == {"cat", "dog"}
    pairs = {(tuple(x), y) for x, y in zip(FEATURES.tolist(), LABEL.tolist(), strict=True)}
    here = zip(seen["train"].features.tolist(), seen["train"].label.tolist(), strict=True)
    assert {(tuple(x), y) for x, y in here} <= pairs
    assert (seen["train"].weight == 1).all()

    utility("numbers", target="number")(look)
    written = np.array([f"{i}.5" for i in range(8)])
    value = UtilityOracle(HELD, np.arange(6), Utility("numbers"))
    get_mechanism("recommended", samples=4).pay(submission(label=written), value)
    assert seen["train"].label.dtype == np.float64
    assert sorted(seen["validation"].label.tolist()) == list(range(6))
    with pytest.raises(SubmissionError, match="'dog', which is no number"):
        pay("numbers")

    utility("either", target="none")(look)
    get_mechanism("recommended", samples=4).pay(submission(label=None), oracle("either", None))
    assert seen["train"].label is None
    assert seen["validation"].label is None
    with pytest.raises(SubmissionError, match=r"coverage, .*either"):
        get_mechanism("recommended").pay(submission(label=None), oracle("named"))


def test_no_rows_are_worth_nothing_or_chance():
    def share(train, validation):
        return 0.75

    utility("plain")(share)
    utility("accuracy", over_chance=True)(share)
    assert sum(pay("plain").values()) == pytest.approx(0.75)
    assert sum(pay("accuracy").values()) == pytest.approx(0.25)
    with pytest.raises(ParameterError, match="chance is of classes"):
        utility("odd", target="none", over_chance=True)
    with pytest.raises(DataMarketError, match="target"):
        utility("odd", target="text")


@pytest.mark.parametrize(
    ("batched", "returned", "said"),
    [
        (
            False,
            None,
            r"'odd' returned NoneType None for a coalition of \d rows; return one finite number",
        ),
        (False, "0.5", "returned str '0.5'"),
        (False, np.ones(2), r"ndarray of shape \(2,\)"),
        (False, float("nan"), "returned float nan"),
        (False, np.float64("inf"), "inf"),
        (False, 1j, "complex"),
        (True, 0.5, r"returned float 0.5 for \d+ coalitions; return an array of as many numbers"),
        (True, np.ones((2, 2)), r"shape \(2, 2\)"),
        (True, [[1.0], [1.0, 2.0]], "list"),
        (False, 1e308, r"returned float 1e\+308 .* at most 1e\+150"),
        (True, "nan", r"returned nan for a coalition of \d rows"),
    ],
)
def test_what_is_no_worth_is_refused_by_name(batched, returned, said):
    def odd(train, *rest):
        return np.full(len(rest[0]), np.nan) if type(returned) is str and batched else returned

    utility("odd", target="none", batched=batched)(odd)
    with pytest.raises(UtilityError, match=said):
        pay("odd")


def test_what_a_function_raises_is_told_with_its_line():
    @utility("broken", target="none")
    def broken(train, validation):
        return 1 / (len(train) - 3)

    with pytest.raises(
        UtilityError,
        match=r"'broken' failed on 3 rows: ZeroDivisionError.*test_function_utility.py, line \d+",
    ) as told:
        pay("broken")
    assert isinstance(told.value.__cause__, ZeroDivisionError)


def test_a_function_cannot_end_the_command():
    @utility("leaving", target="none")
    def leaving(train, validation):
        raise SystemExit(0)

    with pytest.raises(UtilityError, match=r"'leaving' failed on .* SystemExit"):
        pay("leaving")


def test_a_utility_without_a_name_is_refused():
    with pytest.raises(ParameterError, match=r"nearest_distance.*with brackets"):
        utility(nearest_distance)


def test_a_function_is_given_validation_rows_in_the_order_of_their_content():
    seen = []

    @utility("first_held", target="class")
    def first_held(train, validation):
        seen.append((validation.features.tolist(), validation.label.tolist()))
        return 0.0

    held, code = np.vstack([HELD, HELD[:2]]), np.array([0, 1] * 3 + [1, 0])
    rows = TrainingRows(FEATURES, np.arange(8) % 2, np.arange(8), 8, 2, classes=np.array(["a", "b"]))
    for order in (np.arange(8), np.arange(8)[::-1], RNG.permutation(8)):
        validation = ValidationRows(held[order], code[order], classes=np.array(["a", "b"]))
        first_held().scorer(rows, validation).utility(np.ones((1, 8), dtype=bool))
    assert seen[0] == seen[1] == seen[2]


def test_a_function_cannot_change_what_others_are_asked():
    @utility("greedy", target="none")
    def greedy(train, validation):
        validation.features[:] = 0
        return 1.0

    with pytest.raises(UtilityError, match="read-only"):
        pay("greedy")


def test_names_that_are_taken_stay_and_a_cell_can_be_run_again():
    with pytest.raises(DataMarketError, match="registered twice"):
        utility("coverage")(nearest_distance)
    utility("again", target="none")(nearest_distance)
    again = utility("again", target="none")(nearest_distance)
    assert LEARNERS.create("again") == again()


def test_the_checker_takes_it_and_tells_what_is_wrong():
    validate_utility(utility("reach", target="none")(nearest_distance)())
    validate_utility(utility("reaches", target="none", batched=True)(nearest_distances)())

    def batchwise(train, coalitions, validation):
        return np.full(len(coalitions), float(len(coalitions)))

    with pytest.raises(ConformanceError, match="depend on the batch"):
        validate_utility(utility("batchwise", target="none", batched=True)(batchwise)())
    with pytest.raises(ConformanceError, match=r"outside \[0, 1\]"):
        validate_utility(utility("large", over_chance=True)(lambda train, validation: len(train))())


def test_given_what_is_there_already_only_more_is_worth_something():
    utility("reach", target="none")(nearest_distance)
    acquired = AcquiredData(submission(order=np.arange(3)), np.arange(3))
    given = oracle("reach").given(acquired)
    rest = submission(order=np.arange(3, 8))
    payer = get_mechanism("recommended", samples=64)
    together = nearest_distance(submission(), type("", (), {"features": HELD}))
    alone = nearest_distance(submission(order=np.arange(3)), type("", (), {"features": HELD}))
    assert sum(payer.pay(rest, given).as_dict().values()) == pytest.approx(together - alone, abs=1e-12)


FILE = '''
import numpy as np
from datamarket_gym import utility

@utility("from_a_file", target="none")
def from_a_file(train, validation):
    """How much room the units take up."""
    return float(np.ptp(train.features, axis=0).sum())
'''


def values(shared, text):
    made, rows = create("learner", text), shared
    return rows.pay(submission(), oracle(text)).as_dict() if made else None


def test_it_travels_to_other_processes(tmp_path):
    file = tmp_path / "own_utility_of_a_test.py"
    file.write_text(FILE)
    try:
        scripts.load([file])
        here = pay("from_a_file")
        payer = get_mechanism("recommended", samples=16)
        assert list(in_order(Processes(2), values, payer, [("from_a_file",)] * 2)) == [here, here]
        value = oracle("from_a_file")
        again = pickle.loads(pickle.dumps(value.learner))
        assert type(again) is type(value.learner)
        assert registry.describe("learner", "from_a_file").summary == "How much room the units take up."
        (by, first), text = registry.source_elsewhere("learner", "from_a_file"), file.read_text()
        assert by == "own_utility_of_a_test"
        file.write_text(text.replace(".sum()", ".mean()"))
        assert registry.source_elsewhere("learner", "from_a_file") != (by, first)
        assert registry.source_elsewhere("learner", "coverage") is None
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("own_utility_of_a_test", None)


@pytest.mark.parametrize("target", ["number", "none"])
def test_only_functions_of_classes_are_counted_from_chance(target):
    with pytest.raises(ParameterError, match="chance is of classes"):
        utility("chance_of_nothing", target=target, over_chance=True)
