"""Which page belongs to which section of the site. A page that no section names is in the last one, so none is lost."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

INDEX = "index.md"


@dataclass(frozen=True)
class Section:
    """A section: its title, the page that leads it (made where nobody has written it), what it says, its pages."""

    title: str
    lead: str
    says: str
    patterns: tuple[str, ...]


SECTIONS = (
    Section(
        "Tutorials", "tutorials/index.md", "Ten minutes each, for the researcher and for the operator.",
        ("install.md", "valuation.md", "quickstarts.md", "tutorials/*", "notebooks/*"),
    ),
    Section(
        "How to", "how-to/index.md", "One task a page.",
        (
            "how-to/*", "plug-points.md", "plug-points/*", "experiments.md", "runs.md", "cluster.md", "explorer.md",
            "theory-tools.md", "environments.md", "real-domains.md", "scores.md", "attributions.md",
        ),
    ),
    Section(
        "Pay people", "section-pay.md", "A payday from the table to the bank, and what is told to whom.",
        (
            "payout.md", "unlabelled-texts.md", "tables.md", "intake.md", "acquired-data.md", "checks.md",
            "ledger.md", "statements.md", "bank.md", "disputes.md",
        ),
    ),
    Section(
        "Theory", "theory/index.md", "Each theorem, its proof, the code that computes it and the test that states it.",
        (
            "theory/*", "lineage.md", "coverage.md", "guarantees.md", "regression.md", "limits.md", "glossary.md",
            "paper-interface.md",
        ),
    ),
    Section(
        "Results", "questions/index.md", "What was measured, one page a question.",
        (
            "results.md", "reproduce.md", "questions/*", "multi-attacker.md", "gallery.md", "utilities.md",
            "fidelity.md", "royalty.md", "mutants.md",
        ),
    ),
    Section("Full tables", "section-tables.md", "Every row that the answers rest on.", ("results/*",)),
    Section(
        "Benchmark", "leaderboard.md", "Who does best under attack, and how to enter.",
        ("enter.md", "baselines.md", "protocol.md"),
    ),
    Section(
        "Speed and size", "section-scale.md", "How long it takes, and how large it may be.",
        ("benchmarks.md", "scale.md"),
    ),
    Section("API reference", "api/index.md", "", ("api/*",)),
    Section(
        "The project", "section-project.md", "Its first page on the code host, how to take part, and what changed.",
        ("readme.md", "contributing.md", "changelog.md"),
    ),
)  # fmt: skip


def sorted_pages(pages: Iterable[str]) -> dict[Section, list[str]]:
    """The pages of each section, in the order of its patterns; whatever is left goes to the last section."""
    left = sorted(set(pages) - {INDEX} - {section.lead for section in SECTIONS})
    found: dict[Section, list[str]] = {}
    for section in SECTIONS:
        mine = [page for pattern in section.patterns for page in left if fnmatchcase(page, pattern)]
        found[section] = list(dict.fromkeys(mine))
        left = [page for page in left if page not in found[section]]
    found[SECTIONS[-1]] += left
    return found


def as_linked(pages: Iterable[str], section: Section, lead: str) -> list[str]:
    """Pages of a section, those of one pattern in the order in which the page that leads them links to them last."""
    here = section.lead.rpartition("/")[0]

    def key(page: str) -> tuple[int, float]:
        group = next(
            (i for i, each in enumerate(section.patterns) if fnmatchcase(page, each)),
            len(section.patterns),
        )
        at = lead.rfind(f"]({page.removeprefix(f'{here}/') if here else page})")
        return group, at if at >= 0 else math.inf

    return sorted(pages, key=key)


def toctree(pages: Iterable[str], lead: str) -> str:
    """A list of pages for the sidebar, at the end of the page that leads them."""
    names = [f"/{page.rsplit('.', 1)[0]}" for page in pages if page != lead]
    return "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"


def title_of(text: str) -> str:
    """The first heading of a page."""
    found = re.search(r"^# (.*)$", text, re.M)
    return found[1].strip() if found else ""


def lead_page(section: Section, titles: dict[str, str]) -> str:
    """The page that leads a section where nobody has written one."""
    rows = [f"- [{title}](/{page})" for page, title in titles.items()]
    return "\n".join([f"# {section.title}", "", section.says, "", *rows]) + "\n"
