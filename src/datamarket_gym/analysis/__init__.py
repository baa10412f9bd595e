"""What an attacker gains, and what is proven: metrics, guarantees, the red team."""
