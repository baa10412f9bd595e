"""Rows on one common scale, and the sums of each player that a least-squares fit needs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from datamarket_gym.learners.base import TrainingRows, ValidationRows
from datamarket_gym.learners.canonical import content_order, distinct_features
from datamarket_gym.typing import CoalitionMatrix, Codes, Features, Values


@dataclass(frozen=True)
class Scaled:
    """All rows in content order, standardised once on everybody's rows to keep sums well scaled.

    A coalition's own standardisation undoes the common one, so it changes no model.
    """

    features: Features  # (n, d)
    label: Codes
    player: Codes
    weight: Values
    validation: Features  # (n_val, d)
    validation_label: Codes
    centre: Values  # (d,): what was subtracted
    scale: Values  # (d,): what was divided by
    n_players: int
    n_classes: int

    @classmethod
    def of(cls, rows: TrainingRows, validation: ValidationRows) -> Scaled:
        """Scale by the weighted mean and deviation of all rows; constant columns keep scale one."""
        order = content_order(rows, distinct_features(rows.features)[1])
        features = rows.features[order].astype(np.float64)
        weight = rows.weights[order]
        centre = np.average(features, axis=0, weights=weight)
        deviation = np.sqrt(np.average((features - centre) ** 2, axis=0, weights=weight))
        constant = features.max(axis=0) == features.min(axis=0)
        scale = np.where(constant | (deviation == 0.0), 1.0, deviation)
        return cls(
            (features - centre) / scale,
            rows.label[order],
            rows.player[order],
            weight,
            (validation.features - centre) / scale,
            validation.label,
            centre,
            scale,
            rows.n_players,
            rows.n_classes,
        )


class PlayerSums:
    """X'WX, class weights, class sums and the range of every feature, per player."""

    def __init__(self, rows: Scaled) -> None:
        d = rows.features.shape[1]
        self.rows = rows
        self.second = np.zeros((rows.n_players, d, d))
        self.lowest = np.full((rows.n_players, d), np.inf)
        self.highest = np.full((rows.n_players, d), -np.inf)
        by_player = np.argsort(rows.player, kind="stable")
        bounds = np.searchsorted(rows.player[by_player], np.arange(rows.n_players + 1))
        for p, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop:
                x = rows.features[by_player[start:stop]]
                self.second[p] = (x.T * rows.weight[by_player[start:stop]]) @ x
                self.lowest[p], self.highest[p] = x.min(axis=0), x.max(axis=0)
        cell = rows.player * rows.n_classes + rows.label
        cells = rows.n_players * rows.n_classes
        self.mass = np.bincount(cell, weights=rows.weight, minlength=cells)
        self.mass = self.mass.reshape(rows.n_players, rows.n_classes)
        first = np.zeros((cells, d))
        np.add.at(first, cell, rows.features * rows.weight[:, None])
        self.first = first.reshape(rows.n_players, rows.n_classes, d)

    def varies(self, coalitions: CoalitionMatrix) -> CoalitionMatrix:
        """Which features take more than one value in each coalition, shape (B, d)."""
        lowest = np.full((len(coalitions), self.lowest.shape[1]), np.inf)
        highest = -lowest
        for p in range(coalitions.shape[1]):
            there = coalitions[:, p]
            lowest[there] = np.minimum(lowest[there], self.lowest[p])
            highest[there] = np.maximum(highest[there], self.highest[p])
        varies: CoalitionMatrix = lowest < highest
        return varies
