"""What may be chosen on the page: every registered component with its parameters, and what it cannot be used for."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.explorer.market.request import (
    CHECKS,
    PARTS,
    PROVIDERS,
    SAMPLES,
    SEEDS,
    UNITS,
    MarketAsked,
    controls_of,
    hidden_parameters,
    preset,
)
from datamarket_gym.market.tasks.base import TASKS, NumberTask
from datamarket_gym.market.tasks.datasets import DomainTask, embeddings_path
from datamarket_gym.market.tasks.synthetic import WithoutLabels
from datamarket_gym.registry import components, describe, plain_text
from datamarket_gym.utilities.labels import utilities_for
from datamarket_gym.utilities.oracle import RECOMMENDED

KINDS = {
    "tasks": "task", "attacks": "attack", "evidence": "evidence", "representatives": "representative",
    "learners": "learner", "semivalues": "semivalue", "estimators": "estimator", "allocations": "allocation",
}  # fmt: skip
"""What the page calls them, and their kind in the registry."""


def options(*, progress: Progress = SILENT) -> dict[str, Any]:
    """All choices with their words, ranges and defaults."""
    progress.stage("reading what may be chosen")
    tasks = {name: _facts(name) for name in components("task")}
    return {
        "defaults": MarketAsked().filled().model_dump(),
        "controls": _controls(),
        **{word: _words(word) for word in _WORDS},
        **{
            shown: [_choice(kind, name, tasks) for name in components(kind)]
            for shown, kind in KINDS.items()
        },
        "mechanisms": list(_presets()),
        "labels": {name: facts["labels"] for name, facts in tasks.items()},
    }


_WORDS = {
    "times": {
        "given": "The clock tells who came first",
        "equal": "All units have the same time, so that nobody was first",
        "none": "Units have no times",
    },
    "granularity": {
        "unit": "Every unit plays by itself, or with those it is tied to",
        "batch": "All units of a batch play together",
        "identity": "All units of a name play together",
    },
    "leak_check": {
        "off": "Units that are validation rows are paid like others (as in the paper)",
        "drop": "Units that are validation rows, or nearly, are set aside",
        "error": "Units that are validation rows are refused",
    },
    "empty": {
        "none": "No data are worth nothing: U(empty) = 0",
        "chance": "Accuracy is counted from chance, so that labelled noise earns nothing",
    },
}
_SHORT = {
    "given": "told by a clock", "equal": "all the same", "none": "none",
    "unit": "units", "batch": "batches", "identity": "names",
    "off": "pay them", "drop": "set them aside", "error": "refuse them",
    "chance": "counted from chance",
}  # fmt: skip
_SAID = {
    "providers": ("int", 2, PROVIDERS, 1, "Providers in the market"),
    "units": ("int", 5, UNITS, 1, "Units that each provider owns"),
    "seed": ("int", 0, SEEDS, 1, "Another seed draws another market"),
    "attacker": ("int", 0, PROVIDERS - 1, 1, "Which provider cheats"),
    "knowledge": (
        "float",
        0.0,
        1.0,
        0.05,
        "The share of each other provider's units that the attacker sees",
    ),
    "samples": ("int", 1, SAMPLES, 1, "Orders of joining that are drawn, where scores are sampled"),
    "checks": (
        "int",
        0,
        CHECKS,
        1,
        "Units of each payee that are looked at (m); who is found out is paid nothing",
    ),
    "power": ("float", 0.05, 1.0, 0.05, "The probability that a look at a false unit finds it out (q)"),
}


def _controls() -> dict[str, dict[str, Any]]:
    defaults = MarketAsked().filled()
    return {
        name: {
            "kind": kind,
            "min": low,
            "max": high,
            "step": step,
            "default": getattr(defaults, name),
            "help": words,
        }
        for name, (kind, low, high, step, words) in _SAID.items()
    }


def _words(control: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "label": _SHORT.get(name, name),
            "title": words,
            "help": words,
            "available": True,
            "why": "",
            "parameters": [],
            "not_for": {},
        }
        for name, words in _WORDS[control].items()
    ]


def _choice(kind: str, name: str, tasks: dict[str, dict[str, str]]) -> dict[str, Any]:
    component = components(kind)[name]
    why = _unavailable(kind, name, component)
    found = {
        **_named(kind, name, component),
        "available": not why,
        "why": why,
        "parameters": [each.as_json() for each in controls_of(kind, name)],
        "not_for": {}
        if why
        else {task: words for task, facts in tasks.items() if (words := _not_for(component, facts))},
    }
    if kind == "task":
        found["suited"] = {"learner": _suited(tasks[name]["labels"])}
    if kind == "learner":
        counted = ["none", "chance"] if component.paid_from == "chance" else ["none"]
        found |= {"empty": counted, "paid_from": component.paid_from}
    return found


def _named(kind: str, name: str, component: Any) -> dict[str, str]:
    """What a component is called, what it does in a sentence, and all that it says of itself."""
    said = describe(kind, name)
    return {
        "name": name,
        "label": said.title,
        "title": said.summary,
        "help": plain_text(component.__doc__ or said.summary),
    }


def _unavailable(kind: str, name: str, component: Any) -> str:
    """Why a component can be used nowhere here; empty where it can."""
    if not dataclasses.is_dataclass(component):
        return "it is no frozen dataclass, so that a page cannot write it down; use it from Python"
    if missing := hidden_parameters(component):
        return f"its {', '.join(missing)} must be handed over; use it from Python"
    if kind == "task" and isinstance(component, type) and issubclass(component, DomainTask):
        try:
            embeddings_path(TASKS.create(name).domain)  # type: ignore[attr-defined]
        except DataMarketError as error:
            return str(error)
    return ""


def _facts(name: str) -> dict[str, str]:
    """What a task's units have: labels (class, number or none) and raw content (text, image or none)."""
    component = components("task")[name]
    if not isinstance(component, type):
        return {"labels": "class", "content": ""}
    labels = (
        "number"
        if issubclass(component, NumberTask)
        else "none"
        if issubclass(component, WithoutLabels)
        else "class"
    )
    content = TASKS.create(name).domain.kind if issubclass(component, DomainTask) else ""  # type: ignore[attr-defined]
    return {"labels": labels, "content": content}


_CONTENT = {"text": "texts", "image": "images"}


def _not_for(component: Any, facts: dict[str, str]) -> str:
    """Why a component cannot be used with a task; empty where it can."""
    content = getattr(component, "needs_content", "")
    if content and content != facts["content"]:
        return f"it looks at {_CONTENT.get(content, content)}, and this task's units have none"
    if getattr(component, "needs_labels", False) and facts["labels"] == "none":
        return "it changes labels, and this task's units have none"
    if hasattr(component, "paid_from"):
        return _not_learnable(component.target, facts["labels"])
    return ""


_TOLD = {"class": "tells classes apart", "number": "predicts numbers", "none": ""}


def _not_learnable(target: str, labels: str) -> str:
    """Why a learner cannot learn from labels of such a kind; classes may be numbers, but numbers are no classes."""
    if target == "none" or target == labels:
        return ""
    if labels == "none":
        return f"it {_TOLD[target]}, and this task's units have no labels"
    return f"it {_TOLD[target]}, and this task's labels are numbers" if labels == "number" else ""


def _suited(labels: str) -> str:
    """A learner that is quick and takes labels of such a kind."""
    if labels != "number":
        return RECOMMENDED
    quick = (name for name in utilities_for("number") if components("learner")[name].has_closed_form)
    return next(quick, RECOMMENDED)


def _presets() -> Iterator[dict[str, Any]]:
    for name, component in components("mechanism").items():
        found = {
            **_named("mechanism", name, component), "available": True, "why": "", "parameters": [], "not_for": {},
            "parts": {},
        }  # fmt: skip
        try:
            made = preset(name)
        except DataMarketError as error:
            yield {**found, "available": False, "why": str(error)}
        else:
            yield {**found, "parts": made.model_dump(include=set(PARTS))}
