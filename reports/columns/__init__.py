"""Helpers over arrays and text, and the protocol of views; nothing that knows what a table means."""
