"""The machine a run was made on, in words: results are never its function, seconds are."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def available_cores() -> int:
    """The cores this process is allowed to run on, where the system tells, else all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine(device: str = "cpu") -> str:
    """Processor and cores and, where fits ran on one, the GPU."""
    words = f"{_processor()}, {os.cpu_count()} cores"
    return words if device == "cpu" else f"{_gpu() or 'no GPU'}, {words}"


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def gpu_there() -> bool:
    """Whether a GPU can be used."""
    return bool(_gpu())


def _gpu() -> str:
    try:
        import torch
    except ImportError:
        return ""
    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else ""
