"""The page about guarantees runs."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "guarantees.md"


def test_the_examples_run():
    certify, train = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names = {}
    exec(certify, names)
    assert "provider_0 played" in names["certificate"].words
    pytest.importorskip("gymnasium")
    exec(train, names)
    assert names["env"].reset(seed=0)[0].shape == (6,)
