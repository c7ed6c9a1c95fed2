"""What needs more than one connection: the only place that joins groups, measures and findings."""
