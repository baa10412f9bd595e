"""``datamarket init``: look at the tables, ask what they do not say, and write market.toml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from datamarket_gym.cli import terminal
from datamarket_gym.cli.terminal import make_table, print_rows, say
from datamarket_gym.data.readers.tables import Table
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import write_text
from datamarket_gym.payout.column_roles import (
    ColumnRole,
    describe_values,
    find_roles,
    missing_role,
    sample_columns,
)
from datamarket_gym.payout.market_file import FILE, file_settings, market_toml
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.settings import SETTINGS, SharedSettings, payout_spec, settings_of

_ASKED = {
    "columns.identity": "Who is paid: the column of payees",
    "columns.text": "Texts, if that is what is paid for",
    "columns.features": "Numbers to learn from, if they are there",
    "columns.image": "Names of image files, if that is what is paid for",
    "columns.id": "Ids of units",
    "columns.time": "When you received each unit (of several copies the earliest is paid)",
    "columns.label": "Labels, if units count by label alone",
    "linkage.keys": "A column of which equal values suggest one person",
}
_CHOICES = {
    "learner": "What is paid for: recommended (nearness to the validation rows) or count (every distinct unit alike)",
    "currency": "Currency",
    "checks": "Spot checks of each payee before money moves (0 for none)",
    "by": "Your name, for the ledger",
}
_NONE = "-"
_LABEL = "columns.label"  # an empty one is an answer: a column that is called label holds none


@terminal.with_settings(SETTINGS | dict(settings_of(SharedSettings)), read_market=False)
def init(
    units: Annotated[str, Argument(help="A table of submitted units, such as last month's.")],
    validation: Annotated[
        str,
        Argument(help="Table of validation rows: examples of what you want, which you keep secret."),
    ],
    settings: dict[str, Any],
    yes: Annotated[
        bool, Option("--yes", help="Take what the tables suggest, without questions.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace a market.toml that is there.")] = False,
) -> None:
    """Write market.toml: which columns are what, and the settings of every payout run of a market.

    Looks at the first rows of the tables, and asks in a terminal what they do not say; options answer beforehand.
    """
    if Path(FILE).exists() and not force:
        raise DataMarketError(f"there is a {FILE} in this folder; edit it, or replace it with --force")
    tables = {name: Table.open(Path(path)) for name, path in (("units", units), ("rows", validation))}
    samples = {name: sample_columns(table) for name, table in tables.items()}
    roles = find_roles(samples["units"], samples["rows"])
    asking = not yes and sys.stdin.isatty()
    chosen = {name: role.column for name, role in roles.items() if role.column}
    values: dict[str, Any] = {**chosen, **settings}
    if asking:
        values |= _ask(roles, settings, tables["units"].names)
    if missing := missing_role(values):
        option = SETTINGS[missing].flag
        columns = ", ".join(map(visible, tables["units"].names[:20]))
        raise DataMarketError(
            f"no column of {units!r} looks like {_ASKED[missing].split(':')[0].lower()!r}: name it with {option} "
            f"COLUMN; there are {columns}"
        )
    for name in _ASKED.keys() & settings.keys():
        for column in settings[name] if isinstance(settings[name], list) else [settings[name]]:
            if column and not _is_column(column, tables["units"].names):
                tables["units"].require(SETTINGS[name].option, column)
    values = {
        "validation": validation,
        "learner": "recommended",
        "currency": "EUR",
        "checks": 3,
        "ledger": "ledger.sqlite",
    } | {name: value for name, value in values.items() if value not in (None, "") or name == _LABEL}
    if isinstance(values.get("linkage.keys"), str):
        values["linkage.keys"] = [values["linkage.keys"]]
    payout_spec({"amount": "1", **values})  # refuses what is no setting, before anything is written
    _print(values, roles, samples["units"])
    comments = {name: roles[name].why for name in roles if values.get(name) == roles[name].column}
    comments |= {"validation": "keep it secret", "checks": "of each payee, before money moves"}
    head = (
        "# Settings of this market: every datamarket command in this folder reads them; options take precedence.\n"
        "# Every option of `datamarket pay --help-all` can stand here, under its name without dashes in front.\n\n"
    )
    write_text(Path(FILE), head + market_toml(values, comments), private=True)
    if values.get("columns.time") is None and values.get("intake") is None:
        say(
            "No column of times: of several copies none is the first, and they share the pay. Name the column of the "
            "times at which you received units (--time), or log what arrives (datamarket intake --help).",
            terminal.WARNING,
        )
    say(f"Written: {FILE}. Look through it; then, to see what would be paid:", whole=True)
    say(f"datamarket pay {units} --amount 10000 --dry-run", indent=2)


def _ask(
    roles: dict[str, ColumnRole], settings: dict[str, Any], names: tuple[str, ...]
) -> dict[str, Any]:
    """Ask for what no option has answered; Enter takes what is suggested, and a dash none."""
    say(
        f"Enter takes the suggestion, {_NONE} takes none. Columns: {', '.join(map(visible, names[:40]))}"
    )
    answers: dict[str, Any] = {}
    for name, question in _ASKED.items():
        role = roles.get(name, ColumnRole(None))
        is_rare = name in ("columns.features", "columns.image")
        if name in settings or (is_rare and role.column is None and not role.others):
            continue
        while True:
            answer = typer.prompt(question, default=role.column or _NONE).strip()
            answers[name] = "" if answer == _NONE else answer
            if not answers[name] or _is_column(answers[name], names):
                break
            say(f"There is no column {answer!r}.", terminal.WARNING)
    defaults = {"learner": "recommended", "currency": "EUR", "checks": 3, "by": ""}
    for name, question in _CHOICES.items():
        if name not in settings:
            answers[name] = typer.prompt(question, default=defaults[name])
    return answers


def _is_column(answer: str, names: tuple[str, ...]) -> bool:
    return all(
        part in names or any(each.startswith(f"{part}_") for each in names)
        for part in map(str.strip, answer.replace("+", ",").split(","))
    )


def _print(values: dict[str, Any], roles: dict[str, ColumnRole], samples: Any) -> None:
    table = make_table("setting", "value", "because", "first values", boxed=True)
    rows = []
    for option, (name, _) in file_settings().items():
        if values.get(name) in (None, "", []):
            continue
        column = values[name][0] if isinstance(values[name], list) else str(values[name])
        role = roles.get(name)
        why = role.why if role and role.column == column else ""
        first = describe_values(samples.get(column)) if name in _ASKED else ""
        rows.append((option, visible(column), why, visible(first, 100)))
    print_rows(table, rows)
