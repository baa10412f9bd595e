"""Estimators by name: ``DecisionTreeClassifier``, ``SVC(C=2.0)`` or ``package.module.Class``."""

from __future__ import annotations

import ast
import importlib
from typing import Any

from datamarket_gym.errors import ParameterError, UnknownNameError


def estimator_named(text: str) -> Any:
    """The classifier that a written form means; parameters are literals given by name."""
    name, parameters = _parse(text)
    try:
        return _class_named(name)(**parameters)
    except TypeError as error:
        raise ParameterError("estimator", text, f"check its parameters ({error})") from error


def _parse(text: str) -> tuple[str, dict[str, Any]]:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if not isinstance(tree, ast.Call):
            return ast.unparse(tree), {}
        if tree.args or any(keyword.arg is None for keyword in tree.keywords):
            raise ValueError("parameters are given by name")
        values = {str(item.arg): ast.literal_eval(item.value) for item in tree.keywords}
        return ast.unparse(tree.func), values
    except (SyntaxError, ValueError) as error:
        remedy = "write Name, Name(parameter=literal) or package.module.Name"
        raise ParameterError("estimator", text, f"{remedy} ({error})") from error


def _class_named(name: str) -> Any:
    from sklearn.utils import all_estimators

    module, _, attribute = name.rpartition(".")
    if module:
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ParameterError("estimator", name, f"it cannot be imported ({error})") from error
    known = dict(all_estimators(type_filter="classifier"))
    if name not in known:
        raise UnknownNameError("scikit-learn classifier", name, known)
    return known[name]
