"""Groups: what happened to their members, and why they rebalanced."""
