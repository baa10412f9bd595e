"""What an attack gained, and what a mechanism cost the honest."""

from datamarket_gym.metrics.metrics import (
    Metrics,
    Report,
    mixed_component_fraction,
    provider_totals,
)

__all__ = ["Metrics", "Report", "mixed_component_fraction", "provider_totals"]
