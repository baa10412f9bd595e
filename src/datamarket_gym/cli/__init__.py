"""The command line, one module a group of commands: ``datamarket --help``."""

from datamarket_gym.cli.app import main

__all__ = ["main"]
