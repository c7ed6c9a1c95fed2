"""Which exchanges are wanted: expressions over their columns and the fields of their bodies.

`fields.py` knows what can be asked for by which name, `expressions.py` which rows of a table pass, `language.py` reads
what people write, `sieve.py` chooses while tables are made. Options such as ``--api`` are expressions too, so there is
one way to choose.
"""
