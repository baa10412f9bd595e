"""A payout run written down: as a command line, and as a TOML file of its settings. Either gives the same run again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.payout.request import PayRequest
from datamarket_gym.payout.spec import SETTINGS, PayoutSpec

CONFIG = "payday.toml"


def settings_of(spec: PayoutSpec) -> dict[str, Any]:
    """The settings that are not as they are if left out, by their names with points: ``columns.id``."""
    return dict(_flat(spec.model_dump(exclude_defaults=True)))


def as_toml(spec: PayoutSpec) -> str:
    """The settings as a file for ``--config``."""
    plain, parts = [], []
    for name, value in spec.model_dump(exclude_defaults=True).items():
        if isinstance(value, dict):
            if value:
                parts += ["", f"[{name}]", *(f"{key} = {_toml(each)}" for key, each in value.items())]
        else:
            plain.append(f"{name} = {_toml(value)}")
    return "\n".join([*plain, *parts]) + "\n"


def as_command(request: PayRequest, config: str | None = None) -> str:
    """The command line of a payout run, for a shell; where a ``config`` is named, that file has the settings."""
    given = {
        "validation": request.validation,
        "out": request.out,
        "reference": request.reference,
        "overrides": request.overrides,
        "prior": list(request.prior),
        "reuse": request.reuse,
        "ledger": request.book,
        "intake": request.intake,
    }
    settings = settings_of(request.spec)
    for name in () if config is not None else settings.keys() - SETTINGS.keys():
        raise ParameterError(
            name, settings[name], "no option says it; put it into a TOML file (--config)"
        )
    words = ["datamarket", "pay", request.submissions]
    for name, value in given.items():
        words += _option(f"--{name}", value)
    if config is not None:
        words += ["--config", config]
    for name, value in {} if config is not None else settings.items():
        flag = SETTINGS[name].off if value is False else SETTINGS[name].flag
        words += _option(flag, value)
    return shlex.join(words)


def _option(flag: str, value: Any) -> list[str]:
    """Return an option as words of a command line; none if it has no value."""
    if value is None:
        return []
    if isinstance(value, list):
        return [word for each in value for word in _option(flag, each)]
    if isinstance(value, bool):
        return [flag]
    text = str(value)
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _toml(value: Any) -> str:
    """A value as TOML has it, which for these types is JSON, but for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
