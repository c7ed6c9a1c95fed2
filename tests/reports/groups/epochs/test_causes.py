"""Why an epoch was raised that no request explains: on either side of each rule, in logs written by hand."""

from __future__ import annotations

import dataclasses

import pytest

from kafkascope.reports.groups.history import Rebalance
from kafkascope.reports.groups.migration import by_protocol
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.epochs.epoch_logs import Epochs, Shares, epochs, mixed, ms, rejected, said, streams
from tests.reports.groups.group_logs import Conversation, changed, of

# Somebody was taken out


@pytest.mark.parametrize(
    ("gained", "told", "weight", "certainty"),
    [
        (False, False, 0.4, Certainty.GUESSED),
        (True, False, 0.7, Certainty.LIKELY),
        (False, True, 0.8, Certainty.LIKELY),
        (True, True, 1.0, Certainty.LIKELY),
    ],
)
def test_what_speaks_for_it_that_a_silent_member_was_taken_out(
    gained: bool, told: bool, weight: float, certainty: str
) -> None:
    talk = Epochs()
    talk.two()
    talk.beats(2100, 12_000, "a", 2)
    talk.beat(12_000, "a", 2, 3, given=[0, 1, 2, 3] if gained else None)
    if told:
        talk.beat(15_000, "b", 2, error="UNKNOWN_MEMBER_ID")
    third = of(epochs(talk.log()))[3]
    assert (third.trigger, third.trigger_member, third.certainty) == ("session_timeout", "b", certainty)
    assert said(third) == [
        ("session_timeout", weight, 12_000, "b had said nothing for 10.0 s"),
        *[("session_timeout", 1.0, 15_000, "b was told later that it is no member any more")] * told,
        *[("session_timeout", 0.8, None, "others were given what it had: t 2-3")] * gained,
    ]
    assert third.evidence[0].packet == 14  # of its last word


def test_a_silent_member_without_partitions_had_nothing_that_others_could_be_given() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "c", 0, 3, given=[])
    talk.beats(3100, 12_000, "a", 3)
    talk.beats(3200, 12_000, "b", 3)
    talk.beat(12_000, "a", 3, 4)
    fourth = of(epochs(talk.log()))[4]
    assert (fourth.trigger, fourth.trigger_member, fourth.certainty) == ("session_timeout", "c", Certainty.LIKELY)
    assert said(fourth) == [("session_timeout", 0.6, 12_000, "c had said nothing for 9.0 s")]


@pytest.mark.parametrize(("shown", "trigger"), [(4_510, "unknown"), (4_511, "session_timeout")])
def test_a_member_is_silent_when_more_heartbeats_are_missing_than_may_be_late(shown: int, trigger: str) -> None:
    talk = Epochs()
    talk.two()  # b is heard last at 2,010 ms, and should be heard every second
    talk.beat(3000, "a", 2)
    talk.beat(shown - 1, "a", 2, 3, given=[0, 1, 2, 3])
    assert of(epochs(talk.log()))[3].trigger == trigger


@pytest.mark.parametrize(
    ("closed", "gained", "shown", "trigger"),
    [
        (2_010, True, 4_011, "session_timeout"),
        (2_010, True, 4_010, "unknown"),  # its leaving may have been lost: an epoch comes two seconds after it at most
        (2_010, False, 4_011, "unknown"),
        (2_009, True, 4_011, "unknown"),  # that was before its last word
    ],
)
def test_a_member_whose_connection_ended_may_be_taken_out_sooner(
    closed: int, gained: bool, shown: int, trigger: str
) -> None:
    talk = Epochs()
    talk.two()
    talk.ends(closed, "b")
    talk.beat(3000, "a", 2)
    talk.beat(shown - 1, "a", 2, 3, given=[0, 1, 2, 3] if gained else None)
    assert of(epochs(talk.log()))[3].trigger == trigger


@pytest.mark.parametrize(
    ("closed", "told"), [(2_009, False), (2_010, True), (13_001, True), (13_002, False), (None, False)]
)
def test_the_end_of_its_connection_is_told_from_its_last_word_until_a_second_after_the_epoch(
    closed: int | None, told: bool
) -> None:
    talk = Epochs()
    talk.two()
    talk.beats(2100, 12_000, "a", 2)
    talk.beat(12_000, "a", 2, 3, given=[0, 1, 2, 3])
    if closed is not None:
        talk.ends(closed, "b")
    third = of(epochs(talk.log()))[3]
    ends = [each for each in said(third) if "connection" in each[3]]
    assert ends == [("session_timeout", 0.5, closed, "its connection had ended (RST)")] * told


@pytest.mark.parametrize(
    ("heard", "shown", "started"),
    [
        (48_009, 50_000, 47_010),  # b's last word and 45 s
        (48_010, 50_000, 49_999),  # that would have been seen with the answer before
        (46_000, 47_010, 47_010),
        (46_000, 47_009, 47_008),  # it had not run out yet, by the usual session
    ],
)
def test_a_session_ran_out_when_it_was_due_if_that_was_just_before_it_was_seen(
    heard: int, shown: int, started: int
) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(heard, "a", 2)
    talk.beat(shown - 1, "a", 2, 3, given=[0, 1, 2, 3])
    third = of(epochs(talk.log()))[3]
    assert (third.trigger, ms(third.started)) == ("session_timeout", started)


def test_a_static_member_that_stepped_out_and_did_not_come_back() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(2500, "b", -2, instance="i")
    talk.beats(3000, 4000, "a", 2)
    talk.beat(4000, "a", 2, 3, given=[0, 1, 2, 3])
    third = of(epochs(talk.log()))[3]
    assert (third.trigger, third.trigger_member) == ("session_timeout", "b")
    assert said(third) == [
        ("session_timeout", 0.7, 4000, "b (static) had left 1.5 s before, and had not come back"),
        ("session_timeout", 0.8, None, "others were given what it had: t 2-3"),
    ]
    assert third.evidence[0].packet == 16


def asked_to_give_up(heard: int, shown: int, owned: list[int] | None = None) -> Epochs:
    """At 3,101 ms a is asked to give up partition 1 for c, and has 4 s; it is heard of until some time."""
    talk = Epochs()
    talk.two()
    talk.beat(3000, "c", 0, 3, given=[])
    talk.beat(3100, "a", 2, given=[0])
    talk.beat(3200, "b", 2, 3, owned=[2, 3])
    talk.beats(3500, heard, "a", 2)
    if owned is not None:
        talk.beat(heard, "a", 2, owned=owned)
    talk.beats(4200, shown - 100, "b", 3)
    talk.beats(4300, shown - 100, "c", 3)
    talk.beat(shown - 1, "b", 3, 4, given=[0, 2, 3])
    talk.beat(shown + 1000, "a", 2, error="UNKNOWN_MEMBER_ID")
    return talk


@pytest.mark.parametrize(
    ("heard", "shown", "started"),
    [
        (6600, 7_101, 7_101),
        (6600, 7_100, 7_099),  # too soon by its timeout, and yet it was heard of until now
        (6600, 8_202, 7_101),
        (6600, 8_900, 8_899),  # long ago by its timeout
    ],
)
def test_a_member_that_did_not_give_up_partitions_is_taken_out_when_its_time_is_over(
    heard: int, shown: int, started: int
) -> None:
    fourth = of(epochs(asked_to_give_up(heard, shown).log()))[4]
    assert (fourth.trigger, fourth.trigger_member, ms(fourth.started)) == ("rebalance_timeout", "a", started)
    assert said(fourth)[0][3] == "a was asked to give up partitions, and had not when it was taken out"


def test_a_member_that_owes_partitions_and_falls_silent_is_taken_out_for_its_silence() -> None:
    fourth = of(epochs(asked_to_give_up(4000, 13_000).log()))[4]
    assert (fourth.trigger, fourth.trigger_member) == ("session_timeout", "a")
    assert said(fourth)[0][3] == "a had said nothing for 9.5 s"


@pytest.mark.parametrize(("owned", "trigger"), [([0, 1], "rebalance_timeout"), ([0], "session_timeout")])
def test_a_member_that_says_that_it_gave_up_its_partitions_does_not_owe_them(owned: list[int], trigger: str) -> None:
    fourth = of(epochs(asked_to_give_up(6600, 7_101, owned).log()))[4]
    assert (fourth.trigger, fourth.trigger_member) == (trigger, "a")


@pytest.mark.parametrize("first", [[], [0, 1]])
def test_a_member_owes_what_it_was_given_even_if_it_never_said_that_it_had_it(first: list[int]) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=first)
    talk.beat(500, "a", 1, given=[0, 1])
    talk.beat(1000, "b", 0, 2, given=[])
    talk.beat(1100, "a", 1, given=[0])
    talk.beats(2000, 5000, "a", 1)
    talk.beat(5200, "b", 2, 3, given=[1])
    talk.beat(6000, "a", 1, error="UNKNOWN_MEMBER_ID")
    third = of(epochs(talk.log()))[3]
    assert (third.trigger, third.trigger_member, ms(third.started)) == ("rebalance_timeout", "a", 5101)


def test_a_member_that_was_there_before_the_capture_owes_what_it_said_that_it_has() -> None:
    talk = Epochs()
    talk.beat(0, "a", 2, owned=[0, 1])
    talk.beat(500, "b", 2, owned=[2])
    talk.beat(1100, "a", 2, given=[0])
    talk.beat(1200, "b", 2, 3)
    talk.beats(2000, 6000, "a", 2)
    talk.beat(6000, "b", 3, 4, given=[1, 2])
    talk.beat(7000, "a", 2, error="UNKNOWN_MEMBER_ID")
    fourth = of(epochs(talk.log()))[4]  # how long it has, it told when it joined
    assert (fourth.trigger, fourth.trigger_member, ms(fourth.started)) == ("rebalance_timeout", "a", 6000)


@pytest.mark.parametrize(("more", "taken"), [([0, 1, 2, 3], "b"), ([0, 1, 4], "c")])
def test_of_two_silent_members_that_one_was_taken_out_for_which_more_speaks(more: list[int], taken: str) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(2500, "c", 0, 3, given=[])
    talk.beat(2600, "a", 2, 3)
    talk.beat(2700, "c", 3, given=[4])
    talk.beat(2800, "b", 2, 3)
    talk.beats(3600, 14_600, "a", 3)
    talk.beat(14_600, "a", 3, 4, given=more)
    fourth = of(epochs(talk.log()))[4]
    assert (fourth.trigger, fourth.trigger_member) == ("session_timeout", taken)


@pytest.mark.parametrize(("heard", "taken"), [({"b": 2800, "c": 2900}, "b"), ({"b": 2900, "c": 2800}, "c")])
def test_of_two_members_for_which_as_much_speaks_the_first_that_fell_silent_was_taken_out(
    heard: dict[str, int], taken: str
) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(2500, "c", 0, 3, given=[4])
    talk.beat(2600, "a", 2, 3)
    for member, at in heard.items():
        talk.beat(at, member, 3)
    talk.beats(3600, 14_600, "a", 3)
    talk.beat(14_600, "a", 3, 4)
    fourth = of(epochs(talk.log()))[4]
    assert (fourth.trigger_member, fourth.certainty) == (taken, Certainty.GUESSED)


@pytest.mark.parametrize(("given", "trigger"), [([0, 1], "session_timeout"), ([0, 1, 4], "topic_partitions_changed")])
def test_partitions_that_are_new_explain_more_than_a_member_that_nobody_missed(given: list[int], trigger: str) -> None:
    talk = Epochs()
    talk.two()
    talk.beats(2100, 12_000, "a", 2)
    talk.beat(12_000, "a", 2, 3, given=given)
    third = of(epochs(talk.log()))[3]
    assert third.trigger == trigger
    assert rejected(third) == (
        [("session_timeout", 0.3, 2010, "b had said nothing for 10.0 s, but nobody got what it had")]
        if trigger == "topic_partitions_changed"
        else []
    )


def test_a_member_that_speaks_when_the_epoch_was_there_was_not_taken_out() -> None:
    talk = Epochs()
    talk.two()
    talk.beats(2100, 12_000, "a", 2)
    talk.beat(12_000, "a", 2, 3, given=[0, 1, 2, 3])
    talk.beat(12_001, "b", 2)  # at the moment of that answer
    assert of(epochs(talk.log()))[3].trigger == "unknown"


def test_a_member_of_whom_only_a_description_tells_is_not_called_silent() -> None:
    talk = Epochs()
    talk.beat(0, "a", 3, owned=[0])
    described = {"groupId": "g", "groupEpoch": 3, "members": [{"memberId": "a"}, {"memberId": "b"}]}
    talk.say(100, "ConsumerGroupDescribe", "admin", {"groupIds": ["g"]}, {"groups": [described]})
    talk.beats(1000, 20_000, "a", 3)
    talk.beat(20_000, "a", 3, 4)
    assert of(epochs(talk.log()))[4].trigger == "unknown"


def test_sessions_that_ran_out_one_after_the_other_did_so_in_the_order_in_which_they_were_due() -> None:
    talk = mixed()
    talk.heartbeat(7500, "b~1", 2)  # its session of 10 s ends at 17.5 s; that of c, 45 s long, at 52.0 s
    for at in range(8000, 60_000, 1000):
        talk.heartbeat(at, "a~1", 2)
    talk.beat(7001, "c", 2)
    talk.beat(60_000, "d", 0, 5, given=[])
    found = of(by_protocol(talk.log()))
    assert [(found[number].trigger, found[number].trigger_client_id) for number in (3, 4)] == [
        ("session_timeout", "b"),
        ("session_timeout", "c"),
    ]


def test_a_member_without_a_client_id_is_called_by_its_member_id() -> None:
    talk = Epochs()
    talk.two()
    talk.beats(2100, 12_000, "a", 2)
    talk.beat(12_000, "a", 2, 3, given=[0, 1, 2, 3])
    talk.messages = [changed(each, client_id=None) for each in talk.messages]
    found = of(epochs(talk.log()))
    assert [said(found[number])[0][3] for number in (2, 3)] == [
        "b joined: heartbeat with epoch 0",
        "b had said nothing for 10.0 s",
    ]


# Members that come back


def test_a_member_that_left_and_joined_again_with_its_id_was_not_closed() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "b", -1)
    talk.beat(3000 + 4500, "b", 0, 4, given=[])
    third = of(epochs(talk.log()))[3]
    text = "it joined again after 4.5 s with the same member id: its application may have been too slow to poll, "
    assert rejected(third) == [("poll_timeout", 0.5, 7500, text + "or have unsubscribed; heartbeats do not tell")]


def test_a_member_that_joined_twice_did_not_leave() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "b", 2, error="FENCED_MEMBER_EPOCH")
    talk.beat(3100, "b", 0, 2, given=[2, 3])
    second = of(epochs(talk.log()))[2]
    assert (second.trigger, rejected(second)) == ("member_joined", [])


# Partitions are new, or gone


@pytest.mark.parametrize(
    ("given", "trigger"),
    [
        ([4], "topic_partitions_changed"),
        ([4, 5], "topic_partitions_changed"),
        ([5], "unknown"),  # where is 4?
        ({"t": [0, 1], "u": [0]}, "topic_partitions_changed"),
        ({"t": [0, 1], "u": [1]}, "unknown"),
    ],
)
def test_new_partitions_go_on_with_the_numbers_of_those_that_were_there(
    given: list[int] | dict[str, list[int]], trigger: str
) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "b", 2)
    talk.beat(4000, "a", 2, 3, given=[0, 1, *given] if isinstance(given, list) else given)
    third = of(epochs(talk.log()))[3]
    assert third.trigger == trigger
    if trigger == "unknown":
        assert rejected(third) == []
    else:
        names = "u 0" if isinstance(given, dict) else "t " + "-".join(map(str, given))
        text = f"partitions that no member had before were given out: {names}"
        assert said(third) == [(trigger, 0.9, 4000, text)]
        assert third.evidence[0].packet == 19
        assert rejected(third) == [("session_timeout", 0.2, None, "every member had spoken shortly before")]


def test_numbers_that_are_missing_among_those_that_were_known_make_a_new_one_no_proof() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0, 2])
    talk.beat(1000, "a", 1, 2, given=[0, 2, 1])
    assert of(epochs(talk.log()))[2].trigger == "unknown"


def test_new_partitions_are_less_sure_where_members_may_be_unseen() -> None:
    talk = Epochs()
    talk.beat(0, "a", 3, owned=[0, 1])
    talk.beat(1000, "a", 3, 4, given=[0, 1, 2])
    fourth = of(epochs(talk.log()))[4]
    text = "partitions that no member had before were given out: t 2"
    assert said(fourth) == [("topic_partitions_changed", 0.6, 1000, text)]
    assert fourth.certainty == Certainty.LIKELY


@pytest.mark.parametrize(
    ("shown", "why_not"),
    [
        (4_510, ("session_timeout", 0.2, None, "every member had spoken shortly before")),
        (4_511, ("session_timeout", 0.3, 2010, "b had said nothing for 2.5 s, but nobody got what it had")),
    ],
)
def test_why_new_partitions_were_not_a_session_that_ran_out(
    shown: int, why_not: tuple[str, float, float | None, str]
) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", 2)
    talk.beat(shown - 1, "a", 2, 3, given=[0, 1, 4])
    third = of(epochs(talk.log()))[3]
    assert (third.trigger, rejected(third)) == ("topic_partitions_changed", [why_not])


def test_new_partitions_count_if_those_that_were_known_are_with_members_before_or_after() -> None:
    before = Epochs()
    before.two()
    before.beat(3000, "a", 2, 3, given=[0, 4])  # 1 is on its way to b when the capture ends
    after = Epochs()
    after.two()
    after.beat(2900, "a", 2)
    after.beat(3000, "b", -1)
    after.beat(3100, "a", 2, 3)  # nobody has those of b yet
    after.beat(4000, "a", 3, 4, given=[0, 1, 2, 3, 4])
    for talk, epoch in ((before, 3), (after, 4)):
        assert of(epochs(talk.log()))[epoch].trigger == "topic_partitions_changed"


def test_partitions_that_come_while_others_are_with_nobody_in_the_capture_may_be_of_an_unseen_member() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", 2, given=[0])
    talk.beat(3100, "a", 2, 3, owned=[0])
    talk.beat(3200, "b", 2, 3)  # 1 went to somebody that the capture lacks
    talk.beat(9000, "a", 3, 4, given=[0, 4])
    talk.beat(9100, "b", 3, 4)
    found = of(epochs(talk.log()))
    assert [found[number].trigger for number in (3, 4)] == ["unknown", "unknown"]
    text = "nobody in the capture has t 1 any more: a member that it lacks may have joined"
    assert rejected(found[3]) == [("member_joined", 0.3, None, text)]
    text = "no member joined, left, fell silent or asked for other topics within the capture"
    assert said(found[4])[0][3] == text + ": somebody did whose traffic is not in this capture"


@pytest.mark.parametrize("regex", ["t.*", None])
def test_topics_that_a_pattern_names_count_from_when_they_were_looked_up(regex: str | None) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0, 1], regex=regex)
    talk.beat(1000, "a", 1)
    talk.beat(9000, "a", 1, 2, given={"t": [0, 1], "u": [0]})
    second = of(epochs(talk.log()))[2]
    assert (second.trigger, ms(second.started)) == ("topic_partitions_changed", 1001 if regex else 9000)


def test_new_partitions_of_a_topic_that_a_pattern_named_before_were_made_just_then() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0, 1], regex="t.*")
    talk.beat(1000, "a", 1)
    talk.beat(9000, "a", 1, 2, given=[0, 1, 2])
    second = of(epochs(talk.log()))[2]
    assert (second.trigger, ms(second.started)) == ("topic_partitions_changed", 9000)


@pytest.mark.parametrize(("regex", "trigger"), [("t.*", "topic_partitions_changed"), (None, "unknown")])
def test_a_pattern_gives_partitions_of_a_topic_of_which_its_member_had_none(regex: str | None, trigger: str) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 3, given=[0, 1], regex=regex)
    talk.beat(1000, "a", 3, 4, given={"t": [0, 1], "u": [3]})
    talk.beat(2000, "a", 4)
    fourth = of(epochs(talk.log()))[4]
    assert fourth.trigger == trigger
    if regex:
        text = "a, with the pattern t.*, was given u for the first time"
        assert said(fourth) == [("topic_partitions_changed", 0.4, 1000, text)]


@pytest.mark.parametrize(
    ("regex", "before", "later", "trigger"),
    [
        ("t.*", [], 1000, "member_joined"),
        (None, [], 1000, "topic_partitions_changed"),
        ("t.*", [], 2002, "topic_partitions_changed"),  # a topic that came into being meanwhile
        ("t.*", [0], 1000, "topic_partitions_changed"),  # the pattern had been looked up before it was answered
    ],
)
def test_topics_of_a_pattern_are_looked_up_when_its_member_has_joined(
    regex: str | None, before: list[int], later: int, trigger: str
) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given={"u": before}, regex=regex)
    talk.beat(later, "a", 1)
    talk.beat(later + 500, "a", 1, 2, given={"u": before, "t": [0, 1]})
    talk.beat(9000, "a", 2)
    first, second = (of(epochs(talk.log()))[number] for number in (1, 2))
    assert second.trigger == trigger
    if trigger == "member_joined":
        assert said(second) == [(trigger, 0.7, 1, "a had joined with the pattern t.*, and t was found for it")]
        assert (second.trigger_client_id, second.certainty) == ("a", "likely")
        text = "topics of that pattern that came into being then would look the same"
        assert [each[:1] + each[3:] for each in rejected(second)] == [("topic_partitions_changed", text)]
        assert first.contributing == []


def test_a_topic_of_which_nobody_has_partitions_any_more_was_deleted() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given={"t": [0, 1], "u": [0]}, topics=["t", "u"])
    talk.beat(1000, "a", 1)
    talk.beat(2000, "a", 1, 2, given=[0, 1])
    second = of(epochs(talk.log()))[2]
    text = "nobody has partitions of u any more"
    assert said(second) == [("topic_partitions_changed", 0.6, 2000, text)]
    assert second.evidence[0].packet == 7


@pytest.mark.parametrize(
    ("regex", "given", "trigger"),
    [("t.*|u", None, "topic_partitions_changed"), (None, None, "unknown"), ("t.*|u", [0], "unknown")],
)
def test_a_pattern_is_looked_up_again_when_a_topic_of_it_is_gone(
    regex: str | None, given: list[int] | None, trigger: str
) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given={"t": [0, 1], "u": [0]}, topics=None if regex else ["t", "u"], regex=regex)
    talk.beat(1000, "a", 1)
    talk.beat(2000, "a", 1, 2, given=[0, 1])
    talk.beat(7000, "a", 2, 3, given=given)
    talk.beat(20_000, "a", 3)
    third = of(epochs(talk.log()))[3]
    assert third.trigger == trigger
    if trigger != "unknown":
        text = "the pattern was looked up again, as u had gone in the epoch before"
        assert said(third) == [("topic_partitions_changed", 0.4, 7000, text)]


def test_a_topic_that_has_another_id_was_made_anew() -> None:
    def third(then: str) -> Rebalance:
        talk = Epochs()
        talk.beat(0, "a", 0, 2, given=[0, 1, 2, 3])
        talk.beat(1000, "a", 2, given=[])
        talk.beat(1100, "a", 2, 3, given={then: [0, 1]})
        talk.beat(9000, "a", 3)
        log = talk.log()
        return of(epochs(dataclasses.replace(log, topics={**log.topics, "new-id": "t"})))[3]

    text = "t has another id than before: deleted and made anew"
    assert said(third("new")) == [("topic_partitions_changed", 0.7, 1100, text)]
    assert third("new").unowned == []  # nobody could have had what was not there
    assert third("t").trigger == "unknown"


def test_a_topic_of_which_nobody_in_the_capture_has_partitions_may_be_with_others() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 3, given={"t": [0, 1], "u": [0]}, topics=["t", "u"])
    talk.beat(500, "c", 3, owned=[])
    talk.beat(1000, "a", 3)
    talk.beat(2000, "a", 3, 4, given=[0, 1])
    assert of(epochs(talk.log()))[4].trigger == "unknown"


@pytest.mark.parametrize("then", ["the capture ends", "another epoch"])
def test_a_topic_that_goes_to_another_member_is_not_gone(then: str) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given={"t": [0, 1], "u": [0]}, topics=["t", "u"])
    talk.beat(1000, "b", 0, 2, given=[], topics=["t", "u"])
    talk.beat(1100, "a", 1, 2)
    talk.beat(2000, "a", 2, 3, given=[0, 1])
    talk.beat(2500, "b", 2, 3, given={"u": [0]})
    if then == "another epoch":
        talk.beat(3000, "b", -1)
    assert of(epochs(talk.log()))[3].trigger == "unknown"


def test_what_a_member_is_given_in_an_epoch_counts_even_if_the_next_one_was_raised_meanwhile() -> None:
    talk = Epochs()
    talk.two()
    talk.beats(2100, 12_000, "a", 2)
    talk.beat(12_000, "a", 2, 3)
    talk.beat(13_000, "c", 0, 4, given=[])
    talk.beat(13_500, "a", 3, 3, given=[0, 1, 2])
    talk.beat(13_600, "a", 3, 4, given=[0, 1])
    third = of(epochs(talk.log()))[3]
    assert (third.trigger, said(third)[1][3]) == ("session_timeout", "others were given what it had: t 2")


def test_what_members_are_given_in_a_later_epoch_says_nothing_of_this_one() -> None:
    talk = Epochs()
    talk.two()
    talk.beats(2100, 12_000, "a", 2)
    talk.beat(12_000, "a", 2, 3)
    talk.beat(13_000, "c", 0, 4, given=[2, 3])
    third = of(epochs(talk.log()))[3]
    assert [each[:3] for each in said(third)] == [("session_timeout", 0.4, 12_000)]


@pytest.mark.parametrize(("api", "weight"), [("ConsumerGroupHeartbeat", 0.4), ("ShareGroupHeartbeat", None)])
def test_partitions_that_are_given_out_with_the_next_epoch_may_have_raised_the_one_before(
    api: str, weight: float | None
) -> None:
    talk = Epochs()
    talk.api = api
    talk.two()
    talk.beat(3000, "a", 2, 3)
    talk.beat(3100, "c", 0, 4, given=[])
    talk.beat(3200, "b", 2, 4)
    talk.beat(4000, "c", 4, given=[4, 5])
    third = of(epochs(talk.log()))[3]
    if weight is None:  # share groups give out new partitions when their state is ready: later, and for that reason
        assert third.trigger == "unknown"
    else:
        text = "partitions that no member had before were given out with the next epoch: t 4-5"
        assert said(third) == [("topic_partitions_changed", weight, 3000, text)]
        assert (third.trigger, third.certainty) == ("topic_partitions_changed", Certainty.GUESSED)


def test_an_epoch_in_which_partitions_are_given_out_without_any_other_cause_has_them_for_its_own() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", 2, 3)
    talk.beat(3200, "b", 2, 3)
    talk.beat(9000, "a", 3, 4, given=[0, 1, 4])
    talk.beat(9100, "b", 3, 4)
    found = of(epochs(talk.log()))
    assert [found[number].trigger for number in (3, 4)] == ["unknown", "topic_partitions_changed"]


# Share groups


def test_a_member_of_a_share_group_that_is_gone_may_raise_two_epochs() -> None:
    talk = Shares()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beat(1000, "b", 0, 2, given=[0])
    talk.beat(1100, "a", 1, 2)
    talk.beat(2000, "a", -1, topics=[])
    talk.beat(3000, "b", 2, 4, given=[0])
    found = of(epochs(talk.log()))
    assert sorted(found) == [1, 2, 4]
    assert (found[4].from_generation, ms(found[4].started)) == (2, 2000)
    text = "a left: heartbeat with epoch -1; the epoch was raised twice, and nothing else speaks for a second reason"
    assert said(found[4]) == [("member_left", 1.0, 2000, text)]


def test_a_member_of_a_share_group_that_joins_raises_one_epoch() -> None:
    talk = Shares()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beat(1000, "b", 0, 1, given=[0])  # the answer names the epoch before, as since Kafka 4.3
    talk.beat(2000, "a", 1, 3)
    found = of(epochs(talk.log()))
    assert [(number, found[number].trigger) for number in found] == [
        (1, "member_joined"),
        (2, "member_joined"),
        (3, "unknown"),
    ]


def test_partitions_of_a_share_group_that_became_ready_came_into_being_before() -> None:
    talk = Shares()
    talk.beat(0, "a", 0, 1, given=[])
    talk.beat(2000, "a", 1, 2)
    talk.beat(3000, "a", 2, 3, given=[0, 1])
    found = of(epochs(talk.log()))
    text = "partitions were made ready in the epoch after this one: they came into being before"
    assert said(found[2]) == [("topic_partitions_changed", 0.4, 2000, text)]
    assert found[2].evidence[0].packet == 5
    assert rejected(found[3]) == []


def test_tasks_that_nobody_has_any_more_are_no_topic_that_was_deleted() -> None:
    talk = Conversation()
    streams(talk, 0, 0, 1, [0, 1])
    streams(talk, 1000, 1, 2, [])
    assert of(epochs(talk.log()))[2].trigger == "unknown"
