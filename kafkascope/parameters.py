"""Options that several commands have, and what the words of all options mean, or what is wrong with them.

What is wrong is raised as typer.BadParameter, which ends the program with a status of wrong use.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from kafkascope import __version__
from kafkascope.program import INCOMPLETE, WRONG_USE, failure, remark
from kafkascope.without_pandas import leave_pandas_out

if TYPE_CHECKING:
    from kafkascope.decoders.limits import Limits
    from kafkascope.decoders.pseudonyms import Pseudonyms
    from kafkascope.engine import EngineOptions
    from kafkascope.filters.expressions import Expression
    from kafkascope.filters.sieve import Filter
    from kafkascope.metrics import Place
    from kafkascope.sniffer.packet_window import PacketWindow
    from kafkascope.sniffer.sources.live_options import Rotation

# Options under a heading of help. Those of each have columns of their own, so that they fit a terminal.
under_input = partial(typer.Option, rich_help_panel="Input")
under_output = partial(typer.Option, rich_help_panel="Output")
under_filters = partial(typer.Option, rich_help_panel="Filters")
under_answers = partial(typer.Option, rich_help_panel="Answers")
under_writing = partial(typer.Option, rich_help_panel="Writing packets")
under_listening = partial(typer.Option, rich_help_panel="Listening")
under_secrets = partial(typer.Option, rich_help_panel="Secrets")

_FILTER_WORDS = frozenset({"port", "host", "net", "tcp", "udp", "src", "dst", "not", "portrange", "ether", "ip", "ip6"})
"""Words that capture filters begin with."""


def _show_limits(values: list[str] | None) -> list[str] | None:
    if "help" in (values or ()):
        from kafkascope.decoders.limits import table

        for name, default, meaning in table():
            print(f"{name}={default}\n    {meaning}")
        raise typer.Exit
    return values


CapturesArgument = Annotated[list[str], typer.Argument(metavar="FILE|DIR|GLOB...", help="Capture files.")]
PortOption = Annotated[
    list[str] | None,
    under_input("--port", metavar="PORT[,PORT]", help="Only these TCP ports. Without it Kafka is found on any port."),
]
DecodeAsOption = Annotated[
    list[str] | None,
    under_input(
        "--decode-as", metavar="PORT[,PORT]", help="Take what these ports carry for Kafka, whatever it looks like."
    ),
]
KeyLogOption = Annotated[
    list[str] | None,
    under_input(
        "--tls-keylog",
        metavar="FILE",
        help="Read TLS with the secrets in this file (SSLKEYLOGFILE), which may grow meanwhile; may be repeated. "
        "Those in pcapng files are used anyway.",
    ),
]
SecretsOption = Annotated[
    bool, under_secrets("--show-secrets", help="Show passwords, tokens and proofs instead of '[redacted]'.")
]
SecretNamesOption = Annotated[
    list[str] | None,
    under_secrets(
        "--secret-name",
        metavar="REGEX",
        help="Hide the values of configurations with such names too; may be repeated. Case does not matter.",
    ),
]
AnonymizeOption = Annotated[
    str | None,
    under_secrets(
        "--anonymize",
        metavar="KEY",
        help="Pseudonyms for hosts, clients, users, topics, groups, keys, values and texts, the same ones for one KEY. "
        "They have the length of what they stand for. What brokers call themselves (node ids), and localhost, stay.",
    ),
]
LimitOption = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        callback=_show_limits,
        is_eager=True,
        help="How much is held, read or shown at most (held_bytes=2GB); may be repeated. `--limit help` lists all.",
    ),
]
RecordsTableOption = Annotated[bool, typer.Option("--records", help="Write the records table too.")]
FilterOption = Annotated[
    str | None,
    typer.Option(
        "-Y",
        "--filter",
        metavar="EXPR",
        help="In the tables exchanges, errors, partitions, batches and records only exchanges that pass, as of "
        "`sniff --filter`. All other tables (connections, tcp_health, issues, and what is found out: incidents, "
        "rebalances, latency and so on), summary and report are of the whole capture.",
    ),
]
MicrosecondsOption = Annotated[
    bool, typer.Option("--microseconds", help="Times in the tables in microseconds, which Spark reads as they are.")
]
ByHourOption = Annotated[
    bool,
    typer.Option(
        "--by-hour",
        help="Large tables in directories by hour, so that queries of some minutes or groups read little.",
    ),
]
JsonLinesOption = Annotated[bool, under_output("--json", help="One JSON object a line.")]
HexOption = Annotated[
    bool,
    under_output(
        "-x",
        help="The bytes in hex beside the fields that they mean; those of records with --show-secrets only.",
    ),
]
DebugOption = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="Say on standard error, with packet numbers, what was decided and by what: protocols of connections, "
        "resynchronisation, requests without an answer, and, with --groups, readings of rebalances.",
    ),
]
SinceOption = Annotated[
    str | None,
    under_input(
        "--since",
        metavar="TIME",
        help="Only packets from then on, as if the capture began there: 2026-11-21T05:57:16.5 (UTC), 05:57:16 of the "
        "day on which the capture begins, or +30s from its first packet.",
    ),
]
UntilOption = Annotated[
    str | None, under_input("--until", metavar="TIME", help="Only packets before then, as if the capture ended there.")
]
PacketsOption = Annotated[
    str | None,
    under_input(
        "--packets", metavar="A-B", help="Only packets with these numbers, as in Wireshark; A- and -B are ranges too."
    ),
]


def ports(values: list[str] | None, option: str) -> frozenset[int]:
    """The ports that an option lists."""
    ports = set()
    for given in values or ():
        for value in given.split(","):
            if not value.isdecimal() or not 0 < int(value) < 65536:
                wrong = f"{value!r} is no port" if value else "it has a comma too many"
                raise typer.BadParameter(f"{option} {given}: {wrong}; give ports, 1 to 65535, with commas between")
            ports.add(int(value))
    return frozenset(ports)


_LEAST_S, _MOST_S = 0.001, 366 * 24 * 3600
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds(value: str | None, option: str) -> float | None:
    """A time in words of an option (30s, 10m, 2h), in seconds."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", value)
    if found is None or not _LEAST_S <= (time := float(found[1]) * _UNITS_S[found[2]]) <= _MOST_S:
        raise typer.BadParameter(f"{option} {value}: give a time such as 30s, 10m or 2h")
    return time


def metrics_place(text: str | None) -> Place | None:
    """Where Prometheus may ask."""
    if text is None:
        return None
    try:
        from kafkascope.metrics import Place
    except ImportError:
        raise typer.BadParameter("--metrics needs prometheus-client: pip install 'kafkascope[metrics]'") from None
    try:
        return Place.of(text)
    except ValueError as error:
        raise typer.BadParameter(f"--metrics: {error}") from None


def top(wanted: bool, debug: bool) -> bool:
    """Whether there is to be a screen; with debug there cannot."""
    if wanted and find_spec("textual") is None:
        raise typer.BadParameter("--top needs textual: pip install 'kafkascope[top]'")
    if wanted and debug:
        raise typer.BadParameter("--debug writes lines where --top shows a screen: give one of them")
    return wanted


def list_interfaces(ctx: typer.Context, wanted: bool) -> None:
    """Print the interfaces, and end."""
    if wanted and not ctx.resilient_parsing:  # by a shell that completes a line
        from kafkascope.sniffer.sources.ring import interfaces

        print(*interfaces(), sep="\n")
        raise typer.Exit


def topic_names(file: str | None, broker: str | None) -> dict[str, str]:
    """Names of topics by what stands for them, of a file and as a broker tells them."""
    if file is None and broker is None:
        return {}
    from kafkascope import topic_ids

    try:
        told = {} if file is None else topic_ids.of_file(file)
        return told if broker is None else told | topic_ids.of_broker(broker)
    except (OSError, topic_ids.NoNamesError) as error:
        remark(failure(error) if isinstance(error, OSError) else str(error))
        raise typer.Exit(INCOMPLETE) from None


def namespace(name: str | None, process: int | None) -> str | None:
    """The file of a network namespace: one with a name, or that of a process."""
    if name is None and process is None:
        return None
    if name is not None and process is not None:
        raise typer.BadParameter("give --netns or --pid, not both")
    from kafkascope.sniffer.sources.namespaces import namespace_path

    return namespace_path(name, process)


def alerts(targets: list[str] | None) -> tuple[str, ...]:
    """Where incidents are told."""
    if targets:
        from kafkascope.alerts import way_to

        for target in targets:
            try:
                way_to(target)
            except ValueError as error:
                raise typer.BadParameter(f"--alert {target}: {error}") from None
    return tuple(targets or ())


def more_files(names: Sequence[str]) -> Sequence[str]:
    """Files that are named without an option; not words of a filter, which tcpdump takes there."""
    if words := [name for name in names if name in _FILTER_WORDS and not os.path.exists(name)]:
        raise typer.BadParameter(
            f"{words[0]}: no such file; a filter such as {' '.join(names)!r} goes behind -f when listening; "
            "with files there are --port and --host"
        )
    return names


def check_source(
    files: Sequence[str],
    interfaces: Sequence[str],
    of_files: Mapping[str, object],
    of_interfaces: Mapping[str, object],
) -> None:
    """There are either files or interfaces, without options (by their names) that only the other has."""
    if files:
        _refuse(of_interfaces, "only with an interface (--iface NAME), not with files")
    if interfaces:
        _refuse(of_files, "only with files; --duration TIME ends listening")
    if bool(files) == bool(interfaces):
        raise typer.BadParameter("give files to read (-r FILE) or an interface to listen on (--iface NAME)")


def _refuse(options: Mapping[str, object], why: str) -> None:
    if given := [name for name, value in options.items() if value is not None]:
        raise typer.BadParameter(f"{', '.join(given)}: {why}")


def rotation(
    write: str | None, size_mb: int | None, time: str | None, count: int | None, ring: Sequence[str]
) -> Rotation:
    """When a file that is written is followed by a new one."""
    from kafkascope.sniffer.sources.live_options import Rotation

    said = _said_of_rotation(size_mb, time, count, ring)
    if write is None and said:
        raise typer.BadParameter("-C, -G, -W and -b say when -w FILE begins a new file, and how many are kept")
    size, files = said.get("filesize"), said.get("files")
    found = Rotation(
        most_bytes=None if size is None else int(size * 1000),
        most_seconds=said.get("duration"),
        files=None if files is None else int(files),
    )
    if found.files and not found.is_wanted:
        raise typer.BadParameter("-W keeps the latest of the files that -C MB or -G TIME make")
    return found


def _said_of_rotation(
    size_mb: int | None, time: str | None, count: int | None, ring: Sequence[str]
) -> dict[str, float]:
    """What -C, -G and -W say, or -b in the words of dumpcap(1), whose kB are 1,000 bytes."""
    said: dict[str, float] = {}
    if size_mb is not None:
        said["filesize"] = size_mb * 1000
    if (longest := seconds(time, "-G")) is not None:
        said["duration"] = longest
    if count is not None:
        said["files"] = count
    for word in ring:
        name, _, number = word.partition(":")
        whole = name in ("filesize", "files")
        if not (whole or name == "duration") or not re.fullmatch(r"\d+" if whole else r"\d+(\.\d+)?", number):
            raise typer.BadParameter(f"-b {word}: give filesize:KB, duration:SECONDS or files:N")
        if not float(number):
            raise typer.BadParameter(f"-b {word}: give a number above 0")
        if name in said:
            raise typer.BadParameter(f"-b {word}: that is said already")
        said[name] = float(number)
    return said


def duration(time: str | None, until: str | None) -> float | None:
    """What --duration says, or -a in the words of dumpcap(1), in seconds."""
    if until is None:
        return seconds(time, "--duration")
    name, _, number = until.partition(":")
    if name != "duration":
        raise typer.BadParameter(f"-a {until}: give duration:SECONDS; -c N ends behind N exchanges, -b N files")
    if time is not None:
        raise typer.BadParameter(f"-a {until}: --duration says that already")
    return seconds(number, "-a duration:")


def form(as_json: bool, fields: str | None, form: str | None, columns: Sequence[str]) -> tuple[bool, str | None]:
    """Whether JSON is asked for, and which columns: in our words (--json, --fields), or in tshark's (-T, -e)."""
    from kafkascope.other_sniffers import asked_form

    try:
        json_asked, fields_asked = asked_form(form, columns)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if (as_json or json_asked) and (fields or fields_asked):
        raise typer.BadParameter("--json and --fields are two forms of the same lines: give one of them")
    if fields and fields_asked:
        raise typer.BadParameter("-T, -e and --fields name the same columns: give one of them")
    return as_json or json_asked, fields or fields_asked


def secret_names(values: list[str] | None) -> tuple[str, ...]:
    """Regular expressions for names of configurations."""
    from kafkascope.decoders.redaction import checked_names

    try:
        return checked_names(values or [])
    except ValueError as error:
        raise typer.BadParameter(f"--secret-name {error}") from error


def window(since: str | None, until: str | None, packets: str | None) -> PacketWindow:
    """Which packets of files are looked at."""
    from kafkascope.sniffer.packet_window import PacketWindow

    try:
        return PacketWindow.of(since, until, packets)
    except ValueError as error:
        raise typer.BadParameter(f"--{error}") from None


def expression(text: str | None) -> Expression | None:
    """The exchanges that a filter lets through."""
    if text is None:
        return None
    from kafkascope.filters.language import parsed

    with _told_by_place():
        return parsed(text)


@contextmanager
def _told_by_place() -> Iterator[None]:
    """What is wrong with a filter is shown by its place, and ends the program."""
    from kafkascope.filters.expressions import HiddenError
    from kafkascope.filters.language import FilterError

    try:
        yield
    except (FilterError, HiddenError) as error:
        remark(f"--filter: {error}")
        raise typer.Exit(WRONG_USE) from None


def of_tables(
    *,
    records: bool = False,
    where: str | None = None,
    since: str | None = None,
    until: str | None = None,
    packets: str | None = None,
    port: list[str] | None = None,
    decode_as: list[str] | None = None,
    tls_keylog: list[str] | None = None,
    show_secrets: bool = False,
    secret_name: list[str] | None = None,
    anonymize: str | None = None,
    limit: list[str] | None = None,
) -> EngineOptions:
    """How captures become tables: all of them, that of records only if it is wanted."""
    from kafkascope.engine import ALL_TABLES, WITHOUT_RECORDS, EngineOptions
    from kafkascope.sniffer.session import SessionOptions

    of_names = pseudonyms(anonymize)
    return EngineOptions(
        tables=ALL_TABLES if records else WITHOUT_RECORDS,
        session=SessionOptions(
            ports=ports(port, "--port"),
            decode_as=ports(decode_as, "--decode-as"),
            key_logs=tuple(tls_keylog or ()),
            limits=limits(limit),
        ),
        reveal_secrets=show_secrets,
        secret_names=secret_names(secret_name),
        pseudonyms=of_names,
        filter=_chosen(where, of_names),
        window=window(since, until, packets),
    )


def _chosen(text: str | None, of_names: Pseudonyms | None) -> Filter | None:
    if text is None:
        return None
    from kafkascope.filters.sieve import Filter

    with _told_by_place():
        return Filter.of(text, of_names)


def pseudonyms(key: str | None) -> Pseudonyms | None:
    """Those of a key."""
    if key is None:
        return None
    from kafkascope.decoders.pseudonyms import Pseudonyms

    return Pseudonyms(key)


def limits(values: list[str] | None) -> Limits:
    """The bounds that were moved, and all others."""
    from kafkascope.decoders.limits import Limits

    try:
        return Limits.of(values or ())
    except ValueError as error:
        raise typer.BadParameter(f"--limit {error}") from None


def offered_names(column: str) -> Callable[[typer.Context], list[str]]:
    """What a shell offers for an option: names that the captures on the line have in a column."""

    def offered(ctx: typer.Context) -> list[str]:
        leave_pandas_out()
        from kafkascope import completing

        places = [*(ctx.params["read"] or ()), *ctx.args]  # FILE is no parameter yet while an option has no value
        return completing.names(column, [os.path.expanduser(place) for place in places])

    return offered


def api_names() -> list[str]:
    """What a shell offers for an API."""
    from kafkascope.filters.fields import COLUMNS

    return list(COLUMNS["api"].words)


def column_names(incomplete: str) -> list[str]:
    """What a shell offers for columns of exchanges."""
    from kafkascope import completing, sniff_options

    return completing.columns(incomplete, sniff_options.KNOWN_COLUMNS)


def colour(wanted: bool | None) -> bool:
    """Whether there is colour: as was asked for, else on a terminal whose user has nothing against it."""
    if wanted is not None:
        return wanted
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _show_version(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        print(f"kafkascope {__version__}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
]
