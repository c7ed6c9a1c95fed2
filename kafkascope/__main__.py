"""``python -m kafkascope``, and the file that spark-submit is given (it wants one that ends in .py)."""

from __future__ import annotations

from kafkascope.cli import main

if __name__ == "__main__":
    main()
