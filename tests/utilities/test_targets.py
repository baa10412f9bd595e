"""What learners need of labels: units without any, numbers, and errors that name the utilities that need none."""

import numpy as np
import pytest

from datamarket_gym.data.acquired import AcquiredData
from datamarket_gym.data.inputs import as_numbers, is_labelled, unlabelled
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import SubmissionError, UtilityError
from datamarket_gym.market.tasks.base import Dataset
from datamarket_gym.mechanism import acquired_from, get_mechanism
from datamarket_gym.utilities.base import LEARNERS, TrainingRows, UtilityFunction, ValidationRows
from datamarket_gym.utilities.coverage import Coverage
from datamarket_gym.utilities.labels import Coding, require_labels, require_learnable, utilities_for
from datamarket_gym.utilities.oracle import ReferenceRows, Utility, UtilityOracle

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(5)
ROWS, HELD = RNG.normal(size=(12, 6)), RNG.normal(size=(20, 6))


def _units(label=None):
    return Submission([f"u{i}" for i in range(12)], [f"p{i % 3}" for i in range(12)], ROWS, label)


def _paid(label, held):
    return (
        get_mechanism("recommended")
        .pay(_units(label), UtilityOracle(HELD, held, Utility("coverage")))
        .as_dict()
    )


class _Numbers(UtilityFunction):
    target = "number"

    def scorer(self, rows, validation):
        raise NotImplementedError


def test_units_without_labels_are_paid_by_coverage_as_those_of_one_label():
    assert _paid(None, None) == _paid(np.zeros(12, int), np.zeros(20, int))
    assert sum(_paid(None, None).values()) > 0


def test_labels_on_one_side_alone_do_not_count():
    plain = _paid(None, None)
    assert _paid(None, np.arange(20) % 2) == plain
    assert _paid(np.array(["cat", "dog"] * 6), None) == pytest.approx(plain, abs=1e-15)
    assert _paid(np.arange(12) % 2, np.arange(20) % 2) != plain


def test_labels_of_acquired_art_alone_do_not_count():
    oracle = UtilityOracle(HELD, np.arange(20) % 2, Utility("coverage"))
    with_labels = acquired_from(get_mechanism("recommended").pay(_units(np.arange(12) % 2), oracle))
    told = {oracle.validation_digest: oracle.highest(with_labels.features, with_labels.label)}
    with_labels = AcquiredData(with_labels.units, with_labels.canonical, told)
    given, new = oracle.given(with_labels), RNG.normal(size=(3, 6))
    bare = given.scorer(new, unlabelled(3), None, np.arange(3), 3).utility(np.ones((1, 3), bool))
    without = UtilityOracle(HELD, None, Utility("coverage"))
    everything = np.concatenate([with_labels.features, new])
    all_of_it = without.scorer(
        everything, unlabelled(len(everything)), None, np.zeros(len(everything), int), 1
    )
    assert bare == pytest.approx(all_of_it.utility(np.ones((1, 1), bool)), abs=1e-12)


@pytest.mark.parametrize("name", ["knn", "ridge", "logistic"])
def test_a_learner_that_needs_labels_names_those_that_need_none(name):
    with pytest.raises(
        SubmissionError, match=rf"validation rows have no labels, and {name} needs them.*coverage"
    ):
        UtilityOracle(HELD, None, Utility(name))
    oracle = UtilityOracle(HELD, np.arange(20) % 2, Utility(name))
    with pytest.raises(SubmissionError, match=rf"units have no labels, and {name} needs them.*coverage"):
        require_learnable(_units().label, oracle)
    with pytest.raises(SubmissionError, match="units have no labels"):
        get_mechanism("recommended").pay(_units(), oracle)
    with pytest.raises(SubmissionError, match="units have no labels"):
        oracle.scorer(ROWS, unlabelled(12), None, np.arange(12), 12)


def test_learners_say_what_they_need():
    assert "coverage" in utilities_for("none")
    assert {"knn", "ridge", "logistic"} <= set(utilities_for("class"))
    assert all(LEARNERS.create(name).target == "none" for name in utilities_for("none"))
    assert Coverage.target == "none"


def test_numbers_are_coded_in_their_own_order_whatever_is_written():
    label, held = np.array(["10", "9.5", "-3"]), np.array([9.5, 2.0])
    coding = Coding.from_labels(_Numbers(), [held, label])
    assert coding.classes.tolist() == [-3.0, 2.0, 9.5, 10.0]
    rows = TrainingRows(np.eye(3), coding.codes(label), np.arange(3), 3, 4, classes=coding.classes)
    assert rows.target.tolist() == [10.0, 9.5, -3.0]
    assert ValidationRows(np.eye(2), coding.codes(held), coding.classes).target.tolist() == [9.5, 2.0]


def test_classes_are_no_numbers():
    rows = TrainingRows(np.eye(2), np.zeros(2, int), np.arange(2), 2, 1)
    with pytest.raises(UtilityError, match="classes, no numbers"):
        _ = rows.target


def test_what_is_no_number_is_named():
    with pytest.raises(SubmissionError, match="row 1, is 'high', which is no number"):
        as_numbers(np.array(["3", "high", "?"]))
    with pytest.raises(SubmissionError, match="row 2, is inf"):
        as_numbers(np.array([1.0, 2.0, np.inf]))
    with pytest.raises(SubmissionError, match="datetime64"):
        as_numbers(np.array(["2026-01-01"], dtype="datetime64[D]"))


def test_some_units_without_a_label_are_refused_and_none_at_all_are_not():
    with pytest.raises(SubmissionError, match="empty in row 2"):
        _units(np.array(["a", "b", "", *"abcabcabc"]))
    assert not _units(np.full(12, "")).labelled
    assert not _units([None] * 12).labelled
    assert _units(np.zeros(12, int)).labelled
    assert not is_labelled(_units().take(np.arange(3)).label)


def test_tables_leave_out_labels_that_are_not_there(tmp_path):
    from datamarket_gym.data import read_submission as read_submission
    from datamarket_gym.data import write_submission
    from datamarket_gym.data.submission import read_validation, write_table

    for name in ("units.parquet", "units.csv"):
        write_submission(_units(), tmp_path / name)
        again = read_submission(tmp_path / name)
        assert not again.labelled
        assert (again.keys == _units().keys).all()
    table = _units().to_arrow()
    assert "label" not in table.column_names
    write_table(table, tmp_path / "held.parquet")
    assert not is_labelled(read_validation(tmp_path / "held.parquet")[1])


def test_a_submission_without_labels_says_so():
    assert "no labels" in repr(_units())
    assert "2 labels" in repr(_units(np.arange(12) % 2))


def test_datasets_and_reference_rows_need_no_labels():
    assert not is_labelled(Dataset("d", ROWS, None, HELD, None).label)
    assert Dataset("d", ROWS, ROWS[:, 0], HELD, HELD[:, 0]).label.dtype.kind == "f"
    assert not is_labelled(ReferenceRows(HELD).label)


def test_measured_numbers_are_no_classes_under_coverage():
    with pytest.raises(
        SubmissionError, match=r"20 different ones in 20 rows.*knn_regression.*labels=False"
    ):
        UtilityOracle(HELD, np.arange(20) / 2, Utility("coverage"))
    numbers = UtilityOracle(HELD, np.arange(20) / 2, Utility("coverage(labels=False)"))
    assert get_mechanism("recommended").pay(_units(np.arange(12) / 3), numbers).as_dict() == _paid(
        None, None
    )
    whole = UtilityOracle(HELD, np.arange(20) % 2 * 1.0, Utility("coverage"))
    odd = np.where(
        np.arange(12) == 3, 0.5, np.arange(12) % 2
    )  # a submitter's fraction stops nobody's payout_run
    assert sum(get_mechanism("recommended").pay(_units(odd), whole).as_dict().values()) > 0


class _NotAvailable:
    """As pandas.NA: nothing can be asked of it."""

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = None


def test_labels_under_a_mask_are_none():
    numbers = np.arange(12.0)
    assert not _units(np.ma.masked_array(numbers, mask=True)).labelled
    assert _units(np.ma.masked_array(numbers, mask=False)).label.tolist() == numbers.tolist()
    with pytest.raises(SubmissionError, match="'label' is empty in row 3"):
        _units(np.ma.masked_array(numbers, mask=numbers == 3))


def test_a_label_of_which_nothing_can_be_asked_is_none():
    assert not _units(np.array([_NotAvailable()] * 12)).labelled
    with pytest.raises(SubmissionError, match="'label' is empty in row 1"):
        _units(np.array(["cat", _NotAvailable()] * 6, dtype=object))


def test_labels_in_bytes_are_text():
    written = np.array([f"é{i % 2}" for i in range(12)])
    found = _units(np.char.encode(written, "utf-8"))
    assert found.label.tolist() == written.tolist()
    assert (found.keys == _units(written).keys).all()
    with pytest.raises(SubmissionError, match=r"bytes that are no UTF-8 text \(b'\\xff'\)"):
        _units(np.array([b"\xff"] * 12))


def test_minus_nothing_is_nothing():
    zeros = np.zeros(12)
    assert (_units(-zeros).keys == _units(zeros).keys).all()


def test_numbers_that_only_python_reads_are_refused_and_long_ones_cut():
    with pytest.raises(SubmissionError, match="row 1, is '1_0', which is no number"):
        as_numbers(np.array(["1", "1_0"]))
    with pytest.raises(SubmissionError, match=r"row 0, is '9{39}\.\.\.; write a finite number"):
        as_numbers(np.array(["9" * 400]))


def test_whole_numbers_that_floats_would_merge_are_refused():
    large = 2**60 + np.arange(12)
    with pytest.raises(SubmissionError, match=r"label 11529215046068469\d\d .* write both as text"):
        _paid(large, np.full(20, 2.0**60))
    with pytest.raises(SubmissionError, match=r"label 11529215046068469\d\d .* write both as text"):
        _paid(np.full(12, 2.0**60), np.full(20, 2**60))
    assert _paid(np.arange(12) % 2, (np.arange(20) % 2) / 1.0) == _paid(
        np.arange(12) % 2, np.arange(20) % 2
    )


def test_classes_that_look_measured_are_sent_to_the_regressions():
    oracle = UtilityOracle(HELD, np.arange(20) + 0.5, Utility("knn"))
    with pytest.raises(
        SubmissionError, match=r"unseen in training; .* choose knn_regression or ridge_regression"
    ):
        require_learnable(np.arange(12) + 0.25, oracle)


def test_text_where_numbers_are_needed_is_refused_by_whose_it_is():
    with pytest.raises(SubmissionError, match="label of the rows of june, row 1, is 'cat', which is no"):
        require_labels("the rows of june", np.array(["1", "cat"]), _Numbers())


def test_dates_agree_with_no_number_and_are_refused():
    dates = np.full(12, "2026-05-01", dtype="datetime64[D]")
    oracle = UtilityOracle(HELD, np.arange(20) % 2, Utility("coverage"))
    with pytest.raises(SubmissionError, match=r"datetime64.*write both as numbers or both as text"):
        require_learnable(dates, oracle)


def test_the_one_label_that_makes_a_column_text_is_named():
    oracle = UtilityOracle(HELD, np.arange(20) % 2, Utility("knn"))
    odd = np.array(["0", "1", "cat", *"010101010"])
    with pytest.raises(SubmissionError, match=r"<U3 \(row 2 is 'cat'\) but the validation labels int64"):
        require_learnable(odd, oracle)
