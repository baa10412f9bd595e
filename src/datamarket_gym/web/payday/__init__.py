"""Paydays in the explorer: intake, runs, checks, books."""
