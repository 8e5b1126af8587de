"""The admin against live brokers of ours, two of them where it matters."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.groups import GroupSettings
from roquet.client.admin.progress import time_lag_of
from roquet.client.admin.topics import TopicSettings
from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.links import LinkSettings, Participant
from roquet.client.errors import (
    BadArgument,
    GroupNotFound,
    MessageNotFound,
    NoNameServer,
    NotConnected,
    NotOpen,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)
from roquet.client.group.start_offset import StartFrom
from roquet.client.producer.producer import AsyncProducer
from roquet.client.producer.receipt import SendReceipt
from roquet.client.pull.consumer import AsyncPullConsumer
from roquet.client.queue_ref import QueueRef
from roquet.clock import SystemClock
from roquet.net.address_server import read_source
from roquet.net.router import Reply, Request, Router, on
from roquet.protocol.bodies.body import MessageQueue, write_body
from roquet.protocol.bodies.clients import (
    ConsumerData,
    ConsumerRunningInfo,
    Heartbeat,
    SubscriptionData,
)
from roquet.protocol.bodies.offsets import ConsumeTimeSpan
from roquet.protocol.codes import Permission, RequestCode
from roquet.protocol.headers.groups import RunningInfoHeader
from roquet.protocol.messages.message import Message
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.raising import raises

TOPIC = "orders"
GROUP = "billing"
ONE_QUEUE = TopicSettings(read_queue_count=1, write_queue_count=1)
QUEUE = QueueRef(TOPIC, "broker-a", 0)


@pytest.fixture
async def admin(cluster: LiveCluster) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(cluster.name_server) as admin:
        yield admin


@pytest.fixture
async def topic(admin: AsyncAdmin) -> str:
    await admin.create_topic(TOPIC, ONE_QUEUE)
    return TOPIC


async def send(
    cluster: LiveCluster, *bodies: bytes, topic: str = TOPIC, **members: Any
) -> list[SendReceipt]:
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        return [await producer.send(Message(topic, body, **members)) for body in bodies]


def commit(cluster: LiveCluster, offset: int, group: str = GROUP, queue_id: int = 0) -> None:
    cluster.brokers["broker-a"].tables.offsets.commit(group, TOPIC, queue_id, offset)


@asynccontextmanager
async def member(cluster: LiveCluster) -> AsyncIterator[str]:
    """A consumer of the group that only says that it is there, and what it does when asked."""

    def say(server: None, request: Request[RunningInfoHeader]) -> Reply:
        return Reply(body=write_body(ConsumerRunningInfo(properties={"mood": "fine"})))

    def heartbeat(client_id: str) -> Heartbeat:
        data = ConsumerData(
            group_name=GROUP,
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            subscription_data_set=[SubscriptionData(topic=TOPIC, sub_string="red || blue")],
        )
        return Heartbeat(client_id=client_id, consumer_data_set=[data])

    routes = (on(RequestCode.GET_CONSUMER_RUNNING_INFO, RunningInfoHeader, say),)
    instance = ClientInstance(
        Participant("member", heartbeat, Router(None, routes)),
        LinkSettings(read_source(cluster.name_server)),
        SystemClock(),
    )
    await instance.open()
    try:
        await instance.routes.existing(TOPIC)
        await instance.heartbeats.beat()
        yield instance.id
    finally:
        await instance.close()


# Topics.


async def test_a_topic_is_made_changed_and_deleted(cluster: LiveCluster, admin: AsyncAdmin) -> None:
    await cluster.start_broker("broker-b")
    settings = TopicSettings(read_queue_count=3, write_queue_count=2)
    await admin.create_topic(TOPIC, settings)
    assert await admin.topics() == [TOPIC]
    assert await admin.topic_settings(TOPIC) == {"broker-a": settings, "broker-b": settings}
    await admin.create_topic(TOPIC, ONE_QUEUE, broker="broker-b")
    assert await admin.topic_settings(TOPIC) == {"broker-a": settings, "broker-b": ONE_QUEUE}
    await admin.delete_topic(TOPIC)
    assert await admin.topics() == []
    with pytest.raises(TopicNotFound):
        await admin.topic_settings(TOPIC)
    await admin.delete_topic(TOPIC)


async def test_a_route_says_where_a_topic_is(cluster: LiveCluster, admin: AsyncAdmin) -> None:
    await admin.create_topic(TOPIC, TopicSettings(read_queue_count=3, write_queue_count=2))
    (route,) = await admin.topic_route(TOPIC)
    port = cluster.brokers["broker-a"].config.listen_port
    assert (route.broker_name, route.cluster) == ("broker-a", "DefaultCluster")
    assert route.addresses == {0: f"127.0.0.1:{port}"}
    assert (route.read_queue_count, route.write_queue_count) == (3, 2)
    with raises(TopicNotFound, topic="absent", is_missing=True):
        await admin.topic_route("absent")


async def test_internal_topics_are_listed_when_they_are_wanted(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str
) -> None:
    async with member(cluster):
        everything = await admin.topics(with_internal=True)
        assert {topic, f"%RETRY%{GROUP}", "TBW102", "broker-a", "DefaultCluster"} <= set(everything)
        assert await admin.topics() == [topic]
        assert await admin.topics(cluster="DefaultCluster") == [topic]
        assert await admin.topics(cluster="another") == []


async def test_a_permission_is_all_that_changes(admin: AsyncAdmin) -> None:
    settings = TopicSettings(attributes={"message.type": "NORMAL"})
    await admin.create_topic(TOPIC, settings)
    await admin.set_topic_permission(TOPIC, Permission.READ)
    changed = TopicSettings(attributes=settings.attributes, permission=Permission.READ)
    assert await admin.topic_settings(TOPIC) == {"broker-a": changed}
    with pytest.raises(TopicNotFound, match="broker-x"):
        await admin.set_topic_permission(TOPIC, Permission.READ, broker="broker-x")


async def test_an_ordered_topic_has_its_queues_written_down(admin: AsyncAdmin) -> None:
    await admin.create_topic(TOPIC, TopicSettings(write_queue_count=4, is_ordered=True))
    assert await admin.kv_value("ORDER_TOPIC_CONFIG", TOPIC) == "broker-a:4"


async def test_writes_to_a_broker_are_forbidden_and_allowed(admin: AsyncAdmin, topic: str) -> None:
    assert await admin.forbid_writes("broker-a") > 0
    assert (await admin.topic_route(topic))[0].permission == Permission.READ
    assert await admin.allow_writes("broker-a") > 0
    assert (await admin.topic_route(topic))[0].permission == Permission.READ | Permission.WRITE


async def test_statistics_say_what_queues_hold(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str
) -> None:
    empty = await admin.topic_statistics(topic)
    assert (empty.message_count, empty.last_stored) == (0, None)
    await send(cluster, b"1", b"2")
    statistics = await admin.topic_statistics(topic)
    assert [(each.queue, each.max_offset) for each in statistics.queues] == [(QUEUE, 2)]
    assert statistics.message_count == 2
    assert statistics.last_stored is not None
    assert abs(datetime.now(UTC) - statistics.last_stored) < timedelta(minutes=1)


async def test_the_oldest_messages_of_a_topic_are_known_by_queue(
    admin: AsyncAdmin, topic: str
) -> None:
    statistics = await admin.topic_statistics(topic)
    first = await admin.first_stored(topic)
    assert first.keys() == {each.queue for each in statistics.queues if each.message_count}
    assert all(each <= datetime.now(UTC) for each in first.values())


async def test_groups_of_a_topic_are_those_that_read_it(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str
) -> None:
    commit(cluster, 0, "archive")
    async with member(cluster):
        assert await admin.topic_groups(topic) == ["archive", GROUP]


# Groups.


async def test_a_group_is_made_changed_and_deleted(cluster: LiveCluster, admin: AsyncAdmin) -> None:
    await cluster.start_broker("broker-b")
    settings = GroupSettings(retry_count_max=3, may_broadcast=False)
    await admin.create_group(GROUP, settings)
    assert await admin.groups() == [GROUP]
    assert "TOOLS_CONSUMER" in await admin.groups(with_internal=True)
    await admin.create_group(GROUP, GroupSettings(is_enabled=False), broker="broker-b")
    assert await admin.group_settings(GROUP) == {
        "broker-a": settings,
        "broker-b": GroupSettings(is_enabled=False),
    }
    assert (await admin.all_group_settings())[GROUP] == await admin.group_settings(GROUP)
    await admin.delete_group(GROUP)
    assert await admin.groups() == []
    assert await admin.group_settings(GROUP) == {}


async def test_settings_of_a_group_that_have_no_name_here_are_kept(
    cluster: LiveCluster, admin: AsyncAdmin
) -> None:
    await admin.create_group(GROUP)
    found = cluster.brokers["broker-a"].tables.groups.find(GROUP)
    assert found is not None
    found.which_broker_when_consume_slowly = 7
    await admin.create_group(GROUP, GroupSettings(retry_count_max=1))
    changed = cluster.brokers["broker-a"].tables.groups.find(GROUP)
    assert changed is not None
    assert (changed.which_broker_when_consume_slowly, changed.retry_max_times) == (7, 1)


async def test_retries_go_with_their_group_but_dead_letters_stay(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str
) -> None:
    await admin.create_topic(f"%DLQ%{GROUP}", ONE_QUEUE)
    async with member(cluster):
        retry_topic = f"%RETRY%{GROUP}"
        await eventually(lambda: cluster.names.routes.route(retry_topic))
    await admin.delete_group(GROUP)
    topics = await admin.topics(with_internal=True)
    assert f"%DLQ%{GROUP}" in topics
    assert retry_topic not in topics


@pytest.mark.parametrize("keep_offsets", [True, False])
async def test_offsets_go_with_their_group_unless_they_are_kept(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str, keep_offsets: bool
) -> None:
    await admin.create_group(GROUP)
    commit(cluster, 1)
    await admin.delete_group(GROUP, keep_offsets=keep_offsets)
    found = cluster.brokers["broker-a"].tables.offsets.find(GROUP, topic, 0)
    assert found == (1 if keep_offsets else None)


async def test_members_and_what_they_want_are_known(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str
) -> None:
    assert (await admin.members(GROUP)).connections == ()
    async with member(cluster) as client_id:
        members = await admin.members(GROUP)
        assert members.client_ids == [client_id]
        assert members.subscriptions == {topic: "red || blue"}
        assert members.message_model == "CLUSTERING"
        info = await admin.running_info(GROUP, client_id)
        assert info.properties == {"mood": "fine"}
    with pytest.raises(NotConnected):
        await admin.running_info(GROUP, client_id)


async def test_producers_are_known(admin: AsyncAdmin, cluster: LiveCluster, topic: str) -> None:
    assert await admin.producers("shop") == []
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        await producer.send(Message(topic, b"x"))
        producers = cluster.brokers["broker-a"].clients.producers
        await eventually(lambda: producers.members("shop"))
        (connection,) = await admin.producers("shop")
    assert connection.language == "PYTHON"
    assert connection.address is not None
    assert connection.address.startswith("127.0.0.1:")


# Progress.


async def test_progress_counts_what_is_left(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str
) -> None:
    await send(cluster, b"1", b"2", b"3")
    commit(cluster, 1)
    progress = await admin.progress(GROUP)
    (queue,) = progress.queues
    assert (queue.queue, queue.broker_offset, queue.consumer_offset) == (QUEUE, 3, 1)
    assert (queue.lag, progress.lag) == (2, 2)
    assert queue.last_taken is not None
    assert progress.time_lag is not None
    assert timedelta() <= progress.time_lag < timedelta(minutes=1)
    commit(cluster, 3)
    done = await admin.progress(GROUP, topic=topic)
    assert (done.lag, done.time_lag) == (0, timedelta())


async def test_progress_at_offset_0_takes_no_offsets_of_other_groups(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(cluster, b"1")
    commit(cluster, 0)
    monkeypatch.delattr(Brokers, "kept_offsets")
    (queue,) = (await admin.progress(GROUP)).queues
    assert (queue.consumer_offset, queue.lag) == (0, 1)


async def test_a_group_that_is_unknown_is_an_error(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str
) -> None:
    await send(cluster, b"1")
    with raises(GroupNotFound, group="typo"):
        await admin.progress("typo")
    with pytest.raises(GroupNotFound):
        await admin.progress("typo", topic=topic)
    await admin.create_group("typo")
    assert (await admin.progress("typo")).lag is None


async def test_a_queue_without_a_commit_counts_from_where_the_group_would_start(
    admin: AsyncAdmin, cluster: LiveCluster
) -> None:
    await admin.create_topic(TOPIC, TopicSettings(read_queue_count=3, write_queue_count=3))
    for _ in range(2):
        for queue_id in (0, 1):
            cluster.brokers["broker-a"].store.append(draft(topic=TOPIC, queue_id=queue_id))
    commit(cluster, 1)
    progress = await admin.progress(GROUP)
    committed, never, empty = progress.queues
    assert (committed.consumer_offset, committed.next_offset, committed.lag) == (1, 1, 1)
    # The topic is young, so whoever comes gets everything.
    assert (never.consumer_offset, never.next_offset, never.lag) == (None, 0, 2)
    assert never.time_lag is not None
    assert (empty.consumer_offset, empty.lag, empty.time_lag) == (None, 0, timedelta())
    assert progress.lag == 3


@pytest.mark.parametrize(("start", "lag"), [(StartFrom.FIRST, 2), (datetime.now(UTC), None)])
async def test_a_group_that_read_and_did_not_commit_has_a_lag(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str, start: StartFrom | datetime, lag: int
) -> None:
    await send(cluster, b"1", b"2")
    consumer = AsyncPullConsumer(cluster.name_server, GROUP, start_from=start, auto_commit=False)
    consumer.assign([QUEUE])
    async with consumer:
        progress = await admin.progress(GROUP)
    assert [(each.queue, each.consumer_offset) for each in progress.queues] == [(QUEUE, None)]
    assert progress.lag == lag


async def test_where_a_group_starts_in_an_old_topic_is_known_only_if_it_is_connected(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str
) -> None:
    store = cluster.brokers["broker-a"].config.store
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a", store=replace(store, memory_size=0))
    await send(cluster, b"1", b"2")
    await admin.create_group(GROUP)
    away = await admin.progress(GROUP, topic=topic)
    assert (away.lag, away.time_lag, away.queues[0].next_offset) == (None, None, None)
    async with member(cluster):
        there = await admin.progress(GROUP, topic=topic)
    assert (there.lag, there.time_lag, there.queues[0].next_offset) == (0, timedelta(), 2)


NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("consumer_offset", "delay_ms", "oldest_ms", "lag_ms"),
    [
        (5, 0, NOW_MS - 9000, 0),
        (3, 7000, NOW_MS - 9000, 7000),
        # Java subtracts -1 from now when the next message has expired.
        (1, NOW_MS + 1, NOW_MS - 9000, 9000),
        (1, NOW_MS + 1, -1, None),
    ],
)
def test_the_time_lag_is_the_age_of_what_comes_next(
    consumer_offset: int, delay_ms: int, oldest_ms: int, lag_ms: int | None
) -> None:
    queue = MessageQueue(topic=TOPIC, broker_name="a", queue_id=0)
    span = ConsumeTimeSpan(message_queue=queue, delay_time=delay_ms, min_time_stamp=oldest_ms)
    lag = None if lag_ms is None else timedelta(milliseconds=lag_ms)
    assert time_lag_of(consumer_offset, 5, span, NOW_MS) == lag


# Resets.


@pytest.mark.parametrize("is_online", [False, True])
@pytest.mark.parametrize(
    ("to", "target"),
    [
        (StartFrom.FIRST, 0),
        (StartFrom.LAST, 3),
        (1, 1),
        (99, 3),
        (datetime.fromtimestamp(0, UTC), 0),
        (datetime(2200, 1, 1, tzinfo=UTC), 3),
    ],
)
async def test_a_reset_is_planned_and_then_applied(
    admin: AsyncAdmin,
    cluster: LiveCluster,
    topic: str,
    to: StartFrom | int | datetime,
    target: int,
    is_online: bool,
) -> None:
    await send(cluster, b"1", b"2", b"3")
    await admin.create_group(GROUP)
    commit(cluster, 2)
    offsets = cluster.brokers["broker-a"].tables.offsets
    async with AsyncExitStack() as stack:
        members = (await stack.enter_async_context(member(cluster)),) if is_online else ()
        plan = await admin.plan_reset(GROUP, topic, to)
        (move,) = plan.moves
        assert (move.queue, move.current, move.target) == (QUEUE, 2, target)
        assert (plan.skipped_count, plan.repeated_count) == (max(0, target - 2), max(0, 2 - target))
        assert plan.members == members
        assert offsets.find(GROUP, topic, 0) == 2
        await admin.apply_reset(plan)
        assert offsets.find(GROUP, topic, 0) == target


async def test_one_queue_can_be_moved_alone(admin: AsyncAdmin, cluster: LiveCluster) -> None:
    await admin.create_topic(TOPIC, TopicSettings(read_queue_count=2, write_queue_count=2))
    for queue_id in (0, 1):
        cluster.brokers["broker-a"].store.append(draft(topic=TOPIC, queue_id=queue_id))
        commit(cluster, 1, queue_id=queue_id)
    await admin.create_group(GROUP)
    plan = await admin.plan_reset(GROUP, TOPIC, 0, queues=[QUEUE])
    assert [move.queue for move in plan.moves] == [QUEUE]
    await admin.apply_reset(plan)
    offsets = cluster.brokers["broker-a"].tables.offsets
    assert [offsets.find(GROUP, TOPIC, queue_id) for queue_id in (0, 1)] == [0, 1]
    with raises(BadArgument, argument="queues"):
        await admin.plan_reset(GROUP, TOPIC, 0, queues=[QUEUE._replace(queue_id=2)])


async def test_a_moment_needs_a_time_zone(admin: AsyncAdmin, topic: str) -> None:
    somewhere = datetime(2026, 1, 1)  # noqa: DTZ001  That is the mistake.
    with raises(BadArgument, argument="to"):
        await admin.plan_reset(GROUP, topic, somewhere)
    with raises(BadArgument, argument="begin"):
        await admin.messages_between(topic, begin=somewhere)
    with raises(BadArgument, argument="end"):
        await admin.messages_by_key(topic, "k", end=somewhere)


# Messages.


async def test_a_message_is_found_by_both_of_its_ids(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str
) -> None:
    _, receipt = await send(cluster, b"1", b"2")
    for message_id in (receipt.message_id, receipt.offset_id):
        found = await admin.message(topic, message_id)
        assert (found.body, found.queue, found.queue_offset) == (b"2", QUEUE, 1)
    with raises(MessageNotFound, topic=topic):
        await admin.message(topic, receipt.message_id[:-4] + "FFFF")
    with pytest.raises(MessageNotFound):
        await admin.message(topic, receipt.offset_id[:-4] + "0003")
    with raises(BadArgument, argument="message_id"):
        await admin.message(topic, "coffee")


async def test_an_id_alone_makes_no_producer_checked(admin: AsyncAdmin, topic: str) -> None:
    somewhere = asyncio.Event()
    server = await asyncio.start_server(lambda *_: somewhere.set(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(MessageNotFound):
        await admin.message(topic, f"7F000001{port:08X}{0:016X}")
    server.close()
    assert not somewhere.is_set()


async def test_messages_are_found_by_key_and_time(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str
) -> None:
    begin = datetime.now(UTC)
    await send(cluster, b"1", b"2", keys=("coffee", "k"))
    await send(cluster, b"3", keys=("tea",))
    found = await admin.messages_by_key(topic, "coffee")
    assert [message.body for message in found] == [b"1", b"2"]
    assert len(await admin.messages_by_key(topic, "coffee", count_max=1)) == 1
    assert await admin.messages_by_key(topic, "water") == []
    assert await admin.messages_by_key(topic, "tea", end=begin - timedelta(seconds=5)) == []
    tea = await admin.messages_by_key(topic, "tea", begin=begin - timedelta(seconds=5))
    assert [message.queue for message in tea] == [QUEUE]


async def test_messages_are_found_by_time(admin: AsyncAdmin, cluster: LiveCluster) -> None:
    await admin.create_topic(TOPIC, TopicSettings(read_queue_count=2, write_queue_count=2))
    store = cluster.brokers["broker-a"].store
    for number in range(100):
        store.append(draft(b"%d" % number, topic=TOPIC, queue_id=number % 2))
    stored = cluster.stored(TOPIC, 0) + cluster.stored(TOPIC, 1)
    first_ms = min(each.store_timestamp for each in stored)
    last_ms = max(each.store_timestamp for each in stored)
    for begin_ms, end_ms in ((first_ms, last_ms), (first_ms + 1, last_ms + 1), (last_ms, last_ms)):
        found = await admin.messages_between(
            TOPIC,
            begin=datetime.fromtimestamp(begin_ms / 1000, UTC),
            end=datetime.fromtimestamp(end_ms / 1000, UTC),
            count_max=1000,
        )
        wanted = [each.body for each in stored if begin_ms <= each.store_timestamp < end_ms]
        assert sorted(each.body for each in found) == sorted(wanted)
        times = [each.stored for each in found]
        assert times == sorted(times)
    everything = await admin.messages_between(TOPIC, count_max=70)
    assert len(everything) == 70


async def test_messages_are_found_by_their_place(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str
) -> None:
    await send(cluster, b"1", b"2", b"3")
    found = await admin.messages_of_queue(QUEUE, 1)
    assert [message.body for message in found] == [b"2", b"3"]
    assert len(await admin.messages_of_queue(QUEUE, 1, count_max=1)) == 1
    assert await admin.messages_of_queue(QUEUE, 7) == []


async def test_a_dead_letter_is_sent_again_as_it_was(
    admin: AsyncAdmin, cluster: LiveCluster, topic: str
) -> None:
    assert await admin.dead_letters(GROUP) == []
    dead_topic = f"%DLQ%{GROUP}"
    await admin.create_topic(dead_topic, ONE_QUEUE)
    marks = {"RETRY_TOPIC": TOPIC, "ORIGIN_MESSAGE_ID": "1", "UNIQ_KEY": "2", "city": "Köln"}
    store = cluster.brokers["broker-a"].store
    store.append(
        draft(b"dead", topic=dead_topic, properties=marks | {"TAGS": "red", "KEYS": "a b"})
    )
    (dead,) = await admin.dead_letters(GROUP)
    (receipt,) = await admin.resend([dead])
    (stored,) = cluster.stored(topic)
    assert (stored.body, stored.tags, stored.keys) == (b"dead", "red", ("a", "b"))
    assert stored.properties["city"] == "Köln"
    assert stored.message_id == receipt.message_id != "2"
    assert "RETRY_TOPIC" not in stored.properties
    (alive,) = await admin.messages_of_queue(QUEUE, 0)
    with raises(BadArgument, argument="dead_letters"):
        await admin.resend([alive])


# The cluster.


async def test_brokers_are_described(admin: AsyncAdmin) -> None:
    (broker,) = await admin.brokers()
    assert (broker.cluster, broker.broker_name, broker.broker_id) == (
        "DefaultCluster",
        "broker-a",
        0,
    )
    assert broker.is_master
    assert broker.version == "V4_9_8"
    assert broker.put_rate is not None
    assert 0 <= (broker.disk_used_ratio or -1) <= 1
    assert broker.error is None


async def test_a_broker_shows_and_changes_its_settings(
    admin: AsyncAdmin, cluster: LiveCluster
) -> None:
    address = (await admin.brokers())[0].address
    assert (await admin.broker_config(address))["brokerName"] == "broker-a"
    await admin.update_broker_config(address, {"fileReservedTime": "5"})
    assert (await admin.broker_config(address))["fileReservedTime"] == "5"
    assert "commitLogMaxOffset" in await admin.broker_runtime(address)
    with pytest.raises(RequestRefused):
        await admin.update_broker_config(address, {"storePathRootDir": "elsewhere"})


async def test_name_servers_keep_settings(admin: AsyncAdmin) -> None:
    assert await admin.kv_table("house") == {}
    await admin.put_kv("house", "door", "open")
    assert await admin.kv_table("house") == {"door": "open"}
    assert await admin.kv_value("house", "door") == "open"
    await admin.delete_kv("house", "door")
    assert await admin.kv_value("house", "door") is None


async def test_names_are_those_of_the_namespace(cluster: LiveCluster, admin: AsyncAdmin) -> None:
    async with AsyncAdmin(cluster.name_server, namespace="east") as east:
        await east.create_topic(TOPIC, ONE_QUEUE)
        await east.create_group(GROUP)
        assert await east.topics() == [TOPIC]
        assert await east.groups() == [GROUP]
        assert (await east.topic_statistics(TOPIC)).queues[0].queue == QUEUE
        await admin.create_topic("west", ONE_QUEUE)
        assert await east.topics() == [TOPIC]
    assert await admin.topics() == [f"east%{TOPIC}", "west"]


# What may go wrong.


async def test_an_admin_is_used_between_open_and_close(cluster: LiveCluster) -> None:
    admin = AsyncAdmin(cluster.name_server)
    with raises(NotOpen, what="admin", was_open=False):
        await admin.topics()
    await admin.open()
    await admin.open()
    await admin.topics()
    await admin.close()
    await admin.close()
    with raises(NotOpen, what="admin", was_open=True):
        await admin.topics()


@pytest.mark.parametrize("options", [{"timeout_s": 0}, {"timeout_s": -1.0}])
def test_invalid_values_are_refused_at_once(options: dict[str, Any]) -> None:
    with raises(BadArgument, argument="timeout_s"):
        AsyncAdmin("127.0.0.1:1", **options)


async def test_errors_name_the_server_that_did_not_answer(
    cluster: LiveCluster, admin: AsyncAdmin
) -> None:
    with raises(BadArgument, argument="broker"):
        await admin.create_topic(TOPIC, cluster="west", broker="broker-x")
    with raises(BadArgument, argument="topic"):
        await admin.create_topic("no blanks")
    with raises(Unreachable, broker="127.0.0.1:1"):
        await admin.broker_config("127.0.0.1:1")
    await cluster.stop_names()
    with pytest.raises(NoNameServer):
        await admin.topics()
    with pytest.raises(NoNameServer):
        await admin.put_kv("house", "door", "open")


async def test_brokers_hear_nothing_of_an_admin(admin: AsyncAdmin, cluster: LiveCluster) -> None:
    await admin.create_topic(TOPIC)
    await admin.topic_statistics(TOPIC)
    assert not list(cluster.brokers["broker-a"].clients.producers.groups())
