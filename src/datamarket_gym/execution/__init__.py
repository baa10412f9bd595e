"""What everything hangs on: errors, arrays, content keys, the registry, files and runs."""

from datamarket_gym.execution.parallel import Compute, computing

__all__ = ["Compute", "computing"]
