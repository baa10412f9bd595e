"""The full tables of an experiment: everything that its compact results hold and the paper says of it."""

from __future__ import annotations

from collections.abc import Sequence

from datamarket_gym.lab.accounts import Account, comparison
from datamarket_gym.lab.figures import figures_of
from datamarket_gym.lab.pages.asked import ResultQuestion
from datamarket_gym.lab.promises import promises_page
from datamarket_gym.lab.results import Compact
from datamarket_gym.lab.spec import builtin_specs
from datamarket_gym.lab.tables import render


def full_page(
    one: Compact, against: Sequence[Account], asking: Sequence[ResultQuestion], folder: str
) -> str:
    """The page of an experiment, which lies beside its compact results; ``folder`` has the questions."""
    name, spec = one.spec.name, one.spec
    text = [f"# {name}: {spec.title}", "", spec.about.strip() or spec.title, ""]
    said = [f"Seeds {one.first_seed} to {one.last_seed}.", f"Rows: [{name}.json]({name}.json)."]
    if name in builtin_specs():
        said.append(f"Made by `datamarket run {name}`.")
    if asking:
        said.append(f"It answers: {' '.join(f'[{q.asks}](../{folder}/{q.slug}.md)' for q in asking)}")
    text += [" ".join(said), ""]
    text += [f"![{spec.title}](../figures/{figure}.svg)\n" for figure in figures_of(name)]
    text.append(render(one.rows, spec.tables))
    if spec.promises:
        text.append(promises_page(spec, one.rows))
    if against:
        text.append(comparison("Cell by cell against the paper", against))
    return "\n".join(text)
