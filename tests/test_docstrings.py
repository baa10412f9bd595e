"""Every public name, one in the `__all__` of a package, has a numpydoc docstring."""

import dataclasses
import enum
import importlib
import inspect
import pkgutil
import re

import pytest
from pydantic import BaseModel

import datamarket_gym
from datamarket_gym.registry import parameters_of

VAGUE = re.compile(r"(The same|What|Whether|Who|Whoever|Of|It|How)\b")


def packages():
    """The package and all packages in it that declare public names."""
    names = ["datamarket_gym"]
    names += [
        m.name
        for m in pkgutil.walk_packages(datamarket_gym.__path__, "datamarket_gym.")
        if m.ispkg and ".scripts" not in m.name
    ]
    return [name for name in names if hasattr(importlib.import_module(name), "__all__")]


def public(package):
    """Names and objects of a package that are its own or its modules'."""
    module = importlib.import_module(package)
    for name in module.__all__:
        found = getattr(module, name)
        if (inspect.isclass(found) or inspect.isfunction(found)) and found.__module__.startswith(
            "datamarket_gym"
        ):
            yield name, found


def section(doc, *titles):
    """The text of a numpydoc section, or None."""
    found = re.search(
        rf"^\s*({'|'.join(titles)})\n\s*-+\n(.*?)(?=\n\s*\w+\n\s*-+\n|\Z)", doc, re.M | re.S
    )
    return None if found is None else found[2]


def parameters(found):
    """The names that a caller may pass."""
    if dataclasses.is_dataclass(found):
        return [f.name for f in dataclasses.fields(found) if f.init and not f.name.startswith("_")]
    if getattr(found, "_is_protocol", False) or (
        inspect.isclass(found) and found.__init__ is object.__init__
    ):
        return []
    try:
        signature = inspect.signature(found)
    except ValueError:
        return []
    return [
        name for name in signature.parameters if name not in ("self", "cls") and not name.startswith("_")
    ]


def self_described(found):
    """The parameters that say beside their type what they mean."""
    if issubclass(found, BaseModel) if inspect.isclass(found) else False:
        return {name for name, field in found.model_fields.items() if field.description}
    return {p.name for p in parameters_of(found) if p.title != p.name.replace("_", " ")}


def faults(name, found):
    """What a docstring lacks, in words."""
    doc = inspect.cleandoc(found.__doc__ or "")
    if not doc:
        yield f"{name}: no docstring"
        return
    if VAGUE.match(doc):
        yield f"{name}: begins {doc.split(chr(10))[0][:40]!r}; say what it is or does"
    if inspect.isclass(found) and issubclass(found, Exception | enum.Enum):
        return
    needed = [p for p in parameters(found) if p not in self_described(found)]
    listed = (section(doc, "Parameters") or "") + (section(doc, "Attributes") or "")
    if missing := [p for p in needed if not re.search(rf"^[^\n]*\b{p}\b[^\n]*:?", listed, re.M)]:
        yield f"{name}: Parameters lack {', '.join(missing)}"
    if inspect.isfunction(found):
        returns = found.__annotations__.get("return", "None")
        if returns not in ("None", None, "NoReturn") and section(doc, "Returns", "Yields") is None:
            yield f"{name}: no Returns"


@pytest.mark.parametrize("package", packages())
def test_public_names_are_documented(package):
    assert [fault for name, found in public(package) for fault in faults(name, found)] == []
