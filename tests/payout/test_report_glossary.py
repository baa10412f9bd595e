"""The glossary of a report: everything that is registered is explained, in plain words."""

import dataclasses
import inspect
import re
import typing
from pathlib import Path

from datamarket_gym.core.registry import components
from datamarket_gym.evidence import leak
from datamarket_gym.judge.guarantees import certificate, certify
from datamarket_gym.payout.overrides import DESCENT
from datamarket_gym.payout.report import words
from datamarket_gym.payout.report.attack_words import ATTACKS, PARAMETERS
from datamarket_gym.payout.report.glossary import (
    PageGlossary,
    all_terms,
    attack_parameters,
    plain_attack,
)


def test_everything_that_is_registered_is_explained():
    known = all_terms()
    for kind in ("semivalue", "learner", "similarity"):
        for name in components(kind):
            assert f"component-{name}" in known or f"{kind}-{name}" in known, (kind, name)
    for name in components("evidence"):
        keys = {f"tie-{name}", f"evidence-{name}", f"component-{name}"}
        assert name == "none" or keys & set(known), name
    assert set(ATTACKS) >= {name for name, c in components("attack").items() if _ours(c)}
    fields = {f.name for c in components("attack").values() if _ours(c) for f in dataclasses.fields(c)}
    assert fields <= set(PARAMETERS)
    assert set(typing.get_args(certificate.Claim)) == set(words.CLAIMS)
    source = "".join(
        Path(inspect.getfile(m)).read_text(encoding="utf-8") for m in (certificate, certify)
    )
    assert set(re.findall(r'Condition\(\s*name="(\w+)"', source)) == set(words.CONDITIONS)
    assert set(DESCENT) <= set(words.REASONS)
    source = Path(leak.__file__).read_text(encoding="utf-8")
    by = re.findall(r'best\.offer\(.*"(\w+)"\)', source)
    by += re.search(r'for name in \("(\w+)", "(\w+)"\)', source).groups()
    assert set(by) == set(words.LEAKS)


def _ours(component):
    return component.__module__.startswith("datamarket_gym.")


def test_explanations_are_plain_and_short():
    for term in all_terms().values():
        assert term.title
        assert 10 < len(term.gloss) < 320, term
        assert "``" not in term.gloss
    assert len({t.title for t in all_terms().values() if t.key.startswith("attack-")}) == len(
        components("attack")
    )


def test_a_text_is_escaped_and_each_term_linked_once():
    glossary = PageGlossary()
    marked = glossary.mark("<b>theta</b> & theta, lineage@0.75 of mytheta")
    assert marked == (
        '&lt;b&gt;<a class="term" href="#g-theta">theta</a>&lt;/b&gt; &amp; theta, '
        '<a class="term" href="#g-tie-lineage">lineage@0.75</a> of mytheta'
    )
    assert [term.title for _, term in glossary.entries] == ["near copy", "theta"]


def test_reasons_of_the_operator_stand_as_they_are():
    glossary = PageGlossary()
    assert glossary.reasons("exact_hash, lineage").count("<a ") == 2
    assert ">supplied by &lt;pairs&gt;.csv<" in glossary.reason("supplied by <pairs>.csv")
    assert glossary.reason("same <iban>\u202e") == "same &lt;iban&gt;⟨U+202E⟩"


def test_attacks_are_told_with_their_parameters():
    assert plain_attack("near_duplicate_2x_sybils@0.02") == "noisy own copies, more names"
    assert plain_attack("somebody_elses(x=1)") == "somebody_elses"
    assert [name for name, _ in attack_parameters("near_duplicate_2x_sybils@0.02")] == ["sigma"]
    written = "squat(victim=all, points=20, knows=leak)"
    assert [name for name, _ in attack_parameters(written)] == ["victim", "points", "knows"]
    assert attack_parameters("copycat") == []
