"""Figures, drawn from summary rows alone. Importing this does not import matplotlib."""

from datamarket_gym.lab.figures.drawing import draw, drawers, figures_of

__all__ = ["draw", "drawers", "figures_of"]
