"""Writes the tables of docs/environments.md from what the environments say of themselves.

Each table stands between two comments, `<!-- actions -->` and `<!-- /actions -->`. Run ``python
tools/environments_page.py`` where tests/judge/redteam/test_environments_page.py finds one that is stale.
"""

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from datamarket_gym.core.files import write_text
from datamarket_gym.core.registry import describe
from datamarket_gym.envs import AttackEnv, ParallelMarketEnv, SpaceField
from datamarket_gym.judge.redteam.space import SPACE, Dial

PAGE = Path(__file__).parents[1] / "docs" / "environments.md"
SCALES = {"share": "", "count": "", "part": " (cubic)", "noise": " standard deviations (logarithmic)"}


def table(*rows: Sequence[str]) -> str:
    """A Markdown table, its head first."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def fields(described: Sequence[SpaceField]) -> str:
    """The fields of a space: where they stand in the vector, and what they say."""
    rows, at = [("Index", "Name", "Shape", "Range", "Meaning")], 0
    for field in described:
        index = f"{at}" if field.size == 1 else f"{at} to {at + field.size - 1}"
        rows.append(
            (
                index,
                f"`{field.name}`",
                f"({field.size},)",
                f"{field.low:.0f} to {field.high:.0f}",
                field.meaning,
            )
        )
        at += field.size
    return table(*rows)


def families() -> str:
    """The attack families: their intervals, and what their parameters may be."""
    rows = [("`family` in", "Attack", "What it does", "`parameters`, in this order")]
    for i, (name, dials) in enumerate(SPACE.items()):
        low, high = (f"{end / len(SPACE):.3f}" for end in (i, i + 1))
        rows.append(
            (
                f"{low} to {high}",
                f"`{name}`",
                describe("attack", name).summary,
                "; ".join(map(parameter, dials)),
            )
        )
    return table(*rows)


def parameter(dial: Dial) -> str:
    """A parameter and its range."""
    if dial.kind == "choice":
        return f"`{dial.name}`: " + " or ".join(f"`{choice}`" for choice in dial.choices)
    return f"`{dial.name}`: {dial.low:g} to {dial.high:g}{SCALES[dial.kind]}"


def arguments(env: type) -> str:
    """The arguments of an environment, as its docstring describes them."""
    defaults = inspect.signature(env).parameters
    rows = [("Argument", "Default", "Meaning")]
    rows += [(f"`{name}`", f"`{defaults[name].default!r}`", text) for name, text in described(env)]
    return table(*rows)


def described(env: type) -> Iterator[tuple[str, str]]:
    """The parameters that a class names in its docstring, with what it says of each."""
    section = (inspect.getdoc(env) or "").split("Parameters\n----------\n")[1].split("\n\n")[0]
    for name, text in re.findall(r"^(\w+)\n((?: .*\n?)+)", section, re.M):
        yield name, " ".join(text.split())


def page() -> str:
    """The page with its tables made anew."""
    tables = {
        "actions": fields(AttackEnv.action_fields),
        "families": families(),
        "observations": fields(AttackEnv.observation_fields),
        "arguments of one attacker": arguments(AttackEnv),
        "arguments of several attackers": arguments(ParallelMarketEnv),
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, made in tables.items():
        block = re.compile(f"<!-- {name} -->\n.*?<!-- /{name} -->", re.S)
        if not block.search(text):
            raise ValueError(f"{PAGE.name} has no table {name!r}")
        text = block.sub(
            lambda _, made=made, name=name: f"<!-- {name} -->\n{made}\n<!-- /{name} -->", text
        )
    return text


if __name__ == "__main__":
    write_text(PAGE, page())
