"""What a slave copies besides the log, and what it does when that goes wrong."""

import pytest

from roquet.broker.replication import tables
from roquet.protocol.bodies.topic_config import TopicConfig
from roquet.testing import Cluster
from tests.support.eventually import eventually

SLAVE = "broker-a/1"


async def test_a_master_that_is_away_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster(replicas=1) as cluster:
        await cluster.copied()
        await cluster.kill_master()
        copy = cluster._brokers[SLAVE].replication.table_copy
        await copy.copy()
        await copy.copy()
    assert caplog.text.count("not all tables of master") == 1


async def test_a_master_that_is_away_is_told_what_it_missed_when_it_is_back() -> None:
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        cluster._brokers["broker-a"].offsets.commit("g", topic, 0, 5)
        await cluster.copied()
        await cluster.kill_master()
        cluster._brokers[SLAVE].offsets.commit("g", topic, 0, 9)
        await cluster.start_broker()
        await cluster.copied()
        assert cluster._brokers["broker-a"].offsets.find("g", topic, 0) == 9
        cluster._brokers["broker-a"].offsets.commit("g", topic, 0, 2)
        await cluster.copied()
        assert cluster._brokers[SLAVE].offsets.find("g", topic, 0) == 2


async def test_offsets_of_our_own_masters_are_copied_when_they_have_changed() -> None:
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        await cluster.copied()
        master, slave = cluster._brokers["broker-a"], cluster._brokers[SLAVE]
        for offset in (1, 2, 3):
            master.offsets.commit("g", topic, 0, offset)
            await slave.replication.table_copy.copy_offsets()
            assert slave.offsets.find("g", topic, 0) == offset


async def test_offsets_are_copied_more_often_than_all_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RETRY_PAUSE_S", "PERIOD_S"):
        monkeypatch.setattr(tables, name, 3600.0)
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        await cluster.copied()
        cluster._brokers["broker-a"].offsets.commit("g", topic, 0, 7)
        slave = cluster._brokers[SLAVE]
        await eventually(lambda: slave.offsets.find("g", topic, 0) == 7)


async def test_offsets_that_have_not_changed_are_not_sent_again() -> None:
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        master, slave = cluster._brokers["broker-a"], cluster._brokers[SLAVE]
        master.offsets.commit("g", topic, 0, 5)
        await cluster.copied()
        # Nobody commits so at a slave; what the master sent would undo it.
        slave.offsets.reset("g", topic, 0, 4)
        await slave.replication.table_copy.copy_offsets()
        assert slave.offsets.find("g", topic, 0) == 4
        await cluster.copied()
        assert slave.offsets.find("g", topic, 0) == 5


async def test_a_group_that_began_while_its_master_was_away_is_known_to_it_afterwards() -> None:
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        await cluster.copied()
        await cluster.kill_master()
        cluster._brokers[SLAVE].offsets.commit("new", topic, 0, 9)
        await cluster.start_broker()
        await cluster.copied()
        assert cluster._brokers["broker-a"].offsets.find("new", topic, 0) == 9


async def test_progress_of_delays_is_copied_and_kept() -> None:
    async with Cluster(replicas=1) as cluster:
        master, slave = cluster._brokers["broker-a"], cluster._brokers[SLAVE]
        state = master.delays.levels.state
        value = type(state.value)(offset_table={3: 7})
        state.take_over(value)
        await cluster.copied()
        assert slave.delays.levels.state.value == value
        await eventually(lambda: slave.delay_saver._saved_count == 1)


async def test_what_a_master_refuses_keeps_nothing_else_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        await cluster.copied()
        await cluster.kill_master()
        offsets = cluster._brokers[SLAVE].offsets
        # Of topics that the master does not have; some of them come before the other.
        for number in range(20):
            offsets.commit("first", f"nowhere-{number}", 0, 3)
        offsets.commit("second", topic, 0, 9)
        await cluster.start_broker()
        await cluster._brokers[SLAVE].replication.table_copy.copy()
        assert cluster._brokers["broker-a"].offsets.find("second", topic, 0) == 9
    assert "was refused" in caplog.text


async def test_the_tables_come_as_soon_as_there_is_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETRY_PAUSE_S", "PERIOD_S"):
        monkeypatch.setattr(tables, name, 3600.0)
    async with Cluster(replicas=1) as cluster:
        await cluster.stop_broker(SLAVE)
        topic = await cluster.new_topic(queues=3)
        await cluster.start_broker(SLAVE)
        slave = cluster._brokers[SLAVE]
        await eventually(lambda: topic in slave.topics)
        # And as soon as there is another one.
        await cluster.kill_master()
        slave.topics.update(TopicConfig(topic_name="unknown-to-the-master"))
        await cluster.start_broker()
        await eventually(lambda: "unknown-to-the-master" not in slave.topics)
