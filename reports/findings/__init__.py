"""Rules: problems with their evidence and what to do about them, out of histories and measures."""
