"""The topics of a broker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from roquet.broker.errors import (
    BadAttributes,
    BadName,
    BadQueueCount,
    NoMoreTopics,
    TableNotWritten,
    UnknownTopic,
)
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.topics import QUEUE_COUNT_MAX, TopicFlag, TopicTable, built_in_topics
from roquet.protocol.bodies.body import DataVersion, read_body
from roquet.protocol.bodies.topics import (
    TopicConfig,
    TopicConfigTable,
    TopicFilterType,
)
from roquet.protocol.codes import ResponseCode
from roquet.protocol.errors import BadBody
from roquet.protocol.lenient_json import strict_json
from roquet.store.config import StoreConfig
from tests.support.fake_clock import START_MS, FakeClock
from tests.support.golden_state import STORES, golden_state
from tests.support.raising import raises


def config(**settings: Any) -> BrokerConfig:
    return BrokerConfig(store=StoreConfig(root=Path("unused")), broker_name="broker-a", **settings)


def topic(name: str, queue_count: int = 4, perm: int = 6, **settings: Any) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queue_count,
        write_queue_nums=queue_count,
        perm=perm,
        **settings,
    )


def table(*topics: TopicConfig) -> TopicTable:
    return TopicTable(FakeClock(), topics)


def all_in(topics: TopicTable) -> list[TopicConfig]:
    return list(topics.snapshot().topic_config_table.values())


# --- what is there from the start ---


def test_the_built_in_topics_are_those_of_apache() -> None:
    recorded = read_body(TopicConfigTable, golden_state("v49_clean", "topics.json"))
    theirs = recorded.topic_config_table
    ours = {each.topic_name: each for each in built_in_topics(config(make_trace_topic=True))}
    assert {name: theirs.get(name) for name in ours} == ours
    made_later = ("%RETRY%", "%DLQ%", "Gold49Clean", "RMQ_SYS_TRANS_HALF_TOPIC")
    assert {name for name in theirs if not name.startswith(made_later)} == set(ours)


@pytest.mark.parametrize(
    ("settings", "name", "expected"),
    [
        ({}, "TBW102", (8, 7)),
        ({"template_queue_count": 3}, "TBW102", (3, 7)),
        ({"create_topics": False}, "TBW102", None),
        ({}, "DefaultCluster", (16, 7)),
        ({"open_cluster_topic": False}, "DefaultCluster", (16, 1)),
        ({}, "broker-a", (1, 7)),
        ({"open_broker_topic": False}, "broker-a", (1, 1)),
        ({"cluster_name": "blue"}, "blue_REPLY_TOPIC", (1, 6)),
        ({}, "RMQ_SYS_TRACE_TOPIC", None),
        ({"make_trace_topic": True, "trace_topic": "traces"}, "traces", (1, 6)),
    ],
)
def test_settings_decide_about_built_in_topics(
    settings: dict[str, object], name: str, expected: tuple[int, int] | None
) -> None:
    found = TopicTable(FakeClock(), built_in_topics(config(**settings))).find(name)
    assert (found and (found.write_queue_nums, found.perm)) == expected


@pytest.mark.parametrize(
    ("name", "is_system"),
    [
        ("broker-a", True),
        ("DefaultCluster", True),
        ("SCHEDULE_TOPIC_XXXX", True),
        ("RMQ_SYS_TRACE_TOPIC", True),
        ("rmq_sys_anything", True),
        ("orders", False),
        ("%RETRY%group", False),
    ],
)
def test_what_belongs_to_the_system_is_known(name: str, is_system: bool) -> None:
    topics = TopicTable(FakeClock(), built_in_topics(config()))
    topics.find_or_create(name, 1)
    assert topics.is_system(name) is is_system
    assert name in topics
    assert {"broker-a", "RMQ_SYS_TRANS_HALF_TOPIC"} <= topics.system_topics


# --- topics that a send makes ---


@pytest.mark.parametrize(
    ("asked_count", "template_count", "made_count"), [(4, 8, 4), (16, 8, 8), (-1, 8, 0), (4, 0, 0)]
)
def test_a_send_makes_a_topic_after_its_template(
    asked_count: int, template_count: int, made_count: int
) -> None:
    template = topic("TBW102", template_count, 7, topic_filter_type=TopicFilterType.MULTI_TAG)
    topics = table(template)
    made = topics.create_by_send(
        "orders", "TBW102", asked_count, may_create=True, flags=TopicFlag.UNIT
    )
    assert made == topic(
        "orders",
        made_count,
        perm=6,
        topic_filter_type=TopicFilterType.MULTI_TAG,
        topic_sys_flag=TopicFlag.UNIT,
    )
    assert topics.find("orders") is made


def test_a_known_topic_is_not_made_again() -> None:
    known = topic("orders", 2)
    topics = table(known, topic("TBW102", 8, 7))
    assert topics.create_by_send("orders", "TBW102", 4, may_create=True) is known
    assert topics.change_count == 0


@pytest.mark.parametrize(
    ("template", "may_create", "is_made"),
    [
        ("TBW102", True, True),
        ("TBW102", False, False),
        ("cluster", False, True),
        ("closed", True, False),
        ("missing", True, False),
    ],
)
def test_a_template_must_be_there_and_open(template: str, may_create: bool, is_made: bool) -> None:
    topics = table(topic("TBW102", 8, 7), topic("cluster", 16, 7), topic("closed", 8, 6))
    if is_made:
        topics.create_by_send("orders", template, 4, may_create=may_create)
    else:
        with pytest.raises(UnknownTopic) as caught:
            topics.create_by_send("orders", template, 4, may_create=may_create)
        assert caught.value.code is ResponseCode.TOPIC_NOT_EXIST
    assert ("orders" in topics) is is_made


def test_a_retry_topic_needs_no_template() -> None:
    made = table().create_by_send("%RETRY%group", "missing", 4, may_create=False, flags=2)
    assert made == topic("%RETRY%group", 1, topic_sys_flag=2)


def test_clients_make_no_more_topics_than_there_may_be() -> None:
    topics = table(topic("TBW102", 8, 7))
    count_max = 2
    made = topics.create_by_send("a", "TBW102", 4, may_create=True, count_max=count_max)
    for name in ("b", "%RETRY%group"):
        with raises(NoMoreTopics, limit=count_max):
            topics.create_by_send(name, "TBW102", 4, may_create=True, count_max=count_max)
    with pytest.raises(UnknownTopic):
        topics.create_by_send("b", "missing", 4, may_create=True, count_max=count_max)
    assert topics.create_by_send("a", "TBW102", 4, may_create=True, count_max=count_max) is made
    topics.update(topic("b"))


@pytest.mark.parametrize("name", ["", "a.b", "../up", "x" * 128, "töpic"])
def test_no_topic_gets_a_bad_name(name: str) -> None:
    topics = table(topic("TBW102", 8, 7))
    with pytest.raises(BadName):
        topics.create_by_send(name, "TBW102", 4, may_create=True)
    with pytest.raises(BadName):
        topics.find_or_create(name, 1)
    with pytest.raises(BadName):
        topics.update(topic(name))
    assert all_in(topics) == [topic("TBW102", 8, 7)]


# --- what the broker and operators make ---


def test_a_topic_is_found_or_created() -> None:
    topics = table()
    made = topics.find_or_create("%DLQ%group", 1)
    assert made == topic("%DLQ%group", 1)
    assert topics.find_or_create("%DLQ%group", 7) is made


def test_an_update_replaces_settings_and_changes_attributes() -> None:
    topics = table(topic("orders", 4, attributes={"kept": "1", "removed": "2"}))
    handed_out = topics.find("orders")
    topics.update(topic("orders", 8, perm=4, attributes={"-removed": "", "+added": "3"}))
    assert topics.find("orders") == topic("orders", 8, 4, attributes={"kept": "1", "added": "3"})
    assert handed_out is not None
    assert handed_out.write_queue_nums == 4


def test_an_update_that_cannot_be_made_changes_nothing() -> None:
    topics = table(topic("orders"))
    with pytest.raises(BadAttributes):
        topics.update(topic("orders", 8, attributes={"-missing": ""}))
    for queue_count in (-1, QUEUE_COUNT_MAX + 1):
        with pytest.raises(BadQueueCount):
            topics.update(topic("orders", queue_count))
    assert all_in(topics) == [topic("orders")]
    assert topics.change_count == 0


@pytest.mark.parametrize("queue_count", [0, QUEUE_COUNT_MAX])
def test_the_limits_of_queues_can_be_reached(queue_count: int) -> None:
    topics = table()
    topics.update(topic("orders", queue_count))
    assert all_in(topics) == [topic("orders", queue_count)]


def test_a_deleted_topic_is_gone() -> None:
    topics = table(topic("orders"))
    assert topics.delete("orders")
    assert topics.find("orders") is None
    assert not topics.delete("orders")
    assert topics.change_count == 1


def test_the_name_server_says_which_topics_are_ordered() -> None:
    topics = table(topic("a", order=True), topic("b"), topic("c", order=True))
    topics.set_ordered({"b", "c", "elsewhere"})
    assert {each.topic_name: each.order for each in all_in(topics)} == {
        "a": False,
        "b": True,
        "c": True,
    }
    assert topics.change_count == 2
    topics.set_ordered({"b", "c"})
    assert topics.change_count == 2


@pytest.mark.parametrize(
    ("broker_permission", "registered"),
    [(6, [7, 6, 2]), (4, [4, 4, 0]), (2, [2, 2, 2])],
)
def test_no_topic_is_registered_as_more_open_than_its_broker(
    broker_permission: int, registered: list[int]
) -> None:
    topics = table(topic("template", perm=7), topic("plain"), topic("write-only", perm=2))
    reported = topics.registered(broker_permission).topic_config_table
    assert [each.perm for each in reported.values()] == registered
    assert [each.perm for each in all_in(topics)] == [7, 6, 2]


def test_what_is_registered_again_is_a_new_version() -> None:
    topics = table(topic("TopicA"))
    topics.bump_version()
    # A name server takes no topics from a broker whose version it knows.
    assert topics.registered(4).data_version.counter == 1


def test_every_change_makes_a_new_version() -> None:
    clock = FakeClock()
    topics = TopicTable(clock)
    first = topics.version
    assert first == DataVersion(counter=0, timestamp=START_MS)
    clock.advance(5)
    topics.find_or_create("a", 1)
    topics.delete("a")
    assert topics.version == DataVersion(counter=2, timestamp=START_MS + 5_000)
    assert topics.change_count == 2
    assert first.counter == 0


# --- the file ---


@pytest.mark.parametrize("store", STORES)
def test_a_file_of_apache_is_read_and_written_without_loss(store: str) -> None:
    data = golden_state(store, "topics.json")
    topics = table()
    assert topics.load(data) == []
    assert topics.change_count == 0
    theirs = msgspec.json.decode(strict_json(data))
    ours = msgspec.json.decode(topics.to_bytes())
    # 5.x always writes these, 4.9 never, and both read both.
    for version in (theirs["dataVersion"], ours["dataVersion"]):
        version.setdefault("stateVersion", 0)
    for each in theirs["topicConfigTable"].values():
        if not each.get("attributes"):
            each.pop("attributes", None)
    assert ours == theirs


def test_what_is_written_is_read_back() -> None:
    topics = table(topic("orders", 3, attributes={"message.type": "FIFO"}), topic("bills", 0, 4))
    topics.delete("bills")
    again = table()
    assert again.load(topics.to_bytes()) == []
    assert again.snapshot() == topics.snapshot()
    assert again.find("orders") == topic("orders", 3, attributes={"message.type": "FIFO"})


def test_a_file_is_laid_over_the_built_in_topics() -> None:
    topics = table(topic("TBW102", 8, 7), topic("host.name", 1))
    saved = table(topic("TBW102", 2, 7), topic("orders"), topic("host.name", 3), topic("a/b"))
    assert topics.load(saved.to_bytes()) == ["a/b"]
    assert {each.topic_name: each.write_queue_nums for each in all_in(topics)} == {
        "TBW102": 2,
        "host.name": 3,
        "orders": 4,
    }


def test_a_topic_is_called_as_its_key_says() -> None:
    topics = table()
    topics.load(b'{"topicConfigTable":{"orders":{"topicName":"../up","perm":4}}}')
    assert all_in(topics) == [topic("orders", 16, 4)]


def test_a_broken_file_changes_nothing() -> None:
    topics = table(topic("orders"))
    with pytest.raises(BadBody):
        topics.load(b'{"topicConfigTable":{"a":{"topicName":"a"},"b":{')
    assert all_in(topics) == [topic("orders")]


# --- who follows it ---

CHANGES: list[Callable[[TopicTable], object]] = [
    lambda topics: topics.create_by_send("new", "parent", 1, may_create=True),
    lambda topics: topics.find_or_create("new", 1),
    lambda topics: topics.update(topic("old", 8)),
    lambda topics: topics.delete("old"),
    lambda topics: topics.set_ordered({"old"}),
    lambda topics: topics.bump_version(),
]
NO_CHANGES: list[Callable[[TopicTable], object]] = [
    lambda topics: topics.find_or_create("old", 1),
    lambda topics: topics.delete("new"),
    lambda topics: topics.set_ordered(()),
    lambda topics: topics.load(b"{}"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_reported_once_it_can_be_seen(
    change: Callable[[TopicTable], object],
) -> None:
    topics = table(topic("old"), topic("parent", perm=7))
    seen: list[tuple[bytes, int]] = []
    topics.on_change = lambda: seen.append((topics.to_bytes(), topics.change_count))
    change(topics)
    assert seen == [(topics.to_bytes(), 1)]


@pytest.mark.parametrize("change", NO_CHANGES)
def test_what_is_no_change_is_not_reported(change: Callable[[TopicTable], object]) -> None:
    topics = table(topic("old"))
    reports: list[int] = []
    topics.on_change = lambda: reports.append(1)
    change(topics)
    assert reports == []


# --- epochs ---


def version(epoch: int, counter: int, timestamp: int = 1) -> DataVersion:
    return DataVersion(state_version=epoch, counter=counter, timestamp=timestamp)


def copy_of(known: DataVersion, *topics: TopicConfig) -> TopicTable:
    """What a slave has."""
    made = TopicTable(FakeClock(), has_epochs=True)
    made.follow(of_master(known, *topics))
    return made


def of_master(known: DataVersion, *topics: TopicConfig) -> TopicConfigTable:
    named = {each.topic_name: each for each in topics}
    return TopicConfigTable(data_version=known, topic_config_table=named)


def test_a_change_is_written_before_it_is_made() -> None:
    topics = TopicTable(FakeClock(), has_epochs=True)
    topics.lead(5)
    written: list[tuple[str, TopicConfig | None, DataVersion, bool]] = []
    topics.write_ahead = lambda name, settings, known: written.append(
        (name, settings, known, name in topics)
    )
    made = topics.update(topic("orders", 8))
    topics.delete("orders")
    assert written == [
        ("orders", made, version(5, 2, START_MS), False),
        ("orders", None, version(5, 3, START_MS), True),
    ]
    assert topics.version == version(5, 3, START_MS)


@pytest.mark.parametrize(
    "change",
    [
        lambda topics: topics.update(topic("orders", 8)),
        lambda topics: topics.find_or_create("%RETRY%readers", 1),
        lambda topics: topics.delete("known"),
        lambda topics: topics.set_ordered({"known"}),
    ],
)
def test_what_cannot_be_written_is_not_made(change: Callable[[TopicTable], object]) -> None:
    topics = table(topic("known"))
    topics.write_ahead = refuse
    before = topics.snapshot()
    with pytest.raises(TableNotWritten, match="no space"):
        change(topics)
    assert topics.snapshot() == before
    assert topics.change_count == 0


def refuse(name: str, _settings: object, _version: object) -> None:
    raise TableNotWritten(name, "no space")


def test_a_slave_applies_what_is_newer_and_nothing_else() -> None:
    topics = copy_of(version(5, 7), topic("orders", 4), topic("bills"))
    assert topics.apply("orders", topic("orders", 8), version(5, 8))
    assert topics.apply("bills", None, version(5, 9))
    assert not topics.apply("orders", None, version(5, 8))
    assert not topics.apply("orders", None, version(4, 99))
    assert all_in(topics) == [topic("orders", 8)]
    assert topics.apply("no/name", topic("no/name"), version(6, 1))
    assert all_in(topics) == [topic("orders", 8)]


def test_a_copy_does_not_undo_what_the_log_has_brought() -> None:
    topics = copy_of(version(5, 7), topic("orders", 4))
    topics.apply("orders", topic("orders", 8), version(5, 9))
    topics.follow(of_master(version(5, 8), topic("orders", 4)))
    assert all_in(topics) == [topic("orders", 8)]
    # The copy of the same version may have what was never written to the log.
    topics.follow(of_master(version(5, 9), topic("orders", 8), topic("older")))
    assert all_in(topics) == [topic("orders", 8), topic("older")]
    assert topics.version == version(5, 9)


def test_the_table_of_a_successor_wins() -> None:
    topics = copy_of(version(5, 7), topic("orders", 4), topic("mine"))
    topics.stored_queue_count = {"mine": 1}.__getitem__
    topics.follow(of_master(version(6, 1), topic("orders", 2)))
    assert all_in(topics) == [topic("orders", 2)]


def test_what_a_slave_makes_itself_gives_way_to_the_next_copy() -> None:
    topics = copy_of(version(5, 7), topic("orders"))
    topics.find_or_create("%RETRY%readers", 1)
    topics.follow(of_master(version(5, 7), topic("orders")))
    assert all_in(topics) == [topic("orders")]


def test_after_a_cut_of_the_log_only_what_it_has_left_counts() -> None:
    topics = copy_of(version(5, 7), topic("orders", 8))
    topics.forget_version()
    assert topics.apply("orders", topic("orders", 4), version(5, 3))
    assert all_in(topics) == [topic("orders", 4)]
    topics.follow(of_master(version(6, 1), topic("orders", 2)))
    assert all_in(topics) == [topic("orders", 2)]


def test_the_topic_of_changes_is_listed_where_there_are_epochs() -> None:
    assert "rmq_sys_roquet_tables" in TopicTable(FakeClock(), has_epochs=True).system_topics
    assert "rmq_sys_roquet_tables" not in table().system_topics
    assert table().is_system("rmq_sys_roquet_tables")


# --- queues of which a table says nothing ---


def test_a_topic_that_is_made_again_has_all_queues_of_the_store() -> None:
    topics = TopicTable(FakeClock(), built_in_topics(config()))
    topics.stored_queue_count = {"orders": 9, "%RETRY%g": 3, "young": 0}.__getitem__
    assert topics.create_by_send("orders", "TBW102", 4, may_create=True) == topic("orders", 9)
    assert topics.create_by_send("young", "TBW102", 4, may_create=True) == topic("young", 4)
    assert topics.find_or_create("%RETRY%g", 1) == topic("%RETRY%g", 3)


def test_a_slave_makes_topics_of_queues_that_grow() -> None:
    topics = table()
    assert topics.see_queue("orders", 2)
    assert not topics.see_queue("orders", 1)
    assert topics.see_queue("orders", 5)
    assert topics.see_queue("%RETRY%g", 0)
    for name, queue_id in (
        ("rmq_sys_roquet_tables", 0),
        ("SCHEDULE_TOPIC_XXXX", 3),
        ("no/name", 0),
        ("orders", QUEUE_COUNT_MAX),
    ):
        assert not topics.see_queue(name, queue_id)
    assert all_in(topics) == [topic("orders", 6), topic("%RETRY%g", 1)]


def test_where_the_log_brings_topics_nothing_is_made_of_queues() -> None:
    topics = copy_of(version(5, 7), topic("orders", 4))
    assert not topics.see_queue("deleted", 0)
    assert not topics.see_queue("orders", 7)


def test_a_topic_with_messages_that_no_copy_ever_had_is_kept() -> None:
    topics = table()
    topics.update(topic("mine"))
    topics.update(topic("empty"))
    topics.stored_queue_count = {"mine": 2, "empty": 0, "theirs": 2}.__getitem__
    topics.follow(of_master(version(0, 50), topic("theirs")))
    assert {each.topic_name for each in all_in(topics)} == {"mine", "theirs"}
    # What a copy had, and the next one has not, was deleted.
    topics.follow(of_master(version(0, 51)))
    assert {each.topic_name for each in all_in(topics)} == {"mine"}


def test_a_lost_table_is_made_of_the_queues_that_are_there() -> None:
    topics = table(topic("known", 2))
    made = topics.restore({"rmq_sys_roquet_tables": [0, 1], "orders": [0, 3], "known": [5]})
    assert made == ["orders"]
    assert {each.topic_name: each for each in all_in(topics)} == {
        "known": topic("known", 6),
        "orders": topic("orders", 4),
    }
