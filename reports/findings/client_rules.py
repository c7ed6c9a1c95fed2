"""Findings about one client, from what it did in spans of ten seconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import duration, in_seconds
from kafkascope.reports.findings.finding import OF_CLIENT, Finding, Observation
from kafkascope.reports.measures.client_facts import CAPTURE, NO_NAME, Fact
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.issue_kinds import ISSUE_KINDS
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import SECOND_NS

SPANS_A_MINUTE = 6
_KEPT_OPEN = 3  # connections to one broker, as of Java's consumer: to ask where brokers are, to fetch, to coordinate
_POLLS = frozenset({"Fetch", "ShareFetch"})  # are answered when there are data
_FAR = 1 << 30  # between sequence numbers
_HELD = frozenset({"JoinGroup", "SyncGroup"})  # ... when all members have come, which may take minutes

# Issues that mean something of the traffic is not in the results, and so weaken what is said.
_DAMAGE = frozenset(
    {
        "tcp_gap",
        "snap_length",
        "frame_sync_lost",
        "frame_without_header",
        "frame_cut",
        "bytes_skipped",
        "implausible_size",
        "tcp_one_way",
        "one_way_capture",
        "too_many_waiting",
        "undecodable_body",
        "bad_crc",
        "bad_batch",
        "compression_bomb",
    }
)

# Errors by what they are a sign of.
_AUTHENTICATION = frozenset(
    {Error.SASL_AUTHENTICATION_FAILED, Error.UNSUPPORTED_SASL_MECHANISM, Error.ILLEGAL_SASL_STATE}
)
_AUTHORIZATION = frozenset(
    {
        Error.TOPIC_AUTHORIZATION_FAILED,
        Error.GROUP_AUTHORIZATION_FAILED,
        Error.CLUSTER_AUTHORIZATION_FAILED,
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
_STALE_LEADER = frozenset({Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH, Error.UNKNOWN_LEADER_EPOCH})
# Those that have a finding of their own, or belong to groups, whose findings tell them better.
_TOLD_ELSEWHERE = (
    _AUTHENTICATION
    | _AUTHORIZATION
    | _STALE_LEADER
    | {
        Error.REBALANCE_IN_PROGRESS,
        Error.MEMBER_ID_REQUIRED,
        Error.UNKNOWN_MEMBER_ID,
        Error.ILLEGAL_GENERATION,
        Error.STALE_MEMBER_EPOCH,
    }
)

# Of a producer that begins the next transaction at once half of the requests get through, and more.
_PASSES = Error.CONCURRENT_TRANSACTIONS


class ClientFacts:
    """The facts of one client by kind."""

    def __init__(self, client: str, facts: Iterable[Fact]) -> None:
        self.subject = CAPTURE if client == CAPTURE else f"{OF_CLIENT}{client}"
        self.client_ids = [] if client == CAPTURE else [client.rpartition(" (")[0]]
        self._by_kind: dict[str, list[Fact]] = defaultdict(list)
        for fact in facts:
            self._by_kind[fact.kind].append(fact)

    def of(self, kind: str, *, api: str | None = None) -> list[Fact]:
        """Facts of a kind in order of time, of one API if it is given."""
        return [fact for fact in self._by_kind[kind] if api is None or fact.api == api]

    @property
    def is_nobody(self) -> bool:
        """Whether it has no name, and no request of it was answered: all clients of a host whose side is not there."""
        return self.client_ids == [NO_NAME] and not self.was_answered

    @property
    def was_answered(self) -> bool:
        """Whether any of its requests was, as far as the capture has it."""
        return any(fact.most is not None for fact in self.of("request"))


def client_findings(client: str, facts: Iterable[Fact]) -> list[Finding]:
    """All findings about a client."""
    of_client = ClientFacts(client, facts)
    return [finding for rule in _RULES for finding in rule(of_client)]


def busiest(facts: Iterable[Fact], spans: int) -> tuple[int, list[Fact]]:
    """The largest count in that many neighbouring spans, and the facts in them."""
    by_span: dict[int, list[Fact]] = defaultdict(list)
    for fact in facts:
        by_span[fact.span].append(fact)
    best, chosen = 0, list[Fact]()
    for span in sorted(by_span):
        window = [fact for k in range(spans) for fact in by_span.get(span + k * 10 * SECOND_NS, [])]
        if (count := sum(fact.count for fact in window)) > best:
            best, chosen = count, window
    return best, chosen


def _finding(
    severity: Severity,
    kind: str,
    title: str,
    facts: ClientFacts,
    of: Sequence[Fact],
    evidence: list[Observation],
    advice: str,
    weight: float,
) -> Finding:
    since, until = min(f.first_at for f in of), max(f.last_at for f in of)
    return Finding(
        severity,
        kind,
        title,
        facts.subject,
        since,
        until,
        evidence,
        advice,
        round(weight, 3),
        client_ids=facts.client_ids,
    )


def _at(fact: Fact, text: str) -> Observation:
    return Observation(text, fact.first_packet, fact.first_at)


def _grown(count: float, enough: float) -> float:
    """A weight that is a half at the threshold and nears one far above it."""
    return count / (count + enough)


def _metadata_storm(facts: ClientFacts) -> Iterator[Finding]:
    requests = facts.of("request", api="Metadata")
    most, window = busiest(requests, 1)
    if most < (enough := threshold("metadata_requests")):
        return
    yield _finding(
        Severity.WARNING,
        "metadata_storm",
        f"Metadata is asked for again and again: {most} requests in 10 s",
        facts,
        requests,
        [_at(f, f"{counted(f.count, 'Metadata request')} to {f.broker} in the 10 s that begin here") for f in window],
        "Look for a topic that does not exist or a leader that is missing (the answers say it), for clients that are "
        "made for each message, and raise retry.backoff.ms and metadata.max.age.ms if they were lowered.",
        _grown(most, enough),
    )


def _connection_churn(facts: ClientFacts) -> Iterator[Finding]:
    opened = facts.of("connection")
    still_open = _by_broker(f for f in opened if f.what == "open")
    kept = {id(fact) for of_broker in still_open.values() for fact in of_broker[:_KEPT_OPEN]}
    connections = [fact for fact in opened if id(fact) not in kept]
    most, window = busiest(connections, SPANS_A_MINUTE)
    if most < (enough := threshold("connections_opened")) or facts.is_nobody:
        return
    closed = [f for f in connections if f.what != "open"]
    brief = sum(f.count for f in closed if (f.most or 0) < threshold("connections_short") * 1000)
    yield _finding(
        Severity.WARNING,
        "connection_churn",
        f"Connections are opened {'and closed ' if closed else ''}all the time: {most} in a minute",
        facts,
        connections,
        [
            _at(window[0], f"the first of {most} connections opened in this minute"),
            Observation(
                f"{brief} of {sum(f.count for f in connections)} lasted less than "
                f"{threshold('connections_short'):.0f} s"
            ),
        ],
        "Keep one client open for the life of the application instead of making one for each message or request; if "
        "it is the broker that closes them, look at its authentication errors and connections.max.idle.ms.",
        _grown(most, enough),
    )


def _api_versions_storm(facts: ClientFacts) -> Iterator[Finding]:
    requests = facts.of("request", api="ApiVersions")
    most, window = busiest(requests, SPANS_A_MINUTE)
    if most < (enough := max(threshold("api_versions_requests"), _KEPT_OPEN * len({f.broker for f in requests}))):
        return
    yield _finding(
        Severity.WARNING,
        "api_versions_storm",
        f"ApiVersions is asked for {most} times in a minute",
        facts,
        requests,
        [_at(window[0], f"the first of {most} ApiVersions requests")],
        "A client asks this when it connects, or tries again: see connection churn and authentication failures.",
        _grown(most, enough) * 0.8,
    )


def _authentication(facts: ClientFacts) -> Iterator[Finding]:
    failed = [f for f in facts.of("error") if f.what in _AUTHENTICATION]
    if (count := sum(f.count for f in failed)) < threshold("authentication_failures"):
        return
    title = counted(count, "authentication failure")
    advice = (
        "Check user, password or token (expired?) and the mechanism that the listener allows; the broker's log has the "
        "reason, the answer to the client does not."
    )
    errors = {f.what for f in failed if f.api == "SaslHandshake" or f.what == Error.SASL_AUTHENTICATION_FAILED}
    if errors == {Error.ILLEGAL_SASL_STATE}:
        title += ": it uses SASL at a listener that does not"
        advice = (
            "Set security.protocol of the client to PLAINTEXT (SSL with TLS), or give it the port of a listener that "
            "has SASL."
        )
    elif errors == {Error.UNSUPPORTED_SASL_MECHANISM}:
        title += ": the listener does not offer the SASL mechanism that it wants"
        advice = "Compare sasl.mechanism of the client with sasl.enabled.mechanisms of the listener."
    yield _finding(
        Severity.CRITICAL,
        "authentication_failed",
        title,
        facts,
        failed,
        [_at(f, f"{f.api} answered {f.what} by {f.broker}, {counted(f.count, 'time')} in 10 s") for f in failed],
        advice,
        _grown(count, 2),
    )


def _authorization(facts: ClientFacts) -> Iterator[Finding]:
    refused = [f for f in facts.of("error") if f.what in _AUTHORIZATION]
    if (count := sum(f.count for f in refused)) < threshold("authorization_failures"):
        return
    what = ", ".join(sorted({f"{f.api} {f.what}" for f in refused}))
    yield _finding(
        Severity.WARNING,
        "authorization_failed",
        f"{counted(count, 'error')} for lack of permission: {what}",
        facts,
        refused,
        [_at(f, f"{f.api} answered {f.what} by {f.broker}, {counted(f.count, 'time')} in 10 s") for f in refused],
        "Give the principal the ACL that the request needs (idempotent producers need IdempotentWrite before 3.0), or "
        "stop asking for what it may not have.",
        _grown(count, 5),
    )


def _unanswered(facts: ClientFacts) -> Iterator[Finding]:
    # How long each waited until its connection, or all that is seen of the client, ended. What was asked in the last
    # moments is nobody's fault, and a long poll is open at any moment.
    ended = {f.number: f.last_at for f in facts.of("connection") if f.what != "open"}
    last_seen = max((f.last_at for kind in ("request", "connection") for f in facts.of(kind)), default=0)
    waiting = []
    for fact in facts.of("unanswered"):
        waited = (ended.get(fact.number, last_seen) - fact.first_at) / SECOND_NS
        if fact.api not in _HELD and waited >= threshold("unanswered_fetch" if fact.api in _POLLS else "unanswered"):
            waiting.append((fact, waited))
    if not waiting:
        return
    count = sum(f.count for f, _ in waiting)
    by_api: dict[str | None, int] = defaultdict(int)
    for fact, _ in waiting:
        by_api[fact.api] += fact.count
    listed = ", ".join(f"{n} {api}" for api, n in sorted(by_api.items(), key=lambda item: (-item[1], str(item[0]))))
    yield _finding(
        Severity.WARNING,
        "unanswered",
        f"{counted(count, 'request')} never answered: {listed}"
        if facts.was_answered
        else f"No answer to any of {counted(count, 'request')}: the broker's side is not in the capture, or it says "
        f"nothing: {listed}",
        facts,
        [f for f, _ in waiting],
        [_at(f, f"{f.api} to {f.broker}: no answer, {waited:,.1f} s until the end") for f, waited in waiting],
        "If the connection ended the broker or the network broke it; if it went on the client gave up waiting "
        "(request.timeout.ms). Where packets are missing here (see coverage) the answer may be among them.",
        _grown(count, 3) * 0.7,
    )


def _sent_again(facts: ClientFacts) -> Iterator[Finding]:
    by_partition: dict[tuple[str | None, str | None], list[Fact]] = defaultdict(list)
    for fact in facts.of("sequence"):
        by_partition[fact.what, fact.api].append(fact)
    again, spans, evidence = 0, list[Fact](), list[Observation]()
    for (partition, _), of_partition in sorted(by_partition.items(), key=str):
        reached = -1
        for fact in of_partition:
            records, least, most = fact.total or 0, fact.least or 0, fact.most or 0
            if least + _FAR < reached:
                reached = -1  # behind 2^31 - 1 they begin anew
            # More records than numbers that had not been used before. Where batches are missing from the capture this
            # is less than there was, never more.
            repeated = max(records - max(most - max(least - 1, reached), 0), 0)
            reached = max(reached, most)
            if repeated:
                again += repeated
                spans.append(fact)
                of_all = f"{repeated:,} of {counted(records, 'record')}"
                evidence.append(_at(fact, f"{partition}: {of_all} in the 10 s that begin here had been sent before"))
    if again < (enough := threshold("records_sent_again")):
        return
    sent = sum(f.total or 0 for f in facts.of("sequence"))
    for fact in facts.of("error", api="Produce"):
        times = f"{counted(fact.count, 'time')} in 10 s"
        evidence.append(_at(fact, f"Produce answered {fact.what} by {fact.broker}, {times}"))
    yield _finding(
        Severity.WARNING if again >= threshold("share_sent_again") / 100 * sent else Severity.INFO,
        "sent_again",
        f"The producer sent {again:,} of {counted(sent, 'record')} more than once",
        facts,
        spans,
        evidence,
        "The broker tells them by their sequence numbers and keeps them once, so nothing is doubled; look at what made "
        "the producer try again: the errors here, requests never answered, request.timeout.ms below what brokers need.",
        _grown(again, enough * 10) * 0.5,
    )


def _errors(facts: ClientFacts) -> Iterator[Finding]:
    by_error: dict[tuple[str, str], list[Fact]] = defaultdict(list)
    for fact in facts.of("error"):
        if fact.what and fact.what not in _TOLD_ELSEWHERE:
            by_error[fact.api or "?", fact.what].append(fact)
    for (api, error), repeated in sorted(by_error.items()):
        most, window = busiest(repeated, SPANS_A_MINUTE)
        if most < (enough := threshold("errors_repeated")):
            continue
        asked = sum(f.count for f in facts.of("request", api=api))
        if error == _PASSES and 2 * sum(f.count for f in repeated) <= asked:
            continue
        yield _finding(
            Severity.WARNING,
            "error_loop",
            f"{api} is answered {error} over and over: {most} times in a minute",
            facts,
            repeated,
            [_at(f, f"{counted(f.count, 'time')} in 10 s by {f.broker}") for f in window],
            f"The client tries again without a change; the errors table says what {error} means and what to do.",
            _grown(most, enough),
        )


def _stale_leader(facts: ClientFacts) -> Iterator[Finding]:
    stale = [f for f in facts.of("error") if f.what in _STALE_LEADER]
    if (count := sum(f.count for f in stale)) < threshold("leader_changes"):
        return
    brokers = ", ".join(sorted({f.broker or "?" for f in stale}))
    yield _finding(
        Severity.INFO if count < threshold("errors_repeated") else Severity.WARNING,
        "leader_changed",
        f"Leaders changed: {counted(count, 'answer')} of brokers that were no longer the leader",
        facts,
        stale,
        [_at(f, f"{f.api} answered {f.what} by {f.broker}, {counted(f.count, 'time')} in 10 s") for f in stale],
        f"Ordinary when a broker is restarted or partitions are moved ({brokers}); if not, find out why leadership "
        "moves (broker's sessions, disks, garbage collection).",
        _grown(count, threshold("errors_repeated")),
    )


def _old_versions(facts: ClientFacts) -> Iterator[Finding]:
    oldest = {"Produce": int(threshold("oldest_produce")), "Fetch": int(threshold("oldest_fetch"))}
    old = [f for f in facts.of("request") if f.api in oldest and f.number is not None and f.number < oldest[f.api]]
    converted = [f for f in facts.of("batch") if f.api == "fetch" and f.number is not None and f.number < 2]
    if not old:
        return
    versions = sorted({f"{f.api} v{f.number}" for f in old})
    evidence = [_at(next(f for f in old if f"{f.api} v{f.number}" == v), f"requests of {v}") for v in versions]
    if converted:
        sets = sum(f.count for f in converted)
        evidence.append(_at(converted[0], f"{counted(sets, 'message')} of the old formats in answers to it"))
    yield _finding(
        Severity.WARNING,
        "old_protocol",
        f"The client speaks a protocol of before 2017: {', '.join(versions)}",
        facts,
        old,
        evidence,
        "Upgrade the client library: brokers of 4.0 refuse it (KIP-896), and older ones convert every batch for it, "
        "which costs them memory and the copy-free path.",
        0.6 if converted else 0.5,
    )


def _throttled(facts: ClientFacts) -> Iterator[Finding]:
    throttled = facts.of("throttled")
    if not throttled:
        return
    by_span: dict[int, int] = defaultdict(int)
    for fact in throttled:
        by_span[fact.span] += fact.total or 0
    if max(by_span.values()) < (enough := threshold("throttled")):
        return
    total = sum(by_span.values())
    worst = max(f.most or 0 for f in throttled)
    times = sum(f.count for f in throttled)
    brokers = len({f.broker for f in throttled})
    # Connections are held back side by side, so delays may add up to more than the time that passed.
    added = (
        ""
        if times == 1
        else f"; the delays{f' of {brokers} brokers' if brokers > 1 else ''} add up to {in_seconds(total)}"
    )
    yield _finding(
        Severity.WARNING,
        "throttled",
        f"Told by a quota to hold back {counted(times, 'time')}, for up to {duration(worst)}{added}",
        facts,
        throttled,
        [
            _at(f, f"{counted(f.count, f'{f.api} answer')} of {f.broker} with throttle_time_ms up to {f.most}")
            for f in sorted(throttled, key=lambda f: -(f.most or 0))
        ],
        "Raise the quota of this client or user (kafka-configs --describe shows it), or let it send or read less; the "
        "broker answers at once and the client waits, so its latency looks good.",
        _grown(total, enough * 10),
    )


def _tiny_batches(facts: ClientFacts) -> Iterator[Finding]:
    tiny = [f for f in facts.of("batch") if f.api == "produce" and f.number == 2]
    most, window = busiest(tiny, 1)
    records = sum(f.total or 0 for f in window)
    if most < (enough := threshold("tiny_batches")) or records >= threshold("tiny_batch_records") * most:
        return
    yield _finding(
        Severity.INFO,
        "tiny_batches",
        f"Batches of {records / most:.1f} records: {most / 10:.0f} batches a second",
        facts,
        tiny,
        [_at(f, f"{f.count:,} batches with {counted(f.total or 0, 'record')} in 10 s") for f in window],
        "Set linger.ms (5 to 50) and batch.size so that records travel together: less load on brokers, better "
        "compression; look for a flush() or get() after each send.",
        _grown(most, enough) * 0.6,
    )


def _clock(facts: ClientFacts) -> Iterator[Finding]:
    stamped = facts.of("clock")
    count = sum(f.count for f in stamped)
    if count < threshold("clock_batches"):
        return
    least, most = min(f.least or 0 for f in stamped), max(f.most or 0 for f in stamped)
    middle = sum(f.total or 0 for f in stamped) / count
    if abs(middle) < (enough := threshold("clock_difference")) or most - least > threshold("clock_spread"):
        return
    yield _finding(
        Severity.WARNING,
        "clock_difference",
        f"Its records are {in_seconds(abs(middle))} {'ahead of' if middle > 0 else 'behind'} the capture's clock",
        facts,
        stamped,
        [_at(stamped[0], f"newest time stamp of the batch against its arrival: {least} to {most} ms in all batches")],
        "Set the clock of the producer's host (NTP), or of the host that captured; retention, windows and lag in time "
        "go by these stamps. If the application sets time stamps itself this is its doing.",
        _grown(abs(middle), enough),
    )


def _hanging_transaction(facts: ClientFacts) -> Iterator[Finding]:
    held: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts.of("held_back"):
        held[fact.what or "?"].append(fact)
    for partition, spans in sorted(held.items()):
        offset = max(f.most or 0 for f in spans)
        stuck = [f for f in spans if f.least == offset or f.most == offset]
        seconds = (stuck[-1].last_at - stuck[0].first_at) / SECOND_NS
        if seconds < (enough := threshold("hanging_transaction")):
            continue
        yield _finding(
            Severity.CRITICAL,
            "hanging_transaction",
            f"{partition}: readers of committed records are held at offset {offset} for {seconds:,.0f} s",
            facts,
            stuck,
            [_at(f, f"last stable offset {offset} below the high watermark") for f in stuck],
            "A transaction is open: find its producer (kafka-transactions.sh find-hanging), let it end, or abort it; "
            "check transaction.timeout.ms.",
            _grown(seconds, enough),
        )


def _by_broker(facts: Iterable[Fact]) -> dict[str, list[Fact]]:
    found: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        found[fact.broker or "?"].append(fact)
    return found


def _idle_polling(facts: ClientFacts) -> Iterator[Finding]:
    asked, brought = (_by_broker(of) for of in (facts.of("request", api="Fetch"), facts.of("batch", api="fetch")))
    cut = _by_broker(facts.of("cut", api="Fetch"))  # of these it is not known what they brought
    found = []
    for broker, requests in sorted(asked.items()):
        most, window = busiest(requests, 1)
        read, unknown = (sum(f.count for f in of.get(broker, ()) if f.span == window[0].span) for of in (brought, cut))
        found.append((most - read - unknown, read, window))
    empty, read, window = max(found, key=lambda one: one[0], default=(0, 0, []))
    if empty < (enough := threshold("idle_fetches")):
        return
    yield _finding(
        Severity.INFO,
        "idle_polling",
        f"Fetches that bring nothing: {empty} in 10 s",
        facts,
        window,
        [_at(f, f"{counted(f.count, 'Fetch request')} to {f.broker}, {read} batches in their answers") for f in window],
        "Look at maxWaitMs and minBytes of its Fetch requests: with 500 and 1, the defaults, the broker waits for data "
        "instead of being asked. If they are, its fetches are answered at once for another reason: see errors.",
        _grown(empty, enough) * 0.5,
    )


def _commit_storm(facts: ClientFacts) -> Iterator[Finding]:
    requests = facts.of("request", api="OffsetCommit")
    most, window = busiest(requests, 1)
    if most < (enough := threshold("commits")):
        return
    yield _finding(
        Severity.WARNING,
        "commit_storm",
        f"Offsets are committed all the time: {most / 10:,.0f} times a second",
        facts,
        requests,
        [_at(f, f"{counted(f.count, 'OffsetCommit')} to {f.broker} in the 10 s that begin here") for f in window],
        "Commit once for each poll, or every second or so, rather than for each record: a commit is written and "
        "replicated like a record, and one that is waited for holds the consumer up. What is read again after a crash "
        "is what was not committed.",
        _grown(most, enough),
    )


def _damage(facts: ClientFacts) -> Iterator[Finding]:
    damage: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts.of("issue"):
        if fact.what in _DAMAGE:
            damage[fact.what].append(fact)
    if not damage:
        return
    counts = {kind: sum(f.total or 0 for f in of) for kind, of in damage.items()}
    kinds = sorted(counts, key=lambda kind: (-counts[kind], kind))
    yield _finding(
        Severity.WARNING,
        "capture_damaged",
        f"Not all that was on the wire is in the capture, or could be read: {ISSUE_KINDS[kinds[0]].meaning}"
        + (f", and {counted(len(kinds) - 1, 'other kind')} of damage" if len(kinds) > 1 else ""),
        facts,
        [f for of in damage.values() for f in of],
        [
            _at(
                damage[kind][0],
                f"{ISSUE_KINDS[kind].meaning}, {counted(counts[kind], 'time')}: {ISSUE_KINDS[kind].weakens}",
            )
            for kind in kinds
        ],
        "Read what is said about these times and connections with care (the issues table names them). Capture with "
        "whole packets (tcpdump -s 0), a larger buffer (-B 65536), on a host that keeps up, and in both directions.",
        _grown(sum(counts.values()), 10),
    )


_RULES: tuple[Callable[[ClientFacts], Iterator[Finding]], ...] = (
    _metadata_storm,
    _commit_storm,
    _connection_churn,
    _api_versions_storm,
    _authentication,
    _authorization,
    _unanswered,
    _sent_again,
    _errors,
    _stale_leader,
    _old_versions,
    _throttled,
    _tiny_batches,
    _clock,
    _hanging_transaction,
    _idle_polling,
    _damage,
)
