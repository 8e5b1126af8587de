"""Names that are allowed, and namespaces in front of them."""

import pytest

from roquet.client.errors import BadArgument
from roquet.client.names import check_group, check_topic, wrapped
from roquet.protocol.names import CLOSED_TOPICS
from tests.support.raising import raises


@pytest.mark.parametrize(
    ("name", "wire_name"),
    [
        ("orders", "ns%orders"),
        ("ns%orders", "ns%orders"),
        ("%RETRY%billing", "%RETRY%ns%billing"),
        ("%RETRY%ns%billing", "%RETRY%ns%billing"),
        ("%DLQ%billing", "%DLQ%ns%billing"),
        ("TBW102", "TBW102"),
        ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
    ],
)
def test_a_namespace_goes_in_front_once_and_never_of_what_is_the_systems(
    name: str, wire_name: str
) -> None:
    assert wrapped("ns", name) == wire_name
    assert wrapped(None, name) == name


def test_the_longest_topic_is_allowed_and_a_longer_one_is_not() -> None:
    check_topic("%|aZ09_-" + "t" * 119)
    with raises(BadArgument, argument="topic"):
        check_topic("t" * 128)


def test_the_longest_group_is_allowed_and_a_longer_one_is_not() -> None:
    check_group("g" * 255)
    with raises(BadArgument, argument="group"):
        check_group("g" * 256)


@pytest.mark.parametrize("name", ["a.b", "a/b", "ä", "a\n"])
def test_other_characters_are_refused(name: str) -> None:
    with raises(BadArgument, argument="topic"):
        check_topic(name)
    with raises(BadArgument, argument="group"):
        check_group(name)


@pytest.mark.parametrize("topic", sorted(CLOSED_TOPICS))
def test_a_topic_that_only_brokers_write_to_is_refused(topic: str) -> None:
    with raises(BadArgument, argument="topic"):
        check_topic(topic)
