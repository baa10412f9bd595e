"""Builds the sdist and the wheel twice, from two folders, and keeps them only if every byte is the same.

Usage: python tools/wheel.py [--out dist]

Times inside the files are that of the last commit (SOURCE_DATE_EPOCH, unless it is set already). The second build is
of a copy elsewhere whose files have other times and modes: what depends on them would differ. SHA256SUMS lies beside.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Build, and print the sums."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    print(build(parser.parse_args().out), end="")


def build(out: Path) -> str:
    """Build into a folder; what was built, in words."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct").strip()
    with tempfile.TemporaryDirectory() as folder:
        here, elsewhere, copy = (Path(folder) / name for name in ("here", "elsewhere", "copy"))
        copied(copy)
        first, second = built(ROOT, here, epoch), built(copy, elsewhere, epoch)
        if first != second:
            differing = ", ".join(sorted({name for name, _ in first.items() ^ second.items()}))
            sys.exit(f"two builds of {differing} differ: something in them is not of the commit alone")
        out.mkdir(parents=True, exist_ok=True)
        for name in first:
            shutil.copyfile(here / name, out / name)
    sums = "".join(f"{digest}  {name}\n" for name, digest in first.items())
    (out / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return f"twice the same bytes, with the time {epoch}:\n{sums}"


def built(source: Path, out: Path, epoch: str) -> dict[str, str]:
    """Build what lies in a folder; the SHA-256 of each file that came out, by name."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    given = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    done = subprocess.run(command, cwd=source, env=given, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"hatchling could not build {source}:\n{done.stderr}")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}


def copied(folder: Path) -> None:
    """Copy what git knows of the working tree, with the times and modes of files made anew."""
    for name in _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
            (folder / name).chmod(0o600)


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
