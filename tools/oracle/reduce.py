"""Choose a tenth of a file of samples for the test suite: python tools/oracle/reduce.py ALL.ndjson.gz CHOSEN.ndjson.gz

Taken are samples that show something no sample before them showed (see features), in a random order with a fixed seed,
then others at random until a tenth is reached. Error codes: see make.sh.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections.abc import Iterator
from typing import Any

SEED = 20
SHARE = 10
BATCH_FACTS = ("magic", "compression", "timestamp_type", "is_control", "is_transactional")


def features(sample: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """What the sample shows."""
    what = sample["api"], sample["dir"]
    yield *what, sample["version"]
    yield *what, sample["profile"]
    yield *what, sample["from"]
    yield *what, "unknown tags", *(tags["path"].count("[") for tags in sample.get("unknown_tags", ()))
    for records in sample.get("records", ()):
        yield "cut off", records["trailing_bytes"] > 0
        for batch in records["batches"]:
            yield tuple(batch[fact] for fact in BATCH_FACTS)
            yield "compacted away", batch["magic"], not batch["records"]
            yield from (("control", record.get("control_type")) for record in batch["records"])


def main(source: str, target: str) -> None:
    """Choose and write; the order stays that of the source."""
    with gzip.open(source, "rt") as lines:
        samples = [json.loads(line) for line in lines]
    order = list(range(len(samples)))
    random.Random(SEED).shuffle(order)
    seen: set[tuple[object, ...]] = set()
    chosen: list[int] = []
    others: list[int] = []
    for index in order:
        shown = set(features(samples[index]))
        (others if shown <= seen else chosen).append(index)
        seen |= shown
    chosen += others[: max(0, len(samples) // SHARE - len(chosen))]
    text = "".join(json.dumps(samples[index], separators=(",", ":")) + "\n" for index in sorted(chosen))
    with open(target, "wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
        packed.write(text.encode())
    print(f"{len(chosen)} of {len(samples)} samples")


if __name__ == "__main__":
    main(*sys.argv[1:])
