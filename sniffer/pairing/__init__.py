"""The kernel between rows of streams and exchanges: finds frames, pairs them, and finds them again after gaps.

It takes the rows of each connection in the order in which their bytes became usable, both directions as one sequence:
so what it does is the same however the capture was cut into batches. Where a decision needs more than it can see (is
this the start of Kafka? is this body a Fetch response?) it stops, says what it asks, and goes on at that place when it
is called again.
"""
