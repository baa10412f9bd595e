"""Experiments as declarative specs, one runner, and tables that read its results only."""

from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.experiments.runner import run_experiment
from datamarket_gym.experiments.spec import ExperimentSpec, builtin_specs, parse_spec
from datamarket_gym.registry import Kind, components, lookup, register

for _spec in builtin_specs().values():
    register("experiment", _spec.name)(_spec)


def _built(name: str, parameters: dict[str, object]) -> ExperimentSpec:
    if parameters:
        raise ParameterError(
            f"experiment {name}", parameters, "it is created as it stands; change a copy of it"
        )
    spec: ExperimentSpec = lookup("experiment", name)
    return spec


def _written(spec: ExperimentSpec) -> str:
    if components("experiment").get(spec.name) != spec:
        raise DataMarketError(
            f"experiment {spec.name!r} is not registered as it stands here; write it as TOML"
        )
    return spec.name


EXPERIMENTS: Kind[ExperimentSpec] = Kind("experiment", ExperimentSpec, _built, _written)

__all__ = ["EXPERIMENTS", "ExperimentSpec", "builtin_specs", "parse_spec", "run_experiment"]
