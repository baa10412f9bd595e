"""The command line: ``datamarket --help``."""

from datamarket_gym.cli.app import main

__all__ = ["main"]
