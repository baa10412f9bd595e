"""Experiments as declarative specs, one runner, and tables that read its results only."""

from datamarket_gym.core.registry import register
from datamarket_gym.lab.runner import run_experiment
from datamarket_gym.lab.spec import ExperimentSpec, builtin_specs, parse_spec

for _spec in builtin_specs().values():
    register("experiment", _spec.name)(_spec)

__all__ = ["ExperimentSpec", "builtin_specs", "parse_spec", "run_experiment"]
