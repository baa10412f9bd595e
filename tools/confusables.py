"""Writes the table of confusable characters that the package carries, from two files of Unicode.

    python tools/confusables.py confusables.txt DerivedCoreProperties.txt

Both are published by Unicode (https://www.unicode.org/Public/security/latest, .../UCD/latest/ucd) and come with the
sources of ICU (source/data/unidata); they must be of one version. One line per prototype and the characters that look
like it, in order of code points, so that the same files give the same bytes.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

OUT = Path(__file__).parents[1] / "src/datamarket_gym/payout/unicode/confusables.txt"
HEAD = """\
# Confusable characters, Unicode {version} ({date}).
# Copyright 2016-2024 Unicode, Inc. SPDX-License-Identifier: Unicode-3.0 (the licence is beside this file).
# MODIFIED: rearranged by tools/confusables.py from Unicode's confusables.txt (every mapping) and from
# DerivedCoreProperties.txt (Default_Ignorable_Code_Point). Code points in hexadecimal; a line is
# PROTOTYPE = CHARACTERS that look like it; the first line, without a prototype, is of ranges that cannot be seen.
"""


def table(confusables: str, properties: str) -> str:
    """The package's file from the texts of both of Unicode's."""
    version = _found(r"# Version: (\S+)", confusables)
    if _found(r"# DerivedCoreProperties-(\S+)\.txt", properties) != version:
        raise SystemExit(f"the files are of different versions; confusables.txt is of {version}")
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for source, target in re.findall(
        r"^\ufeff?([0-9A-F]+) ;\t([0-9A-F ]+) ;\tMA\t", confusables, re.MULTILINE
    ):
        alike[tuple(int(c, 16) for c in target.split())].append(int(source, 16))
    unseen = re.findall(r"^([0-9A-F.]+) *; Default_Ignorable_Code_Point", properties, re.MULTILINE)
    lines = [f"= {' '.join(unseen)}"]
    lines += [f"{_written(target)} = {_written(sorted(alike[target]))}" for target in sorted(alike)]
    return (
        HEAD.format(version=version, date=_found(r"# Date: (\S+),", confusables))
        + "\n".join(lines)
        + "\n"
    )


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise SystemExit(f"one of the files is not Unicode's: {pattern!r} is not in it")
    return found[1]


def _written(points: list[int] | tuple[int, ...]) -> str:
    return " ".join(f"{point:04X}" for point in points)


def main() -> None:
    """Write the file."""
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    texts = [Path(name).read_text(encoding="utf-8-sig") for name in sys.argv[1:]]
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(table(*texts), encoding="ascii")


if __name__ == "__main__":
    main()
