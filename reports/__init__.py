"""Exchanges to answers: tables, what became of groups, sums over time, findings, and how all of it is shown."""
