"""Checks of units without labels, and of units whose labels are numbers: what is planted, and what the page shows."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest
from check_files import draws_of
from payout_files import run as paid
from payout_files import units, validation

from datamarket_gym.payout.checks import page as page_module
from datamarket_gym.payout.checks.fakes import COPY, MIXTURE, RELABELLED, make_fakes
from datamarket_gym.payout.checks.page import checks_page, letter
from datamarket_gym.payout.checks.plant import _Names
from datamarket_gym.payout.kept import places_of
from datamarket_gym.payout.report.html import embedded, filled, style_sheet, template_text
from datamarket_gym.payout.what_if import finished_results
from datamarket_gym.world.attacks.labels import groups


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return paid(tmp_path_factory.mktemp("paid"), units(), validation())


def with_labels(run, label):
    """The run as if its units had these labels, or none."""
    _, results = finished_results(run, places_of(run))
    submission = replace(results.inputs.submission, label=label)
    return replace(results, inputs=replace(results.inputs, submission=submission))


def fakes_of(results, run, count=40):
    made = make_fakes(results, places_of(run), count, np.random.default_rng(1))
    assert len(made) == count
    return made


def test_without_labels_none_is_wrong_and_any_two_are_mixed(run):
    results = with_labels(run, None)
    made = fakes_of(results, run)
    assert {fake.how for fake in made} == {COPY, MIXTURE}
    assert {fake.label for fake in made} == {""}
    label = finished_results(run, places_of(run))[1].inputs.submission.label
    mixed = [label[fake.of] for fake in made if fake.how == MIXTURE]
    assert any(a != b for a, b in mixed)  # by what they were before labels were taken away


def test_of_labels_a_mixture_has_one(run):
    results = finished_results(run, places_of(run))[1]
    label = results.inputs.submission.label
    made = fakes_of(results, run)
    assert {fake.how for fake in made} == {COPY, MIXTURE, RELABELLED}
    assert all(len(set(label[fake.of].tolist())) == 1 for fake in made)


def test_numbers_of_fakes_are_numbers_that_somebody_wrote(run):
    rng = np.random.default_rng(3)
    n = len(finished_results(run, places_of(run))[1].inputs.submission)
    number = rng.normal(size=n).round(3)
    results, part = with_labels(run, number), groups(number)
    made = fakes_of(results, run)
    assert {fake.how for fake in made} == {COPY, MIXTURE, RELABELLED}
    for fake in made:
        assert float(fake.label) in number.tolist()
        own = number[fake.of[0]]
        if fake.how == RELABELLED:
            assert part[np.flatnonzero(number == float(fake.label))[0]] != part[fake.of[0]]
        else:
            assert float(fake.label) == own
        if fake.how == MIXTURE:
            assert part[fake.of[0]] == part[fake.of[1]]


def shown(run, results):
    drawn = draws_of(run)
    page = checks_page(results, places_of(run), drawn, {})
    text = filled(
        "checks.html.j2",
        page,
        style_sheet("checks.css"),
        [template_text("checks.js")],
        embedded({"key": "k"}),
    )
    return html.unescape(text)


def test_the_page_shows_labels_where_there_are_any(run):
    bare, full = (
        shown(run, r) for r in (with_labels(run, None), finished_results(run, places_of(run))[1])
    )
    tag = re.compile(r'<span class="tag">label <bdi>')
    assert len(tag.findall(full)) > 10
    assert not tag.search(bare)
    assert ("wrongly labelled" in full, "wrongly labelled" in bare) == (True, False)
    assert "else\u2019s, or made up" in bare
    assert "made from somebody else's, or made up), the payment is forfeit" in bare
    assert "wrongly labelled, or made up)" in letter("anna", ["u1"], "f" * 64, True)
    assert page_module.NAME == "checks.html"


def test_an_empty_label_stands_in_no_name(run):
    results = with_labels(run, None)
    results = replace(
        results, inputs=replace(results.inputs, ids=[f"- {i} -" for i in range(len(results.inputs.ids))])
    )
    drawn = replace(draws_of(run), draws=[])
    names = _Names(results, drawn, fakes_of(results, run, 4), np.random.default_rng(0))
    assert names.labelled is False
