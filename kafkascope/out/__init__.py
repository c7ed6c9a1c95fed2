"""The directory that an analysis makes, and the steps to it that are the same wherever the work is done.

Neither Spark nor the reading of captures is here: `spark` and `in_process` bring them.
"""
