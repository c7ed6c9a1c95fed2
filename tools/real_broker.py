"""A real broker of Apache Kafka as a process, for what must be tried on one: jars by Maven, kept between runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

RELEASE = "4.4.0"
JARS = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kafkascope" / f"kafka-{RELEASE}"  # 100 MB

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kafkascope</groupId><artifactId>jars</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{RELEASE}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-api</artifactId><version>1.7.36</version></dependency>
</dependencies></project>"""


class NoJarsError(Exception):
    """Maven is missing or could not fetch the jars; the message says which."""


def fetched_jars() -> Path:
    """The directory of the jars. Raises NoJarsError."""
    if JARS.exists():
        return JARS
    if shutil.which("mvn") is None:
        raise NoJarsError("mvn not installed: it fetches Kafka's jars")
    with tempfile.TemporaryDirectory() as project:
        Path(project, "pom.xml").write_text(_POM)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={project}/jars"]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoJarsError(f"Maven cannot fetch Kafka {RELEASE}: {done.stdout.strip()[-300:]}")
        JARS.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(Path(project, "jars"), JARS)
    return JARS


@dataclass
class RealBroker:
    """One broker that is its own controller. It may be ended and started again; what was written to it stays."""

    directory: Path  # of its data, settings and log
    port: int
    controller: int  # the other port
    host: str = "127.0.0.1"
    within: Sequence[str] = ()  # words before each command, such as ip netns exec NAME
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def address(self) -> str:
        """As clients name it."""
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        """What it printed."""
        return self.directory / "broker.log"

    def start(self) -> None:
        """Start, for the first time on an empty disk; it answers some seconds later. Raises NoJarsError."""
        java = [*self.within, "java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        java += ["-cp", f"{fetched_jars()}/*"]
        properties = self.directory / "server.properties"
        if not properties.exists():
            properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
            storage = ["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(properties)]
            subprocess.run([*java, *storage], stdout=subprocess.DEVNULL, check=True)
        with self.log.open("ab") as output:
            self.process = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=output, stderr=output)

    def kill(self) -> None:
        """End it as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """End it in order, or by force if that takes half a minute."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def _settings(self) -> dict[str, object]:
        return {
            "node.id": 1,
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"1@{self.host}:{self.controller}",
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{self.controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": self.directory / "data",
            "log.retention.bytes": 64 << 20,
            "log.segment.bytes": 16 << 20,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
        }
