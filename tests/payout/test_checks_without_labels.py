"""Checks of units without labels: what the page shows."""

import html
import re
from dataclasses import replace

import pytest
from check_files import draws_of
from payout_files import run as paid
from payout_files import units, validation

from datamarket_gym.payout.checks import review_page as page_module
from datamarket_gym.payout.checks.review_page import checks_page, letter
from datamarket_gym.payout.report.pages import embed_json, read_template, render_page
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.what_if import finished_results


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return paid(tmp_path_factory.mktemp("paid"), units(), validation())


def with_labels(run, label):
    """The run as if its units had these labels, or none."""
    _, results = finished_results(run, places_of(run))
    submission = replace(results.inputs.submission, label=label)
    return replace(results, inputs=replace(results.inputs, submission=submission))


def shown(run, results):
    drawn = draws_of(run)
    page = checks_page(results, places_of(run), drawn)
    scripts, key = [read_template("checks.js")], embed_json({"key": "k"})
    return html.unescape(render_page("checks.html.j2", "checks.css", scripts, page=page, charts=key))


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
