"""What may be chosen on the page of markets: components with their parameters, and what each cannot be used for."""

from __future__ import annotations

import dataclasses
from typing import Any

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.explorer.market.request import (
    CHECKS,
    LEARNER,
    PROVIDERS,
    SAMPLES,
    SEEDS,
    UNITS,
    MarketRequest,
    controls_of,
    hidden_parameters,
    parts_of,
    preset,
)
from datamarket_gym.market.tasks.base import TASKS, NumberTask
from datamarket_gym.market.tasks.real_data import DomainTask, embeddings_path
from datamarket_gym.market.tasks.synthetic import WithoutLabels
from datamarket_gym.registry import components, describe, plain_text
from datamarket_gym.utilities.labels import utilities_for

KINDS = {
    "tasks": "task", "attacks": "attack", "evidence": "evidence", "representatives": "representative",
    "learners": "learner", "semivalues": "semivalue", "estimators": "estimator", "allocations": "allocation",
}  # fmt: skip
"""What the page calls them, and their kind in the registry."""
_MESSAGES = {
    "times": {
        "given": ("from a clock", "The clock says who came first"),
        "equal": ("all equal", "All units have one time, so that nobody was first"),
        "none": ("none", "Units have no times"),
    },
    "granularity": {
        "unit": ("units", "Unit-level game: every unit is a player, or those that it matches with it"),
        "batch": ("batches", "Batch-level game: all units of a batch are one player"),
        "identity": ("identities", "Identity-level game: all units of an identity are one player"),
    },
    "leak_check": {
        "off": ("pay them", "Units that are validation rows are paid like others (as in the paper)"),
        "drop": ("set them aside", "Units that are validation rows, or nearly, are set aside"),
        "error": ("refuse them", "Units that are validation rows are refused"),
    },
    "empty": {
        "none": ("none", "No data are worth nothing: U(empty) = 0"),
        "chance": (
            "counted from chance",
            "Accuracy is counted from chance, so that labelled noise earns nothing",
        ),
    },
}
_CONTROLS = {
    "providers": ("int", 2, PROVIDERS, 1, "Providers in the market"),
    "units": ("int", 5, UNITS, 1, "Units that each provider owns"),
    "seed": ("int", 0, SEEDS, 1, "Another seed draws another market"),
    "attacker": ("int", 0, PROVIDERS - 1, 1, "Which provider attacks"),
    "knowledge": ("float", 0.0, 1.0, 0.05, "The share of each other provider's units that the attacker sees"),
    "samples": ("int", 1, SAMPLES, 1, "Orders of joining that are drawn, where scores are sampled"),
    "checks": ("int", 0, CHECKS, 1, "Spot checks of each payee (m); whoever fails one is paid nothing"),
    "power": ("float", 0.05, 1.0, 0.05, "The probability that a spot check of a false unit fails (q)"),
}  # fmt: skip
_AVAILABLE: dict[str, Any] = {"available": True, "why": "", "parameters": [], "not_for": {}}
_CONTENT = {"text": "texts", "image": "images"}


def choices(*, progress: Progress = SILENT) -> dict[str, Any]:
    """List all choices with their texts, ranges and defaults."""
    progress.stage("reading what may be chosen")
    tasks = {name: _facts(name) for name in components("task")}
    defaults = MarketRequest().filled().model_dump()
    keys = ("kind", "min", "max", "step", "help")
    return {
        "defaults": defaults,
        "controls": {
            name: dict(zip(keys, about, strict=True)) | {"default": defaults[name]}
            for name, about in _CONTROLS.items()
        },
        **{
            control: [
                {"name": name, "label": label, "title": help_, "help": help_} | _AVAILABLE
                for name, (label, help_) in values.items()
            ]
            for control, values in _MESSAGES.items()
        },
        **{
            shown: [_choice(kind, name, tasks) for name in components(kind)]
            for shown, kind in KINDS.items()
        },
        "mechanisms": [_mechanism(name) for name in components("mechanism")],
        "labels": {name: facts["labels"] for name, facts in tasks.items()},
    }


def _choice(kind: str, name: str, tasks: dict[str, dict[str, str]]) -> dict[str, Any]:
    component = components(kind)[name]
    why = _unavailable(kind, name, component)
    reasons = {} if why else {task: _not_for(component, facts) for task, facts in tasks.items()}
    choice = {
        **_texts(kind, name),
        "available": not why,
        "why": why,
        "parameters": [each.as_json() for each in controls_of(kind, name)],
        "not_for": {task: reason for task, reason in reasons.items() if reason},
    }
    if kind == "task":
        choice["suited"] = {"learner": _suited(tasks[name]["labels"])}
    if kind == "learner":
        counted = ["none", "chance"] if component.paid_from == "chance" else ["none"]
        choice |= {"empty": counted, "paid_from": component.paid_from}
    return choice


def _texts(kind: str, name: str) -> dict[str, str]:
    """Return the title of a component, its summary, and the text of its docstring."""
    about = describe(kind, name)
    text = plain_text(components(kind)[name].__doc__ or about.summary)
    return {"name": name, "label": about.title, "title": about.summary, "help": text}


def _mechanism(name: str) -> dict[str, Any]:
    about = {**_texts("mechanism", name), **_AVAILABLE, "parts": {}}
    try:
        return about | {"parts": parts_of(preset(name))}
    except DataMarketError as error:
        return about | {"available": False, "why": str(error)}


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
    """Return what a task's units have: labels (class, number or none) and raw content (text, image or none)."""
    component = components("task")[name]
    if not isinstance(component, type):
        return {"labels": "class", "content": ""}
    kinds = (("number", NumberTask), ("none", WithoutLabels), ("class", object))
    labels = next(kind for kind, base in kinds if issubclass(component, base))
    content = TASKS.create(name).domain.kind if issubclass(component, DomainTask) else ""  # type: ignore[attr-defined]
    return {"labels": labels, "content": content}


def _not_for(component: Any, facts: dict[str, str]) -> str:
    """Why a component cannot be used with a task; empty where it can."""
    content, labels = getattr(component, "needs_content", ""), facts["labels"]
    if content and content != facts["content"]:
        return f"it looks at {_CONTENT.get(content, content)}, and this task's units have none"
    if getattr(component, "needs_labels", False) and labels == "none":
        return "it changes labels, and this task's units have none"
    target = getattr(component, "target", "none") if hasattr(component, "paid_from") else "none"
    if target in ("none", labels):
        return ""
    predicts = {"class": "predicts classes", "number": "predicts numbers"}[target]
    if labels == "none":
        return f"it {predicts}, and this task's units have no labels"
    # Classes may be numbers, but numbers are no classes.
    return f"it {predicts}, and this task's labels are numbers" if labels == "number" else ""


def _suited(labels: str) -> str:
    """Return a learner that is quick and takes labels of such a kind."""
    if labels != "number":
        return LEARNER
    quick = (name for name in utilities_for("number") if components("learner")[name].has_closed_form)
    return next(quick, LEARNER)
