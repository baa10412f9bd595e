"""The README of an index page: that of the repository without links and images that lead to files beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"!\[[^\]]*\]\((?!\w+://)[^)]*\)\n?")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+://|#)[^)]*\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def index_readme(text: str) -> str:
    """Keep the words of links to files of the repository, and drop their targets and such images; leave code alone."""
    parts = _FENCE.split(text)
    parts[::2] = [_LINK.sub(r"\1", _IMAGE.sub("", part)) for part in parts[::2]]
    return "".join(parts)


class IndexReadme(MetadataHookInterface):
    """The long description of the wheel and the sdist."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the field `readme`."""
        text = index_readme((Path(self.root) / "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
