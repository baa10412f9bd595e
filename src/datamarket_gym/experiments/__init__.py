"""Experiments as declarative specs, one runner, and tables that read its results only."""

from datamarket_gym.experiments.runner import run_experiment
from datamarket_gym.experiments.spec import ExperimentSpec, builtin_specs, parse_spec
from datamarket_gym.registry import register

for _spec in builtin_specs().values():
    register("experiment", _spec.name)(_spec)

__all__ = ["ExperimentSpec", "builtin_specs", "parse_spec", "run_experiment"]
