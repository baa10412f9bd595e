"""The glossary of a report: everything that is registered is explained, in plain words."""

import inspect
import re
import typing
from pathlib import Path

from datamarket_gym.analysis.theorems import certificate, certify
from datamarket_gym.payout.overrides import DESCENT
from datamarket_gym.payout.report.charts import attack_title
from datamarket_gym.payout.report.record import (
    PageGlossary,
    all_terms,
    attack_parameters,
)
from datamarket_gym.registry import components


def test_everything_that_is_registered_is_explained():
    known = all_terms()
    for kind in ("semivalue", "learner", "similarity", "mechanism", "evidence"):
        assert {f"component-{name}" for name in components(kind)} <= set(known)
    assert {f"attack-{name}" for name in components("attack")} <= set(known)
    names = {
        group: {key.removeprefix(f"{group}-") for key in known if key.startswith(f"{group}-")}
        for group in ("claim", "condition", "reason", "leak")
    }
    assert set(typing.get_args(certificate.Claim)) == names["claim"]
    source = "".join(
        Path(inspect.getfile(m)).read_text(encoding="utf-8") for m in (certificate, certify)
    )
    assert set(re.findall(r'Condition\(\s*name="(\w+)"', source)) == names["condition"]
    assert set(DESCENT) <= {*names["reason"], *components("evidence")}
    assert names["leak"] == {"features", "embedding", "text", "identical"}


def test_explanations_are_plain_and_short():
    for term in all_terms().values():
        assert term.title
        assert 10 < len(term.text) < 320, term
        assert "``" not in term.text
    assert len({t.title for t in all_terms().values() if t.key.startswith("attack-")}) == len(
        components("attack")
    )


def test_a_text_is_escaped_and_each_term_linked_once():
    glossary = PageGlossary()
    marked = glossary.mark("<b>theta</b> & theta, lineage@0.75 of mytheta")
    assert marked == (
        '&lt;b&gt;<a class="term" href="#g-theta">theta</a>&lt;/b&gt; &amp; theta, '
        '<a class="term" href="#g-component-lineage">lineage@0.75</a> of mytheta'
    )
    assert [term.title for term in glossary.entries] == ["descent from an earlier unit", "theta"]


def test_reasons_of_the_operator_stand_as_they_are():
    glossary = PageGlossary()
    assert glossary.reasons("exact_hash, lineage").count("<a ") == 2
    assert ">supplied by &lt;pairs&gt;.csv<" in glossary.reason("supplied by <pairs>.csv")
    assert glossary.reason("same <iban>\u202e") == "same &lt;iban&gt;⟨U+202E⟩"


def test_attacks_are_told_with_their_parameters():
    assert attack_title("near_duplicate_2x_sybils@0.02") == "near copies under new identities"
    assert attack_title("somebody_elses(x=1)") == "somebody_elses"
    assert [name for name, _ in attack_parameters("near_duplicate_2x_sybils@0.02")] == ["sigma"]
    written = "squat(victim=all, points=20, knows=leak)"
    assert [name for name, _ in attack_parameters(written)] == ["victim", "points", "knows"]
    assert attack_parameters("copycat") == []
