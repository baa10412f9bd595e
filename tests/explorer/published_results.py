"""The results that the documentation shows, read once for all tests."""

from repository import ROOT, published

DOCS = ROOT / "docs" / "results"
published_results = published
