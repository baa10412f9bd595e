"""What a cheat gains, and what is proven: metrics, guarantees, the red team."""
