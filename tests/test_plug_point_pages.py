"""The pages about plug points: every kind has one, and its example registers, checks and uses a component."""

import re
from pathlib import Path

import pytest

from datamarket_gym import registry
from datamarket_gym import testing as conformance

DOCS = Path(__file__).parents[1] / "docs"
KINDS = sorted(conformance.CHECKERS)
SHORT = {"utility": "learner"}  # pages about a shorter way to write a component of some kind
PAGES = sorted([*KINDS, *SHORT])
MOST = 30  # lines that say something


def blocks(kind):
    text = (DOCS / "plug-points" / f"{kind}.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.S)


@pytest.fixture
def as_before():
    before = {kind: dict(known) for kind, known in registry._components.items()}
    yield
    for kind, known in before.items():
        for name in set(registry._components[kind]) - set(known):
            del registry._components[kind][name]


def test_every_kind_has_a_page_and_is_in_the_list():
    assert sorted(path.stem for path in (DOCS / "plug-points").glob("*.md")) == PAGES
    index = (DOCS / "plug-points.md").read_text(encoding="utf-8")
    linked = re.findall(r"\| \[(\w+)\]\((?:plug-points/)?(\w+)\.md\)", index)
    assert sorted(kind for kind, _ in linked) == sorted([*registry.HOMES, *SHORT])
    assert all(
        (DOCS / "plug-points" / f"{page}.md").exists() or page == "experiments" for _, page in linked
    )
    named = {checker.__name__ for checker in conformance.CHECKERS.values()}
    assert set(re.findall(r"`(validate_\w+)`", index)) == named


@pytest.mark.parametrize("page", PAGES)
def test_the_example_registers_checks_and_uses_its_component(page, as_before, monkeypatch, capsys):
    checked, kind = [], SHORT.get(page, page)
    checker = conformance.CHECKERS[kind]
    monkeypatch.setattr(
        conformance, checker.__name__, lambda component: (checker(component), checked.append(component))
    )
    for i, code in enumerate(blocks(page)):
        known = set(registry.components(kind))
        lines = [line for line in code.splitlines() if line.strip()]
        assert len(lines) < MOST, f"{len(lines)} lines"
        exec(compile(code, f"{page}.md", "exec"), {"__name__": "__main__"})
        (name,) = set(registry.components(kind)) - known
        assert registry.describe(kind, name).summary
        assert len(checked) == i + 1
    made = registry.lookup(kind, name)
    assert isinstance(checked[0], made) if isinstance(made, type) else checked
    assert capsys.readouterr().out.strip()  # it was used, and something came of it


def test_a_component_of_a_page_reaches_the_workers(as_before):
    """Pickled from ``__main__``, as a reader's script would be, a page's component reaches the workers."""
    from datamarket_gym.execution.parallel import Processes, in_order

    (code,) = blocks("evidence")
    exec(compile(code, "evidence.md", "exec"), {"__name__": "__main__"})
    assert list(in_order(Processes(2), made, None, [("rounded@0.25",)])) == [0.25]


def made(shared, text):
    from datamarket_gym import create

    return create("evidence", text).step
