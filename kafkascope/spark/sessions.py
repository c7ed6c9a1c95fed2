"""Spark sessions: the one that there is, or a new one with settings that suit one machine.

Whatever the user set counts first (spark-submit, ``spark-defaults.conf``, a session that runs already); the defaults
here fill in what nobody set. The chatter of a JVM that is started here goes to a file, which a failure names.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

OLDEST_JAVA = 17  # Spark 4 runs on Java 17 and newer

_DEFAULTS = {
    "spark.app.name": "kafkascope",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.python.worker.reuse": "true",
}
_LOCAL_DEFAULTS = {
    # A laptop's name often resolves to no address, or to one that a firewall shuts: local runs stay on loopback.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_LONGEST_SOCKET_DIRECTORY = 60  # characters: of 104 that the path of a socket may have on macOS, Spark's names take 43
_DRIVER_MEMORY = "2g"
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Settings of the queries made here; they are made in a session of their own, which leaves the user's as it is.
_QUERY_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",  # the number of partitions is chosen by size already
    "spark.sql.execution.arrow.maxRecordsPerBatch": "256",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
}


class SparkUnavailableError(Exception):
    """Spark cannot be started; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime."""

    path: str
    says: str  # its version, in its own words


def find_java() -> Java:
    """The Java runtime that Spark will use; raises SparkUnavailableError if there is none, or an old one."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = (
        f"Spark needs a Java runtime {OLDEST_JAVA} or newer (Debian and Ubuntu: apt install openjdk-17-jre-headless)"
    )
    if java is None or not Path(java).is_file():
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        raise SparkUnavailableError(f"{where}. {advice}. analyze --in-process works without it.")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    says = answer.stderr + answer.stdout
    version = _java_version(says)
    if answer.returncode or version is None:
        raise SparkUnavailableError(f"{java} -version failed: {answer.stderr.strip()[:200]}. {advice}.")
    if version < OLDEST_JAVA:
        raise SparkUnavailableError(f"{java} is Java {version}. {advice}.")
    return Java(java, says)


def kept_classes(java: Java) -> Path:
    """Where the classes that Spark loads are kept as the JVM wants them in memory, if `kafkascope warm` was run.

    To load and check some ten thousand of them takes a quarter of a small analysis. They are of one runtime and one
    release of Spark; the JVM itself leaves an archive alone that does not fit its class path.
    """
    import pyspark

    known = "\n".join([os.path.realpath(java.path), java.says, pyspark.__version__, pyspark.__file__, JVM_OPTIONS])
    name = f"spark-{hashlib.sha256(known.encode()).hexdigest()[:16]}.jsa"
    return platformdirs.user_cache_path("kafkascope", appauthor=False) / name


def _java_version(text: str) -> int | None:
    """Major version out of ``openjdk version "17.0.15" 2025-04-15``; Java 8 calls itself 1.8."""
    quoted = text.split('"')
    if len(quoted) < 2:
        return None
    numbers = quoted[1].replace("-", ".").split(".")
    major = numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0]
    return int(major) if major.isdigit() else None


def open_session(master: str | None = None, settings: Mapping[str, str] | None = None) -> tuple[Any, Path | None]:
    """The active Spark session, else a new one, and the file that has the JVM's log if the JVM was started here.

    A new session runs on master (default: what the configuration says, else ``local[*]``) with these settings, then
    the user's configuration, then defaults for one machine. Raises SparkUnavailableError.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if os.environ.get("SPARK_REMOTE"):  # Spark Connect: the server has its settings
        return SparkSession.builder.getOrCreate(), None
    active = SparkSession.getActiveSession()
    if active is not None:
        return active, None
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate(), None
    return _start(master, settings or {})


def _start(master: str | None, settings: Mapping[str, str]) -> tuple[Any, Path | None]:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    log: Path | None = None
    asked = SparkConf(loadDefaults=False)
    gateway = SparkContext._gateway  # of a session that was stopped: pyspark has one JVM for as long as it runs
    if gateway is not None:
        pass
    elif "PYSPARK_GATEWAY_PORT" in os.environ:  # under spark-submit the JVM runs already
        gateway = launch_gateway()
    else:
        java = find_java()
        for name, value in settings.items():
            asked.set(name, value)
        if master:
            asked.set("spark.master", master)
        # The weakest way to say it: any setting of the user's wins.
        os.environ.setdefault("SPARK_DRIVER_MEMORY", _DRIVER_MEMORY)
        if stays_here(master, settings):
            # Spark asks for the machine's name several times, which takes seconds each where no name server answers.
            os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            # Python does the work, and the JVM lives for seconds: its second compiler, and a garbage collector with
            # threads of its own, cost more than they save.
            kept = kept_classes(java)
            use_kept = f" -XX:SharedArchiveFile={kept}" if kept.exists() and " " not in str(kept) else ""
            os.environ.setdefault("SPARK_SUBMIT_OPTS", JVM_OPTIONS + use_kept)
        handle, name = tempfile.mkstemp(prefix="kafkascope-spark-", suffix=".log")
        log = Path(name)
        with open(handle, "wb") as stream:
            try:
                gateway = launch_gateway(asked, {"stdout": stream, "stderr": stream})
            except PySparkException as error:
                raise SparkUnavailableError(f"Spark did not start: {tail(log)}") from error
    conf = SparkConf(_jvm=gateway.jvm)  # what spark-submit and spark-defaults.conf say
    for name, value in settings.items():
        conf.set(name, value)
    if master:
        conf.set("spark.master", master)
    conf.setIfMissing("spark.master", "local[*]")
    local = conf.get("spark.master", "").startswith("local")
    defaults = _DEFAULTS | (_LOCAL_DEFAULTS if local else {})
    if local and "PYSPARK_GATEWAY_PORT" not in os.environ:
        # Where this process found the package, others that it starts find it; under spark-submit it comes with tasks.
        defaults |= {"spark.python.daemon.module": "kafkascope.spark.daemon"} | _sockets()
    for name, value in defaults.items():
        conf.setIfMissing(name, value)
    # Python of the executors: on this machine the one that runs, elsewhere what the configuration names.
    python = conf.get("spark.pyspark.python") or (sys.executable if local else None)
    if python:
        os.environ.setdefault("PYSPARK_PYTHON", python)
    try:
        context = SparkContext(conf=conf, gateway=gateway)
    except Exception as error:
        raise SparkUnavailableError(
            f"Spark did not start on {conf.get('spark.master')}: {_first_line(error)}"
            + (f" (all of it: {log})" if log else "")
        ) from error
    return SparkSession(context), log


def _sockets() -> dict[str, str]:
    """Settings to talk to Python by sockets in a directory of this user alone.

    Over TCP each task waits for an acknowledgement that is sent 40 ms late.
    """
    directory = tempfile.mkdtemp(prefix="kafkascope-spark-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    if len(directory) > _LONGEST_SOCKET_DIRECTORY:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": directory}


def stays_here(master: str | None, settings: Mapping[str, str]) -> bool:
    """Whether a new session will run in a JVM of this process alone, as far as can be known before there is one."""
    from pyspark.find_spark_home import _find_spark_home

    if "PYSPARK_GATEWAY_PORT" in os.environ or os.environ.get("SPARK_REMOTE"):
        return False
    asked = master or settings.get("spark.master")
    if asked is not None:
        return asked.startswith("local")
    configuration = Path(os.environ.get("SPARK_CONF_DIR", Path(_find_spark_home()) / "conf"))
    return "MASTER" not in os.environ and not (configuration / "spark-defaults.conf").exists()


def close_session(session: Any) -> None:
    """Stop a session whose JVM was started here, and wait until that is gone too, with what it put aside."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    with suppress(Exception):  # a JVM that died cannot stop anything
        session.stop()
    with suppress(Exception):
        gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    SparkContext._gateway = SparkContext._jvm = None


def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Any:
    """The active Spark session, else a new one as `analyze` makes it; raises SparkUnavailableError."""
    found, log = open_session(master, settings)
    if log is not None:
        atexit.register(log.unlink, missing_ok=True)  # until then it tells what went wrong
    return found


def unavailable() -> str | None:
    """Why Spark cannot be used here; None if it can."""
    try:
        find_java()
    except SparkUnavailableError as error:
        return str(error)
    return None


def own_session(session: Any) -> Any:
    """A session on the same Spark with the settings that the queries here need (the same session on Connect)."""
    own = session.newSession() if hasattr(session, "newSession") and not is_remote(session) else session
    for name, value in _QUERY_SETTINGS.items():
        own.conf.set(name, value)
    return own


def is_remote(session: Any) -> bool:
    """Whether a session is one of Spark Connect, which has no context in this process."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def is_local(session: Any) -> bool:
    """Whether executors run in this machine's file system for certain."""
    return not is_remote(session) and str(session.sparkContext.master).startswith("local")


def tail(log: Path | None, lines: int = 15) -> str:
    """The end of a log, for a message about a failure."""
    if log is None or not log.exists():
        return ""
    text = log.read_text(errors="replace").strip().splitlines()
    return "\n".join([*text[-lines:], f"(all of it: {log})"])


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
