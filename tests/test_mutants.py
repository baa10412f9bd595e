"""The mutation run: which changes it makes, and which it leaves alone."""

import ast

import pytest

from repository import ROOT, tool_named

TEXT = '''"""At most 3 of them."""
from dataclasses import dataclass

__all__ = ["share", *["x"] * 2]
LIMIT = 0.9


@dataclass(frozen=True)
class Half:
    size: int = 1


def share(part: float | None, whole: float) -> float:
    """A share <= 1."""
    if not part or whole <= 0 and part.shape[1] > 3:
        raise ValueError(f"{whole + 1} is " + "below " * 2)
    order = sorted([part, whole], key=abs)
    check(max(order), axis=1)
    return part / whole
'''


@pytest.fixture(scope="module")
def tools():
    return tool_named("mutants"), tool_named("mutations")


def test_every_small_change_of_meaning_and_nothing_else(tools):
    found = tools[1].mutants("area", "module.py", TEXT)
    assert [(m.line, m.after) for m in found] == [
        (5, "LIMIT = 0.8"),
        (10, "size: int = 2"),
        (15, "if (not part and (whole <= 0 and part.shape[1] > 3)):"),
        (15, "if (part) or whole <= 0 and part.shape[1] > 3:"),
        (15, "if not part or (whole <= 0 or part.shape[1] > 3):"),
        (15, "if not part or (whole < 0) and part.shape[1] > 3:"),
        (15, "if not part or whole <= 1 and part.shape[1] > 3:"),
        (15, "if not part or whole <= 0 and (part.shape[1] >= 3):"),
        (15, "if not part or whole <= 0 and part.shape[1] > 4:"),
        (17, "order = sorted([part, whole], key=abs)[::-1]"),
        (18, "pass"),
        (18, "check(min(order), axis=1)"),
        (19, "return (part / whole) * 1.01"),
        (19, "return (part * whole)"),
        (19, "return (part)"),
    ]


def test_a_mutant_is_a_whole_module_with_one_change(tools):
    for mutant in tools[1].mutants("area", "module.py", TEXT):
        ast.parse(mutant.text)
        before, after = TEXT.splitlines(), mutant.text.splitlines()
        assert [i + 1 for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [
            mutant.line
        ]


def test_changes_over_several_lines_and_after_letters_of_several_bytes(tools):
    found = tools[1].mutants("area", "module.py", 'x = "é" if (a\n     < b) else c  # ü\n')
    assert [m.text for m in found] == ['x = "é" if ((a <= b)) else c  # ü\n']


def test_every_area_has_modules_and_tests(tools):
    mutants = tools[0]
    root = ROOT
    for area, (modules, tests) in mutants.AREAS.items():
        assert mutants.matching(root / mutants.PACKAGE, modules), f"{area} has no modules"
        assert mutants.matching(root / "tests", tests), f"{area} has no tests"


def test_judgements_are_of_lines_that_are_there(tools):
    """A module that was renamed loses its judgements without a word."""
    mutants = tools[0]
    texts = {}
    for path in mutants.matching(ROOT / mutants.PACKAGE, "*"):
        lines = {
            " ".join(line.split("#")[0].split())
            for line in path.read_text(encoding="utf-8").splitlines()
        }
        texts.setdefault(path.name, set()).update(lines)
    for name, line, _ in mutants.equivalent():
        assert line in texts.get(name, set()), f"{name} has no line {line!r}"


def test_the_sample_depends_on_the_seed_alone(tools):
    both = ["metrics", "payout/money"]
    first, again, other = (
        tools[0].sampled(only, 3, seed) for only, seed in ((both, 0), (["metrics"], 0), (both, 1))
    )
    assert again == [m for m in first if m.area == "metrics"]
    assert [m.key for m in other] != [m.key for m in first]


def test_equivalent_mutants_are_counted_apart_and_need_a_reason(tools, tmp_path, monkeypatch):
    mutants, mutations = tools
    found = mutations.mutants("metrics", "judge/module.py", "A = 1\nB = a + b\n")
    listed = tmp_path / "equivalent.txt"
    monkeypatch.setattr(mutants, "EQUIVALENT", listed)
    listed.write_text("# file, line, changed line, reason\nmodule.py\tA = 1\tA = 2\tnobody reads A\n")
    done = dict.fromkeys([m.key for m in found], "survived") | {found[-1].key: "killed"}
    report = mutants.report(found, done)
    assert "| metrics | **all** | 4 | 1 | 1 | 2 | 67% |" in report
    assert "judge/module.py:2\n    - B = a + b\n    + B = (a - b)" in report
    assert "A = 2" not in report
    listed.write_text("module.py\tA = 1\tA = 2\t \n")
    with pytest.raises(SystemExit, match="reason"):
        mutants.report(found, done)
