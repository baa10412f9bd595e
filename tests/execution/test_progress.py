"""Progress in a log and on a terminal."""

import io

from rich.console import Console
from rich.progress import Progress as RichProgress

from datamarket_gym.execution.progress import Bar, Lines, shown_on_stderr


def test_lines_are_few_and_say_how_long_it_takes():
    now, out = [0.0], io.StringIO()
    lines = Lines(out, every=10, clock=lambda: now[0])
    lines.stage("reading")
    lines.stage("s2", "cells")
    for second in range(41):
        now[0] = float(second)
        lines.count(60 + second, 100)  # 60 were done by an earlier run
    assert out.getvalue().splitlines() == [
        "reading",
        "s2",
        "s2: 70 of 100 cells, 10 s, 30 s left",
        "s2: 80 of 100 cells, 20 s, 20 s left",
        "s2: 90 of 100 cells, 30 s, 10 s left",
        "s2: 100 of 100 cells, 40 s",
    ]


def test_work_that_counts_nothing_for_long_says_that_it_goes_on():
    now, out = [0.0], io.StringIO()
    lines = Lines(out, every=10, clock=lambda: now[0])
    lines.still()  # nothing has begun
    lines.stage("best-response", "cells")
    for second in range(0, 130, 5):
        now[0] = float(second)
        lines.still(60)
    lines.count(0, 5)
    now[0] = 200.0
    lines.still(60)
    assert out.getvalue().splitlines() == [
        "best-response",
        "best-response, 60 s, still at work",
        "best-response, 120 s, still at work",
        "best-response: 0 of 5 cells, 200 s, still at work",
    ]


def test_a_stage_that_is_all_done_says_so_at_once():
    out = io.StringIO()
    lines = Lines(out)
    lines.stage("audit", "attacks")
    lines.count(1200, 1200)
    assert out.getvalue() == "audit\naudit: 1,200 of 1,200 attacks, 0 s\n"


def test_bars_of_counted_stages_stay_and_others_make_room():
    with RichProgress(console=Console(file=io.StringIO(), force_terminal=True)) as bars:
        bar = Bar(bars)
        bar.stage("reading [a file]")
        bar.stage("s1", "cells")
        bar.count(3, 10)
        bar.stage("s2", "cells")
        bar.count(1, 2)
        bar.stage("writing")
        assert [(t.description, t.completed, t.total) for t in bars.tasks] == [
            ("s1", 3, 10), ("s2", 1, 2), ("writing", 0, None),
        ]  # fmt: skip
        bar.close()
        assert [t.description for t in bars.tasks] == ["s1", "s2"]


def test_stderr_shows_lines_in_a_log_and_bars_on_a_terminal(capsys, monkeypatch):
    with shown_on_stderr() as progress:
        progress.stage("reading")
    captured = capsys.readouterr()
    assert captured.err == "reading\n"
    assert captured.out == ""
    with shown_on_stderr(in_logs=False) as progress:
        progress.stage("explaining")
        progress.count(1, 2)
    assert capsys.readouterr().err == ""
    for variable in ("FORCE_COLOR", "TTY_COMPATIBLE"):  # colours may be wanted in a log, bars never are
        monkeypatch.setenv(variable, "1")
        with shown_on_stderr() as progress:
            progress.stage("s2", "cells")
            progress.count(2, 2)
        assert capsys.readouterr().err == "s2\ns2: 2 of 2 cells, 0 s\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with shown_on_stderr() as progress:
        assert isinstance(progress, Bar)
        progress.stage("s2 [bold]", "cells")
        progress.count(1, 2)
    captured = capsys.readouterr()
    assert "s2 [bold]" in captured.err
    assert "1/2" in captured.err
    assert captured.out == ""
