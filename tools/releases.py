"""Ask the kafka-clients of each release which versions of each API it knows, and write decoders/schemas/releases.tsv.

Clients and brokers of a release are built with the same table of APIs (org.apache.kafka.common.protocol.ApiKeys), so
this is what both know; a broker may offer less. kafka-clients is there from 0.8.2 on.

    python tools/releases.py            fetch the jars with Maven, ask them with Java, write the table
    python tools/releases.py --check    write nothing; exit status 1 if the table would change
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

# fmt: off
RELEASES = (
    "0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.1.1", "0.10.2.2", "0.11.0.3", "1.0.2", "1.1.1", "2.0.1", "2.1.1", "2.2.2",
    "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1",
    "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1", "4.0.1", "4.1.1", "4.2.0", "4.3.1", "4.4.0",
)
# fmt: on
"""The last one of each minor release, oldest first; within one, versions of APIs stay as they are."""

SLF4J = "1.7.36"  # which kafka-clients logs with

TABLE = Path(__file__).resolve().parent.parent / "decoders" / "schemas" / "releases.tsv"
PROGRAM = Path(__file__).resolve().parent / "releases" / "ApiVersions.java"
HEADER = "release\tkey\tfirst\tlast\tfirst unstable\n"


def fetch(directory: Path) -> None:
    """Put the jars of all releases into a directory, by one run of Maven: to start it takes longer than to copy one."""
    artifacts = [("org.apache.kafka", "kafka-clients", release) for release in RELEASES]
    items = "".join(
        f"<artifactItem><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></artifactItem>"
        for group, name, version in (*artifacts, ("org.slf4j", "slf4j-api", SLF4J))
    )
    (directory / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>kafkascope</groupId><artifactId>releases</artifactId><version>1</version><build><plugins><plugin>"
        "<groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId>"
        f"<configuration><outputDirectory>.</outputDirectory><artifactItems>{items}</artifactItems></configuration>"
        "</plugin></plugins></build></project>"
    )
    subprocess.run(["mvn", "-q", "-B", "dependency:copy"], cwd=directory, check=True)


def asked(release: str, directory: Path) -> list[str]:
    """Rows of the table for one release."""
    jars = f"{directory}/kafka-clients-{release}.jar:{directory}/slf4j-api-{SLF4J}.jar"
    told = subprocess.run(["java", "-cp", jars, str(PROGRAM)], capture_output=True, text=True, check=True).stdout
    return [f"{release}\t{row}\n" for row in told.splitlines()]


def main() -> int:
    """Rebuild the table, or check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if anything would change")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as several:
        fetch(Path(scratch))
        rows = list(chain.from_iterable(several.map(partial(asked, directory=Path(scratch)), RELEASES)))
    table = HEADER + "".join(rows)
    if arguments.check:
        return int(not TABLE.exists() or TABLE.read_text() != table)
    TABLE.write_text(table)
    print(f"{len(rows)} rows of {len(RELEASES)} releases", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
