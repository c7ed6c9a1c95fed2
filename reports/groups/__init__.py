"""What became of one group: members, generations or epochs, causes, costs; no judgement, that is for findings."""
