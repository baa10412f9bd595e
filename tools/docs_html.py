"""The built site, looked over: links inside it lead somewhere, and pages load nothing from elsewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}
_CSS = re.compile(r"""(?:url\(|@import\s+)\s*["']?((?:https?:)?//[^"')\s]+)""")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif (tag, name) in LOADS and value:
                self.loads.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)


def read(file: Path) -> _Page:
    """What a page names, links to and loads."""
    page = _Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def faults(site: Path) -> list[str]:
    """What is wrong with a built site, a line each."""
    pages = {file.resolve(): read(file) for file in sorted(site.rglob("*.html"))}
    found = [
        f"{file.relative_to(site)} loads {target}"
        for file in sorted(site.rglob("*.css"))
        for target in _CSS.findall(file.read_text(encoding="utf-8"))
    ]
    for file, page in pages.items():
        where = file.relative_to(site.resolve())
        for target in page.loads:
            if re.match(r"(https?:)?//", target):
                found.append(f"{where} loads {target}")
            elif not target.startswith("data:") and not _leads(file, target, pages):
                found.append(f"{where} loads {target}, which is not there")
        found += [
            f"{where} links to {target}, which is not there"
            for target in page.links
            if not _leads(file, target, pages)
        ]
    return found


def _leads(file: Path, target: str, pages: dict[Path, _Page]) -> bool:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return True
    there = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not there.exists():
        return False
    is_known = not parts.fragment or there not in pages
    return is_known or unquote(parts.fragment) in pages[there].ids
