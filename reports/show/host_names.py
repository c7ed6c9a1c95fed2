"""What addresses are to be called, in other tools that show packets: after the brokers and clients that are there."""

from __future__ import annotations

import re

from kafkascope.reports.columns.text import is_name, without_port
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.vocabulary.broker_client_ids import is_of_broker

_LONGEST = 63  # characters; Wireshark shows no more
_NAMES = 3  # of one host


def host_names(signs: Signs) -> dict[str, str]:
    """Names by address: ``broker-2``, client ids, or both, in letters that names of hosts may have."""
    brokers: dict[str, set[str]] = {host: set() for host in signs.brokers}
    for row in signs.placing:
        brokers.setdefault(without_port(row["host"]), set()).add(f"broker-{row['node_id']}")
    clients: dict[str, set[str]] = {}
    for client_id, hosts in signs.hosts_of.items():
        for host in hosts:
            if host not in brokers or not is_of_broker(client_id):
                clients.setdefault(host, set()).add(client_id)
    found = {}
    for host in sorted({*brokers, *clients}):
        of_broker = sorted(brokers.get(host, ())) or ["broker"] * (host in brokers)
        if not is_name(host):  # brokers are told by names too
            found[host] = _host_name([*of_broker, *sorted(clients.get(host, ()))])
    return found


def _host_name(names: list[str]) -> str:
    """One name out of several; where there are too many, it says of how many."""
    parts = [re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.") or "unnamed" for name in names]
    more = f"_and-{len(parts) - _NAMES}-more" if len(parts) > _NAMES else ""
    return "_".join(parts[:_NAMES])[: _LONGEST - len(more)] + more
