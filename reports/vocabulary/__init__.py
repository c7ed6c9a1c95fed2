"""Words and schemas without logic: tables, kinds of issues and findings, triggers, events, thresholds."""
