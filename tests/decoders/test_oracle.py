"""Fresh samples from Kafka's own classes, and its definitions against the tables: for `make check-deep`."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.decoders import oracle
from tests.needs import needs
from tests.paths import ROOT

PER_VERSION = 6


@pytest.mark.deep
def test_fresh_samples_mean_what_kafka_says(tmp_path: Path) -> None:
    needs("javac", "mvn")
    seed = random.randrange(1 << 31)
    print(f"seed {seed}")
    path = tmp_path / "oracle.ndjson.gz"
    subprocess.run([ROOT / "tools/oracle/make.sh", str(seed), str(PER_VERSION), str(path)], check=True)
    checked = 0
    for sample in oracle.samples(path):
        assert not oracle.differences(sample), oracle.name_of(sample)
        checked += 1
    assert checked > 5000
    codes = (tmp_path / "error_codes.tsv").read_text()
    assert codes == (ROOT / "tests/data/error_codes.tsv").read_text()


@pytest.mark.deep
def test_the_tables_are_those_of_the_jars() -> None:
    needs("mvn")
    subprocess.run([sys.executable, ROOT / "tools/schemas.py", "--check"], check=True)


@pytest.mark.deep
def test_the_table_of_releases_is_what_their_jars_say() -> None:
    needs("java", "mvn")
    subprocess.run([sys.executable, ROOT / "tools/releases.py", "--check"], check=True)
