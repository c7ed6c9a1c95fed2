"""The command line: ``kafkascope`` with its subcommands, and ``sniff``."""

from __future__ import annotations

import os
from functools import partial
from typing import Annotated

import typer

from kafkascope import parameters, program
from kafkascope.command import Command
from kafkascope.other_sniffers import SniffCommand
from kafkascope.parameters import (
    AnonymizeOption,
    ByHourOption,
    CapturesArgument,
    DebugOption,
    DecodeAsOption,
    FilterOption,
    HexOption,
    JsonLinesOption,
    KeyLogOption,
    LimitOption,
    MicrosecondsOption,
    PacketsOption,
    PortOption,
    RecordsTableOption,
    SecretNamesOption,
    SecretsOption,
    SinceOption,
    UntilOption,
    VersionOption,
    under_answers,
    under_filters,
    under_input,
    under_listening,
    under_output,
    under_writing,
)
from kafkascope.program import remark
from kafkascope.without_pandas import leave_pandas_out

LEAST_SNAP = 96  # bytes that headers may take

app = typer.Typer(
    name="kafkascope",
    help="Network sniffer and analyzer for the Apache Kafka protocol.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
sniff_app = typer.Typer(
    name="sniff",
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
command = partial(app.command, cls=Command)

SNIFF_HELP = """Show Kafka exchanges: one line each, in order of completion. Live, or out of capture files.

Examples:

- `sniff -r capture.pcap` : every exchange of a file
- `sniff -r 'logs/*.pcap.gz' --api Fetch --slower-than 100` : slow fetches out of many files
- `ssh host tcpdump -U -w - port 9092 | sniff -r -` : another machine, live
- `sniff --iface eth0 --port 9092 -v` : this machine, live, with key fields
- `sniff --iface eth0 --top` : who does how much, how fast, how wrong, on a full screen
- `sniff --iface eth0 --groups` : why groups rebalance, as it happens
- `sniff --iface eth0 --incidents` : what breaks, what it costs, what to do, as soon as it is sure
- `sniff -r capture.pcap --json --records | jq .` : everything, one object a line
- `sniff -r capture.pcap --errors -w errors.pcapng` : connections with errors, for Wireshark, with comments
- `sniff -r capture.pcap --fields requested,api,client_id,latency_ms` : chosen columns, tabs between
"""


@sniff_app.command(cls=SniffCommand, help=SNIFF_HELP, no_args_is_help=True)
@app.command("sniff", cls=SniffCommand, help=SNIFF_HELP, no_args_is_help=True)
def sniff(
    read: Annotated[
        list[str] | None,
        under_input("-r", "--read", metavar="FILE", help="Capture file, directory or pattern; `-` is standard input."),
    ] = None,
    iface: Annotated[
        list[str] | None,
        under_input("-i", "--iface", metavar="NAME", help="Network interface, or `any`; may be repeated."),
    ] = None,
    files: Annotated[list[str] | None, typer.Argument(metavar="[FILE]...", help="More files to read.")] = None,
    verbose: Annotated[bool, under_output("-v", help="Add key fields: group, member, packets, ids.")] = False,
    quiet: Annotated[
        bool, under_output("-q", help="Show no exchange: for -w, and for what is said at the end.")
    ] = False,
    tree: Annotated[
        bool, under_output("-V", help="Show the whole of both messages: every field, with offset, length and type.")
    ] = False,
    as_hex: HexOption = False,
    as_json: JsonLinesOption = False,
    fields: Annotated[
        str | None,
        under_output(
            "--fields",
            metavar="A,B,C",
            help="These columns of the exchanges table, tabs between; safe in spreadsheets.",
            autocompletion=parameters.column_names,
        ),
    ] = None,
    form: Annotated[
        str | None,
        under_output(
            "-T",
            metavar="FORM",
            help="As tshark: `json` is --json, `ek` the same for Elasticsearch's bulk API, `fields` the columns that "
            "-e names, `tabs` those of a line.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        under_output(
            "-e",
            metavar="COLUMN",
            help="With -T fields: a column; may be repeated.",
            autocompletion=parameters.column_names,
        ),
    ] = None,
    records: Annotated[bool, under_output("--records", help="Show the records that exchanges carry.")] = False,
    groups: Annotated[
        bool,
        under_answers("--groups", help="Show what happens to groups, and why they rebalance, instead of exchanges."),
    ] = False,
    incidents: Annotated[
        bool,
        under_answers("--incidents", help="Show what broke, what it cost and what to do, instead of exchanges."),
    ] = False,
    alert: Annotated[
        list[str] | None,
        under_answers(
            "--alert",
            metavar="URL|COMMAND",
            help="With --incidents: POST each there, or give it to a command, as JSON; may be repeated.",
        ),
    ] = None,
    stats: Annotated[
        str | None,
        under_answers(
            "--stats",
            metavar="[BY,]TIME",
            help="Count exchanges in spans of time (10s, 1m), instead of showing them; by api, client, topic, "
            "group, broker or connection: `client,10s`.",
        ),
    ] = None,
    tables: Annotated[
        str | None,
        under_answers(
            "--tables",
            metavar="OUT",
            help="Tables (Parquet) and report in this directory, as `analyze` makes them, beside what is there; of an "
            "interface renewed while it is listened to.",
        ),
    ] = None,
    every: Annotated[
        str | None, under_answers("--every", metavar="TIME", help="With --tables: how often they are renewed; 10m.")
    ] = None,
    top: Annotated[
        bool,
        under_answers(
            "--top", help="A full screen of brokers, clients, topics, groups and APIs, instead of exchanges."
        ),
    ] = False,
    payload: Annotated[
        bool, under_output("--payload/--no-payload", help="Keys and values of records, or only their sizes.")
    ] = True,
    api: Annotated[
        list[str] | None,
        under_filters(
            "--api", metavar="NAME", help="Only this API; may be repeated.", autocompletion=parameters.api_names
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        under_filters(
            "--topic",
            metavar="NAME",
            help="Only what names this topic; may be repeated.",
            autocompletion=parameters.offered_names("topic"),
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        under_filters(
            "--group",
            metavar="ID",
            help="Only this group; may be repeated.",
            autocompletion=parameters.offered_names("group"),
        ),
    ] = None,
    client_id: Annotated[
        list[str] | None,
        under_filters(
            "--client-id",
            metavar="ID",
            help="Only this client id; may be repeated.",
            autocompletion=parameters.offered_names("client_id"),
        ),
    ] = None,
    host: Annotated[
        list[str] | None,
        under_filters(
            "--host",
            metavar="ADDRESS",
            help="Only connections of this host; may be repeated.",
            autocompletion=parameters.offered_names("host"),
        ),
    ] = None,
    connection: Annotated[
        list[str] | None,
        under_filters(
            "--connection",
            metavar="N|ADDRESS:PORT",
            help="Only this connection, by its number (`conn=` of -v), or those of this end; may be repeated.",
        ),
    ] = None,
    packet: Annotated[
        int | None,
        under_filters(
            "--packet", metavar="N", help="Only exchanges that this packet of the file is part of, whole.", min=1
        ),
    ] = None,
    errors: Annotated[bool, under_filters("--errors", help="Only exchanges with an error code, or damaged.")] = False,
    slower_than: Annotated[
        float | None, under_filters("--slower-than", metavar="MS", help="Only answers that took longer.", min=0)
    ] = None,
    where: Annotated[
        str | None,
        under_filters(
            "-Y",
            "--filter",
            metavar="EXPR",
            help="Only exchanges that pass: `api == Fetch and latency_ms > 100`, `topic in (a, b) or error`, "
            '`request.groupId contains "shop"`, `client_id matches "^c[0-9]"`, `not exists issue`. Names are those of '
            "columns and of fields of bodies; any of several values will do. With --anonymize hosts, clients, topics "
            "and so on are asked for by their whole names, as they are in the capture.",
        ),
    ] = None,
    count: Annotated[int | None, under_filters("-c", metavar="N", help="Stop after N exchanges.", min=1)] = None,
    duration: Annotated[
        str | None,
        under_listening("--duration", metavar="TIME", help="Listen so long: 30s, 10m, 2h.", show_default=False),
    ] = None,
    until_what: Annotated[
        str | None, under_listening("-a", metavar="duration:S", help="The same in dumpcap's words.")
    ] = None,
    write: Annotated[
        str | None,
        under_writing(
            "-w",
            metavar="FILE",
            help="Write packets there (pcapng): of an interface all, beside what is shown; of files, instead, the "
            "connections of what matches, with comments where incidents, rebalances and errors begin and end.",
        ),
    ] = None,
    write_only: Annotated[
        bool, under_writing("--write-only", help="With -w, of files: only packets of exchanges that match.")
    ] = False,
    file_size: Annotated[
        int | None,
        under_writing("-C", metavar="MB", help="With -w: begin a new file, FILE_00001_TIME, after so much.", min=1),
    ] = None,
    file_time: Annotated[
        str | None, under_writing("-G", metavar="TIME", help="With -w: begin a new file after so long: 1h.")
    ] = None,
    file_count: Annotated[
        int | None, under_writing("-W", metavar="N", help="With -C or -G: keep only the latest N files.", min=1)
    ] = None,
    ring: Annotated[
        list[str] | None,
        under_writing("-b", metavar="WHAT:N", help="The same in dumpcap's words: filesize:KB, duration:S, files:N."),
    ] = None,
    buffer: Annotated[
        int,
        under_listening("--buffer", metavar="MB", help="Room for packets of an interface that wait to be read.", min=8),
    ] = 64,
    metrics: Annotated[
        str | None,
        under_listening("--metrics", metavar="[HOST]:PORT", help="Answer Prometheus there, while listening."),
    ] = None,
    netns: Annotated[
        str | None,
        under_listening("--netns", metavar="NAME|PATH", help="Listen in this network namespace, see `ip netns`."),
    ] = None,
    pid: Annotated[
        int | None,
        under_listening(
            "--pid", metavar="PID", help="Listen in the network of this process, such as one of a container.", min=1
        ),
    ] = None,
    expression: Annotated[
        str | None,
        under_listening("-f", metavar="FILTER", help="Only packets that match, by pcap-filter(7); needs libpcap."),
    ] = None,
    snap: Annotated[
        int | None,
        under_listening(
            "-s", metavar="BYTES", help="Take no more than this of each packet: 200 leaves headers; 0: all.", min=0
        ),
    ] = None,
    names: Annotated[
        str | None,
        under_input(
            "--names",
            metavar="FILE",
            help="Names of topics, as `kafka-topics.sh --describe` prints them. Groups that "
            "formed before the capture need nothing: what their members say is read without it.",
        ),
    ] = None,
    ask: Annotated[
        str | None,
        under_input("--ask", metavar="HOST:PORT", help="Ask this broker for the names of topics, once, at the start."),
    ] = None,
    user: Annotated[
        str | None,
        under_listening(
            "--user",
            metavar="NAME",
            help="The user that root becomes once the interface is open, without any rights; default: who called "
            "sudo, else nobody. With root all rights are kept.",
        ),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    packets: PacketsOption = None,
    port: PortOption = None,
    decode_as: DecodeAsOption = None,
    tls_keylog: KeyLogOption = None,
    interfaces: Annotated[
        bool,
        under_listening("-D", callback=parameters.list_interfaces, is_eager=True, help="List interfaces and exit."),
    ] = False,
    version: VersionOption = False,
    as_it_is: Annotated[
        bool,
        typer.Option(
            "-l",
            "-n",
            "-U",
            help="Options of tcpdump that change nothing: lines come at once, addresses without names.",
        ),
    ] = False,
    colour: Annotated[
        bool | None, typer.Option("--colour/--no-colour", help="Colour, or none; by default on a terminal only.")
    ] = None,
    show_secrets: SecretsOption = False,
    secret_name: SecretNamesOption = None,
    anonymize: AnonymizeOption = None,
    limit: LimitOption = None,
    debug: DebugOption = False,
) -> None:
    """Show Kafka exchanges (the help is SNIFF_HELP)."""
    if not incidents and (iface or not write):  # incidents, and -w of files, look at tables as notebooks do
        leave_pandas_out()
    with program.importing():
        from kafkascope import sniff_options, sniffing
    from kafkascope.sniffer.sources.live_options import LiveOptions

    if debug:
        from kafkascope.debugging import log_decisions

        log_decisions()
    sources = (*(read or ()), *parameters.more_files(files or ()))
    if snap is not None and 0 < snap < LEAST_SNAP:
        raise typer.BadParameter(f"-s {snap}: headers take {LEAST_SNAP} bytes, and 0 is all")
    of_interfaces = {"-f": expression, "-s": snap, "--user": user, "--duration": duration, "-a": until_what}
    of_interfaces |= {"--netns": netns, "--pid": pid}
    of_files = {"--since": since, "--until": until, "--packets": packets, "--packet": packet}
    parameters.check_source(sources, iface or (), of_files, of_interfaces)
    if write_only and (write is None or iface):
        raise typer.BadParameter("--write-only says what -w FILE writes of the files that are read (-r FILE)")
    if every is not None and (tables is None or not iface):
        raise typer.BadParameter("--every says how often --tables OUT of an interface is renewed")
    rotation = parameters.rotation(write, file_size, file_time, file_count, ring or ())
    as_json, fields = parameters.form(as_json, fields, form, column or ())
    if (as_json or fields) and (tree or as_hex or verbose):
        raise typer.BadParameter("--json and --fields are forms of their own: -V, -x and -v do not go with them")
    whole = tree or (packet is not None and not verbose and not quiet and write is None and not stats)
    # These show no exchange anyway; nor does -w of files.
    quiet = quiet and not (groups or incidents or stats or top or tables or (write and not iface))
    if quiet and (as_json or fields or whole or as_hex or verbose or records):
        raise typer.BadParameter("-q shows no exchange: it does not go with what says how they are shown")
    asked = sniff_options.SniffOptions(
        files=sources,
        interfaces=tuple(iface or ()),
        live=LiveOptions(
            buffer_bytes=buffer << 20,
            duration_s=parameters.duration(duration, until_what),
            namespace=parameters.namespace(netns, pid),
            expression=expression or "",
            snap_bytes=snap or None,
            write_to=write,
            rotation=rotation,
        ),
        user=user,
        display=sniff_options.Display(
            style=sniff_options.style_of(
                as_json=as_json, fields=fields, tree=whole or as_hex, verbose=verbose, quiet=quiet
            ),
            bulk=form == "ek",
            as_hex=as_hex,
            fields=tuple(fields.split(",")) if fields else (),
            records=records,
            payload=payload,
            colour=parameters.colour(colour),
            limit=count,
            groups=groups,
            incidents=incidents,
            alerts=parameters.alerts(alert),
            stats_s=parameters.seconds(stats and stats.rpartition(",")[2], "--stats"),
            stats_by=(stats or "").rpartition(",")[0] or "api",
            tables=tables,
            every_s=parameters.seconds(every, "--every") or sniff_options.EVERY_S,
            top=parameters.top(top, debug),
        ),
        filters=sniff_options.Filters(
            apis=frozenset(api or ()),
            topics=frozenset(topic or ()),
            groups=frozenset(group or ()),
            client_ids=frozenset(client_id or ()),
            hosts=frozenset(host or ()),
            connections=frozenset(connection or ()),
            errors=errors,
            slower_than_ms=slower_than,
            where=parameters.expression(where),
        ),
        window=parameters.window(since, until, packets),
        packet=packet,
        alone=write_only,
        ports=parameters.ports(port, "--port"),
        decode_as=parameters.ports(decode_as, "--decode-as"),
        key_logs=tuple(tls_keylog or ()),
        show_secrets=show_secrets,
        secret_names=parameters.secret_names(secret_name),
        metrics=parameters.metrics_place(metrics),
        topic_names=parameters.topic_names(names, ask),
        pseudonyms=parameters.pseudonyms(anonymize),
        limits=parameters.limits(limit),
    )
    raise typer.Exit(sniffing.run(asked, remark))


@command()
def analyze(
    captures: CapturesArgument,
    out: Annotated[
        str, typer.Option("-o", "--out", metavar="OUT", help="Directory to make; tables go to OUT/tables/NAME/.")
    ],
    records: RecordsTableOption = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it is there.")] = False,
    append: Annotated[
        bool, typer.Option("--append", help="Add the rows to OUT, if it is there, as a run of their own.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --append: also captures that are in OUT already.")
    ] = False,
    microseconds: MicrosecondsOption = False,
    by_hour: ByHourOption = False,
    where: FilterOption = None,
    in_process: Annotated[
        bool,
        typer.Option("--in-process", help="Work in this process, without Spark and Java; the results are the same."),
    ] = False,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Spark master; default: what spark-submit says, else local[*]."),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A spark.* setting; may be repeated.")
    ] = None,
    split_bytes: Annotated[
        int | None,
        typer.Option("--split-bytes", metavar="N", help="Size of the pieces that files are split into.", min=4096),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", metavar="N", help="Number of tasks that decode.", min=1)
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    packets: PacketsOption = None,
    port: PortOption = None,
    decode_as: DecodeAsOption = None,
    tls_keylog: KeyLogOption = None,
    show_secrets: SecretsOption = False,
    secret_name: SecretNamesOption = None,
    anonymize: AnonymizeOption = None,
    limit: LimitOption = None,
) -> None:
    """Decode captures on Spark into tables (Parquet) and print a summary.

    Examples:

    - `kafkascope analyze capture.pcap -o out/`
    - `kafkascope analyze capture.pcap -o out/ --in-process` : the same without Spark, sooner for small captures
    - `kafkascope analyze /captures --records -o out/ --overwrite`
    - `kafkascope analyze /captures --filter 'api == JoinGroup or error' -o out/` : few rows, all answers
    - `kafkascope analyze later.pcap -o out/ --append` : beside what is there
    - `kafkascope analyze hdfs://nn/captures/1.pcap -o hdfs://nn/out --master spark://host:7077`
    - `kafkascope analyze 's3://bucket/day/*.pcap?endpoint_override=minio:9000' -o s3://bucket/out`
    """
    leave_pandas_out()
    with program.importing():
        from kafkascope import analyzing

    if append and overwrite:
        raise typer.BadParameter("--append keeps what is in OUT, --overwrite replaces it: give one of them")
    if force and not append:
        raise typer.BadParameter("--force goes with --append")
    settings = {}
    for setting in conf or []:
        key, equals, value = setting.partition("=")
        if not equals or not key.startswith("spark."):
            raise typer.BadParameter(f"--conf {setting}: give spark.something=value")
        settings[key] = value
    spark = analyzing.SparkOptions(master, settings, split_bytes, partitions)
    if in_process and spark != analyzing.SparkOptions():
        raise typer.BadParameter(
            "--in-process works without Spark: --master, --conf, --split-bytes and --partitions do not go with it"
        )
    options = parameters.of_tables(
        records=records,
        where=where,
        since=since,
        until=until,
        packets=packets,
        port=port,
        decode_as=decode_as,
        tls_keylog=tls_keylog,
        show_secrets=show_secrets,
        secret_name=secret_name,
        anonymize=anonymize,
        limit=limit,
    )
    writing = analyzing.OutOptions(overwrite, append, force, microseconds, by_hour)
    raise typer.Exit(analyzing.run(captures, out, options, writing, None if in_process else spark, remark))


@command()
def watch(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Where one rotation's files are written: tcpdump -C, -G, -W.")
    ],
    out: Annotated[
        str, typer.Option("-o", "--out", metavar="OUT", help="Directory to make, or that a watch made; as of analyze.")
    ],
    once: Annotated[bool, typer.Option("--once", help="Take what is there, and end.")] = False,
    records: RecordsTableOption = False,
    where: FilterOption = None,
    microseconds: MicrosecondsOption = False,
    by_hour: ByHourOption = False,
    port: PortOption = None,
    decode_as: DecodeAsOption = None,
    tls_keylog: KeyLogOption = None,
    show_secrets: SecretsOption = False,
    secret_name: SecretNamesOption = None,
    anonymize: AnonymizeOption = None,
    limit: LimitOption = None,
) -> None:
    """Analyze the files of a rotating capture as they are closed, as one capture; OUT is renewed with each.

    A file is closed when one behind it has packets, or when it ends with a whole packet and did not change for 5 s.
    What it has more later is taken then. Files that are late, missing or half-written are told by name.

    Started again, after whatever end, it goes on with what is in OUT: from files that are still there. If some are gone
    by then, what came since is a run of its own in OUT; so is what comes when a run has 1 GiB of rows. All runs stay
    there, or with `--limit out_runs=N` the latest N. Ctrl-C and SIGTERM end it after the file that it is at, with
    status 130 and 143 (for systemd: SuccessExitStatus=143).

    Examples:

    - `tcpdump -i eth0 -w caps/c.pcap -C 100 port 9092 & kafkascope watch caps -o out/`
    - `kafkascope watch caps -o out/ --once` : what is there now
    """
    leave_pandas_out()
    with program.importing():
        from kafkascope import following
    from kafkascope.out.output import Layout

    options = parameters.of_tables(
        records=records,
        where=where,
        port=port,
        decode_as=decode_as,
        tls_keylog=tls_keylog,
        show_secrets=show_secrets,
        secret_name=secret_name,
        anonymize=anonymize,
        limit=limit,
    )
    layout = Layout(microseconds, by_hour)
    raise typer.Exit(following.run(directory, out, options=options, once=once, remark=remark, layout=layout))


@command()
def report(
    out: Annotated[
        str,
        typer.Argument(metavar="OUT|FILE", help="The directory that `kafkascope analyze -o OUT` made; or a capture."),
    ],
    form: Annotated[str, typer.Option("--format", metavar="html|json|md", help="What to make.")] = "html",
    file: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="Where to write; `-` is standard output. Default: OUT/report.html; FILE.report.html of a capture.",
        ),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    packets: PacketsOption = None,
    tls_keylog: KeyLogOption = None,
    anonymize: AnonymizeOption = None,
    limit: LimitOption = None,
) -> None:
    """Make the report of an analysis again, from its tables alone, or that of a capture at once, without Spark.

    json and md go to standard output.

    Examples:

    - `kafkascope report out/`
    - `kafkascope report capture.pcap` : capture.pcap.report.html
    - `kafkascope report out/ --format md > post_mortem.md`
    - `kafkascope report out/ --format json | jq .findings`
    """
    leave_pandas_out()
    with program.importing():
        from kafkascope import reporting

    if form not in reporting.FORMATS:
        raise typer.BadParameter(f"--format {form}: give one of {', '.join(reporting.FORMATS)}")
    options = parameters.of_tables(
        since=since, until=until, packets=packets, tls_keylog=tls_keylog, anonymize=anonymize, limit=limit
    )
    raise typer.Exit(reporting.run(out, form, file, remark, options))


@command()
def diff(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A capture, or the OUT of an analysis.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Another one.")],
    form: Annotated[str, typer.Option("--format", metavar="text|json|md|html", help="What to make.")] = "text",
    file: Annotated[
        str | None, typer.Option("-o", "--out", metavar="FILE", help="Where to write. Default: standard output.")
    ] = None,
    tls_keylog: KeyLogOption = None,
    anonymize: AnonymizeOption = None,
) -> None:
    """Say what differs between two captures, of before and after a change, and by how much.

    Compared are incidents, latency by API with what the time was spent on, errors, rebalances, settings of clients as
    far as their requests show them, clients, groups, topics and brokers, and load. What may be chance, or has too few
    samples to tell, is counted, and not told to differ. Both are read with the same options.

    Examples:

    - `kafkascope diff monday.pcap tuesday.pcap`
    - `kafkascope diff out/monday out/tuesday --format html -o changes.html`
    - `kafkascope diff monday.pcap out/tuesday --format json | jq '.changes[] | select(.verdict == "up")'`
    """
    from kafkascope import comparing

    if form not in comparing.FORMATS:
        raise typer.BadParameter(f"--format {form}: give one of {', '.join(comparing.FORMATS)}")
    parameters.pseudonyms(anonymize)
    options = {"tls_keylog": tls_keylog or (), "anonymize": anonymize}
    raise typer.Exit(comparing.run(before, after, form, file, remark, **options))


@command()
def scrub(
    captures: CapturesArgument,
    out: Annotated[str, typer.Option("-o", "--out", metavar="OUT", help="The capture to write (pcapng).")],
    anonymize: AnonymizeOption = None,
    decode_as: DecodeAsOption = None,
) -> None:
    """Write captures anew, with what they hold left out, so that they can be handed to somebody else.

    Keys, values and headers of records become zeros, names, addresses and texts pseudonyms as --anonymize makes them,
    and all that is not understood as Kafka zeros as well: other protocols, TLS, pieces of messages. Sizes, times,
    ports, offsets, errors and settings of the protocol stay, checksums and CRCs are right: what is found out is the
    same, but for names. Without --anonymize the key is a random one, which nobody has.

    Examples:

    - `kafkascope scrub capture.pcap -o scrubbed.pcapng`
    - `kafkascope scrub capture.pcap -o scrubbed.pcapng --anonymize KEY` : names as in `analyze --anonymize KEY`
    """
    from secrets import token_hex

    from kafkascope import scrubbing
    from kafkascope.decoders.pseudonyms import Pseudonyms

    pseudonyms = parameters.pseudonyms(anonymize) or Pseudonyms(token_hex())
    raise typer.Exit(scrubbing.run(captures, out, pseudonyms, parameters.ports(decode_as, "--decode-as"), remark))


@command()
def annotate(
    captures: Annotated[
        list[str],
        typer.Argument(metavar="FILE|DIR|GLOB... [OUT]", help="Capture files; without -o the last is what is written."),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "-o", "--out", metavar="OUT", help="The capture to write (pcapng); one that is there is replaced."
        ),
    ] = None,
    port: PortOption = None,
    decode_as: DecodeAsOption = None,
    tls_keylog: KeyLogOption = None,
) -> None:
    """Write captures anew, with what was found out beside the packets, for Wireshark to show: all packets as they are.

    Where an incident, a rebalance or an error begins or ends, and where the evidence is, the packet has a comment; a
    moment without a packet, as a timeout of the broker's, is at the next one. Hosts are named after the brokers and
    clients on them (Wireshark: View, Name Resolution; tshark: -N nN). Comments and secrets of TLS of the captures are
    kept. Of what is secret nothing is said.

    Examples:

    - `kafkascope annotate capture.pcap annotated.pcapng`
    - `tshark -r annotated.pcapng -Y frame.comment -T fields -e frame.number -e frame.comment`
    """
    from kafkascope import annotating

    if out is None:
        *captures, out = captures
        if not captures:
            raise typer.BadParameter("this file is read, but where to write? Give another name behind it")
        if os.path.exists(out):
            raise typer.BadParameter(f"{out} is there already; -o {out} replaces it")
    options = parameters.of_tables(port=port, decode_as=decode_as, tls_keylog=tls_keylog)
    raise typer.Exit(annotating.run(captures, out, options, remark))


@command()
def warm() -> None:
    """Do at once what would make the first runs after installation slow, once for this user and machine.

    Compiles the kernels, and keeps the classes that Spark loads (160 MB in the user's cache directory).
    """
    from kafkascope import warming

    raise typer.Exit(warming.run(remark))


@command()
def doctor(
    interface: Annotated[
        str | None, typer.Option("--iface", "-i", metavar="NAME", help="This interface (default: all that are up).")
    ] = None,
    as_json: JsonLinesOption = False,
) -> None:
    """Say what would work on this machine and what not, and how to mend it.

    Looks at Python and packages, compiled kernels, Java, disk and memory, rights to capture, the clock, and at
    interfaces: whether they are up, what they merge, what they dropped. Status 1 if something is broken.
    """
    from kafkascope import doctor as checking

    raise typer.Exit(checking.run(interface, as_json=as_json, write=print))


@command()
def decode(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="One message: hex digits, base64, or as it is.")],
    api: Annotated[
        str | None,
        typer.Option(
            "--api",
            metavar="NAME|KEY",
            help="Name or key of the API, if it is a body alone.",
            autocompletion=parameters.api_names,
        ),
    ] = None,
    version: Annotated[int | None, typer.Option("--version", metavar="N", help="Version of the API.")] = None,
    response: Annotated[bool, typer.Option("--response", help="It is a response (default: a request).")] = False,
    frame: Annotated[
        bool, typer.Option("--frame", help="With --api: a whole frame all the same: size, header, body.")
    ] = False,
    base64: Annotated[bool, typer.Option("--base64", help="The text is base64.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, without offsets.")] = False,
    as_hex: HexOption = False,
    show_secrets: SecretsOption = False,
    secret_name: SecretNamesOption = None,
) -> None:
    """Decode one message: every field with its offset, length and type.

    Without --api it is a whole request, four bytes of size first, whose header says API and version. Text is taken for
    hex digits, with white space anywhere, `:` between the bytes, `0x` before; text that is anything else is refused.
    What is no text is taken as it is. Bytes that no field accounts for are told, and the exit
    status is 1.

    Examples:

    - `kafkascope decode -x request.bin`
    - `kafkascope decode --api Fetch --version 12 --response body.bin`
    - `echo '0000 0001 0003 666f 6f' | kafkascope decode --api Metadata --version 0 --json -`
    """
    from kafkascope import messages

    options = messages.DecodeOptions(
        file=file,
        api=api,
        version=version,
        response=response,
        frame=frame,
        base64=base64,
        as_json=as_json,
        as_hex=as_hex,
        show_secrets=show_secrets,
        secret_names=parameters.secret_names(secret_name),
    )
    raise typer.Exit(messages.decode(options, remark))


@command()
def apis(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|KEY]", help="One API, with its messages as trees.", autocompletion=parameters.api_names
        ),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="Layout of this version (default: the newest).")
    ] = None,
    diff: Annotated[
        tuple[int, int] | None,
        typer.Option("--diff", metavar="A B", help="What version B has that A has not, and the other way round."),
    ] = None,
    release: Annotated[
        str | None, typer.Option("--release", metavar="X.Y", help="Of the list: what this release knows.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with what each release knows.")] = False,
) -> None:
    """List the APIs of the Kafka protocol, or show one: its versions, the releases that know them, its messages.

    Releases are known from 0.8.2 on. What a release knows, its brokers may not offer: ApiVersions tells.

    Examples:

    - `kafkascope apis`
    - `kafkascope apis --release 2.8`
    - `kafkascope apis JoinGroup --version 5`
    - `kafkascope apis Fetch --diff 12 13`
    """
    from kafkascope import protocol

    if name is None:
        if version is not None or diff is not None:
            raise typer.BadParameter("--version and --diff go with the name of an API")
        raise typer.Exit(protocol.show_all(release, as_json, remark))
    if release is not None:
        raise typer.BadParameter("--release goes with the list of all APIs; one API tells of all releases")
    raise typer.Exit(protocol.show(name, version, diff, as_json, remark))


@app.callback()
def options(
    version: VersionOption = False,
) -> None:
    """Network sniffer and analyzer for the Apache Kafka protocol."""


def main() -> None:
    """Entry point of ``kafkascope``."""
    program.run(app)


def sniff_main() -> None:
    """Entry point of ``sniff``."""
    program.run(sniff_app)
