"""Clients whose requests are refused, not answered, or too much."""
