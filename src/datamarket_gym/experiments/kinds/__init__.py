"""Kinds of experiment cells: each module here registers its own with `cells.kind`."""
