"""What work needs: arrays, files, resumable runs, processes, progress and clusters."""

from datamarket_gym.execution.parallel import Compute, computing

__all__ = ["Compute", "computing"]
