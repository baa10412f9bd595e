"""Progress of valuations: a report after two seconds, an estimate, a warning before more than a minute."""

import io
import sys
import time
import warnings

import numpy as np
import pytest

from datamarket_gym.errors import InputTypeError, LongValuationWarning
from datamarket_gym.execution import progress as module
from datamarket_gym.execution.progress import show_progress, shown_on_stderr
from datamarket_gym.games import estimate
from datamarket_gym.games.game import Game


class Sleeping(Game):
    """Each evaluation takes a while."""

    def __init__(self, n_players, seconds):
        super().__init__(n_players)
        self.seconds = seconds

    def _evaluate(self, coalitions):
        time.sleep(self.seconds * len(coalitions))
        return coalitions.sum(axis=1) / self.n_players


def test_a_warning_says_how_long_and_what_to_do_before_a_minute_has_passed():
    game, started = Sleeping(40, 0.002), time.monotonic()

    class Enough(Exception):
        pass

    def stop(done, total):
        raise Enough

    with (
        pytest.warns(
            LongValuationWarning, match=r"80,000 evaluations.*minutes; take fewer samples \(samples=\d+"
        ) as told,
        pytest.raises(Enough),
        show_progress(stop),
    ):
        estimate(game, "shapley", "permutation", samples=2000)
    assert time.monotonic() - started < 10
    assert told[0].filename == __file__


def test_short_valuations_neither_warn_nor_report():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with show_progress(lambda done, total: pytest.fail("reported too early")):
            found = estimate(Sleeping(8, 1e-5), "shapley", "exact")
    np.testing.assert_allclose(found.values, 1 / 8)
    assert found.evaluations == 255


def test_reports_grow_to_the_total(monkeypatch):
    monkeypatch.setattr(module, "_QUIET", 0.0)
    told = []
    with show_progress(lambda done, total: told.append((done, total))):
        found = estimate(Sleeping(10, 1e-5), "banzhaf", "exact")
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (1023, 1023)
    assert found.evaluations == 1023


@pytest.mark.parametrize(("semivalue", "planned"), [("loo", 11), ("shapley", 1023)])
def test_only_coalitions_that_count_are_planned(monkeypatch, semivalue, planned):
    monkeypatch.setattr(module, "_QUIET", 0.0)
    told = []
    with show_progress(lambda done, total: told.append(total)):
        estimate(Sleeping(10, 1e-5), semivalue, samples=256)
    assert set(told) == {planned}


def test_a_bar_is_shown_in_a_terminal_only_and_never_beside_another(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(module, "_QUIET", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    for shown, stream in ((False, io.StringIO()), (True, Terminal())):
        monkeypatch.setattr(sys, "stderr", stream)
        estimate(Sleeping(10, 1e-5), "shapley", "exact")
        assert ("evaluations" in stream.getvalue()) == shown
    monkeypatch.setattr(sys, "stderr", Terminal())
    with shown_on_stderr() as bar:
        bar.stage("demo", "markets")
        estimate(Sleeping(10, 1e-5), "shapley", "exact")
    assert "evaluations" not in sys.stderr.getvalue()


def test_values_do_not_depend_on_who_looks():
    from datamarket_gym.games.closed_form import SumOfUnanimity

    game = SumOfUnanimity.random(30, np.random.default_rng(0))
    plain = estimate(game, "shapley", "permutation", samples=20)
    with show_progress(lambda done, total: None):
        again = estimate(game, "shapley", "permutation", samples=20)
    np.testing.assert_array_equal(plain.values, again.values)
    assert plain.evaluations == again.evaluations


def test_progress_of_another_type_is_refused():
    with (
        pytest.raises(InputTypeError, match="progress is the text 'yes'; pass True"),
        show_progress("yes"),
    ):
        pass


def test_a_notebook_shows_a_line_of_text_without_widgets():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    show = (
        "from datamarket_gym.execution.progress import Watch, _report\nline = _report()\nline(30, 1000)"
    )
    cells = [
        nbformat.v4.new_code_cell(source)
        for source in (show, f"{show}\nWatch(lambda: (1000, 1), line).close()")
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    (shown,), (closed,) = (cell["outputs"] for cell in cells)
    assert shown["data"]["text/plain"].startswith("valuation: 30 of 1,000 evaluations, about ")
    assert closed["data"]["text/plain"] == ""


@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf", "loo"])
def test_many_players_are_planned_at_once(semivalue):
    from datamarket_gym.games.sampling import count_coalitions
    from datamarket_gym.registry import create

    started = time.monotonic()
    sizes = np.flatnonzero(create("semivalue", semivalue).size_weights(5_000)).tolist()
    found = count_coalitions(5_000, sizes, 256_000_000)
    assert found == (5_001 if semivalue == "loo" else 256_000_000)
    assert time.monotonic() - started < 5
