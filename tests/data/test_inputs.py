"""Labels: which are missing, which are none at all, and which are numbers."""

import numpy as np
import pytest

from datamarket_gym.data.inputs import as_numbers, is_labelled, label_column, unlabelled
from datamarket_gym.errors import SubmissionError


@pytest.mark.parametrize("missing", [[np.nan] * 3, [None] * 3, [""] * 3, None])
def test_labels_that_are_all_missing_are_none(missing):
    assert label_column(missing, 3).tolist() == unlabelled(3).tolist()
    assert not is_labelled(label_column(missing, 3))


@pytest.mark.parametrize("some", [[1.0, np.nan, 2.0], ["a", None, "b"], ["a", "", "b"]])
def test_a_label_that_is_missing_beside_others_is_named(some):
    with pytest.raises(SubmissionError, match="empty in row 1; label the unit or remove it"):
        label_column(some, 3)


@pytest.mark.parametrize("kind", [str, float])
def test_no_units_have_labels_as_far_as_anybody_can_tell(kind):
    assert is_labelled(np.array([], dtype=kind))


@pytest.mark.parametrize("wild", ["1e200", "-1e200", "inf", "nan"])
def test_numbers_whose_square_would_overflow_are_refused_by_row(wild):
    with pytest.raises(SubmissionError, match=rf"row 1, is '{wild}'; write a finite number of at most"):
        as_numbers(np.array(["1", wild]))
    assert as_numbers(np.array(["1", "1e150"])).tolist() == [1.0, 1e150]
