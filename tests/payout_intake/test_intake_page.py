"""What docs/intake.md says to type works, in its order."""

import doctest
import re
import shlex
from contextlib import chdir
from pathlib import Path

from typer.testing import CliRunner

from datamarket_gym.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "intake.md").read_text(encoding="utf-8")
FILES = {
    "alice.csv": "id,text,label\nu1,red fox,a\nu2,blue bird,b\nu3,green fish,a\n",
    "bob.csv": "id,text,label\nv1,white hare,a\nv2,black hare,b\n",
    "portal.csv": "contributor,text,section,uploaded_at\ncem,old,a,2026-10-01\ndan,owl,b,2026-10-02\n",
}


def test_the_commands(tmp_path):
    lines = [
        line
        for block in re.findall(r"^```\n(.*?)^```", PAGE, re.S | re.M)
        for line in block.splitlines()
    ]
    assert len(lines) == 8
    assert {shlex.split(line, comments=True)[2] for line in lines if "intake" in line} >= {
        "init", "add", "show", "check", "import",
    }  # fmt: skip
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    with chdir(tmp_path):
        for line in lines:
            program, *words = shlex.split(line, comments=True)
            done = CliRunner().invoke(app, words)
            assert (program, done.exit_code) == ("datamarket", 0), (line, done.output, done.exception)
    assert (tmp_path / "alice.csv.entry-2.receipt.json").stat().st_size < 1000


def test_the_session(tmp_path):
    [session] = re.findall(r"```python\n(>>> .*?)```", PAGE, re.S)
    test = doctest.DocTestParser().get_doctest(session, {}, "intake.md", None, 0)
    with chdir(tmp_path):
        ran = doctest.DocTestRunner().run(test)
    assert (ran.failed, ran.attempted) == (0, len(test.examples))
    assert ran.attempted > 5
