"""Findings: problems stated with their evidence and what to do about them."""
