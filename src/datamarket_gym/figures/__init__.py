"""Figures, drawn from summary rows alone. Importing this does not import matplotlib."""

from datamarket_gym.figures.draw import draw
from datamarket_gym.figures.registry import drawers

__all__ = ["draw", "drawers"]
