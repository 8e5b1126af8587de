"""The embedded cluster: real servers, which come and go, and a clock that moves."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from roquet import AsyncProducer, Message, Producer
from roquet.broker.membership import expire_clients
from roquet.broker.replication.failover.own_etcd import EtcdMissing
from roquet.client.errors import BadArgument, ClientError, NotOpen, RequestRefused
from roquet.testing import BlockingCluster, Cluster
from tests.support.eventually import eventually, wait_until
from tests.support.inner_parts import broker_of
from tests.support.raising import raises
from tests.support.stores import bodies

HOUR = timedelta(hours=1)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster() as cluster:
        yield cluster


@pytest.fixture
async def producer(cluster: Cluster) -> AsyncIterator[AsyncProducer]:
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        yield producer


def stored(cluster: Cluster, topic: str, broker: str = "broker-a") -> list[bytes]:
    """The bodies of queue 0."""
    return bodies(broker_of(cluster, broker).store, topic)


async def test_messages_are_taken_and_kept(cluster: Cluster, producer: AsyncProducer) -> None:
    topic = await cluster.new_topic(queues=1)
    await producer.send(Message(topic, b"hello"))
    assert stored(cluster, topic) == [b"hello"]


async def test_new_topics_have_names_of_their_own(cluster: Cluster) -> None:
    names = [await cluster.new_topic() for _ in range(3)]
    assert len(set(names)) == 3
    assert await cluster.new_topic("orders") == "orders"


async def test_a_new_topic_has_its_queues_on_every_broker() -> None:
    async with (
        Cluster(brokers=2) as cluster,
        AsyncProducer(cluster.name_server, "shop") as producer,
    ):
        topic = await cluster.new_topic(queues=3)
        queues = await producer.queues(topic)
    assert sorted((queue.broker_name, queue.queue_id) for queue in queues) == [
        (name, number) for name in ("broker-a", "broker-b") for number in range(3)
    ]


async def test_a_topic_that_cannot_be_is_refused(cluster: Cluster) -> None:
    with pytest.raises(RequestRefused, match="no topic"):
        await cluster.new_topic("not a name")


@pytest.mark.parametrize(
    ("delay", "level"), [(None, 17), (HOUR, None)], ids=["by level", "by timer"]
)
async def test_a_delayed_message_arrives_when_the_clock_is_moved(
    cluster: Cluster, producer: AsyncProducer, delay: timedelta | None, level: int | None
) -> None:
    topic = await cluster.new_topic(queues=1)
    await producer.send(Message(topic, b"late"), delay=delay, delay_level=level)
    cluster.clock.advance(HOUR / 2)
    await producer.send(Message(topic, b"early"))
    assert stored(cluster, topic) == [b"early"]
    cluster.clock.advance(HOUR)
    # Without the clock's notice the broker would look again after a second.
    await eventually(lambda: stored(cluster, topic) == [b"early", b"late"], patience_s=0.9)


@pytest.mark.parametrize("is_moment", [False, True], ids=["time", "moment"])
async def test_delays_are_counted_from_the_moved_clock(
    cluster: Cluster, producer: AsyncProducer, is_moment: bool
) -> None:
    topic = await cluster.new_topic(queues=1)
    cluster.clock.advance(24 * HOUR)
    delay = cluster.clock.now() + HOUR if is_moment else HOUR
    await producer.send(Message(topic, b"late"), delay=delay)
    await producer.send(Message(topic, b"early"))
    cluster.clock.advance(HOUR)
    await eventually(lambda: stored(cluster, topic) == [b"early", b"late"])


async def test_moving_the_clock_expires_no_peer(cluster: Cluster, producer: AsyncProducer) -> None:
    topic = await cluster.new_topic(queues=1)
    await producer.send(Message(topic, b"1"))
    cluster.clock.advance(48 * HOUR)
    broker = broker_of(cluster)
    expire_clients(broker)
    assert "shop" in broker.clients.producers.groups()


async def test_a_restarted_broker_has_its_messages_and_its_address(
    cluster: Cluster, producer: AsyncProducer
) -> None:
    topic = await cluster.new_topic(queues=1)
    await producer.send(Message(topic, b"before"))
    address = cluster.broker_address()
    await cluster.restart_broker()
    assert cluster.broker_address() == address
    await producer.send(Message(topic, b"after"))
    assert stored(cluster, topic) == [b"before", b"after"]


@pytest.mark.slow
async def test_delays_survive_a_restart_on_a_moved_clock(
    cluster: Cluster, producer: AsyncProducer
) -> None:
    topic = await cluster.new_topic(queues=1)
    await producer.send(Message(topic, b"late"), delay=HOUR)
    await cluster.stop_broker()
    cluster.clock.advance(HOUR)
    await cluster.start_broker()
    await eventually(lambda: stored(cluster, topic) == [b"late"])


async def test_a_stopped_name_server_returns_with_its_routes(cluster: Cluster) -> None:
    topic = await cluster.new_topic()
    before = cluster.name_server
    await cluster.stop_name_server()
    await cluster.stop_name_server()
    await cluster.start_name_server()
    await cluster.start_name_server()
    assert cluster.name_server == before
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        await producer.send(Message(topic, b"hello"))


async def test_settings_are_those_of_a_broker() -> None:
    async with Cluster(settings={"autoCreateTopicEnable": "false"}) as cluster:
        assert not broker_of(cluster).config.create_topics


async def test_a_cluster_that_cannot_start_leaves_nothing_behind() -> None:
    cluster = Cluster(settings={"no.such.key": "1"})
    with raises(BadArgument, argument="settings"):
        await cluster.open()
    assert cluster._directory is not None
    assert not cluster._directory.exists()
    with pytest.raises(NotOpen):
        await cluster.open()


async def test_the_directory_goes_with_the_cluster() -> None:
    async with Cluster() as cluster:
        directory = cluster._directory
        assert isinstance(directory, Path)
        assert directory.exists()
    assert not directory.exists()
    assert len(asyncio.all_tasks()) == 1


async def test_opening_and_closing_twice_is_fine() -> None:
    cluster = Cluster()
    await cluster.open()
    address = cluster.name_server
    await cluster.open()
    assert cluster.name_server == address
    await cluster.close()
    await cluster.close()


async def test_what_is_not_open_has_no_address_and_no_clock_to_obey() -> None:
    cluster = Cluster()
    with raises(NotOpen, was_open=False):
        cluster.name_server  # noqa: B018
    async with cluster:
        pass
    cluster.clock.advance(HOUR)
    with raises(NotOpen, was_open=True):
        await cluster.new_topic()


@pytest.mark.parametrize("count", [0, 27])
def test_there_are_as_many_brokers_as_letters(count: int) -> None:
    with raises(BadArgument, argument="brokers"):
        Cluster(brokers=count)


async def test_a_broker_that_is_not_there_is_named(cluster: Cluster) -> None:
    with raises(BadArgument, argument="name"):
        await cluster.stop_broker("broker-z")


def public_methods(kind: type) -> dict[str, Callable[..., Any]]:
    return {
        name: method
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") or name == "__init__"
    }


def test_the_blocking_cluster_has_the_same_methods() -> None:
    twins = public_methods(BlockingCluster)
    assert {name: inspect.signature(method) for name, method in twins.items()} == {
        name: inspect.signature(method) for name, method in public_methods(Cluster).items()
    }
    assert not any(map(inspect.iscoroutinefunction, twins.values()))


def test_programs_without_a_loop_have_a_cluster_too() -> None:
    with BlockingCluster() as cluster, Producer(cluster.name_server, "shop") as producer:
        topic = cluster.new_topic(queues=1)
        producer.send(Message(topic, b"1"))
        for action in (
            cluster.restart_broker,
            cluster.stop_name_server,
            cluster.start_name_server,
            cluster.stop_broker,
            cluster.start_broker,
        ):
            action()
        cluster.clock.advance(HOUR)
        assert cluster.broker_names == ["broker-a"]
        assert producer.send(Message(topic, b"2")).queue_offset == 1
    cluster.close()


def test_a_blocking_cluster_that_cannot_start_ends_its_thread() -> None:
    cluster = BlockingCluster(settings={"no.such.key": "1"})
    with pytest.raises(BadArgument):
        cluster.open()
    assert not cluster._thread.is_running


@pytest.mark.parametrize("count", [-1, 9])
def test_a_broker_has_a_few_slaves_at_most(count: int) -> None:
    with raises(BadArgument, argument="replicas"):
        Cluster(replicas=count)


def test_a_replacement_has_to_exist() -> None:
    with raises(BadArgument, argument="replicas"):
        Cluster(failover=True)


async def test_a_master_without_slaves_is_not_killed(cluster: Cluster) -> None:
    with pytest.raises(BadArgument, match="has no slaves"):
        await cluster.kill_master()


def test_a_blocking_cluster_has_slaves_too() -> None:
    with BlockingCluster(replicas=1) as cluster, Producer(cluster.name_server, "shop") as producer:
        topic = cluster.new_topic(queues=1)
        producer.send(Message(topic, b"hello"))
        cluster.copied()
        cluster.kill_master()
        assert [each.body for each in cluster.received(topic)] == [b"hello"]


@pytest.mark.slow
@pytest.mark.xdist_group("replication")
async def test_with_failover_a_killed_master_is_replaced_and_nothing_is_lost() -> None:
    async with (
        Cluster(replicas=2, failover=True) as cluster,
        AsyncProducer(cluster.name_server, "shop") as producer,
    ):
        topic = await cluster.new_topic(queues=1)
        acknowledged = []
        for number in range(3):
            await _send_until_acknowledged(producer, topic, b"%d" % number)
            acknowledged.append(b"%d" % number)
            killed = await cluster.kill_master()
            assert await cluster.elected() != killed
            await _send_until_acknowledged(producer, topic, b"%d again" % number)
            acknowledged.append(b"%d again" % number)
            await cluster.start_broker(killed)
            await cluster.copied()
        received = [each.body for each in cluster.received(topic)]
        # What was sent again after an unknown end may be there twice.
        assert list(dict.fromkeys(received)) == acknowledged


@pytest.mark.slow
@pytest.mark.xdist_group("replication")
def test_with_one_replica_sends_are_safe_again_when_the_killed_one_is_back() -> None:
    with (
        BlockingCluster(replicas=1, failover=True) as cluster,
        Producer(cluster.name_server, "shop") as producer,
    ):
        topic = cluster.new_topic(queues=1)
        producer.send(Message(topic, b"1"))
        killed = cluster.kill_master()
        assert (killed, cluster.elected()) == ("broker-a", "broker-a/1")
        cluster.start_broker(killed)
        wait_until(lambda: _is_acknowledged(producer, Message(topic, b"2")))
        bodies = [each.body for each in cluster.received(topic)]
        assert list(dict.fromkeys(bodies)) == [b"1", b"2"]


async def test_without_etcd_the_error_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EtcdMissing):
        await Cluster(replicas=1, failover=True).open()


async def _send_until_acknowledged(producer: AsyncProducer, topic: str, body: bytes) -> None:
    async with asyncio.timeout(60):
        while True:
            with suppress(ClientError):
                await producer.send(Message(topic, body))
                return
            await asyncio.sleep(0.02)


def _is_acknowledged(producer: Producer, message: Message) -> bool:
    try:
        producer.send(message)
    except ClientError:
        return False
    return True
