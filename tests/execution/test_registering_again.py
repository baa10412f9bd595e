"""Registering again, plugins that are broken, and what a notebook's components know of their code."""

import importlib
import subprocess
import sys
import textwrap
import warnings

import pytest
from typer.testing import CliRunner

from datamarket_gym import create, register, registry
from datamarket_gym.cli.app import app
from datamarket_gym.errors import DataMarketError, PluginWarning, UnknownNameError
from datamarket_gym.evidence import Edges, EvidenceLayer
from datamarket_gym.registry import broken_plugins, components, lookup

CELL = """
from dataclasses import dataclass
from datamarket_gym import register
from datamarket_gym.evidence import Edges, EvidenceLayer

@register("evidence", "{name}")
@dataclass(frozen=True)
class {cls}(EvidenceLayer):
    answer = {answer}
    def edges(self, view):
        return Edges.none()
"""


@pytest.fixture(autouse=True)
def as_before():
    before = {kind: dict(known) for kind, known in registry._components.items()}, dict(registry._by)
    yield
    for kind, known in before[0].items():
        registry._components[kind].clear()
        registry._components[kind].update(known)
    registry._by.clear()
    registry._by.update(before[1])


def python(code):
    """What a fresh interpreter prints that reads the code as at a prompt (``-c``: __main__ has no file)."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def typed(name="mine", cls="Mine", answer=1, module="their_module"):
    exec(CELL.format(name=name, cls=cls, answer=answer), {"__name__": module})


def test_a_cell_that_runs_again_replaces_what_it_registered():
    typed(answer=1)
    typed(answer=2)
    assert create("evidence", "mine").answer == 2


def test_at_a_prompt_the_class_may_be_called_otherwise():
    code = CELL.format(name="mine", cls="First", answer=1) + CELL.format(
        name="mine", cls="Second", answer=2
    )
    assert (
        python(code + "\nfrom datamarket_gym import create\nprint(create('evidence', 'mine').answer)")
        == "2\n"
    )


def test_a_script_that_uses_a_name_twice_is_told(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        CELL.format(name="mine", cls="First", answer=1)
        + CELL.format(name="mine", cls="Second", answer=2)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert "evidence 'mine' is registered twice" in done.stderr


def test_a_module_that_is_reloaded_replaces_what_it_registered(tmp_path, monkeypatch):
    (tmp_path / "their_reloaded.py").write_text(CELL.format(name="mine", cls="Mine", answer=1))
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("their_reloaded")
    (tmp_path / "their_reloaded.py").write_text(CELL.format(name="mine", cls="Mine", answer=22))
    importlib.reload(module)
    assert create("evidence", "mine").answer == 22


def test_a_name_of_another_module_is_taken():
    typed(module="their_module")
    with pytest.raises(DataMarketError, match="twice, by their_module and by another_module; choose"):
        typed(module="another_module")


def test_a_built_in_name_is_taken_even_before_its_room_is_loaded():
    code = """
    from datamarket_gym import register
    try:
        @register("learner", "knn")
        class Mine: ...
    except Exception as error:
        print(type(error).__name__, error)
    """
    assert (
        "DataMarketError learner 'knn' is registered twice, by datamarket_gym.utilities.knn"
        in python(code)
    )


def test_an_instance_is_registered_and_replaced_like_a_class():
    first, second = Shown(), Shown()
    register("evidence", "shown")(first)
    register("evidence", "shown")(second)
    assert lookup("evidence", "shown") is second


class Shown(EvidenceLayer):
    def edges(self, view):
        return Edges.none()


def test_workers_learn_of_what_was_registered_anew():
    code = """
    from dataclasses import dataclass
    from datamarket_gym import create, register
    from datamarket_gym.execution.parallel import Processes, in_order
    from datamarket_gym.evidence import Edges, EvidenceLayer

    def again(answer):
        @register("evidence", "mine")
        @dataclass(frozen=True)
        class Mine(EvidenceLayer):
            value: int = answer
            def edges(self, view):
                return Edges.none()

    def asked(shared):
        return create("evidence", "mine").value

    for answer in (1, 2, 1):
        again(answer)
        print(list(in_order(Processes(2), asked, None, [()] * 2)))
    """
    assert python(code).split("\n")[:3] == ["[1, 1]", "[2, 2]", "[1, 1]"]


def test_changed_code_of_a_notebook_is_other_code():
    cells = [CELL.format(name="mine", cls="Mine", answer=answer) for answer in (1, 1, 2)]
    cells.append(cells[0].replace("Edges.none()", "Edges.concat([])"))
    tell = (
        "\nfrom datamarket_gym.registry import sources_elsewhere\nprint(sources_elsewhere()['__main__'])"
    )
    first, again, *others = python("".join(cell + tell for cell in cells)).split()
    assert first == again
    assert len({first, *others}) == 3


PLUG = """
from dataclasses import dataclass
from datamarket_gym import register
from datamarket_gym.evidence import Edges, EvidenceLayer
from my_helpers import FACTOR

@register("evidence", "theirs")
@dataclass(frozen=True)
class Theirs(EvidenceLayer):
    def edges(self, view):
        return Edges.none()
"""


@pytest.mark.parametrize("how", ["from my_helpers import twice", "import my_helpers"])
def test_changed_helpers_of_a_plug_point_are_other_code(how, tmp_path):
    plug = PLUG.replace("from my_helpers import FACTOR", how)
    (tmp_path / "my_plug.py").write_text(plug)
    (tmp_path / "unused.py").write_text("x = 1")
    tell = f"""
    import sys
    sys.path.insert(0, {str(tmp_path)!r})
    import my_plug
    from datamarket_gym.registry import sources_elsewhere
    print(sources_elsewhere()["my_plug"])
    """
    hashes = []
    for factor in (1, 1, 2):
        (tmp_path / "my_helpers.py").write_text(f"def twice(x):\n    return {factor} * x\n")
        hashes.append(python(tell).strip())
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_registered_spec_is_somebody_elses_and_goes_by_its_own_name():
    code = """
    from datamarket_gym import create, get_mechanism, register
    from datamarket_gym.execution.parallel import Processes, in_order
    from datamarket_gym.registry import sources_elsewhere

    def asked(shared):
        found = create("mechanism", "mine")
        return found.name, str(found.evidence)

    hashes = set()
    for theta in (0.5, 0.9, 0.5):
        register("mechanism", "mine")(get_mechanism("recommended", evidence=f"cosine@{theta}"))
        hashes.add(sources_elsewhere()["__main__"])
        print(list(in_order(Processes(2), asked, None, [()])))
    print(len(hashes))
    """
    mine = [f"[('mine', 'cosine@{theta}')]" for theta in (0.5, 0.9, 0.5)]
    assert python(code).split("\n")[:4] == [*mine, "2"]


class Broken:
    name, value = "theirs", "their.module"

    def load(self):
        raise ImportError("no module named foo")


class Leaving(Broken):
    name = "leaving"

    def load(self):
        raise SystemExit(3)


@pytest.fixture
def broken(monkeypatch):
    """Two plugins that cannot be loaded, looked for anew; unbroken after the test."""
    monkeypatch.setattr(registry, "entry_points", lambda group: [Broken(), Leaving()])
    registry._load_plugins.cache_clear()
    registry._load.cache_clear()
    yield
    registry._load_plugins.cache_clear()
    registry._load.cache_clear()
    registry._broken.clear()


def test_a_broken_plugin_is_named_once_and_everything_else_works(broken):
    with pytest.warns(PluginWarning) as told:
        assert "honest" in components("attack")
    assert [str(each.message).split(";")[0] for each in told] == [
        "the plugin 'theirs' (their.module) cannot be loaded: ImportError: no module named foo",
        "the plugin 'leaving' (their.module) cannot be loaded: SystemExit: 3",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert create("semivalue", "shapley")
    assert list(broken_plugins()) == ["theirs", "leaving"]


def test_a_name_that_is_missing_may_be_the_broken_plugins(broken):
    with (
        pytest.warns(PluginWarning),
        pytest.raises(UnknownNameError, match=r"unknown attack 'their_attack'; .*'theirs'.*mend it"),
    ):
        lookup("attack", "their_attack")


def test_the_list_shows_what_is_there_and_then_what_is_broken(broken):
    done = CliRunner().invoke(app, ["list", "semivalue"])
    assert done.exit_code == 0
    assert "shapley" in done.output
    at = done.output.index("the plugin 'theirs' (their.module) cannot be loaded: ImportError")
    assert at > done.output.index("banzhaf")
    assert "'leaving'" in done.output
