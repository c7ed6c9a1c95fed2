"""How far readers of a topic have come: what groups committed and fetched against where partitions end."""
