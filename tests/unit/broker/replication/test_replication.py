"""A master and its slaves as whole brokers: what clients see of them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet import AsyncProducer, AsyncPullConsumer, Message, StartFrom
from roquet.broker.replication.replica_progress import Slave
from roquet.broker.settings.config import BrokerRole
from roquet.client.errors import NotYetSafe
from roquet.testing import Cluster
from tests.support.broker_bed import broker_bed
from tests.support.eventually import eventually
from tests.support.inner_parts import broker_of
from tests.support.stores import bodies

SLAVE = "broker-a/1"
GROUP = "group"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(replicas=1) as cluster:
        yield cluster


async def send(cluster: Cluster, topic: str, *texts: bytes) -> None:
    async with AsyncProducer(cluster.name_server, "producers") as producer:
        for text in texts:
            await producer.send(Message(topic, text))


async def consume(cluster: Cluster, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with AsyncPullConsumer(
        cluster.name_server, GROUP, start_from=StartFrom.FIRST
    ) as consumer:
        consumer.subscribe(topic)
        while len(found) < count:
            found += [each.body for each in await consumer.poll(timeout_s=1.0)]
        await consumer.commit()
    return found


@pytest.mark.slow
async def test_readers_continue_at_the_slave_and_are_not_thrown_back(cluster: Cluster) -> None:
    topic = await cluster.new_topic(queues=1)
    await send(cluster, topic, b"1", b"2")
    assert await consume(cluster, topic, 2) == [b"1", b"2"]
    await send(cluster, topic, b"3")
    await cluster.copied()

    await cluster.kill_master()
    assert await consume(cluster, topic, 1) == [b"3"]
    assert [each.body for each in cluster.received(topic)] == [b"1", b"2", b"3"]
    slave = broker_of(cluster, SLAVE)
    assert slave.tables.offsets.find(GROUP, topic, 0) == 3

    await cluster.start_broker()
    await cluster.copied()
    assert broker_of(cluster).tables.offsets.find(GROUP, topic, 0) == 3
    await send(cluster, topic, b"4")
    assert await consume(cluster, topic, 1) == [b"4"]
    await cluster.copied()
    assert bodies(slave.store, topic) == [b"1", b"2", b"3", b"4"]


@pytest.mark.slow
async def test_a_group_that_starts_while_the_master_is_away_is_served(cluster: Cluster) -> None:
    topic = await cluster.new_topic(queues=1)
    await send(cluster, topic, b"1", b"2")
    await cluster.copied()
    await cluster.kill_master()
    assert await consume(cluster, topic, 2) == [b"1", b"2"]


@pytest.mark.slow
async def test_a_sync_master_answers_when_its_slave_has_the_message() -> None:
    async with Cluster(replicas=1, settings={"brokerRole": "SYNC_MASTER"}) as cluster:
        topic = await cluster.new_topic(queues=1)
        slave = broker_of(cluster, SLAVE)
        await eventually(lambda: broker_of(cluster).replication.replicas.slaves)
        async with AsyncProducer(cluster.name_server, "producers") as producer:
            for number in range(10):
                receipt = await producer.send(Message(topic, b"%d" % number))
                assert slave.store.max_offset(topic, 0) == receipt.queue_offset + 1
        assert await consume(cluster, topic, 10)


@pytest.mark.slow
async def test_a_sync_master_without_a_slave_stores_and_says_that_it_is_not_safe() -> None:
    settings = {"brokerRole": "SYNC_MASTER"}
    async with Cluster(replicas=1, settings=settings) as cluster:
        topic = await cluster.new_topic(queues=1)
        await cluster.stop_broker(SLAVE)
        await eventually(lambda: not broker_of(cluster).replication.replicas.slaves)
        async with AsyncProducer(cluster.name_server, "producers") as producer:
            with pytest.raises(NotYetSafe):
                await producer.send(Message(topic, b"alone"))
        assert await consume(cluster, topic, 1) == [b"alone"]


@pytest.mark.slow
async def test_a_slave_copies_topics_groups_and_offsets(cluster: Cluster) -> None:
    topic = await cluster.new_topic(queues=3)
    master, slave = broker_of(cluster), broker_of(cluster, SLAVE)
    master.tables.groups.find_or_create(GROUP, may_create=True)
    master.tables.offsets.commit(GROUP, topic, 2, 17)
    await cluster.copied()
    assert slave.tables.topics.find(topic) == master.tables.topics.find(topic)
    assert slave.tables.groups.find(GROUP) == master.tables.groups.find(GROUP)
    assert slave.tables.offsets.find(GROUP, topic, 2) == 17
    assert slave.tables.topics.version == master.tables.topics.version
    master.tables.topics.delete(topic)
    master.tables.groups.delete(GROUP)
    await cluster.copied()
    assert slave.tables.topics.find(topic) is None
    assert slave.tables.groups.find(GROUP) is None


@pytest.mark.slow
async def test_what_a_slave_has_survives_its_restart(cluster: Cluster) -> None:
    topic = await cluster.new_topic(queues=1)
    await send(cluster, topic, b"1")
    await cluster.copied()
    await cluster.restart_broker(SLAVE)
    await send(cluster, topic, b"2")
    await cluster.copied()
    await cluster.kill_master()
    await cluster.restart_broker(SLAVE)
    assert [each.body for each in cluster.received(topic)] == [b"1", b"2"]


@pytest.mark.slow
async def test_several_slaves_have_the_same() -> None:
    async with Cluster(replicas=2) as cluster:
        topic = await cluster.new_topic(queues=1)
        await send(cluster, topic, b"1", b"2")
        await cluster.copied()
        for number in (1, 2):
            assert bodies(broker_of(cluster, f"broker-a/{number}").store, topic) == [b"1", b"2"]


@pytest.mark.parametrize(
    ("role", "confirmed"),
    [(BrokerRole.SYNC_MASTER, True), (BrokerRole.ASYNC_MASTER, False), (BrokerRole.SLAVE, False)],
)
async def test_progress_is_safe_where_slaves_have_it_if_they_are_waited_for(
    tmp_path: Path, role: BrokerRole, confirmed: bool
) -> None:
    async with broker_bed(tmp_path, role=role) as bed:
        store, replication = bed.broker.store, bed.broker.replication
        slave = Slave("somewhere:1", 0, 0)
        replication.replicas.join(slave)
        if role is not BrokerRole.SLAVE:
            bed.put(b"what no slave has")
            store.sync_soon()
            await eventually(lambda: store.synced_end == store.log_end)
        end = store.log_end
        assert replication.safe_end == (0 if confirmed else end)
        replication.replicas.confirm(slave, end)
        assert replication.safe_end == end
