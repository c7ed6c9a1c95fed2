"""Options of tcpdump and tshark that `sniff` does not have, and what it has in their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkascope.command import Command

INSTEAD = {
    "-A": "-V shows messages whole, -x with their bytes, --records what they carry",
    "-B": "--buffer MB says how much may wait",
    "-E": "-T fields writes columns with tabs between; --json is for everything else",
    "-F": "-f FILTER chooses packets of an interface, -Y EXPR exchanges",
    "-N": "addresses are shown as they are",
    "-O": "-V shows messages whole",
    "-R": "-Y EXPR chooses exchanges",
    "-S": "Kafka's own numbers are in -v",
    "-X": "-x shows messages whole with their bytes, --records what they carry",
    "-Z": "--user NAME gives rights up when the interface is open",
    "-d": "--decode-as PORT takes what a port carries for Kafka",
    "-o": "--tls-keylog FILE has the secrets of TLS; --help lists what else can be set",
    "-p": "an interface is always in promiscuous mode while it is listened on",
    "-t": "--json and --fields requested have whole times, which are UTC",
    "-u": "--json and --fields requested have whole times, which are UTC",
    "-y": "the interface's own link type is taken",
    "-z": "--stats BY,10s counts by api, client, topic, group, broker or connection; `kafkascope analyze` has it all",
}

FORMS = ("text", "json", "jsonl", "ek", "fields", "tabs")
"""What -T takes."""

_TABS = "requested,client,broker,api,api_version,latency_ms,request_bytes,response_bytes,client_id,topics,error"


def asked_form(form: str | None, columns: Sequence[str]) -> tuple[bool, str | None]:
    """Whether -T asks for --json, and what it asks for of --fields. Raises ValueError where -e does not fit."""
    if form is not None and form not in FORMS:
        raise ValueError(f"-T {form}: give one of {', '.join(FORMS)}; -V shows trees")
    if form == "fields" and not columns:
        raise ValueError("-T fields: say which with -e COLUMN, once for each")
    if columns and form != "fields":
        raise ValueError("-e COLUMN goes with -T fields")
    return form in ("json", "jsonl", "ek"), ",".join(columns) if form == "fields" else _TABS if form == "tabs" else None


class SniffCommand(Command):
    """The command that tells those who come from other sniffers what to write."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As the command's, whose error has one more sentence."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # NoSuchOption, which typer has from changing places
            if (instead := INSTEAD.get(getattr(error, "option_name", ""))) and hasattr(error, "message"):
                error.message = f"{error.message}: {instead}"
            raise
