"""The push consumer against a live cluster of ours."""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from roquet import AsyncProducer, Message
from roquet.client.admin.admin import AsyncAdmin
from roquet.client.errors import BadArgument, NotOpen, RequestRefused, UsedAfterFork
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.consumer import AsyncPushConsumer
from roquet.client.push.listeners import Listener
from roquet.client.push.outcome import RetryLater
from roquet.client.received import ReceivedMessage
from roquet.net.errors import BadAddress
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.push_consumers import (
    GROUP,
    PATIENT_S,
    TOPIC,
    Inbox,
    committed,
    committed_soon,
    consumer,
    new_topic,
    numbers,
    send,
)

# What is wanted.


async def test_only_wanted_tags_arrive(cluster: LiveCluster, producer: AsyncProducer) -> None:
    await new_topic(cluster, 1)
    for tag in ("red", "green", "blue", "red"):
        await send(producer, tag.encode(), tags=tag)
    inbox = Inbox()
    reading = consumer(cluster, inbox)
    reading.subscribe(TOPIC, tags="red || blue")
    async with reading:
        await inbox.has(3)
    assert inbox.bodies == [b"red", b"blue", b"red"]
    assert committed(cluster) == 4


async def test_two_tags_of_one_hash_are_two_tags(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 1)
    await send(producer, b"no", tags="BB")
    await send(producer, b"yes", tags="Aa")
    inbox = Inbox()
    reading = consumer(cluster, inbox)
    reading.subscribe(TOPIC, tags="Aa")
    async with reading:
        await inbox.has(1)
    assert inbox.bodies == [b"yes"]
    assert committed(cluster) == 2


async def test_an_expression_picks_messages(cluster: LiveCluster, producer: AsyncProducer) -> None:
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a", sql_filters=True)
    await new_topic(cluster, 1)
    for price in (5, 25, 15):
        await send(producer, b"%d" % price, properties={"price": str(price)})
    inbox = Inbox()
    reading = consumer(cluster, inbox)
    reading.subscribe(TOPIC, sql="price BETWEEN 10 AND 20")
    async with reading:
        await inbox.has(1)
    assert inbox.bodies == [b"15"]
    assert committed(cluster) == 3


async def test_a_broker_that_does_not_filter_says_so_at_once(cluster: LiveCluster) -> None:
    await new_topic(cluster, 1)
    reading = AsyncPushConsumer(cluster.name_server, GROUP, print)
    reading.subscribe(TOPIC, sql="price > 10")
    for _ in range(2):
        with pytest.raises(RequestRefused, match="enablePropertyFilter"):
            await reading.open()
    await reading.close()


async def test_what_a_filter_of_the_program_drops_counts_as_done(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 1)
    await send(producer, *numbers(6))
    inbox = Inbox()
    async with consumer(
        cluster, inbox, message_filter=lambda message: int(message.body) in {1, 3}
    ) as reading:
        await inbox.has(2)
        await eventually(lambda: committed_soon(reading) == 6)
    assert inbox.bodies == [b"1", b"3"]
    assert committed(cluster) == 6


async def test_a_filter_that_fails_is_logged_and_drops_nothing(
    cluster: LiveCluster, producer: AsyncProducer, caplog: pytest.LogCaptureFixture
) -> None:
    await send(producer, b"no number")
    inbox = Inbox()
    async with consumer(cluster, inbox, message_filter=lambda message: int(message.body) > 1):
        await inbox.has(1)
    assert "counted as wanted" in caplog.text


async def test_a_topic_can_be_wanted_later_and_not_any_more(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await producer.send(Message("second", b"second"))
    await send(producer, b"first")
    inbox = Inbox()
    async with consumer(cluster, inbox) as reading:
        await inbox.has(1)
        reading.subscribe("second")
        await inbox.has(2)
        reading.unsubscribe(TOPIC)
        await eventually(lambda: TOPIC not in {queue.topic for queue in reading.queues()})
        await send(producer, b"unwanted")
        await producer.send(Message("second", b"wanted"))
        await inbox.has(3)
    assert inbox.bodies == [b"first", b"second", b"wanted"]


@pytest.mark.slow
async def test_a_topic_that_comes_to_be_later_is_read(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    inbox = Inbox()
    async with consumer(cluster, inbox):
        await send(producer, b"x")
        await inbox.has(1)


@pytest.mark.parametrize(
    "wanted", [{"tags": "a", "sql": "b > 1"}, {"tags": "||"}, {"sql": ""}], ids=str
)
def test_invalid_requests_are_refused(wanted: Any) -> None:
    reading = AsyncPushConsumer("127.0.0.1:1", GROUP)
    with pytest.raises(BadArgument):
        reading.subscribe(TOPIC, **wanted)


# Where a group starts, and goes on.


async def test_a_group_continues_where_it_was(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, *numbers(10))
    first, second = Inbox(), Inbox()
    async with consumer(cluster, first):
        await first.has(10)
    await send(producer, *numbers(5, 10))
    async with consumer(cluster, second):
        await second.has(5)
    assert Counter(second.bodies) == Counter(numbers(5, 10))


async def test_a_new_group_can_start_at_a_moment(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 1)
    await send(producer, b"old")
    await asyncio.sleep(0.005)  # The clock of the store has milliseconds.
    moment = datetime.now(UTC)
    await send(producer, b"new")
    inbox = Inbox()
    # The broker would give a group without an offset the first message of such a small queue.
    cluster.brokers["broker-a"].tables.offsets.forget_group(GROUP)
    async with consumer(cluster, inbox, start_from=moment):
        await inbox.has(1)
    assert inbox.bodies[-1] == b"new"


async def test_an_offset_the_queue_does_not_have_is_corrected(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 1)
    await send(producer, b"x")
    cluster.brokers["broker-a"].tables.offsets.commit(GROUP, TOPIC, 0, 1000)
    inbox = Inbox()
    async with consumer(cluster, inbox):
        await eventually(lambda: committed(cluster) == 1)
        await send(producer, b"y")
        await inbox.has(1)
    assert inbox.bodies == [b"y"]


# Not too much at once.


@pytest.mark.parametrize(
    "limit",
    [
        {"queue_count_max": 10},
        {"queue_size_max": 2000},
        {"queue_span_max": 9},
        {"topic_count_max": 10},
    ],
    ids=str,
)
async def test_no_more_is_pulled_than_there_is_room_for(
    cluster: LiveCluster, producer: AsyncProducer, limit: Any
) -> None:
    await new_topic(cluster, 1)
    await producer.send_batch([Message(TOPIC, body) for body in numbers(100)])
    may_end = asyncio.Event()
    done: list[bytes] = []

    async def listen(message: ReceivedMessage) -> None:
        await may_end.wait()
        done.append(message.body)

    async with consumer(cluster, listen, pull_count=4, **limit) as reading:
        await eventually(lambda: reading.statistics().running_count > 0)
        await asyncio.sleep(0.1)  # Time enough to pull it all, if it did.
        assert 4 <= reading.statistics().topics[TOPIC].pulled_count <= 16
        may_end.set()
        await eventually(lambda: len(done) == 100)


async def test_one_pull_brings_more_than_apaches_brokers_answer(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 1)
    await producer.send_batch([Message(TOPIC, body) for body in numbers(100)])
    inbox = Inbox()
    async with consumer(cluster, inbox) as reading:
        await inbox.has(100)
        assert reading.statistics().topics[TOPIC].pull_count == 1


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 128),
        ({"pull_count": 4}, 4),
        ({"queue_count_max": 100}, 100),
        ({"queue_count_max": 1}, 32),
        ({"topic_count_max": 1000}, 32),
        ({"batch_size": 50}, 100),
        ({"batch_size": 200}, 200),
    ],
)
def test_a_pull_brings_whole_batches_and_no_more_than_the_queue_may_hold(
    options: dict[str, Any], count: int
) -> None:
    config = PushConsumerConfig(name_server="127.0.0.1:1", group="billing", **options)
    assert config.pull_count_max == count


@pytest.mark.slow
async def test_a_consumer_can_rest(cluster: LiveCluster, producer: AsyncProducer) -> None:
    inbox = Inbox()
    async with consumer(cluster, inbox) as reading:
        await send(producer, b"first")
        await inbox.has(1)
        reading.pause()
        await send(producer, b"second")
        await asyncio.sleep(0.1)  # Time enough to deliver it, if it did.
        assert inbox.bodies == [b"first"]
        reading.resume()
        await inbox.has(2)


# Several members.


async def test_members_share_the_queues(cluster: LiveCluster, producer: AsyncProducer) -> None:
    await new_topic(cluster, 4)
    first, second = Inbox(), Inbox()
    async with consumer(cluster, first) as one:
        assert len(one.queues()) == 4
        async with consumer(cluster, second) as two:
            await eventually(lambda: len(one.queues()) == len(two.queues()) == 2)
            assert not set(one.queues()) & set(two.queues())
            await send(producer, *numbers(40))
            await eventually(lambda: len(first.messages) + len(second.messages) >= 40)
            assert first.messages
            assert second.messages
        await eventually(lambda: len(one.queues()) == 4)
        await send(producer, *numbers(8, 40))
        await eventually(lambda: len(first.messages) + len(second.messages) >= 48)
    assert Counter(first.bodies + second.bodies) == Counter(numbers(48))


async def test_a_queue_that_is_lost_is_not_committed_by_what_still_runs(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 2)
    await send(producer, *numbers(2))
    may_end = asyncio.Event()
    ended: list[bytes] = []

    async def listen(message: ReceivedMessage) -> None:
        await may_end.wait()
        ended.append(message.body)

    again = Inbox()
    async with consumer(cluster, listen) as one:
        await eventually(lambda: one.statistics().running_count == 2)
        async with consumer(cluster, again) as two:
            await again.has(1)
            may_end.set()
            await eventually(lambda: len(ended) == 2)
            # The new owner alone says how far the group is.
            (queue,) = two.queues()
            assert queue not in one.queues()
            await send(producer, *numbers(2, 2))
            await again.has(2)
    assert committed(cluster) == 4


@pytest.mark.slow
async def test_everybody_gets_everything_in_broadcasting(
    cluster: LiveCluster, producer: AsyncProducer, tmp_path: Path
) -> None:
    inboxes = [Inbox(), Inbox(ZeroDivisionError())]
    members = [
        consumer(
            cluster,
            inbox,
            broadcasting=True,
            offsets_directory=tmp_path / "offsets",
            instance_name=f"member-{number}",
        )
        for number, inbox in enumerate(inboxes)
    ]
    async with members[0], members[1]:
        await send(producer, *numbers(10))
        for inbox in inboxes:
            await inbox.has(10)
    for inbox in inboxes:
        assert Counter(inbox.bodies) == Counter(numbers(10))
    assert not cluster.all_stored(f"%RETRY%{GROUP}")
    files = await asyncio.to_thread(lambda: list(tmp_path.glob("offsets/*/billing/offsets.json")))
    assert len(files) == 2


async def test_what_fails_in_broadcasting_is_logged_and_dropped_once(
    cluster: LiveCluster,
    producer: AsyncProducer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await new_topic(cluster, 1)
    await send(producer, *numbers(3))
    inbox = Inbox(None, ZeroDivisionError("broken"))
    async with consumer(
        cluster, inbox, broadcasting=True, offsets_directory=tmp_path, concurrency=1
    ) as reading:
        await eventually(lambda: committed_soon(reading) == 3)
        assert reading.statistics().topics[TOPIC].failed_count == 1
    assert inbox.bodies == numbers(3)
    (printed,) = [each for each in caplog.records if "broadcasting" in each.message]
    assert printed.exc_info is not None
    assert not cluster.all_stored(f"%RETRY%{GROUP}")
    assert not cluster.all_stored(f"%DLQ%{GROUP}")
    again = Inbox()
    async with consumer(cluster, again, broadcasting=True, offsets_directory=tmp_path):
        await send(producer, b"3")
        await again.has(1)
    assert again.bodies == [b"3"]


async def test_broadcasting_continues_where_it_was(
    cluster: LiveCluster, producer: AsyncProducer, tmp_path: Path
) -> None:
    for start in (0, 10):
        await send(producer, *numbers(10, start))
        inbox = Inbox()
        async with consumer(cluster, inbox, broadcasting=True, offsets_directory=tmp_path):
            await inbox.has(10)
        assert Counter(inbox.bodies) == Counter(numbers(10, start))


# What happens to the servers.


@pytest.mark.slow
async def test_it_continues_when_the_broker_returns(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    inbox = Inbox()
    async with consumer(cluster, inbox) as reading:
        await send(producer, b"before")
        await inbox.has(1)
        await cluster.stop_broker("broker-a")
        await eventually(lambda: reading.statistics().last_error)
        await cluster.start_broker("broker-a")
        await send(producer, b"after")
        await inbox.has(2)
    assert set(inbox.bodies) == {b"before", b"after"}


async def test_it_continues_without_name_servers(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    inbox = Inbox()
    await send(producer, b"before")
    async with consumer(cluster, inbox):
        await inbox.has(1)
        await cluster.stop_names()
        await send(producer, b"after")
        await inbox.has(2)
        await cluster.start_names()


@pytest.mark.slow
async def test_it_can_be_opened_before_there_are_servers(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"x")
    await cluster.stop_broker("broker-a")
    await cluster.stop_names()
    inbox = Inbox()
    reading = consumer(cluster, inbox)
    opening = asyncio.create_task(reading.open())
    await asyncio.sleep(0.05)
    await cluster.start_names()
    await cluster.start_broker("broker-a")
    await opening
    await inbox.has(1)
    await reading.close()


# What operators do.


@pytest.fixture
async def admin(cluster: LiveCluster) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(cluster.name_server) as admin:
        yield admin


@pytest.mark.parametrize("orderly", [True, False])
async def test_a_group_can_be_moved_back_while_it_reads(
    cluster: LiveCluster, producer: AsyncProducer, admin: AsyncAdmin, orderly: bool
) -> None:
    await new_topic(cluster, 2)
    await send(producer, *numbers(6))
    inbox = Inbox()
    # Offsets are saved all the time, also between here and there.
    async with consumer(cluster, inbox, orderly=orderly, commit_interval_s=0.001):
        await inbox.has(6)
        plan = await admin.plan_reset(GROUP, TOPIC, datetime.now(UTC) - timedelta(hours=1))
        await admin.apply_reset(plan)
        await inbox.has(12)
    assert Counter(inbox.bodies) == Counter(numbers(6) * 2)


async def test_it_says_what_it_does(
    cluster: LiveCluster, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    await send(producer, *numbers(4))
    inbox = Inbox()
    async with consumer(cluster, inbox):
        await inbox.has(4)
        (connection,) = (await admin.members(GROUP)).connections
        info = await admin.running_info(GROUP, connection.client_id)
    assert {queue.topic for queue in info.queues} >= {TOPIC}
    assert sum(each.committed_offset for each in info.queues.values()) == 4
    assert all(each.last_pull is not None for each in info.queues.values())
    assert info.properties["PROP_CONSUMEORDERLY"] == "false"
    assert info.subscriptions.keys() == {TOPIC, f"%RETRY%{GROUP}"}
    assert info.in_hand == ()


async def test_it_says_what_its_listeners_hold_and_where_they_wait(
    cluster: LiveCluster, producer: AsyncProducer, admin: AsyncAdmin
) -> None:
    await send(producer, b"1")
    is_called, may_return = asyncio.Event(), asyncio.Event()

    async def stuck_listener(_message: ReceivedMessage) -> None:
        is_called.set()
        await may_return.wait()

    async with consumer(cluster, stuck_listener):
        await is_called.wait()
        (client_id,) = (await admin.members(GROUP)).client_ids
        info = await admin.running_info(GROUP, client_id, with_stacks=True)
        may_return.set()
    assert info.in_hand is not None
    (held,) = info.in_hand
    assert (held.queue.topic, held.offset) == (TOPIC, 0)
    (stored,) = cluster.all_stored(TOPIC)
    assert held.message_id == stored.message_id
    assert timedelta() <= held.held < timedelta(minutes=1)
    assert "in stuck_listener" in (info.stacks or "")


# Its life.


async def test_closing_waits_for_what_runs(cluster: LiveCluster, producer: AsyncProducer) -> None:
    await send(producer, b"x")
    begun = threading.Event()
    may_end = threading.Event()
    ended: list[bytes] = []

    def listen(message: ReceivedMessage) -> None:
        begun.set()
        may_end.wait(PATIENT_S)
        ended.append(message.body)

    reading = consumer(cluster, listen)
    await reading.open()
    await eventually(begun.is_set)
    closing = asyncio.create_task(reading.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    may_end.set()
    await closing
    assert ended == [b"x"]
    assert committed(cluster) == 1


@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_closing_does_not_wait_for_ever(
    cluster: LiveCluster, producer: AsyncProducer, is_coroutine: bool
) -> None:
    await send(producer, b"x")
    may_end = threading.Event()

    def listen(_message: ReceivedMessage) -> None:
        may_end.wait(PATIENT_S)

    async def listen_in_loop(_message: ReceivedMessage) -> None:
        await asyncio.Event().wait()

    listener: Listener = listen_in_loop if is_coroutine else listen
    reading = consumer(cluster, listener, close_timeout_s=0.05)
    async with asyncio.timeout(PATIENT_S):
        await reading.open()
        await eventually(lambda: reading.statistics().running_count == 1)
        await reading.close()
    may_end.set()
    assert committed(cluster) == 0


async def test_closing_twice_is_fine_and_final(cluster: LiveCluster) -> None:
    reading = consumer(cluster, Inbox())
    await reading.close()
    await reading.close()
    with pytest.raises(NotOpen):
        await reading.open()
    with pytest.raises(NotOpen):
        reading.queues()


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
async def test_a_fork_needs_a_consumer_of_its_own(cluster: LiveCluster) -> None:
    async with consumer(cluster, Inbox()) as reading:
        child = os.fork()
        if not child:
            status = 1
            try:
                reading.queues()
            except UsedAfterFork:
                status = 0
            finally:
                os._exit(status)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


async def test_a_client_that_leaves_is_not_a_member_any_more(cluster: LiveCluster) -> None:
    await new_topic(cluster, 1)
    consumers = cluster.brokers["broker-a"].clients.consumers
    reading = consumer(cluster, Inbox())
    await reading.open()
    await eventually(lambda: consumers.find(GROUP) is not None)
    await reading.close()
    group = consumers.find(GROUP)
    assert group is None or not group.members


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": 1025},
        {"concurrency": 0},
        {"pull_count": 1025},
        {"retry_count_max": -1},
        {"consume_timeout_s": 0},
        {"start_from": datetime(2024, 1, 1)},  # noqa: DTZ001
        {"group": "a b"},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_at_once(options: Any) -> None:
    with pytest.raises(BadArgument):
        AsyncPushConsumer("127.0.0.1:1", **({"group": GROUP} | options))


def test_a_name_server_needs_a_port() -> None:
    with pytest.raises(BadAddress):
        AsyncPushConsumer("localhost", GROUP)
    with pytest.raises(BadArgument):
        AsyncPushConsumer(" ; ", GROUP)


@pytest.mark.slow
async def test_names_are_seen_without_their_namespace(cluster: LiveCluster) -> None:
    inbox = Inbox(RetryLater(delay_level=1))
    async with AsyncProducer(cluster.name_server, "shop", namespace="city") as producer:
        await producer.send(Message(TOPIC, b"x"))
    async with consumer(cluster, inbox, namespace="city") as reading:
        await inbox.has(2)
        assert {queue.topic for queue in reading.queues()} == {TOPIC}
    assert [message.topic for message in inbox.messages] == [TOPIC, TOPIC]
    assert committed(cluster, f"city%{TOPIC}", f"city%{GROUP}") == 1
