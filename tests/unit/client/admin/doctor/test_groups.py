"""What is wrong with groups, and what helps: as decisions about answers."""

from datetime import UTC, datetime, timedelta

import pytest

from roquet.client.admin.doctor import groups
from roquet.client.admin.groups import (
    ClientConnection,
    GroupMembers,
    GroupSettings,
    MemberInfo,
    MemberQueue,
    MessageInHand,
)
from roquet.client.admin.progress import GroupProgress, QueueProgress
from roquet.client.queue_ref import QueueRef
from tests.support.doctor_findings import bad


def test_a_group_that_is_disabled_gets_nothing() -> None:
    settings = {"a": GroupSettings(is_enabled=False), "b": GroupSettings()}
    assert bad([*groups.of_group_settings("g", settings)]) == [
        "problem: is disabled at a: its members receive no messages"
    ]


def progress(lag: int, age: timedelta) -> GroupProgress:
    queue = QueueProgress(QueueRef("t", "a", 0), 100, 100 - lag, 100 - lag, None, age)
    return GroupProgress("g", (queue,), 0.0)


def members(count: int) -> GroupMembers:
    connections = tuple(ClientConnection(str(index), None, None, 0) for index in range(count))
    return GroupMembers(connections, "CONSUME_PASSIVELY", "CLUSTERING" if count else None, {})


@pytest.mark.parametrize(
    ("lag", "minutes", "member_count", "found"),
    [
        (0, 0, 0, []),
        (0, 0, 1, []),
        (7, 0, 0, ["problem: no member is connected; 7 messages are waiting"]),
        (7, 4, 1, []),
        (7, 6, 1, ["warning: 7 messages are waiting, the oldest for 6 min 0 s"]),
        (0, 0, 2, ["warning: 2 members share 1 queues: some are idle"]),
    ],
)
def test_problems_of_a_group(lag: int, minutes: int, member_count: int, found: list[str]) -> None:
    state = progress(lag, timedelta(minutes=minutes))
    assert bad([*groups.of_progress("g", state, members(member_count))]) == found


def test_sdks_of_5_share_queues_so_none_is_idle() -> None:
    ids = ("vm@22576@0@u3ym4fla", "vm@22576@1@u3ym4flb")
    connections = tuple(ClientConnection(each, None, None, 0) for each in ids)
    popping = GroupMembers(connections, "CONSUME_PASSIVELY", "CLUSTERING", {})
    assert bad([*groups.of_progress("g", progress(0, timedelta()), popping)]) == []


def member(**subscriptions: str) -> MemberInfo:
    return MemberInfo({}, {"%RETRY%g": "*", **subscriptions}, {}, {})


NOW = datetime(2026, 11, 18, tzinfo=UTC)
QUEUE = QueueRef("t", "a", 3)


def in_hand(seconds: int, keys: str | None = None) -> MessageInHand:
    return MessageInHand(QUEUE, 7, "ID", keys, timedelta(seconds=seconds))


def queue(seconds: int, cached_count: int) -> dict[QueueRef, MemberQueue]:
    last = NOW - timedelta(seconds=seconds)
    return {QUEUE: MemberQueue(0, cached_count, False, NOW, last)}


@pytest.mark.parametrize(
    ("info", "found"),
    [
        (MemberInfo({}, {}, queue(90, 5), {}, ()), []),
        (MemberInfo({}, {}, {}, {}, (in_hand(29),)), []),
        (
            MemberInfo({}, {}, {}, {}, (in_hand(45, "k1"),)),
            ["warning: c has not finished message ID (key k1) of t a:3 for 45 s"],
        ),
        (
            MemberInfo({}, {}, {}, {}, (in_hand(90), in_hand(31), in_hand(1))),
            ["warning: c has not finished message ID of t a:3 for 1 min 30 s, and 1 more"],
        ),
        # Members that do not report what they hold.
        (
            MemberInfo({}, {}, queue(45, 5), {}),
            ["warning: c has finished no message of t a:3 for 45 s"],
        ),
        (MemberInfo({}, {}, queue(45, 0), {}), []),
        (MemberInfo({}, {}, queue(29, 5), {}), []),
    ],
)
def test_listeners_that_do_not_return_are_named(info: MemberInfo, found: list[str]) -> None:
    assert bad([*groups.of_listeners("g", {"c": info}, NOW)]) == found


def test_members_with_different_subscriptions_lose_messages() -> None:
    assert bad([*groups.of_members("g", {"1": member(t="*"), "2": member(t="*")})]) == []
    (text,) = bad([*groups.of_members("g", {"1": member(t="*"), "2": member(t="x")})])
    assert text.endswith("1 has t [*]; 2 has t [x]")
