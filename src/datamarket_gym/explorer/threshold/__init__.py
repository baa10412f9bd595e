"""The page of thresholds: what is alike in a set of rows, which theta they allow, and what merges at it."""
