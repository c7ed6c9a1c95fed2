"""What the tables answer, chosen, ranked and bounded; how that looks is for show."""
