"""The API reference: one page for each package, with every public name (``__all__``), each described in one place.

A name that several packages export is described where it is exported in the deepest package; the others link to it.
"""

import pkgutil
import warnings
from importlib import import_module
from types import ModuleType

import datamarket_gym

PAGE = "api"


def packages() -> list[ModuleType]:
    """The package, and its packages that export something, in the order of their names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            import_module(module.name)
            for module in pkgutil.walk_packages(datamarket_gym.__path__, "datamarket_gym.")
            if module.ispkg
        ]
    return [datamarket_gym, *(package for package in found if getattr(package, "__all__", None))]


def public() -> list[str]:
    """The full name of everything that is public."""
    return [
        f"{package.__name__}.{name}"
        for package in packages()
        for name in package.__all__
        if name != "__version__"
    ]


def homes() -> dict[int, str]:
    """By the identity of each public object, the full name under which it is described."""
    found: dict[int, str] = {}
    for package in sorted(packages(), key=lambda package: package.__name__.count(".")):
        for name in package.__all__:
            thing = getattr(package, name)
            if not isinstance(thing, str | int | float | tuple | list | dict):
                found[id(thing)] = f"{package.__name__}.{name}"
    return found


def summary(thing: object) -> str:
    """The first line of what something says of itself."""
    said = (
        (getattr(thing, "__doc__", None) or "").strip()
        if callable(thing) or isinstance(thing, ModuleType)
        else ""
    )
    return said.split("\n")[0]


def _directive(thing: object, full: str) -> list[str]:
    if isinstance(thing, ModuleType):
        kind, options = "automodule", [":members:"]
        full = thing.__name__
    elif isinstance(thing, type):
        kind, options = "autoclass", [":members:", ":exclude-members: model_config, model_post_init"]
    elif callable(thing):
        kind, options = "autofunction", []
    else:
        kind, options = "py:data", []  # what its type says of itself is not about it
    return [f".. {kind}:: {full}", *(f"   {option}" for option in options), ""]


def _short(package: ModuleType) -> str:
    return package.__name__.removeprefix("datamarket_gym.")


def _line(thing: object) -> str:
    return summary(thing).replace("|", r"\|")


def _package_page(package: ModuleType, where: dict[int, str], every: list[ModuleType]) -> str:
    text = (package.__doc__ or "").strip().split("\n\n")[0]
    lines = [
        f"# {_short(package)}",
        "",
        " ".join(text.split()).replace("``", "`").replace("::", ":"),
        "",
    ]
    described: list[str] = []
    rows = []
    for name in sorted(package.__all__, key=str.lower):
        thing, full = getattr(package, name), f"{package.__name__}.{name}"
        if name == "__version__":
            continue
        is_package = isinstance(thing, ModuleType) and thing in every
        home = where.get(id(thing), full)
        label = thing.__name__ if isinstance(thing, ModuleType) else home
        rows.append(f"   * - :py:obj:`{name} <{label}>`\n     - {_line(thing)}")
        if home == full and not is_package:
            described += _directive(thing, full)
    table = [".. list-table::", "   :widths: 30 70", "", *rows, ""]
    lines += ["```{eval-rst}", *table, *described, "```", ""]
    return "\n".join(lines)


def reference() -> dict[str, str]:
    """The pages by their places: the list of packages, and a page for each."""
    where, every = homes(), packages()
    found = {f"{PAGE}/{package.__name__}.md": _package_page(package, where, every) for package in every}
    rows = [f"- [{_short(package)}]({package.__name__}.md): {summary(package)}" for package in every]
    found[f"{PAGE}/index.md"] = "\n".join(
        [
            "# API reference",
            "",
            "What is public: the names that these packages of `datamarket_gym` export. Everything else may move.",
            "",
            *rows,
            "",
            "```{toctree}",
            ":hidden:",
            "",
            *(package.__name__ for package in every),
            "```",
            "",
        ]
    )
    return found
