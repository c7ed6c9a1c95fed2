"""Sums over time: latency, progress, throughput, errors, what clients did; what they mean is for findings."""
