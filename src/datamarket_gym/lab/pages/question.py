"""The page of a question: a plain answer, its figures, short tables, what must hold, and the paper beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from datamarket_gym.lab.accounts import Account, summed_up
from datamarket_gym.lab.pages.against import Against, counted, furthest
from datamarket_gym.lab.pages.asked import Pick, ResultQuestion
from datamarket_gym.lab.pages.picked import Rows, fields, filled, required
from datamarket_gym.lab.pages.short import short_table
from datamarket_gym.lab.pages.spent import TIME
from datamarket_gym.lab.promises import Kept
from datamarket_gym.lab.promises import counted as told
from datamarket_gym.lab.results import Compact

NOTE = (
    "Gains are attacked over honest pay: 1 is honesty. Means over seeds ± one standard error; \\* rests on fewer seeds "
    "than were run. Ratios of means, additive gains and the seeds left out are in the full tables: "
)


@dataclass(frozen=True)
class Found:
    """All results by experiment: as they were kept, as rows, what was promised of them, and against the paper.

    ``tables`` is the folder in which they lie and their full tables with them.
    """

    tables: str
    kept: Mapping[str, Compact]
    rows: Rows
    promised: Mapping[str, Sequence[Kept]]
    against: Against

    @property
    def questions(self) -> str:
        """The folder of the questions' pages."""
        return self.beside("questions")

    def beside(self, name: str) -> str:
        """What lies beside the front page, named after it if that is not results.md: two can lie in a folder."""
        return name if self.tables == "results" else f"{self.tables}-{name}"

    def known(self, picks: Mapping[str, Pick], experiments: Sequence[str]) -> dict[str, str]:
        """What fields of a text stand for: numbers, and counts of some experiments and against the paper in all."""
        every = [account for shown in self.against.values() for account in shown]
        holds = [each.holds for each in self.promises(experiments)]
        return {
            **fields(self.rows, picks),
            **counted(self.accounts(experiments)),
            **counted(every, "all"),
            **{
                k: v
                for name in experiments
                for k, v in counted(self.against.get(name, ()), name).items()
            },
            "promises.held": str(sum(holds)),
            "promises.all": str(len(holds)),
        }

    def accounts(self, experiments: Sequence[str]) -> list[Account]:
        """The accounts with the paper of some experiments."""
        return [account for name in experiments for account in self.against.get(name, ())]

    def promises(self, experiments: Sequence[str]) -> list[Kept]:
        """What was promised of some experiments."""
        return [each for name in experiments for each in self.promised.get(name, ())]


@dataclass(frozen=True)
class AnsweredPage:
    """A question that these results answer: its line on the front page, and its own page."""

    question: ResultQuestion
    line: str
    page: str


def answer(question: ResultQuestion, found: Found) -> AnsweredPage:
    """The answer; results that lack something for it are an error that says what."""
    required(found.rows, question.experiments)
    known = found.known(question.numbers, question.experiments)
    line = filled(question.short, known, question.slug)
    text = [
        f"# {question.asks}",
        "",
        f"**{line}**",
        "",
        filled(question.answer, known, question.slug),
        "",
    ]
    text += [short_table(table, found.rows) for table in question.tables]
    links = ", ".join(f"[{name}](../{found.tables}/{name}.md)" for name in question.experiments)
    note = "The full table: " if question.experiments == [TIME] else NOTE
    text += [f"{note}{links}.", ""]
    text += [_figure(question, figure) for figure in question.figures]
    if question.more:
        text += [f"More: {', '.join(f'[{page}](../{page})' for page in question.more)}.", ""]
    page = "\n".join([*text, *_held(question, found), *_paper(question, found)]).rstrip() + "\n"
    return AnsweredPage(question, line, page)


def _figure(question: ResultQuestion, name: str) -> str:
    """A picture that leads to itself, as some are too fine for the width of a page."""
    return f"[![{question.asks}](../figures/{name}.svg)](../figures/{name}.svg)\n"


def _held(question: ResultQuestion, found: Found) -> list[str]:
    """What was promised of these experiments, and whether it holds."""
    lines = [
        f"- **{'Holds' if each.holds else 'Does not hold'}**: {each.promise.says} {told(each).rstrip(':.')}."
        for each in found.promises(question.experiments)
    ]
    return ["## What must hold", "", *lines, ""] if lines else []


def _paper(question: ResultQuestion, found: Found) -> list[str]:
    """How the question's experiments compare with the paper."""
    shown = found.accounts(question.experiments)
    if not shown:
        return []
    gains = any(one.metric.startswith("gain") for one in shown)
    said = f"{summed_up(shown)}." + (" As in the paper, U(empty) = 0." if gains else "")
    against = {name: found.against.get(name, ()) for name in question.experiments}
    outside = furthest(against, f"../{found.tables}")
    more = " Furthest outside, in bars:" if outside else ""
    return ["## Against the paper", "", said + more, "", *outside, ""]
