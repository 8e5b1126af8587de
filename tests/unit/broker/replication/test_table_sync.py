"""What a slave copies besides the log, and what it does when that goes wrong."""

from functools import partial

import pytest

from roquet import AsyncProducer, Message
from roquet.broker.broker import Broker
from roquet.broker.delays.delivering import save_progress
from roquet.broker.replication import table_sync
from roquet.broker.replication.table_sync import SlaveTables, TableSync
from roquet.broker.tables.durable_state import new_progress
from roquet.broker.tables.groups import GroupTable
from roquet.broker.tables.offsets import OffsetTable, transaction_progress_of
from roquet.broker.tables.request_modes import RequestModes
from roquet.broker.tables.saving import Saver
from roquet.broker.tables.topics import TopicTable
from roquet.clock import SystemClock
from roquet.net.peers import Peers
from roquet.net.router import Reply, Request, RequestRoute, Router, on
from roquet.net.serving import Server
from roquet.protocol.bodies.body import Body, write_body
from roquet.protocol.bodies.groups import GroupConfigTable
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.bodies.offsets import (
    AllProgress,
    ConsumerOffsetTable,
    DelayOffsetTable,
    TimerProgress,
    TransactionProgress,
)
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigTable
from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import NoFields
from roquet.protocol.names import HALF_TOPIC, TRANSACTION_GROUP
from roquet.testing import Cluster
from tests.support.eventually import eventually
from tests.support.inner_parts import broker_of

SLAVE = "broker-a/1"


async def test_a_master_that_is_away_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster(replicas=1) as cluster:
        await cluster.copied()
        await cluster.kill_master()
        tables = broker_of(cluster, SLAVE).replication.table_sync
        await tables.sync()
        await tables.sync()
    assert caplog.text.count("not all tables of master") == 1


async def test_a_master_that_was_away_receives_what_it_missed() -> None:
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        broker_of(cluster).tables.offsets.commit("g", topic, 0, 5)
        await cluster.copied()
        await cluster.kill_master()
        broker_of(cluster, SLAVE).tables.offsets.commit("g", topic, 0, 9)
        await cluster.start_broker()
        await cluster.copied()
        assert broker_of(cluster).tables.offsets.find("g", topic, 0) == 9
        broker_of(cluster).tables.offsets.commit("g", topic, 0, 2)
        await cluster.copied()
        assert broker_of(cluster, SLAVE).tables.offsets.find("g", topic, 0) == 2


async def test_offsets_of_our_own_masters_are_copied_when_they_have_changed() -> None:
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        await cluster.copied()
        master, slave = broker_of(cluster), broker_of(cluster, SLAVE)
        for offset in (1, 2, 3):
            master.tables.offsets.commit("g", topic, 0, offset)
            await slave.replication.table_sync.sync_offsets()
            assert slave.tables.offsets.find("g", topic, 0) == offset


async def test_offsets_are_copied_more_often_than_all_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RETRY_PAUSE_S", "PERIOD_S"):
        monkeypatch.setattr(table_sync, name, 3600.0)
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        await cluster.copied()
        broker_of(cluster).tables.offsets.commit("g", topic, 0, 7)
        slave = broker_of(cluster, SLAVE)
        await eventually(lambda: slave.tables.offsets.find("g", topic, 0) == 7)


async def test_offsets_that_have_not_changed_are_not_sent_again() -> None:
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        master, slave = broker_of(cluster), broker_of(cluster, SLAVE)
        master.tables.offsets.commit("g", topic, 0, 5)
        await cluster.copied()
        # Nobody commits so at a slave; what the master sent would undo it.
        slave.tables.offsets.reset("g", topic, 0, 4)
        await slave.replication.table_sync.sync_offsets()
        assert slave.tables.offsets.find("g", topic, 0) == 4
        await cluster.copied()
        assert slave.tables.offsets.find("g", topic, 0) == 5


async def test_a_group_that_started_while_its_master_was_away_is_known_to_it_afterwards() -> None:
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        await cluster.copied()
        await cluster.kill_master()
        broker_of(cluster, SLAVE).tables.offsets.commit("new", topic, 0, 9)
        await cluster.start_broker()
        await cluster.copied()
        assert broker_of(cluster).tables.offsets.find("new", topic, 0) == 9


async def send(cluster: Cluster, topic: str) -> None:
    async with AsyncProducer(cluster.name_server, "senders") as producer:
        await producer.send(Message(topic, b"so that there is more of a log"))


async def until_linked(slave: Broker) -> None:
    """What waits for the log is forgotten when a link is made; then nothing waits."""
    link = slave.replication.master_link
    assert link is not None
    await eventually(lambda: link.master is not None)
    save_progress(slave.waiting.progress, slave.replication)


def note_progress(broker: Broker, offset: int, log_end: int) -> AllProgress:
    """As if the broker had come that far with a log that ends there."""
    progress = AllProgress(
        offset_table={3: offset},
        timers=TimerProgress(next_offset=offset),
        transactions=TransactionProgress(half_offset=offset),
    )
    # What it notes by itself says the same of transactions, and nothing of delays.
    broker.waiting.pending_halves.progress = offset
    broker.waiting.progress.withdraw()
    broker.waiting.progress.follow(progress, log_end)
    broker.waiting.progress.confirm(log_end)
    return broker.waiting.progress.snapshot()


async def test_progress_is_copied_and_kept() -> None:
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        await send(cluster, topic)
        await cluster.copied()
        master, slave = broker_of(cluster), broker_of(cluster, SLAVE)
        printed = note_progress(master, 7, master.store.log_end)
        await cluster.copied()
        await eventually(lambda: slave.waiting.progress.snapshot() == printed)
        assert transaction_progress_of(slave.tables.offsets.snapshot()).half_offset == 7
        for saver in (slave.tables.savers.levels, slave.tables.savers.timers):
            await eventually(partial(_is_saved, saver))


def _is_saved(saver: Saver) -> bool:
    return saver._saved_count == 1


async def test_progress_that_the_log_does_not_have_yet_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So it waits for no next copy of the tables.
    monkeypatch.setattr(table_sync, "PERIOD_S", 3600.0)
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        await cluster.copied()
        master, slave = broker_of(cluster), broker_of(cluster, SLAVE)
        await until_linked(slave)
        before = slave.waiting.progress.snapshot()
        printed = note_progress(master, 7, master.store.log_end + 1)
        await slave.replication.table_sync.sync()
        await slave.replication.table_sync.sync_progress()
        save_progress(slave.waiting.progress, slave.replication)
        assert slave.waiting.progress.snapshot() == before
        await send(cluster, topic)
        await eventually(lambda: slave.store.log_end == master.store.log_end)
        # At once, or if a new link was made meanwhile, when that has asked for it.
        await eventually(lambda: slave.waiting.progress.snapshot() == printed)


async def test_a_slave_that_stops_keeps_what_its_log_has() -> None:
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        await send(cluster, topic)
        await cluster.copied()
        master, slave = broker_of(cluster), broker_of(cluster, SLAVE)
        await until_linked(slave)
        printed = note_progress(master, 7, master.store.log_end)
        await slave.replication.table_sync.sync()
        await cluster.stop_broker(SLAVE)
        await cluster.start_broker(SLAVE)
        again = broker_of(cluster, SLAVE)
        assert again is not slave
        assert again.waiting.progress.snapshot() == printed


async def test_a_new_link_asks_for_progress_before_all_tables_are_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_sync, "PERIOD_S", 3600.0)
    async with Cluster(replicas=1) as cluster:
        master, slave = broker_of(cluster), broker_of(cluster, SLAVE)
        printed = note_progress(master, 7, 0)
        await eventually(lambda: slave.waiting.progress.snapshot() == printed)


async def test_progress_of_our_own_masters_is_copied_when_it_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_sync, "PERIOD_S", 3600.0)
    async with Cluster(replicas=1) as cluster:
        await cluster.copied()
        master, slave = broker_of(cluster), broker_of(cluster, SLAVE)
        for offset in (1, 2):
            printed = note_progress(master, offset, 0)
            await eventually(lambda: slave.waiting.progress.snapshot() == printed)  # noqa: B023  Awaited at once.


async def test_progress_that_waits_is_asked_for_again_after_a_new_link() -> None:
    async with Cluster(replicas=1) as cluster:
        await cluster.copied()
        master, slave = broker_of(cluster), broker_of(cluster, SLAVE)
        tables = slave.replication.table_sync
        await until_linked(slave)
        end = master.store.log_end + 1
        note_progress(master, 7, end)
        await tables.sync()
        assert slave.waiting.progress.levels._proposed is not None
        tables.link_made()
        slave.waiting.progress.confirm(end)
        assert slave.waiting.progress.levels.value.offset_table == {}
        await tables.sync_progress()
        slave.waiting.progress.confirm(end)
        assert slave.waiting.progress.levels.value.offset_table == {3: 7}


async def test_progress_of_a_master_that_is_not_followed_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Cluster(replicas=1) as cluster:
        await cluster.copied()
        master, slave = broker_of(cluster), broker_of(cluster, SLAVE)
        tables = slave.replication.table_sync
        await until_linked(slave)
        epochs: list[int] = []

        def is_followed(epoch: int) -> bool:
            epochs.append(epoch)
            return False

        monkeypatch.setattr(tables, "_is_followed", is_followed)
        note_progress(master, 7, 0)
        await tables.sync()
        slave.waiting.progress.confirm(0)
        assert slave.waiting.progress.levels.value.offset_table == {}
        assert set(epochs) == {master.replication.epoch}
        monkeypatch.undo()
        await tables.sync_progress()
        slave.waiting.progress.confirm(0)
        assert slave.waiting.progress.levels.value.offset_table == {3: 7}


class ApacheMaster:
    """Answers what slaves ask for, as one of Apache does; its log grows with each question."""

    def __init__(self) -> None:
        self.log_end = 500

    def answer(self, request: Request[NoFields]) -> Reply:
        self.log_end += 100
        bodies: dict[int, Body] = {
            RequestCode.GET_ALL_TOPIC_CONFIG: TopicConfigTable(),
            RequestCode.GET_ALL_CONSUMER_OFFSET: ConsumerOffsetTable(
                offset_table={f"{HALF_TOPIC}@{TRANSACTION_GROUP}": {0: 5}, "orders@bills": {0: 6}}
            ),
            RequestCode.GET_ALL_DELAY_OFFSET: DelayOffsetTable(offset_table={3: 7}),
            RequestCode.GET_BROKER_RUNTIME_INFO: KvTable(
                table={"commitLogMaxOffset": str(self.log_end)}
            ),
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: GroupConfigTable(),
        }
        return Reply(body=write_body(bodies[request.command.code]))

    def routes(self) -> list[RequestRoute[None]]:
        codes = (
            RequestCode.GET_ALL_TOPIC_CONFIG,
            RequestCode.GET_ALL_CONSUMER_OFFSET,
            RequestCode.GET_ALL_DELAY_OFFSET,
            RequestCode.GET_BROKER_RUNTIME_INFO,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        )
        return [on(code, NoFields, lambda _, request: self.answer(request)) for code in codes]


async def test_progress_of_a_master_of_apache_waits_for_the_log_that_it_had_afterwards() -> None:
    master, clock = ApacheMaster(), SystemClock()
    offsets = OffsetTable(is_slave=True)
    progress = new_progress(offsets.transactions, offsets.pops)
    own = SlaveTables(TopicTable(clock, ()), GroupTable(clock), offsets, RequestModes(), progress)
    server = Server(Router(None, master.routes()), clock)
    port = await server.start("127.0.0.1", 0)
    peers = Peers(Router(None, ()), clock)
    try:
        tables = TableSync(
            peers, None, own, lambda: f"127.0.0.1:{port}", lambda _epoch: False, lambda: 0.0
        )
        await tables.sync()
        asked_end = master.log_end - 100  # The groups were asked for last.
        progress.confirm(asked_end - 1)
        assert progress.levels.value.offset_table == {}
        assert offsets.find(TRANSACTION_GROUP, HALF_TOPIC, 0) is None
        assert offsets.find("bills", "orders", 0) == 6
        progress.confirm(asked_end)
        assert progress.levels.value == DelayOffsetTable(offset_table={3: 7}, true_at=asked_end)
        assert offsets.find(TRANSACTION_GROUP, HALF_TOPIC, 0) == 5
    finally:
        await peers.close()
        await server.stop()


async def test_what_a_master_refuses_keeps_nothing_else_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Cluster(replicas=1) as cluster:
        topic = await cluster.new_topic(queues=1)
        await cluster.copied()
        await cluster.kill_master()
        offsets = broker_of(cluster, SLAVE).tables.offsets
        # Of topics that the master does not have; some of them come before the other.
        for number in range(20):
            offsets.commit("first", f"nowhere-{number}", 0, 3)
        offsets.commit("second", topic, 0, 9)
        await cluster.start_broker()
        await broker_of(cluster, SLAVE).replication.table_sync.sync()
        assert broker_of(cluster).tables.offsets.find("second", topic, 0) == 9
    assert "refused request" in caplog.text


async def test_the_tables_come_as_soon_as_there_is_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RETRY_PAUSE_S", "PERIOD_S"):
        monkeypatch.setattr(table_sync, name, 3600.0)
    async with Cluster(replicas=1) as cluster:
        await cluster.stop_broker(SLAVE)
        topic = await cluster.new_topic(queues=3)
        await cluster.start_broker(SLAVE)
        slave = broker_of(cluster, SLAVE)
        await eventually(lambda: topic in slave.tables.topics)
        # And as soon as there is another one.
        await cluster.kill_master()
        slave.tables.topics.update(TopicConfig(topic_name="unknown-to-the-master"))
        await cluster.start_broker()
        await eventually(lambda: "unknown-to-the-master" not in slave.tables.topics)
