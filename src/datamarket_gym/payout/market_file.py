"""``market.toml``: the settings of a market in one file, which every command and the explorer read.

Its keys are the long names of the options, without dashes in front: ``payee = "seller"`` is ``--payee seller``. All of
them come from the models of the settings, so that an option that is added there can stand in the file.
"""

from __future__ import annotations

import datetime
import json
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from datamarket_gym.errors import DataMarketError, ParameterError, UnknownNameError
from datamarket_gym.payout.settings import (
    PayOptions,
    PayoutSpec,
    Setting,
    SharedSettings,
    faults_of,
    settings_of,
)

FILE = "market.toml"
_NOT_SETTINGS = ("cluster", "device", "memory")


@cache
def file_settings() -> dict[str, tuple[str, Setting]]:
    """Return every setting that the file may have, by its key: the name of its field, and what is said of it."""
    return {
        setting.option: (name, setting)
        for model in (PayOptions, PayoutSpec, SharedSettings)
        for name, setting in settings_of(model)
        if setting.in_file
    }


def read_market(path: Path) -> dict[str, Any]:
    """Read the settings of a file, by the names of their fields; refuse unknown keys and wrong values by name.

    Files that it names lie beside it, unless their paths are absolute.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataMarketError(f"{str(path)!r} is not a readable TOML file: {error}") from error
    known, values = file_settings(), dict[str, Any]()
    for key, value in data.items():
        option = key.replace("_", "-")
        if option not in known:
            if key in _NOT_SETTINGS:
                remedy = f"it changes no result, so it is no setting of a run; say --{key} instead"
                raise ParameterError(key, value, remedy)
            why = "options of `datamarket pay --help-all` are the keys of the file"
            if isinstance(value, dict):
                why = (
                    "keys stand in no [table]: write payee = ..., text = ..., as the options are called"
                )
            raise UnknownNameError(f"key in {str(path)!r}:", key, known, why)
        name, setting = known[option]
        if name in values:
            raise ParameterError(key, value, f"{str(path)!r} has it twice; keep one")
        values[name] = _read_value(path, key, value, setting)
    spec = {name: value for name, value in values.items() if name in dict(settings_of(PayoutSpec))}
    for name, message in faults_of({"amount": "1", **spec}).items():
        raise DataMarketError(f"{str(path)!r}, {name}: {message}")
    return values


def _read_value(path: Path, key: str, value: Any, setting: Setting) -> Any:
    """Return a value as its option would have it."""
    if isinstance(value, datetime.date | datetime.datetime):
        value = value.isoformat()  # TOML has dates
    if setting.kind in (list, tuple):
        several = value if isinstance(value, list) else [value]
        return [_with_folder(path, str(each), setting) for each in several]
    kinds = {bool: bool, int: int, float: (int, float)}
    if setting.kind in kinds:
        is_flag = isinstance(value, bool)
        if not isinstance(value, kinds[setting.kind]) or is_flag is not (setting.kind is bool):  # type: ignore[arg-type]
            wanted = {bool: "true or false", int: "a whole number", float: "a number"}[setting.kind]
            raise ParameterError(f"{key} in {str(path)!r}", value, f"write {wanted}")
        return value
    if isinstance(value, list | dict | bool):
        raise ParameterError(f"{key} in {str(path)!r}", value, 'write one text in quotes: "..."')
    return _with_folder(path, str(value), setting)


def _with_folder(path: Path, text: str, setting: Setting) -> str:
    """Return a file that a setting names, from where the command runs; queries and addresses stay as they are."""
    if setting.is_file and not text:
        raise ParameterError(
            f"{setting.option} in {str(path)!r}", text, "name a file, or leave the key out"
        )
    if not setting.is_file or "://" in text or text.startswith("duckdb:"):
        return text
    return str(path.parent / text)


def market_toml(values: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> str:
    """Write settings, given by the names of their fields, as the lines of a file; JSON is TOML for these values."""
    comments = comments or {}
    lines = []
    for option, (name, _) in file_settings().items():
        value = values.get(name)
        if value is None or value in ([], ()):
            continue
        if isinstance(value, tuple | list):
            value = [str(each) for each in value]
        elif isinstance(value, Path):
            value = str(value)
        text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        comment = f"  # {comments[name]}" if comments.get(name) else ""
        lines.append(f"{option} = {text}{comment}\n")
    return "".join(lines)
