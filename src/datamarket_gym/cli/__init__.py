"""The command line, one file a command: ``datamarket --help``."""

from datamarket_gym.cli.app import main

__all__ = ["main"]
