"""Spark sessions: the one that there is, or a new one with settings that suit one machine.

Whatever the user set counts first (spark-submit, ``spark-defaults.conf``, a session that runs already); the defaults
here fill in what nobody set. The chatter of a JVM that is started here goes to a file, which a failure names. That
file, and what Spark puts aside, go with the session.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import platformdirs

from kafkascope.spark.failures import reason
from kafkascope.temporary import TemporaryDirectory

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
_ATTEMPTS = 4  # at a task, as Spark's default for clusters (spark.task.maxFailures)
_HANGING_UP_S = 5.0  # that a JVM whose sockets are closed may take to be gone
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

    def __init__(self, message: str, log: Path | None = None) -> None:
        """log: of the JVM, which the message names."""
        super().__init__(message)
        self.log = log


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
        raise SparkUnavailableError(f"{java} -version failed: {says.strip()[:200] or 'it says nothing'}. {advice}.")
    if version < OLDEST_JAVA:
        raise SparkUnavailableError(f"{java} is Java {version}. {advice}.")
    return Java(java, says)


def kept_classes(java: Java) -> Path:
    """Where the classes that Spark loads are kept as the JVM wants them in memory, if `kafkascope warm` was run.

    To load and check some ten thousand of them takes a quarter of a small analysis. They are of one runtime and one
    installation of Spark: the JVM silently leaves an archive alone whose jars have other times than those it was made
    of, so one that is installed anew in its old place has another archive.
    """
    import pyspark

    jars = [(jar, jar.stat()) for jar in sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))]
    installed = [f"{jar} {about.st_size} {about.st_mtime_ns}" for jar, about in jars]
    known = "\n".join([os.path.realpath(java.path), java.says, pyspark.__version__, *installed, JVM_OPTIONS])
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


class Scratch:
    """What a JVM that was started here writes to: its log, its sockets to Python, and what it puts aside."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory()
        self.path = self._directory.path
        self._log = self.path / "log"

    def open_log(self) -> BinaryIO:
        """The log, for the JVM to write to."""
        return self._log.open("wb")

    def kept_log(self) -> Path:
        """The log, moved to where it stays when all else is removed."""
        kept = self.path.with_name(f"{self.path.name}.log")
        if self._log.exists():
            self._log.rename(kept)
        return kept

    def remove(self) -> None:
        """Remove all but a log that was kept."""
        self._directory.remove()


def open_session(master: str | None = None, settings: Mapping[str, str] | None = None) -> tuple[Any, Scratch | None]:
    """The active Spark session, else a new one, and the files of its JVM if that was started here.

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


def _start(master: str | None, settings: Mapping[str, str]) -> tuple[Any, Scratch | None]:
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    scratch: Scratch | None = None
    gateway = SparkContext._gateway  # of a session that was stopped: pyspark has one JVM for as long as it runs
    if gateway is None and "PYSPARK_GATEWAY_PORT" in os.environ:  # under spark-submit the JVM runs already
        gateway = launch_gateway()
    elif gateway is None:
        java = find_java()
        scratch = Scratch()
        gateway = _start_jvm(java, scratch, master, settings)
        logging.root.addFilter(_is_not_of_py4j)
    conf: Any = None
    try:
        conf = _configuration(gateway, scratch, master, settings)
        # Python of the executors: on this machine the one that runs, elsewhere what the configuration names.
        python = conf.get("spark.pyspark.python") or (sys.executable if _is_local_master(conf) else None)
        if python:
            os.environ.setdefault("PYSPARK_PYTHON", python)
        context = SparkContext(conf=conf, gateway=gateway)
        # It would print that a JVM that has ended has hung up; who waits for the JVM hears of that otherwise.
        context._accumulatorServer.handle_error = lambda *_: None
        return SparkSession(context), scratch  # which needs a context that no master has turned away meanwhile
    except Exception as error:
        message = None if scratch is None else _end_of(gateway, error)
        if message is None:
            on = "" if conf is None else f" on {conf.get('spark.master')}"
            message = f"Spark did not start{on}: {reason(error)}"
        if "stopped SparkContext" in message:  # as one is whose master has not answered for a minute
            message += " Look whether a master answers there (its address, its log)."
        if scratch is None:
            raise SparkUnavailableError(message) from error
        _end_jvm(gateway)
        log = scratch.kept_log()
        raise SparkUnavailableError(f"{message} (all of it: {log})", log) from error


def _start_jvm(java: Java, scratch: Scratch, master: str | None, settings: Mapping[str, str]) -> Any:
    """The gateway to a new JVM; what it reads as it starts is set before."""
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    asked = SparkConf(loadDefaults=False)
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
        # No configuration file says otherwise: not all that a JVM puts aside goes where spark.local.dir says.
        asked.setIfMissing("spark.driver.defaultJavaOptions", f'"-Djava.io.tmpdir={scratch.path}"')
    # pyspark looks for numpy there at its first call to the JVM, and finds pandas and more to import.
    threading.Thread(target=import_module, args=["pyspark.testing.utils"], daemon=True).start()
    with scratch.open_log() as stream, _told_below(scratch.path):
        try:
            return launch_gateway(asked, {"stdout": stream, "stderr": stream})
        except PySparkException as error:
            log = scratch.kept_log()
            raise SparkUnavailableError(f"Spark's JVM did not start; it said:\n{_end(log)}", log) from error


def _configuration(gateway: Any, scratch: Scratch | None, master: str | None, settings: Mapping[str, str]) -> Any:
    """What the user set, and defaults where nobody set anything."""
    from pyspark import SparkConf

    conf = SparkConf(_jvm=gateway.jvm)  # what spark-submit and spark-defaults.conf say
    for name, value in settings.items():
        conf.set(name, value)
    if master:
        conf.set("spark.master", master)
    conf.set("spark.master", _with_attempts(conf.get("spark.master") or "local[*]", conf.get("spark.task.maxFailures")))
    local = _is_local_master(conf)
    defaults = _DEFAULTS | (_LOCAL_DEFAULTS if local else {})
    if local and "PYSPARK_GATEWAY_PORT" not in os.environ:
        # Where this process found the package, others that it starts find it; under spark-submit it comes with tasks.
        defaults |= {"spark.python.daemon.module": "kafkascope.spark.daemon"}
    if local and scratch is not None:
        defaults |= {"spark.local.dir": str(scratch.path)} | _sockets(scratch.path)
    for name, value in defaults.items():
        conf.setIfMissing(name, value)
    return conf


def _is_local_master(conf: Any) -> bool:
    return str(conf.get("spark.master", "")).startswith("local")


@contextmanager
def _told_below(directory: Path) -> Iterator[None]:
    """What the JVM tells Python as it starts goes below a directory: pyspark's own stays if this process is killed."""
    from pyspark import java_gateway

    usual = java_gateway.tempfile
    java_gateway.tempfile = SimpleNamespace(**{**vars(usual), "mkdtemp": partial(usual.mkdtemp, dir=directory)})
    try:
        yield
    finally:
        java_gateway.tempfile = usual


def _with_attempts(master: str, attempts: str | None) -> str:
    """The master, which tries a task as often as a cluster does: a local one that is not told tries it once."""
    cores = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    return f"local[{cores[1] or 1},{attempts or _ATTEMPTS}]" if cores else master


def _sockets(directory: Path) -> dict[str, str]:
    """Settings to talk to Python by sockets in a directory, which must be of this user alone.

    Over TCP each task waits for an acknowledgement that is sent 40 ms late.
    """
    if len(str(directory)) > _LONGEST_SOCKET_DIRECTORY:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(directory)}


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

    context, gateway = session.sparkContext, SparkContext._gateway
    accumulators, context._accumulatorServer = context._accumulatorServer, None
    with suppress(Exception), warnings.catch_warnings():  # a JVM that died cannot stop anything
        warnings.filterwarnings("ignore", "Unable to cleanly shutdown")
        session.stop()
    # pyspark would wait for its server of accumulators, which looks once a second whether it is to end.
    threading.Thread(target=_end_server, args=[accumulators], daemon=True).start()
    _end_jvm(gateway)


def end_of_jvm(error: Exception) -> str | None:
    """What to say of the JVM that was started here if it has ended, which this error may be a sign of; else None."""
    from pyspark import SparkContext

    return _end_of(SparkContext._gateway, error)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """A filter for the root logger, which py4j tells of each call that a JVM that has gone does not answer."""
    return Path(record.pathname).parent.name != "py4j"


def _end_of(gateway: Any, error: Exception) -> str | None:
    from py4j.protocol import Py4JError, Py4JJavaError

    # Of its own errors a JVM tells while it lives.
    if isinstance(error, Py4JJavaError) or not isinstance(error, ConnectionError | Py4JError):
        return None
    try:
        status = gateway.proc.wait(_HANGING_UP_S)
    except subprocess.TimeoutExpired:
        return None
    if status == -signal.SIGKILL:
        return (
            "Spark's JVM was killed, most often by a system without free memory; let fewer tasks run at once"
            " (--master local[1]), or smaller ones (--partitions)"
        )
    how = f"{signal.Signals(-status).name} ended it" if status < 0 else f"it exited with status {status}"
    return f"Spark's JVM has gone: {how}"


def _end_server(server: Any) -> None:
    with suppress(OSError):  # its socket has been removed with all of the JVM's files
        server.shutdown()


def _end_jvm(gateway: Any) -> None:
    from pyspark import SparkContext

    with suppress(Exception):
        gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    logging.root.removeFilter(_is_not_of_py4j)
    SparkContext._gateway = SparkContext._jvm = None


def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Any:
    """The active Spark session, else a new one as `analyze` makes it; raises SparkUnavailableError."""
    found, scratch = open_session(master, settings)
    if scratch is not None:
        atexit.register(scratch.remove)  # until then its log tells what went wrong
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


def _end(log: Path, lines: int = 15) -> str:
    """The end of a log, for a message about a failure."""
    text = log.read_text(errors="replace").strip().splitlines()
    return "\n".join([*text[-lines:], f"(all of it: {log})"])
