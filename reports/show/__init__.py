"""Answers, summaries and rows as text, JSON, Markdown, on a terminal and as a page. Nothing is computed here."""
