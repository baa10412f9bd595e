"""Documents that people write or keep: frozen models that refuse unknown keys and name what is wrong."""

from __future__ import annotations

import tomllib
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from datamarket_gym.core.errors import DataMarketError, ParameterError
from datamarket_gym.core.screen import Shown


class Document(Shown, BaseModel):
    """A frozen model that refuses unknown keys by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")


D = TypeVar("D", bound=BaseModel)


def from_toml(model: type[D], text: str, origin: str) -> D:
    """A document from TOML text; errors name the file and the key."""
    try:
        return model(**tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise DataMarketError(f"{origin} is not valid TOML: {error}") from error
    except ValidationError as error:
        raise fault(error, f"{origin}: ") from error


def fault(error: ValidationError, before: str = "") -> DataMarketError:
    """The first thing that pydantic found wrong, as an error of ours; one of ours passes through."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, DataMarketError):
        return cause
    where = ".".join(str(part) for part in first["loc"])
    return ParameterError(f"{before}{where}", first["input"], first["msg"])
