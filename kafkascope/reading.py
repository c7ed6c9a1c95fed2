"""Files and interfaces through the engine, in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.engine import Engine, EngineOptions, Tables
from reports.connection_table import issue_table
from reports.topic_mentions import TOPICS, resolve_mentions
from reports.topics import ID_PREFIX, TopicNames
from sniffer.issues import Issue, IssueLog
from sniffer.link import dissect
from sniffer.session import Endpoint
from sniffer.sources.files import STANDARD_INPUT, Capture, open_capture
from sniffer.sources.live import LiveSource

# Tables by which topics are shown, and so those that must wait for the names of ids.
_TOPIC_COLUMNS = ("topic", TOPICS.name)


class Reading:
    """Capture files, read once from begin to end. Raises ``sniffer.sources.SourceError`` if nothing can be read."""

    def __init__(self, paths: Sequence[str], options: EngineOptions, names_ahead: bool = False) -> None:
        """names_ahead: where a topic is known by id alone, look for its name in what is still to be read (of files)."""
        self._paths = list(paths)
        self._options = options
        self._names_ahead = names_ahead and STANDARD_INPUT not in self._paths
        self._engine = Engine(options)
        self._issues = IssueLog()
        self.capture: Capture = open_capture(self._paths)
        self.packets = 0
        self.other: Counter[str] = Counter()  # packets that were not TCP, by kind

    @property
    def endpoints(self) -> Mapping[int, Endpoint]:
        """Both ends of the connections of the last tables."""
        return self._engine.endpoints

    @property
    def topic_names(self) -> TopicNames:
        """Names of topic ids, as far as they are known."""
        return self._engine.topic_names

    def tables(self) -> Iterator[Tables]:
        """Rows as they become complete, by table."""
        for packets in self.capture:
            self.packets += len(packets.number)
            dissected = dissect(packets)
            self.other.update(dissected.other)
            for issue in dissected.issues:
                self._issues.add(issue)
            yield self._named(self._engine.feed(dissected.segments))
        yield self._named(self._engine.finish())
        if "issues" in self._options.tables and (rows := self.issues()):
            yield {"issues": issue_table(rows)}

    def issues(self) -> list[Issue]:
        """What was met outside of connections, so far."""
        return list(IssueLog([*self.capture.issues, *self._issues, *self._engine.issues]))

    def remarks(self) -> Iterator[str]:
        """What the reader of results should know about how they were come by."""
        for issue in self.issues():
            times = f" ({issue.count} times)" if issue.count > 1 else ""
            place = f"packet {issue.packet}: " if issue.packet else ""
            yield f"{place}{issue.detail}{times}"
        if not self.packets:
            yield f"{', '.join(self._paths)}: no packets"
        elif not self._engine.exchanges:
            yield f"no Kafka was found in {self.packets:,} packets; {self._seen_instead()}"

    def _seen_instead(self) -> str:
        seen = [f"{count:,} connections of {protocol}" for protocol, count in self._engine.protocols.most_common()]
        seen += [f"{count:,} packets of {kind.replace('_', ' ')}" for kind, count in self.other.most_common()]
        return f"seen were {', '.join(seen)}" if seen else "nothing else was seen either"

    def _named(self, tables: Tables) -> Tables:
        if not self._names_ahead or not any(map(_has_ids, tables.values())):
            return tables
        self._names_ahead = False
        look = replace(self._options, tables=frozenset({"exchanges"}), exchange_columns=frozenset({"topics"}))
        ahead = Engine(look)
        with open_capture(self._paths) as again:
            for packets in again:
                ahead.feed(dissect(packets).segments)
        ahead.finish()
        self._engine.topic_names.merge(ahead.topic_names)
        names = self._engine.topic_names
        return {name: resolve_mentions(names.resolve(table), names) for name, table in tables.items()}

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.capture.close()


class Listening:
    """Interfaces, listened to until they are closed (Ctrl-C). Raises ``sniffer.sources.SourceError``."""

    def __init__(self, interfaces: Sequence[str], options: EngineOptions) -> None:
        self._options = options
        self._engine = Engine(options)
        self._issues = IssueLog()
        self._source = LiveSource(interfaces, ports=sorted(options.session.ports))
        self.packets = 0

    @property
    def endpoints(self) -> Mapping[int, Endpoint]:
        """Both ends of the connections of the last tables."""
        return self._engine.endpoints

    def tables(self) -> Iterator[Tables]:
        """Rows as they become complete, by table; ends when the source does."""
        try:
            for packets in self._source:
                self.packets += len(packets.number)
                dissected = dissect(packets)
                for issue in dissected.issues:
                    self._issues.add(issue)
                yield self._engine.feed(dissected.segments)
        except KeyboardInterrupt:
            pass
        yield self._engine.finish()

    def remarks(self) -> Iterator[str]:
        """What was captured, and what the kernel dropped."""
        seen, dropped = self._source.statistics()
        yield f"{seen:,} packets captured, {dropped:,} dropped by the kernel"
        for issue in self._issues:
            yield issue.detail

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()


def _has_ids(table: pa.Table) -> bool:
    for name in _TOPIC_COLUMNS:
        if name in table.column_names:
            column = table[name]
            values = pc.list_flatten(column) if pa.types.is_list(column.type) else column
            if pc.any(pc.starts_with(pc.unique(values), ID_PREFIX)).as_py():
                return True
    return False
