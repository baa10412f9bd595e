"""Figures, drawn from summary rows alone. Importing this does not import matplotlib."""

from datamarket_gym.experiments.figures.presets import draw, figures_of, presets

__all__ = ["draw", "figures_of", "presets"]
