"""All pages of a folder of compact results, by where they lie beside it; a function of the results alone."""

from __future__ import annotations

from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab.accounts import accounts
from datamarket_gym.lab.pages.asked import asked
from datamarket_gym.lab.pages.front import NUMBERS, front_page, ten
from datamarket_gym.lab.pages.full import full_page
from datamarket_gym.lab.pages.picked import LackingError
from datamarket_gym.lab.pages.question import Found, answer
from datamarket_gym.lab.pages.reproduction import reproduction_page
from datamarket_gym.lab.pages.spent import TIME, paper_times, time_page, time_rows
from datamarket_gym.lab.promises import kept as held
from datamarket_gym.lab.results import read_all

ACCOUNTS = "accounts.md"


def found_in(folder: Path) -> Found:
    """The results of a folder, with the paper's numbers beside them."""
    kept = read_all(folder)
    if not kept:
        raise DataMarketError(
            f"there are no results in {str(folder)!r}; make some and take them in: datamarket run s2; "
            "datamarket results runs"
        )
    if any(one.spec.name == TIME for one in kept):
        raise DataMarketError(
            f"an experiment is called {TIME!r}, as the page of times is; give it another name and run it again"
        )
    against = {one.spec.name: accounts(one.spec.name, one.rows) for one in kept}
    return Found(
        folder.name,
        {one.spec.name: one for one in kept},
        {**{one.spec.name: one.rows for one in kept}, TIME: time_rows(kept)},
        {one.spec.name: [held(promise, one.rows) for promise in one.spec.promises] for one in kept},
        {**against, TIME: paper_times(kept)},
    )


def pages(folder: Path) -> dict[str, str]:
    """Every page by its path: ``results.md``, ``questions/SLUG.md``, ``results/EXPERIMENT.md`` beside the folder.

    ``ten-numbers.md`` is a part of other pages: the ten numbers alone. ``reproduce.md`` leads from the paper's tables
    and figures to ours, where the results have any of them.

    A question that these results cannot answer has no page; the front page says what is missing.
    """
    found = found_in(folder)
    answers, lacking = [], {}
    for question in asked().question:
        try:
            answers.append(answer(question, found))
        except LackingError as error:
            lacking[question.asks] = str(error)
    made = {f"{found.questions}/{each.question.slug}.md": each.page for each in answers}
    for name, one in found.kept.items():
        asking = [each.question for each in answers if name in each.question.experiments]
        made[f"{folder.name}/{name}.md"] = full_page(one, found.against[name], asking, found.questions)
    made[f"{folder.name}/{TIME}.md"] = time_page(list(found.kept.values()), found.against[TIME])
    linked = (folder.parent / ACCOUNTS).exists()
    told = ten(found, asked().number, {*made, *([ACCOUNTS] if linked else [])})
    front = f"{folder.name}.md"
    reproduced = reproduction_page(found)
    if reproduced:
        made[found.beside("reproduce.md")] = reproduced
    if told:
        made[found.beside("ten-numbers.md")] = NUMBERS.format(front=front) + told
    return {
        front: front_page(found, answers, lacking, told, accounts=linked, reproduced=bool(reproduced)),
        **made,
    }
