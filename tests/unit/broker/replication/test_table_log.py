"""Changes of topics and groups that a master writes to its log, and who reads them there."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from roquet import AsyncAdmin, AsyncProducer, Message
from roquet.broker.broker import Broker
from roquet.broker.errors import TableNotWritten
from roquet.broker.replication import table_sync
from roquet.broker.replication.table_log import LoggedTables, RecordForm, TableLog, TopicChange
from roquet.broker.settings.config import BrokerRole
from roquet.broker.tables.groups import GroupTable
from roquet.broker.tables.offsets import OffsetTable
from roquet.broker.tables.topics import TopicTable
from roquet.client.admin.topics import TopicSettings
from roquet.client.errors import RequestRefused
from roquet.protocol.bodies.body import DataVersion, read_body
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import ResponseCode
from roquet.protocol.names import TABLES_TOPIC
from roquet.store.message_store import MessageStore
from roquet.store.replica_log import Grown
from tests.support.drafts import STORE_HOST, draft
from tests.support.eventually import eventually
from tests.support.fake_clock import START_MS, FakeClock
from tests.support.raising import raises
from tests.support.secret_place import SecretPlace, address, followed, secret_place
from tests.support.stores import bodies, messages, opened

FORM = RecordForm(STORE_HOST, has_checksum=True)
ORDERS = TopicConfig(topic_name="orders", read_queue_nums=8, write_queue_nums=8)
EIGHT_QUEUES = TopicSettings(read_queue_count=8, write_queue_count=8)
READERS = GroupConfig(group_name="readers", retry_max_times=3)


def new_tables() -> LoggedTables:
    clock = FakeClock()
    return LoggedTables(
        TopicTable(clock, has_epochs=True), GroupTable(clock, (), has_epochs=True), OffsetTable()
    )


def leading(store: MessageStore, epoch: int = 1) -> LoggedTables:
    """Of a master that writes to this store."""
    made = new_tables()
    TableLog(store, made, FORM).lead(epoch)
    return made


def replayed(store: MessageStore) -> LoggedTables:
    """Of a broker that has nothing but this store."""
    made = new_tables()
    TableLog(store, made, FORM).apply(are_new=False)
    return made


def test_a_record_says_all_that_the_table_has_from_then_on(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        master = leading(store, epoch=7)
        master.topics.update(ORDERS)
        master.topics.delete("orders")
        master.groups.update(READERS)
        topics, groups = messages(store, TABLES_TOPIC, 0), messages(store, TABLES_TOPIC, 1)
    assert [msgspec.json.decode(each.body) for each in topics] == [
        {
            "config": {
                "order": False,
                "perm": 6,
                "readQueueNums": 8,
                "topicFilterType": "SINGLE_TAG",
                "topicName": "orders",
                "topicSysFlag": 0,
                "writeQueueNums": 8,
            },
            "name": "orders",
            "version": {"counter": 2, "stateVersion": 7, "timestamp": START_MS},
        },
        {
            "name": "orders",
            "version": {"counter": 3, "stateVersion": 7, "timestamp": START_MS},
        },
    ]
    assert [msgspec.json.decode(each.body)["config"]["retryMaxTimes"] for each in groups] == [3]


def test_a_slave_that_has_the_log_has_the_tables(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        master = leading(store)
        master.topics.update(ORDERS)
        master.topics.find_or_create("%RETRY%readers", 1)
        master.topics.update(replace(ORDERS, topic_name="gone"))
        master.topics.delete("gone")
        master.groups.update(READERS)
        copy = replayed(store)
        assert copy.topics.snapshot().topic_config_table == (
            master.topics.snapshot().topic_config_table
        )
        assert list(copy.groups) == list(master.groups)
        # They give way to the table of the master when that is copied.
        copy.topics.follow(master.topics.snapshot())
        assert copy.topics.version == master.topics.version


def test_what_a_table_has_already_is_not_applied_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        master = leading(store)
        master.topics.update(ORDERS)
        behind = TableLog(store, copy := new_tables(), FORM)
        table = master.topics.snapshot()
        master.topics.update(replace(ORDERS, perm=4))
        table.topic_config_table["orders"] = replace(ORDERS, perm=2)
        # As if the copy was made of the very version that the first record has.
        copy.topics.follow(table)
        behind.apply(are_new=False)
        assert copy.topics.find("orders") == replace(ORDERS, perm=4)
        change_count = copy.topics.change_count
        behind.apply(are_new=True)
        assert copy.topics.change_count == change_count


def test_records_of_a_later_master_win_whatever_it_counted(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        first = leading(store, epoch=1)
        for perm in (6, 4, 6, 4, 2):
            first.topics.update(replace(ORDERS, perm=perm))
        leading(store, epoch=2).topics.update(ORDERS)
        assert replayed(store).topics.find("orders") == ORDERS


def test_a_deletion_takes_the_messages_and_offsets_along(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        master = leading(store)
        master.topics.update(ORDERS)
        store.append(draft(b"old", topic="orders"))
        copy = new_tables()
        follower = TableLog(store, copy, FORM)
        assert not follower.grown(Grown({(b"orders", 0)}, []))
        assert "orders" not in copy.topics
        assert not follower.grown(Grown({(TABLES_TOPIC.encode(), 0)}, []))
        assert "orders" in copy.topics
        copy.offsets.commit("readers", "orders", 0, 1)
        # The master's own queues are gone with it, so this is what a slave has.
        master.topics.delete("orders")
        assert follower.grown(Grown({(TABLES_TOPIC.encode(), 0)}, []))
        assert "orders" not in copy.topics
        assert store.queue_count("orders") == 0
        assert copy.offsets.find("readers", "orders", 0) is None


def test_a_topic_that_was_made_again_keeps_what_it_has_since(tmp_path: Path) -> None:
    """Records are applied when all that came with them is in its queues."""
    with opened(tmp_path) as store:
        master = leading(store)
        master.topics.update(ORDERS)
        store.append(draft(b"old", topic="orders"))
        store.delete_topic("orders")
        master.topics.delete("orders")
        master.topics.update(replace(ORDERS, read_queue_nums=2, write_queue_nums=2))
        store.append(draft(b"new", topic="orders"))
        copy = replayed(store)
        copy.offsets.commit("readers", "orders", 0, 1)
        assert bodies(store, "orders") == [b"new"]
    with opened(tmp_path) as store:
        # At every start the log is looked at again.
        TableLog(store, copy, FORM).apply(are_new=False)
        assert bodies(store, "orders") == [b"new"]
        assert copy.offsets.find("readers", "orders", 0) == 1
        found = copy.topics.find("orders")
        assert found is not None
        assert found.write_queue_nums == 2


def test_after_a_cut_what_the_log_lost_does_not_count(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        mine = leading(store)
        mine.topics.update(ORDERS)
        mine.topics.delete("orders")
        mine.topics.update(ORDERS)
        mine.offsets.commit("readers", "orders", 0, 7)
        mine.groups.update(READERS)
        end = store.log_end
        mine.topics.update(replace(ORDERS, perm=4))
        mine.topics.delete("orders")
        mine.groups.delete("readers")
    with opened(tmp_path, cut_end=end) as store:
        TableLog(store, mine, FORM).apply_again()
        assert mine.topics.find("orders") == ORDERS
        assert mine.offsets.find("readers", "orders", 0) == 7
        assert list(mine.groups) == [READERS]


def test_a_store_that_takes_nothing_refuses_the_change(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        made = new_tables()
        table_log = TableLog(store, made, FORM)
        store.pause()
        table_log.check("orders")  # A slave changes nothing by itself.
        table_log.lead(1)
        with raises(TableNotWritten, name="orders"):
            table_log.check("orders")
        with pytest.raises(TableNotWritten) as refused:
            made.topics.update(ORDERS)
        assert refused.value.code is ResponseCode.SERVICE_NOT_AVAILABLE
        assert "orders" not in made.topics
        store.go_on()
        made.topics.update(ORDERS)
        assert table_log.end == store.log_end


def test_a_record_that_cannot_be_read_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as store:
        store.append(draft(b'{"name":7}', topic=TABLES_TOPIC))
        leading(store).topics.update(ORDERS)
        assert replayed(store).topics.find("orders") == ORDERS
    assert "skipped an invalid table change at offset 0" in caplog.text


def test_records_of_later_versions_may_have_more_members() -> None:
    record = b'{"name":"orders","sinceWhen":1,"version":{"counter":1,"timestamp":2}}'
    version = DataVersion(counter=1, timestamp=2)
    assert read_body(TopicChange, record) == TopicChange(name="orders", version=version)


# --- whole brokers ---


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SecretPlace]:
    """Where tables are copied when there is a link, and not again."""
    for name in ("PERIOD_S", "RETRY_PAUSE_S", "PAUSE_S_MIN"):
        monkeypatch.setattr(table_sync, name, 3600.0)
    async with secret_place(tmp_path) as place:
        yield place


def has_tables_of(slave: Broker, master: Broker) -> bool:
    ours, theirs = slave.tables.topics.snapshot(), master.tables.topics.snapshot()
    return ours.topic_config_table == theirs.topic_config_table and list(
        slave.tables.groups
    ) == list(master.tables.groups)


@pytest.mark.slow
async def test_a_change_is_answered_when_a_slave_has_it(place: SecretPlace) -> None:
    one, two = await followed(place)
    async with AsyncAdmin(place.name_server) as admin:
        await admin.create_topic("orders", EIGHT_QUEUES, cluster="DefaultCluster")
        assert two.broker.tables.topics.find("orders") == one.broker.tables.topics.find("orders")
        await admin.create_group("readers", cluster="DefaultCluster")
        assert "readers" in two.broker.tables.groups
        await admin.delete_topic("orders")
        assert "orders" not in two.broker.tables.topics
        await admin.delete_group("readers")
        assert "readers" not in two.broker.tables.groups


@pytest.mark.slow
async def test_without_a_slave_a_change_is_made_and_not_confirmed(place: SecretPlace) -> None:
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1)
    async with AsyncAdmin(place.name_server) as admin:
        with raises(RequestRefused, code=ResponseCode.SLAVE_NOT_AVAILABLE) as refused:
            await admin.create_topic("orders", EIGHT_QUEUES, cluster="DefaultCluster")
        assert refused.value.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert "orders" in one.broker.tables.topics
        # The name servers hear of it all the same.
        with raises(RequestRefused, code=ResponseCode.SLAVE_NOT_AVAILABLE):
            await admin.delete_topic("orders")
        assert "orders" not in await admin.topics()


@pytest.mark.slow
async def test_a_promoted_slave_continues_with_the_tables_of_its_master(place: SecretPlace) -> None:
    one, two = await followed(place)
    async with AsyncProducer(place.name_server, "producers") as producer:
        await producer.send(Message("orders", b"1"))
    assert two.broker.tables.topics.find("orders") == one.broker.tables.topics.find("orders")
    async with AsyncAdmin(place.name_server) as admin:
        await admin.promote_broker(address(two), force=True)
        # What only the old master has since then is not confirmed by anybody, and not kept.
        one.broker.tables.topics.delete("orders")
        one.broker.tables.topics.find_or_create("never-confirmed", 1)
        two.broker.tables.topics.find_or_create("goes-on", 1)
        assert two.broker.tables.topics.version.state_version == two.broker.replication.epoch
        await admin.demote_broker(address(one), 1, force=True)
    await eventually(lambda: one.serving is not None and has_tables_of(one.broker, two.broker))
    assert "orders" in one.broker.tables.topics
    assert "never-confirmed" not in one.broker.tables.topics
    assert [
        body for queue_id in range(4) for body in bodies(one.broker.store, "orders", queue_id)
    ] == [b"1"]


@pytest.mark.slow
async def test_a_master_that_lost_its_tables_has_them_from_its_log(place: SecretPlace) -> None:
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1)
    one.broker.tables.topics.update(ORDERS)
    one.broker.tables.topics.update(replace(ORDERS, topic_name="gone"))
    one.broker.tables.topics.delete("gone")
    one.broker.tables.groups.update(READERS)
    one.broker.store.append(draft(b"1", topic="unknown-to-the-log", queue_id=2))
    await place.running.aclose()
    for path in (place.directory / "one" / "config").iterdir():
        path.write_bytes(b"not a table")
    again = await place.start("one", BrokerRole.ASYNC_MASTER, 1)
    assert again.broker.tables.topics.find("orders") == ORDERS
    assert "gone" not in again.broker.tables.topics
    assert TABLES_TOPIC not in again.broker.tables.topics
    assert again.broker.tables.groups.find("readers") == READERS
    made = again.broker.tables.topics.find("unknown-to-the-log")
    assert made is not None
    assert made.write_queue_nums == 3


@pytest.mark.slow
async def test_without_a_secret_nothing_is_written(place: SecretPlace) -> None:
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1, replication_secret_file=None)
    one.broker.tables.topics.update(ORDERS)
    one.broker.tables.groups.update(READERS)
    assert one.broker.store.log_end == 0
    assert one.broker.tables.topics.version.state_version == 0


@pytest.mark.slow
async def test_without_a_secret_a_slave_makes_topics_of_queues(place: SecretPlace) -> None:
    common = {"replication_secret_file": None, "ack_policy": None}
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1, **common)
    two = await place.start("two", BrokerRole.SLAVE, 2, **common)
    await eventually(lambda: one.broker.replication.replicas.slaves)
    await eventually(lambda: two.broker.tables.topics.version == one.broker.tables.topics.version)
    one.broker.tables.topics.update(ORDERS)
    for queue_id in (0, 5):
        one.broker.store.append(draft(b"1", topic="orders", queue_id=queue_id))
        one.broker.replication.slave_links.wake()
        await eventually(lambda: two.broker.store.log_end == one.broker.store.log_end)
        seen = two.broker.tables.topics.find("orders")
        assert seen is not None
        assert seen.read_queue_nums == queue_id + 1
    await two.broker.replication.table_sync.sync()
    assert two.broker.tables.topics.find("orders") == ORDERS


@pytest.mark.slow
async def test_a_full_disk_keeps_no_consumer_from_its_group(place: SecretPlace) -> None:
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1)
    one.broker.store.pause()
    one.broker.tables.groups.find_or_create("readers", may_create=True)
    assert "readers" in one.broker.tables.groups
    async with AsyncAdmin(place.name_server) as admin:
        with raises(RequestRefused, code=ResponseCode.SERVICE_NOT_AVAILABLE):
            await admin.create_group("others", cluster="DefaultCluster")
        with raises(RequestRefused, code=ResponseCode.SERVICE_NOT_AVAILABLE):
            await admin.create_topic("orders", cluster="DefaultCluster")
