"""Benchmarks that ship with the product: our engine against plain loops and against peers."""
