"""Names of topics and groups."""

import pytest

from roquet.protocol.names import (
    TABLES_TOPIC,
    dlq_topic,
    is_name,
    is_system_topic,
    reply_topic,
    retry_topic,
)


@pytest.mark.parametrize("name", ["a", "Topic_1-2", "%RETRY%group", "ns|x", "a" * 127])
def test_names_that_apache_allows_are_allowed(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "..", "a/b", "a.b", "a\n", "ü", "a\x00", "a" * 128, "a@b"]
)
def test_names_that_could_leave_their_directory_or_break_a_file_are_not(name: str) -> None:
    assert not is_name(name)


@pytest.mark.parametrize(
    ("topic", "is_system"),
    [
        ("TBW102", True),
        ("SCHEDULE_TOPIC_XXXX", True),
        ("rmq_sys_anything", True),
        (TABLES_TOPIC, True),
        ("orders", False),
        ("%RETRY%orders", False),
    ],
)
def test_system_topics_are_known(topic: str, is_system: bool) -> None:
    assert is_system_topic(topic) is is_system


def test_topics_of_a_group_and_of_a_cluster() -> None:
    assert retry_topic("g") == "%RETRY%g"
    assert dlq_topic("g") == "%DLQ%g"
    assert reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"
