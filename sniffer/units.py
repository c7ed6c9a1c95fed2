"""Units of time in nanoseconds, in which all times of packets and of tables are counted."""

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000 * MILLISECOND_NS
DAY_NS = 86_400 * SECOND_NS
