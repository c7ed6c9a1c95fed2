"""Answers as plotly figures, for notebooks."""
