"""Other people's mechanisms: any program that pays over a file protocol, and baselines in environments of their own."""

from datamarket_gym.benchmark.baselines.program import Baseline, Program
from datamarket_gym.benchmark.baselines.protocol import read_payments, write_market
from datamarket_gym.mechanism import get_mechanism as _get_mechanism  # noqa: F401  registers our own

__all__ = ["Baseline", "Program", "read_payments", "write_market"]
