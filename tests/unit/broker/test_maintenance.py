"""What a broker does by itself."""

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from roquet import AsyncAdmin, Credentials
from roquet.access.accounts import OwnAccount
from roquet.broker.broker import Broker
from roquet.broker.maintenance import _save_offsets, _scrub, learn, start_upkeep
from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.registration import Registered
from roquet.broker.replication.in_sync import AckPolicy
from roquet.broker.settings.config import BrokerRole
from roquet.broker.supervisor import BrokerSupervisor
from roquet.broker.tables.queue_locks import QueueKey
from roquet.client.admin.cluster import AccountSettings
from roquet.client.admin.topics import TopicSettings
from roquet.net.service import OnFailure
from roquet.protocol.bodies.pop import RequestModeSetting
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import Permission
from roquet.store.config import FlushMode
from tests.support.accounts import ACCOUNTS, ADMIN, REPLICA
from tests.support.broker_bed import broker_bed
from tests.support.descriptors import open_below
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.few_descriptors import few_descriptors_left
from tests.support.full_disk import FullDisk
from tests.support.secret_place import HOST, SecretPlace, address, followed, secret_place
from tests.support.stores import small_config
from tests.support.waiting import put_delayed, put_timer


async def test_damage_that_is_not_read_is_found_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_bed(tmp_path) as bed:
        place = bed.put(b"body that will decay")
        bed.put(b"next")
        path = next((tmp_path / "commitlog").iterdir())
        with path.open("r+b") as file:
            file.seek(place.physical_offset + 90)
            file.write(b"\xff")
        await _scrub(bed.broker.store)
        assert "damaged part of the log" in caplog.text


async def test_a_log_that_cannot_be_opened_now_is_checked_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_bed(tmp_path, store=small_config(tmp_path, queue_flush_interval_ms=0)) as bed:
        bed.put(b"body")
        queues = tmp_path / "consumequeue"

        def is_closed() -> bool:
            bed.broker.store.clean()
            return open_below(queues) == 0

        await eventually(is_closed)
        with few_descriptors_left(0):
            await _scrub(bed.broker.store)
        assert "the log is not checked now" in caplog.text
        await _scrub(bed.broker.store)
        assert [each.levelname for each in caplog.records] == ["WARNING"]


async def test_topics_that_an_operator_ordered_are_ordered_here(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        topics = bed.broker.tables.topics
        topics.update(TopicConfig(topic_name="orders"))
        topics.update(TopicConfig(topic_name="bills", order=True))
        learn(bed.broker, [Registered(frozenset({"orders"}))])
        assert [_is_ordered(bed.broker, name) for name in ("orders", "bills")] == [True, False]
        learn(bed.broker, [])  # Nobody answered, so nothing is known.
        assert _is_ordered(bed.broker, "orders")


def _is_ordered(broker: Broker, name: str) -> bool:
    topic = broker.tables.topics.find(name)
    assert topic is not None
    return topic.order


async def test_upkeep_saves_what_changed(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        start_upkeep(bed.broker)
        bed.broker.tables.topics.update(TopicConfig(topic_name="orders"))
        file = tmp_path / "config" / "topics.json"
        await eventually(lambda: file.exists() and b'"orders"' in file.read_bytes())


async def test_a_young_broker_saves_offsets_long_before_the_interval_is_over(
    tmp_path: Path,
) -> None:
    async with broker_bed(tmp_path, save_offsets_interval_ms=86_400_000) as bed:
        start_upkeep(bed.broker)
        file = tmp_path / "config" / "consumerOffset.json"
        # The second one comes after a save, and waits for no more than the broker is old.
        for offset in (7, 8):
            bed.broker.tables.offsets.commit("readers", "TopicA", 0, offset)
            await eventually(partial(_has, file, b'"0":%d' % offset))


def _has(file: Path, wanted: bytes) -> bool:
    return file.exists() and wanted in file.read_bytes()


async def test_offsets_of_an_old_broker_are_saved_by_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.broker.maintenance._FIRST_SAVE_MS", 1)
    async with broker_bed(tmp_path, save_offsets_interval_ms=2) as bed:
        pauses: list[int] = []
        pause = bed.broker.background.pauses.pause

        async def noted(interval_ms: Callable[[], int]) -> None:
            pauses.append(interval_ms())
            await pause(interval_ms)

        monkeypatch.setattr(bed.broker.background.pauses, "pause", noted)
        bed.broker.background.services.run(
            "save offsets", lambda: _save_offsets(bed.broker), on_failure=OnFailure.STOP_ALL
        )
        await eventually(lambda: len(pauses) > 3)
        assert pauses[:4] == [1, 2, 2, 2]


@pytest.mark.parametrize("flush_mode", FlushMode)
async def test_a_young_broker_saves_what_it_delivered_at_once(
    tmp_path: Path, flush_mode: FlushMode
) -> None:
    # Nothing is synced, or saved, by the clock in the time of this test.
    config = small_config(
        tmp_path, flush_mode=flush_mode, flush_interval_ms=60_000, delay_levels_ms=(1,)
    )
    async with broker_bed(tmp_path, store=config, save_delays_interval_ms=86_400_000) as bed:
        start_upkeep(bed.broker)
        levels, timers = (
            tmp_path / "config" / each for each in ("delayOffset.json", "timers.json")
        )
        # The second one comes after a save, and waits for no more than the broker is old.
        for count in (1, 2):
            put_delayed(bed.broker.store)
            bed.clock.advance(1)
            await eventually(partial(_rung_and_has, bed.broker, levels, b'"1":%d' % count))
        put_timer(bed.broker.store, 1)
        await eventually(partial(_rung_and_has, bed.broker, timers, b'"nextOffset":1'))


def _rung_and_has(broker: Broker, file: Path, wanted: bytes) -> bool:
    """With sync flush, what was put can be read only when the disk has it."""
    broker.waiting.delays.wake_at(0)
    return _has(file, wanted)


@pytest.mark.slow
async def test_keys_that_a_full_disk_has_no_room_for_are_logged_once_and_filed_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.broker.maintenance._TICK_S", 0.001)
    disk = FullDisk("index")
    disk.is_full = True
    async with broker_bed(tmp_path, disk=disk) as bed:
        tried = 0
        file_keys = bed.broker.store.file_keys

        def counted() -> bool:
            nonlocal tried
            tried += 1
            return file_keys()

        monkeypatch.setattr(bed.broker.store, "file_keys", counted)
        bed.put(b"hello", properties={"KEYS": "k"})
        start_upkeep(bed.broker)
        await eventually(lambda: tried > 2)
        assert caplog.text.count("keys are not filed") == 1
        disk.is_full = False
        await eventually(lambda: any((tmp_path / "index").iterdir()))


pytestmark = pytest.mark.slow

GROUP = "readers"
TOPIC = "orders"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[SecretPlace]:
    async with secret_place(tmp_path) as place:
        yield place


async def switch(place: SecretPlace, old: BrokerSupervisor, new: BrokerSupervisor) -> None:
    """The slave becomes the master, and the master a slave."""
    async with AsyncAdmin(place.name_server) as admin:
        await admin.promote_broker(address(new), force=True)
        await admin.demote_broker(address(old), 1, force=True)
    await eventually(lambda: old.serving is not None and old.broker.config.is_slave)


async def test_offsets_that_were_copied_are_kept_up_to_the_end_of_the_log(
    place: SecretPlace,
) -> None:
    one, two = await followed(place, ack_policy=AckPolicy.ASYNC)
    one.broker.store.append(draft(b"1", topic=TOPIC))
    one.broker.store.append(draft(b"2", topic=TOPIC))
    one.broker.tables.offsets.commit(GROUP, TOPIC, 0, 1)
    one.broker.tables.offsets.commit(GROUP, TOPIC, 1, 9)
    await eventually(lambda: two.broker.tables.offsets.find(GROUP, TOPIC, 0) == 1)
    await eventually(lambda: two.broker.store.log_end == one.broker.store.log_end)
    await switch(place, one, two)
    assert two.broker.tables.offsets.find(GROUP, TOPIC, 0) == 1
    # No client can have read what the log does not have: it would be skipped when it comes.
    assert two.broker.tables.offsets.find(GROUP, TOPIC, 1) == 0


async def test_what_is_in_flight_is_known_to_the_new_master(place: SecretPlace) -> None:
    one, two = await followed(place)
    for _ in range(3):
        one.broker.store.append(draft(topic=TOPIC))
    queue = QueueOfGroup(GROUP, TOPIC, 0)
    key = PopKey(queue, 0, one.broker.clock.now_ms())
    # As a pop does it, but before the slave can have the offset from the table.
    one.broker.waiting.pops.note_pop(key, range(3), 3_600_000, 3)
    one.broker.waiting.pops.note_acks(key, (1,))
    await eventually(lambda: two.broker.store.log_end == one.broker.store.log_end)
    await switch(place, one, two)
    in_flight = two.broker.waiting.pops.in_flight
    point = in_flight.find(key)
    assert point is not None
    assert point.open_offsets == [0, 2]
    assert two.broker.tables.offsets.find(*queue) == 3


async def test_modes_of_groups_are_those_of_the_old_master(place: SecretPlace) -> None:
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1)
    setting = RequestModeSetting(consumer_group=GROUP, mode="POP", topic=TOPIC)
    one.broker.tables.request_modes.set(setting)
    two = await place.start("two", BrokerRole.SLAVE, 2)
    await eventually(lambda: two.broker.tables.request_modes.find(TOPIC, GROUP) == setting)


async def test_locks_of_queues_start_again(place: SecretPlace) -> None:
    one, two = await followed(place)
    queue = QueueKey(GROUP, TOPIC, 0)
    assert one.broker.clients.locks.lock("client-a", [queue]) == [queue]
    assert one.broker.clients.locks.lock("client-b", [queue]) == []
    await switch(place, one, two)
    assert two.broker.clients.locks.lock("client-b", [queue]) == [queue]


async def test_settings_are_those_of_each_broker(place: SecretPlace) -> None:
    one, two = await followed(place)
    async with AsyncAdmin(place.name_server) as admin:
        await admin.update_broker_config(address(one), {"brokerPermission": "4"})
        await switch(place, one, two)
        # What was changed at one broker is not known to the others, and not forgotten there.
        assert (await admin.broker_config(address(two)))["brokerPermission"] == "6"
        assert (await admin.broker_config(address(one)))["brokerPermission"] == "4"


async def test_accounts_are_those_of_each_broker(place: SecretPlace) -> None:
    common = {
        "access_control": True,
        "own_account": OwnAccount(ADMIN.access_key, ADMIN.secret_key),
        "ack_policy": AckPolicy.ASYNC,
    }
    lives = []
    for name, role, number in (
        ("one", BrokerRole.ASYNC_MASTER, 1),
        ("two", BrokerRole.SLAVE, 2),
    ):
        path = place.directory / f"{name}.yml"
        secret = f"secretKey: {REPLICA.secret_key}\n"
        path.write_text(ACCOUNTS.replace(secret, f"{secret}  whiteRemoteAddress: {HOST}\n"))
        lives.append(await place.start(name, role, number, accounts_file=path, **common))
    one, two = lives
    operator = Credentials(ADMIN.access_key, ADMIN.secret_key)
    async with AsyncAdmin(place.name_server, credentials=operator) as admin:
        await eventually(lambda: one.broker.replication.replicas.slaves)
        settings = AccountSettings()
        await admin.put_account(address(one), "newcomer", settings, secret_key="its own secret")
        await admin.promote_broker(address(two), force=True)
        assert "newcomer" in (await admin.broker_accounts(address(one))).accounts
        assert "newcomer" not in (await admin.broker_accounts(address(two))).accounts


async def test_a_new_master_asks_the_name_servers_which_topics_are_ordered(
    place: SecretPlace,
) -> None:
    one, two = await followed(place)
    async with AsyncAdmin(place.name_server) as admin:
        settings = TopicSettings(is_ordered=True)
        await admin.create_topic(TOPIC, settings, cluster="DefaultCluster")
        await switch(place, one, two)

        def is_ordered() -> bool:
            found = two.broker.tables.topics.find(TOPIC)
            return found is not None and found.order

        # Whatever the table says that it has from the old one.
        two.broker.tables.topics.set_ordered(())
        await eventually(is_ordered)


async def test_what_is_counted_starts_at_each_broker(place: SecretPlace) -> None:
    one, two = await followed(place)
    one.broker.statistics.count_put(TOPIC, 3, 300)
    await switch(place, one, two)
    assert two.broker.statistics.runtime_entries()["putMessageTimesTotal"] == "0"


async def test_a_reset_moves_the_offset_and_is_not_reported_again(place: SecretPlace) -> None:
    one, two = await followed(place, ack_policy=AckPolicy.ASYNC)
    for number in range(5):
        one.broker.store.append(draft(b"%d" % number, topic=TOPIC))
    one.broker.tables.offsets.reset(GROUP, TOPIC, 0, 3)
    await eventually(lambda: two.broker.tables.offsets.find(GROUP, TOPIC, 0) == 3)
    await eventually(lambda: two.broker.store.log_end == one.broker.store.log_end)
    await switch(place, one, two)
    assert two.broker.tables.offsets.find(GROUP, TOPIC, 0) == 3
    assert two.broker.tables.offsets.take_reset(GROUP, TOPIC, 0) is None


async def test_offsets_of_a_deleted_group_may_return(place: SecretPlace) -> None:
    one, two = await followed(place, ack_policy=AckPolicy.ASYNC)
    one.broker.store.append(draft(b"1", topic=TOPIC))
    one.broker.tables.offsets.commit(GROUP, TOPIC, 0, 1)
    await eventually(lambda: two.broker.tables.offsets.find(GROUP, TOPIC, 0) == 1)
    await eventually(lambda: two.broker.store.log_end == one.broker.store.log_end)
    one.broker.tables.offsets.forget_group(GROUP)
    await switch(place, one, two)
    assert two.broker.tables.offsets.find(GROUP, TOPIC, 0) == 1


async def test_forbidden_writes_are_forbidden_at_the_next_master(place: SecretPlace) -> None:
    one, two = await followed(place)
    async with AsyncAdmin(place.name_server) as admin:
        await admin.create_topic(TOPIC, cluster="DefaultCluster")
        await admin.forbid_writes("broker-a")
        assert not (await admin.topic_route(TOPIC))[0].permission & Permission.WRITE
        await switch(place, one, two)
        await eventually(lambda: not two.broker.registrar.has_news)
        assert not (await admin.topic_route(TOPIC))[0].permission & Permission.WRITE
        await admin.allow_writes("broker-a")
        assert (await admin.topic_route(TOPIC))[0].permission & Permission.WRITE
        assert {one.broker.config.permission, two.broker.config.permission} == {6}
