"""Plays an example of examples/ and splits what it prints into its scenes."""

import re
import subprocess
import sys

from repository import ROOT


def play(example, folder, *options):
    """Return what each scene of an example prints, played in a folder that is not there yet."""
    words = [
        sys.executable,
        "-W",
        "ignore",
        str(ROOT / "examples" / example),
        "--out",
        str(folder),
        *options,
    ]
    done = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    parts = re.split(r"^== (.+) ==\n", done.stdout, flags=re.MULTILINE)[1:]
    return {name: text.strip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}
