"""What counts as a problem: every number that a rule uses, with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number and why it is that one."""

    value: float
    unit: str
    reason: str


THRESHOLDS: dict[str, Threshold] = {
    "storm_rebalances": Threshold(
        6, "rebalances", "a crash, a restart, or a late poll makes two or three; what goes on does not end by itself"
    ),
    "storm_window": Threshold(300, "s", "max.poll.interval.ms by default: a loop of poll timeouts turns once in it"),
    "leaving_and_returning": Threshold(
        2, "times", "once may be an application that subscribes anew, unless it left without a last commit"
    ),
    "last_commit": Threshold(1, "s", "clients commit in the same moment in which they leave because they are told to"),
    "heartbeats_in_session": Threshold(
        2.5, "heartbeats", "Kafka advises three in a session timeout; with fewer than two a single lost one ends it"
    ),
    "heartbeats_seen": Threshold(5, "heartbeats", "some of the times between them are those of rebalances"),
    "heartbeats_seen_of_lost": Threshold(3, "heartbeats", "a member that is lost again and again lives for a few only"),
    "heartbeat_held_up": Threshold(1000, "ms", "a heartbeat is no work: one that takes so long waited"),
    "member_paused": Threshold(5, "s", "heartbeats are 3 s apart by default, and one may come late"),
    "configurations_apart": Threshold(
        10, "joins", "a worker that is behind reads the topic to its end, and joins again once or twice"
    ),
    "commits_refused": Threshold(3, "commits", "one or two happen in the moment of a rebalance"),
    "eager_unowned": Threshold(1000, "ms", "below, nobody notices that all partitions stopped"),
    "eager_rebalances": Threshold(3, "rebalances", "the first ones form the group whatever the assignor"),
    "uneven_factor": Threshold(2, "times", "one partition more is how numbers divide, twice as many is not"),
    "unowned_partition": Threshold(10, "s", "a rebalance that goes well is over by then"),
    "slow_member": Threshold(5, "s", "members that poll come back within a heartbeat interval, 3 s by default"),
    "waited_for": Threshold(10, "s", "some seconds are a long batch; a group that stands still for longer is noticed"),
    "coordinator_moves": Threshold(4, "moves", "a rolling restart moves it once or twice for each broker"),
    "reread_records": Threshold(1000, "records", "partitions that change hands between commits cost some hundred"),
    "slow_answer": Threshold(
        100, "ms", "a disk that seeks takes 10: one answer in a hundred that takes ten times that"
    ),
    "long_answer": Threshold(1000, "ms", "below, a request is no more than late; beyond, it looks like an outage"),
    "metadata_requests": Threshold(40, "requests in 10 s", "by default one in 5 min, and retries 100 ms apart"),
    "connections_opened": Threshold(20, "connections in 60 s", "a client needs one or two a broker, and keeps them"),
    "api_versions_requests": Threshold(30, "requests in 60 s", "one for each connection, and two where it falls back"),
    "connections_short": Threshold(5, "s", "one that ends sooner was not worth its handshake"),
    "authentication_failures": Threshold(1, "failures", "credentials are right or wrong"),
    "authorization_failures": Threshold(1, "failures", "a permission is there or not"),
    "unanswered": Threshold(1, "s", "what is asked in the last second of a connection may just not be answered yet"),
    "unanswered_fetch": Threshold(5, "s", "fetch.max.wait.ms and more: a long poll is always open when a client ends"),
    "records_sent_again": Threshold(1, "records", "nothing is sent twice unless it was refused or not answered"),
    "share_sent_again": Threshold(1, "% of the records", "a leader that moves costs the batches of one moment"),
    "errors_repeated": Threshold(20, "errors in 60 s", "retries back off: so many in a minute are a loop"),
    "throttled": Threshold(100, "ms in 10 s", "a quota that bites at all is worth knowing, a few ms are not"),
    "commits": Threshold(500, "commits in 10 s", "one for each poll makes some ten a second for each group"),
    "tiny_batches": Threshold(300, "batches in 10 s", "below 30 a second the overhead of a batch does not matter"),
    "tiny_batch_records": Threshold(2, "records", "a batch has 61 bytes of header, a request some 100 more"),
    "oldest_produce": Threshold(3, "version", "record batches v2 came with it; Kafka 4.0 refuses what is older"),
    "oldest_fetch": Threshold(4, "version", "record batches v2 came with it: older ones make the broker convert down"),
    "clock_difference": Threshold(2000, "ms", "clocks kept by NTP agree within some ms, lingering takes some 100 ms"),
    "clock_spread": Threshold(1000, "ms", "records of the past differ among each other, a wrong clock is wrong alike"),
    "clock_batches": Threshold(5, "batches", "fewer may be of an application that sets time stamps itself"),
    "hanging_transaction": Threshold(60, "s", "transaction.timeout.ms of producers by default"),
    "idle_members": Threshold(20, "s", "members that start one after the other have nothing to do for a moment"),
    "idle_fetches": Threshold(50, "empty fetches in 10 s", "fetch.max.wait.ms of 500 makes 20 in 10 s for each broker"),
    "lag_stuck": Threshold(30, "s", "a consumer that reads at all moves on within some polls"),
    "hot_partition": Threshold(80, "% of the lag", "of two partitions that are alike one has about half of it"),
    "lag_growing_for": Threshold(60, "s", "shorter bursts are what a queue is for"),
    "lag_growing_by": Threshold(1000, "records", "fewer are read in one poll or two (max.poll.records is 500)"),
    # Incidents
    "silence": Threshold(0.25, "s", "pauses of garbage collection that are worth knowing; most are a tenth of that"),
    "stall": Threshold(1, "s", "shorter ones are noticed by nobody, unless they come again and again"),
    "stall_of_one": Threshold(2, "s", "one request that takes a second may just be hard, or its client about to move"),
    "stalls": Threshold(3, "stalls in 60 s", "once or twice is garbage collection, and happens everywhere"),
    "coordinator_away": Threshold(10, "s", "one that moves is found within some seconds, and loads its groups in some"),
    "coordinator_fails": Threshold(
        3, "rebalances", "one write may fail as a broker goes away, and the next one is good"
    ),
    "coordinator_told": Threshold(5, "answers", "a client without one asks again within a second or so"),
    "registration_refused": Threshold(
        25, "s", "a broker that was killed waits for its own session, whose broker.session.timeout.ms is 9 s"
    ),
    "slow_in_span": Threshold(
        3, "answers in 10 s", "a client with one request at a time gets no more of a slow broker"
    ),
    "slow_answers": Threshold(10, "answers", "what a few took tells of them rather than of the broker"),
    "slow_share": Threshold(50, "% of the answers", "a broker that is well has a late one now and then"),
    "cut_off": Threshold(2, "s", "TCP sends again after 0.2 s, 0.4 s, 0.8 s: by then one would have been acknowledged"),
    "outage_after": Threshold(15, "s", "clients find new leaders and coordinators within some retries and backoffs"),
    "leaderless_quorum": Threshold(5, "s", "controllers elect another leader within one to three seconds"),
    "shutdown_takes": Threshold(30, "s", "an orderly shutdown moves leaders first, some seconds before it ends"),
    "alike": Threshold(
        4, "clients", "so many with one trouble have one cause; of two or three each is looked at by itself"
    ),
    "one_trouble": Threshold(60, "s", "what befalls one host again within a minute is the same trouble"),
    "unknown_topic": Threshold(5, "errors", "one or two come while a topic is being made"),
    "without_codec": Threshold(5, "s", "one that is only tried, by hand or in a test, ends sooner"),
    "unknown_topic_for": Threshold(5, "s", "a topic that is made on demand is there within a second or two"),
    "refused_records": Threshold(1, "errors", "each is a batch that was refused"),
    "oversized": Threshold(10_000, "bytes", "nobody sets socket.request.max.bytes below that"),
    "refused_for_good": Threshold(3, "errors", "once or twice is somebody who tries something"),
    "given_up": Threshold(10, "records", "single ones that cannot be processed are what rejecting is for"),
    "given_up_share": Threshold(5, "% of the records", "one in twenty is more than a few odd ones"),
    "crashes": Threshold(3, "times", "once or twice may have its own reason each, what goes on has one"),
    "awaited": Threshold(10, "s", "what ends as the capture does is nobody's trouble, and may come back"),
    "crashes_apart": Threshold(3, "s", "members of one process fall silent within a heartbeat interval"),
    "hosts_in_turn": Threshold(3, "hosts", "processes of one or two may end for a reason of their own each"),
    "shared_address": Threshold(20, "errors", "where a leader moves, each client is told so once or twice a partition"),
    "failed_connects": Threshold(3, "connects", "one or two fail while a broker starts"),
    "finds_nobody": Threshold(10, "s", "who starts with its brokers tries for some seconds"),
    "failed_handshakes": Threshold(2, "handshakes", "one may be a probe of the port; clients try again"),
    "gives_up": Threshold(3, "connections", "one or two are what a client does whose broker is about to go"),
    "patience": Threshold(5, "s", "request.timeout.ms is 30 s by default, and brokers that are well may take seconds"),
    "hasty": Threshold(
        50, "ms", "no timeout is as short; librdkafka drops what it began with as soon as it knows better"
    ),
    "storm_connections": Threshold(
        3, "times connections_opened", "tools that a script starts open two or three each, some times a minute"
    ),
    "turned_away": Threshold(3, "connections", "one or two are closed while a broker starts or stops"),
    "taken_off": Threshold(20, "s", "broker.session.timeout.ms is 9 s, zookeeper.session.timeout.ms 18 s"),
    "asked_in_vain": Threshold(
        10, "requests", "who finds the brokers asks for them once or twice, and then every 5 min"
    ),
    "coordinator_asked": Threshold(3, "requests", "once when a consumer starts, and again when the coordinator moves"),
    "lost_packets": Threshold(20, "packets", "some are sent again on any network"),
    "lost_in_span": Threshold(3, "packets in 10 s", "one or two in ten seconds disturb nobody"),
    "loss_share": Threshold(1, "% of the packets", "TCP slows down from about one per cent of loss on"),
    "idle": Threshold(30, "s", "the shortest idle timeouts of load balancers are a minute, and half of it is no pause"),
    "sizes_seen": Threshold(2, "requests", "that did not get through, and that did: one may have met anything"),
    "delay_factor": Threshold(8, "times", "queues make round trips some times longer, a detour many times"),
    "delay_ms": Threshold(20, "ms", "a network in which that is usual has no better best"),
    "delay_longest": Threshold(60, "ms", "receivers may hold back an acknowledgement for 40 ms by themselves"),
    "delay_samples": Threshold(5, "round trips in 10 s", "of fewer one slow one makes the mean"),
    "round_trips_lacking": Threshold(4, "% of the bytes", "as many acknowledgements are missing: others seem to be it"),
    "answers_lacking": Threshold(20, "% of the bytes", "of a host: as many tenths of a second have nothing of it"),
    "blackout": Threshold(1, "s", "shorter ones hide little, and in a small capture all may be quiet for so long"),
    "blackout_alone": Threshold(65, "s", "clients give up requests after 30 to 60 s by default, and are heard then"),
    "all_quiet": Threshold(7, "s", "members say something every 3 to 5 s by default, whoever does not answer them"),
    "open_transaction": Threshold(20, "s", "transactions end after some seconds; readers see nothing new meanwhile"),
    "takeovers": Threshold(2, "times", "once is how a process replaces another that hangs or is cut off"),
    "at_work": Threshold(5, "s", "what is started in the place of a process that hung is there later"),
    "falling_behind_for": Threshold(30, "s", "a burst is over by then, or becomes one that is not"),
    "held_back": Threshold(50, "% of the time", "who waits for a quota for less of it could catch up in the rest"),
    "behind": Threshold(10, "s of writing", "what one poll or a rebalance leaves is a second or two"),
    "behind_in_part": Threshold(100, "records", "of some partitions alone: fewer are what one poll leaves in them"),
    "same_again": Threshold(10, "times", "who tries a record again a few times, and then leaves it, is not stuck"),
    "longest_pause": Threshold(3, "times", "who asks again every 20 s, as its batches take so long, may be late once"),
    "replicas_late": Threshold(12, "s", "a broker that is gone is fenced after 9 s (broker.session.timeout.ms)"),
    "deployed_after": Threshold(600, "s", "the next pod may take minutes to be ready; another deployment comes later"),
    "deployed_members": Threshold(2, "members", "one that leaves and comes back may have its own reason"),
    "leader_changes": Threshold(1, "errors", "each costs clients a refresh of their metadata and a retry"),
}


def threshold(name: str) -> float:
    """The number of that name."""
    return THRESHOLDS[name].value
