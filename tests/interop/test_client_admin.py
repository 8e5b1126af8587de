"""Our admin at Apache's servers and at ours: one contract, with Java clients to look at."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from roquet import (
    Admin,
    GroupSettings,
    Message,
    Producer,
    QueueRef,
    StartFrom,
    TopicReader,
    TopicSettings,
)
from roquet.client.errors import (
    GroupNotFound,
    MembersConnected,
    MessageNotFound,
    TopicNotFound,
)
from roquet.protocol.codes import Permission
from tests.support.client_servers import ClientServer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import JavaPushConsumer, Subscription, bodies
from tests.support.java_driver import JavaDriver

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]

TIMEOUT_S = 20.0
ONE_QUEUE = TopicSettings(read_queue_count=1, write_queue_count=1)


@pytest.fixture
def java(server: ClientServer, java_drivers: Callable[[ApacheVersion], JavaDriver]) -> JavaDriver:
    return java_drivers(server.java_version)


@pytest.fixture
def admin(server: ClientServer) -> Iterator[Admin]:
    with Admin(server.name_server, timeout_s=TIMEOUT_S) as admin:
        yield admin


@pytest.fixture
def producer(server: ClientServer, new_name: NewName) -> Iterator[Producer]:
    with Producer(server.name_server, new_name("producers")) as producer:
        yield producer


class Filled(NamedTuple):
    """A topic of one queue with three messages."""

    topic: str
    queue: QueueRef
    message_ids: list[str]
    offset_ids: list[str]


@pytest.fixture
def filled(admin: Admin, producer: Producer, new_name: NewName) -> Filled:
    topic = new_name("topic")
    admin.create_topic(topic, ONE_QUEUE)
    receipts = [
        producer.send(Message(topic, b"%d" % number, keys=(f"key{number}", "all")), timeout_s=20)
        for number in range(3)
    ]
    return Filled(
        topic,
        receipts[0].queue,
        [each.message_id for each in receipts],
        [each.offset_id for each in receipts],
    )


def reader(java: JavaDriver, server: ClientServer, group: str, topic: str) -> JavaPushConsumer:
    options = {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}
    return JavaPushConsumer(java, server.name_server, group, Subscription(topic), options=options)


@pytest.fixture
def gone_group(
    admin: Admin, java: JavaDriver, server: ClientServer, filled: Filled, new_name: NewName
) -> str:
    """A group that has taken the three messages."""
    group = new_name("group")
    with reader(java, server, group, filled.topic) as consumer:
        assert len(consumer.received(3)) == 3

    def committed() -> list[int | None]:
        return [each.consumer_offset for each in admin.progress(group, topic=filled.topic).queues]

    # What a Java consumer commits when it ends is one-way, and Apache's brokers have many threads.
    # So a pull that carries an older offset may be the last to be counted.
    wait_until(lambda: committed() not in ([], [None]))
    with TopicReader(server.name_server) as reading:
        reading.commit(group, {filled.queue: 3})
    wait_until(lambda: committed() == [3])
    return group


# Topics and groups.


def test_a_topic_is_made_and_changed(admin: Admin, new_name: NewName) -> None:
    topic = new_name("topic")
    admin.create_topic(topic, TopicSettings(read_queue_count=3, write_queue_count=2))
    assert topic in admin.topics()
    (settings,) = admin.topic_settings(topic).values()
    assert (settings.read_queue_count, settings.write_queue_count) == (3, 2)
    admin.set_topic_permission(topic, Permission.READ)
    (route,) = admin.topic_route(topic)
    assert (route.read_queue_count, route.permission) == (3, Permission.READ)


def test_a_deleted_topic_is_gone(admin: Admin, server: ClientServer, new_name: NewName) -> None:
    if server.is_apache and server.java_version is ApacheVersion.V5_5_0:
        pytest.skip("5.5.0 fails to delete topics while its timers are off, as they are here")
    topic = new_name("topic")
    admin.create_topic(topic)
    admin.delete_topic(topic)
    assert topic not in admin.topics(with_internal=True)
    with pytest.raises(TopicNotFound):
        admin.topic_route(topic)


def test_only_topics_of_programs_are_listed(admin: Admin, filled: Filled, gone_group: str) -> None:
    topics = admin.topics()
    assert filled.topic in topics
    assert {f"%RETRY%{gone_group}", "TBW102"} <= set(admin.topics(with_internal=True)) - set(topics)


def test_statistics_of_a_topic(admin: Admin, filled: Filled) -> None:
    statistics = admin.topic_statistics(filled.topic)
    assert [(each.queue, each.min_offset, each.max_offset) for each in statistics.queues] == [
        (filled.queue, 0, 3)
    ]
    assert statistics.last_stored is not None
    assert abs(datetime.now(UTC) - statistics.last_stored) < timedelta(minutes=5)


def test_a_group_is_made_changed_and_deleted(admin: Admin, new_name: NewName) -> None:
    group = new_name("group")
    settings = GroupSettings(retry_count_max=3, may_broadcast=False)
    admin.create_group(group, settings)
    assert list(admin.group_settings(group).values()) == [settings]
    assert group in admin.groups()
    assert "TOOLS_CONSUMER" not in admin.groups()
    admin.delete_group(group)
    assert group not in admin.groups()


def test_connected_clients(
    admin: Admin,
    server: ClientServer,
    java: JavaDriver,
    producer: Producer,
    filled: Filled,
    new_name: NewName,
) -> None:
    group = new_name("group")
    assert admin.members(group).connections == ()
    with reader(java, server, group, filled.topic) as consumer:
        consumer.received(3)
        members = admin.members(group)
        assert [each.language for each in members.connections] == ["JAVA"]
        assert members.message_model == "CLUSTERING"
        assert members.subscriptions is not None
        assert members.subscriptions[filled.topic] == "*"
        info = admin.running_info(group, members.client_ids[0])
        assert filled.topic in {queue.topic for queue in info.queues}
        assert group in admin.topic_groups(filled.topic)


def test_apache_brokers_do_not_tell_which_messages_wait(admin: Admin, server: ClientServer) -> None:
    waiting = admin.waiting_messages()
    masters = {each.broker_name for each in admin.brokers() if each.is_master}
    assert set(waiting.unknown_at) == (masters if server.is_apache else set())
    assert (waiting.retries_of("any group") is None) is server.is_apache
    assert (waiting.halves_of("any topic") is None) is server.is_apache


def test_producers_are_known(
    admin: Admin, server: ClientServer, filled: Filled, new_name: NewName
) -> None:
    group = new_name("senders")
    assert admin.producers(group) == []
    with Producer(server.name_server, group) as producer:
        producer.send(Message(filled.topic, b"x"), timeout_s=TIMEOUT_S)
        wait_until(lambda: admin.producers(group))
        assert [each.language for each in admin.producers(group)] == ["PYTHON"]


# Progress and offsets.


def test_progress_of_a_java_group(
    admin: Admin, producer: Producer, filled: Filled, gone_group: str
) -> None:
    done = admin.progress(gone_group, topic=filled.topic)
    assert [(each.consumer_offset, each.lag) for each in done.queues] == [(3, 0)]
    assert done.time_lag == timedelta()
    producer.send(Message(filled.topic, b"late"), timeout_s=TIMEOUT_S)
    behind = admin.progress(gone_group, topic=filled.topic)
    (queue,) = behind.queues
    assert (queue.queue, queue.broker_offset, queue.lag) == (filled.queue, 4, 1)
    assert queue.last_taken is not None
    assert queue.time_lag is not None
    assert timedelta() <= queue.time_lag < timedelta(minutes=5)


def test_a_group_that_never_committed_has_everything_of_a_young_topic_left(
    admin: Admin, filled: Filled, new_name: NewName
) -> None:
    group = new_name("group")
    admin.create_group(group)
    plan = admin.plan_reset(group, filled.topic, StartFrom.LAST)
    assert [move.current for move in plan.moves] == [None]
    (queue,) = admin.progress(group, topic=filled.topic).queues
    assert (queue.consumer_offset, queue.lag) == (None, queue.broker_offset)
    with pytest.raises(GroupNotFound):
        admin.progress(new_name("group"), topic=filled.topic)


@pytest.mark.parametrize(
    ("to", "target"), [(StartFrom.FIRST, 0), (1, 1), (datetime.fromtimestamp(0, UTC), 0)]
)
def test_a_group_that_is_away_is_moved(
    admin: Admin,
    server: ClientServer,
    java: JavaDriver,
    filled: Filled,
    gone_group: str,
    to: StartFrom | int | datetime,
    target: int,
) -> None:
    plan = admin.plan_reset(gone_group, filled.topic, to)
    assert [(move.current, move.target) for move in plan.moves] == [(3, target)]
    assert plan.members == ()
    admin.apply_reset(plan)
    (queue,) = admin.progress(gone_group, topic=filled.topic).queues
    assert queue.consumer_offset == target
    with reader(java, server, gone_group, filled.topic) as consumer:
        again = bodies(consumer.received(3 - target))
    assert sorted(again) == [b"%d" % number for number in range(target, 3)]


def test_a_group_that_is_connected_is_moved(
    admin: Admin, server: ClientServer, java: JavaDriver, filled: Filled, new_name: NewName
) -> None:
    group = new_name("group")
    with reader(java, server, group, filled.topic) as consumer:
        consumer.received(3)
        plan = admin.plan_reset(group, filled.topic, StartFrom.FIRST)
        assert len(plan.members) == 1
        if server.java_version is ApacheVersion.V4_9_7:
            with pytest.raises(MembersConnected):
                admin.apply_reset(admin.plan_reset(group, filled.topic, 1))
        admin.apply_reset(plan)
        # Java clients rest for ten seconds before they follow.
        assert sorted(bodies(consumer.received(3, wait_s=60))) == [b"0", b"1", b"2"]


# Messages.


def test_a_message_is_found_by_each_of_its_names(admin: Admin, filled: Filled) -> None:
    # An Apache broker indexes a moment after it has stored.
    wait_until(lambda: admin.messages_by_key(filled.topic, "all")[2:])
    for message_id in (filled.message_ids[1], filled.offset_ids[1]):
        found = admin.message(filled.topic, message_id)
        assert (found.body, found.queue, found.queue_offset) == (b"1", filled.queue, 1)
    by_key = admin.messages_by_key(filled.topic, "key1")
    assert [each.message_id for each in by_key] == [filled.message_ids[1]]
    assert [each.body for each in admin.messages_by_key(filled.topic, "all")] == [b"0", b"1", b"2"]
    with pytest.raises(MessageNotFound):
        admin.message(filled.topic, filled.message_ids[1][:-4] + "FFFF")


def test_messages_are_found_by_time_and_place(
    admin: Admin, producer: Producer, filled: Filled
) -> None:
    first = admin.messages_of_queue(filled.queue, 0)
    assert [each.body for each in first] == [b"0", b"1", b"2"]
    cut = first[-1].stored + timedelta(milliseconds=1)
    wait_until(lambda: datetime.now(UTC) >= cut)
    producer.send(Message(filled.topic, b"late"), timeout_s=TIMEOUT_S)
    before = admin.messages_between(filled.topic, end=cut)
    assert [each.body for each in before] == [b"0", b"1", b"2"]
    assert [each.body for each in admin.messages_between(filled.topic, begin=cut)] == [b"late"]


def test_dead_letters_of_a_java_group_are_sent_again(
    admin: Admin,
    server: ClientServer,
    java: JavaDriver,
    producer: Producer,
    new_name: NewName,
) -> None:
    topic, group = new_name("topic"), new_name("group")
    admin.create_topic(topic, ONE_QUEUE)
    with JavaPushConsumer(
        java,
        server.name_server,
        group,
        Subscription(topic),
        failures=99,
        options={"maxReconsumeTimes": 0},
    ) as consumer:
        message = Message(topic, b"bad", tags="red", properties={"city": "Köln"})
        producer.send(message, timeout_s=TIMEOUT_S)
        consumer.received(1)
        wait_until(lambda: admin.dead_letters(group))
    (dead,) = admin.dead_letters(group)
    assert (dead.body, dead.properties["city"]) == (b"bad", "Köln")
    (receipt,) = admin.resend([dead])
    (again,) = admin.messages_of_queue(receipt.queue, receipt.queue_offset)
    assert (again.topic, again.body, again.tags) == (topic, b"bad", "red")
    assert again.properties["city"] == "Köln"


# The cluster.


def test_brokers_and_their_settings(admin: Admin, server: ClientServer) -> None:
    (broker,) = admin.brokers()
    assert (broker.address, broker.broker_id, broker.error) == (server.broker, 0, None)
    is_5 = server.is_apache and server.java_version is ApacheVersion.V5_5_0
    assert (broker.version or "").startswith("V5" if is_5 else "V4_9")
    assert broker.put_rate is not None
    assert "commitLogMaxOffset" in admin.broker_runtime(broker.address)
    before = admin.broker_config(broker.address)["fileReservedTime"]
    for hours in ("49", before):
        admin.update_broker_config(broker.address, {"fileReservedTime": hours})
        assert admin.broker_config(broker.address)["fileReservedTime"] == hours


def test_settings_of_name_servers(admin: Admin, new_name: NewName) -> None:
    namespace = new_name("house")
    assert admin.kv_table(namespace) == {}
    admin.put_kv(namespace, "door", "open")
    assert admin.kv_table(namespace) == {"door": "open"}
    admin.delete_kv(namespace, "door")
    assert admin.kv_value(namespace, "door") is None
    broker_name = admin.brokers()[0].broker_name
    assert admin.forbid_writes(broker_name) > 0
    assert admin.allow_writes(broker_name) > 0
