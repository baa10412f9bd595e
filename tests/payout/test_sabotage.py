"""What a hostile operator, a hostile payee and a careless clerk tried, and what came of it."""

import numpy as np
from payout_files import run as paid
from payout_files import units, validation


def test_labels_may_be_texts(tmp_path):
    """The red team makes up a label that nobody asks for; numpy cannot tell the last of several texts."""
    names = np.array(["ant", "bee", "cat"])
    submitted, rows = units(), validation()
    submitted["label"], rows["label"] = names[submitted["label"]], names[rows["label"]]
    folder = paid(tmp_path, submitted, rows, audit=True)
    assert (folder / "audit.json").is_file()
