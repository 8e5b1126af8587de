"""What is wrong, and what helps: as decisions about answers."""

from datetime import UTC, datetime, timedelta

import pytest

from roquet.cli.doctor import findings
from roquet.cli.doctor.findings import Finding, Severity
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.groups import ClientConnection, GroupMembers, GroupSettings, MemberInfo
from roquet.client.admin.progress import GroupProgress, QueueProgress
from roquet.client.admin.topics import BrokerRoute, TopicSettings
from roquet.client.queue_ref import QueueRef
from roquet.protocol.codes import Permission

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REMOTE = ["10.0.0.9:9876"]
READ_WRITE = Permission.READ | Permission.WRITE


def bad(found: list[Finding]) -> list[str]:
    """All that is not fine has a remedy."""
    wrong = [each for each in found if each.severity is not Severity.FINE]
    assert all(each.remedy for each in wrong)
    return [f"{each.severity.value}: {each.text}" for each in wrong]


def test_a_name_server_that_is_gone_is_a_problem_if_it_is_the_only_one() -> None:
    assert bad([*findings.of_name_servers({"a:1": "refused"})]) == ["problem: unreachable: refused"]
    assert bad([*findings.of_name_servers({"a:1": "refused", "b:1": None})]) == [
        "warning: unreachable: refused"
    ]


def test_without_brokers_nothing_goes() -> None:
    assert bad([*findings.of_brokers([], REMOTE, NOW)]) == ["problem: no broker is registered"]


def broker(**members: object) -> BrokerInfo:
    values: dict[str, object] = {
        "cluster": "c",
        "broker_name": "a",
        "broker_id": 0,
        "address": "10.0.0.1:10911",
        **members,
    }
    return BrokerInfo(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({}, []),
        ({"disk_used_ratio": 0.74}, []),
        (
            {"disk_used_ratio": 0.75},
            ["warning: its disk is 75% full: old messages are deleted early"],
        ),
        ({"disk_used_ratio": 0.9}, ["problem: its disk is 90% full: it rejects messages"]),
        ({"clock": NOW + timedelta(seconds=5)}, []),
        (
            {"clock": NOW + timedelta(seconds=61)},
            [
                (
                    "warning: its clock is 61 s ahead of the local one: "
                    "delays and resets by time are off by as much"
                )
            ],
        ),
        ({"error": "gone"}, ["problem: gone"]),
        (
            {"address": "127.0.0.1:10911"},
            [
                (
                    "problem: advertises 127.0.0.1:10911, a loopback address: clients elsewhere"
                    " cannot connect"
                )
            ],
        ),
        (
            {"broker_id": 1},
            ["problem: has no master: it delivers messages but accepts none"],
        ),
    ],
)
def test_problems_of_a_broker(members: dict[str, object], found: list[str]) -> None:
    assert bad([*findings.of_brokers([broker(**members)], REMOTE, NOW)]) == found


def test_on_one_machine_loopback_is_fine() -> None:
    local = broker(address="127.0.0.1:10911")
    assert bad([*findings.of_brokers([local], ["localhost:9876"], NOW)]) == []


def test_a_broker_that_only_gives_is_seen() -> None:
    assert bad([*findings.of_settings("a", {"brokerPermission": "6"})]) == []
    assert len(bad([*findings.of_settings("a", {"brokerPermission": "4"})])) == 1


def route(permission: Permission = READ_WRITE, read: int = 4, write: int = 4) -> BrokerRoute:
    return BrokerRoute("a", "c", {0: "10.0.0.1:1"}, read, write, permission)


@pytest.mark.parametrize(
    ("found_route", "found"),
    [
        (route(), []),
        (
            route(Permission.READ),
            ["problem: no broker accepts messages for it", "warning: writes are forbidden at a"],
        ),
        (route(Permission.WRITE), ["problem: reads are forbidden at a"]),
        (
            route(read=2),
            [
                (
                    "problem: 4 write queues but only 2 read queues at a: "
                    "messages of the others are not delivered"
                )
            ],
        ),
    ],
)
def test_problems_of_a_topic(found_route: BrokerRoute, found: list[str]) -> None:
    settings = {"a": TopicSettings()}
    assert bad([*findings.of_topic_routes("t", [found_route], settings)]) == found


def test_a_missing_topic_is_a_problem_unless_sends_make_it() -> None:
    assert findings.missing_topic("t", is_made_by_sends=True).severity is Severity.WARNING
    assert findings.missing_topic("t", is_made_by_sends=False).severity is Severity.PROBLEM


def test_a_group_that_is_disabled_gets_nothing() -> None:
    settings = {"a": GroupSettings(is_enabled=False), "b": GroupSettings()}
    assert bad([*findings.of_group_settings("g", settings)]) == [
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
        (7, 6, 1, ["warning: 7 messages are waiting, the oldest for 0:06:00"]),
        (0, 0, 2, ["warning: 2 members share 1 queues: some are idle"]),
    ],
)
def test_problems_of_a_group(lag: int, minutes: int, member_count: int, found: list[str]) -> None:
    state = progress(lag, timedelta(minutes=minutes))
    assert bad([*findings.of_progress("g", state, members(member_count))]) == found


def member(**subscriptions: str) -> MemberInfo:
    return MemberInfo({}, {"%RETRY%g": "*", **subscriptions}, {}, {})


def test_members_with_different_subscriptions_lose_messages() -> None:
    assert bad([*findings.of_members("g", {"1": member(t="*"), "2": member(t="*")})]) == []
    (text,) = bad([*findings.of_members("g", {"1": member(t="*"), "2": member(t="x")})])
    assert text.endswith("1 has t [*]; 2 has t [x]")


@pytest.mark.parametrize(
    ("address", "is_loopback"),
    [
        ("127.0.0.1:1", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        ("10.0.0.1:1", False),
        ("host:1", False),
    ],
)
def test_loopback_addresses(address: str, *, is_loopback: bool) -> None:
    assert findings.is_loopback(address) is is_loopback
