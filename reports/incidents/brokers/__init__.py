"""Brokers that went away, stood still, are slow, or are not where they are said to be; and what hangs on them."""
