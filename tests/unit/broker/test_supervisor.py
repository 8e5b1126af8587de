"""Masters and slaves that change places by hand, as whole brokers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet import AsyncAdmin, AsyncProducer, Message, Promotion
from roquet.broker.replication.epochs import AssignedRole
from roquet.broker.replication.in_sync import AckPolicy
from roquet.broker.settings.config import BrokerConfig, BrokerRole
from roquet.broker.supervisor import BrokerSupervisor, observed, supervised_broker
from roquet.client.errors import NotTheLongestLog, RequestRefused
from roquet.clock import SystemClock
from roquet.settings.options import ConfigError
from roquet.store.errors import StoreUnavailable
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.golden_replication import log_bytes
from tests.support.quick_disk import QuickDisk
from tests.support.raising import raises
from tests.support.secret_place import SecretPlace, address, secret_place
from tests.support.stores import bodies, small_config

pytestmark = pytest.mark.slow

TOPIC = "TopicA"


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[SecretPlace]:
    async with secret_place(tmp_path) as place:
        yield place


def is_linked(slave: BrokerSupervisor) -> bool:
    link = slave.broker.replication.master_link
    return link is not None and link.master is not None


def has_all(slave: BrokerSupervisor, master: BrokerSupervisor) -> bool:
    return is_linked(slave) and slave.broker.store.log_end == master.broker.store.log_end


async def send(place: SecretPlace, *texts: bytes) -> None:
    async with AsyncProducer(place.name_server, "producers") as producer:
        for text in texts:
            await producer.send(Message(TOPIC, text))


class BrokenClock(SystemClock):
    """A fault of ours, at the start of a broker."""

    def now_ms(self) -> int:
        raise ZeroDivisionError


async def test_a_fault_of_ours_at_the_start_is_raised(tmp_path: Path) -> None:
    config = BrokerConfig(store=small_config(tmp_path), listen_port=0)
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(30.0), supervised_broker(config, BrokenClock(), QuickDisk()):
            pass


async def test_a_planned_switch_loses_nothing_and_both_continue(place: SecretPlace) -> None:
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1, ack_policy=AckPolicy.ONE)
    two = await place.start("two", BrokerRole.SLAVE, 2, ack_policy=AckPolicy.ONE)
    await eventually(lambda: one.broker.replication.replicas.slaves)
    await send(place, b"1", b"2")
    async with AsyncAdmin(place.name_server) as admin:
        with pytest.raises(RequestRefused, match="is running: demote that first"):
            await admin.promote_broker(address(two))
        await two.broker.replication.table_sync.sync()
        await admin.demote_broker(address(one), 1)
        await eventually(lambda: one.serving is not None and one.broker.config.is_slave)
        with pytest.raises(RequestRefused, match="slave already"):
            await admin.demote_broker(address(one), 1)
        await admin.promote_broker(address(two))
        assert {each.broker_id: each.epoch for each in await admin.brokers()} == {0: 2, 1: 1}
        await eventually(lambda: has_all(one, two))
        await send(place, b"3")
        await eventually(lambda: has_all(one, two))
    assert sorted(
        body for queue in range(4) for body in bodies(two.broker.store, TOPIC, queue)
    ) == [b"1", b"2", b"3"]
    assert one.broker.replication.epoch == two.broker.replication.epoch == 2
    await place.running.aclose()
    assert log_bytes(place.directory / "one") == log_bytes(place.directory / "two")


async def test_what_only_the_old_master_had_is_cut_off_and_kept(
    place: SecretPlace, caplog: pytest.LogCaptureFixture
) -> None:
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1)
    two = await place.start("two", BrokerRole.SLAVE, 2)
    one.broker.store.append(draft(b"both"))
    await eventually(lambda: has_all(two, one))
    async with AsyncAdmin(place.name_server) as admin:
        await admin.promote_broker(address(two), force=True)
        one.broker.store.append(draft(b"nobody else"))
        two.broker.store.append(draft(b"goes on"))
        await admin.demote_broker(address(one), 1, force=True)
    await eventually(lambda: one.serving is not None and has_all(one, two))
    assert bodies(one.broker.store) == bodies(two.broker.store) == [b"both", b"goes on"]
    kept = list((place.directory / "one" / "divergent").iterdir())
    assert [b"nobody else" in path.read_bytes() for path in kept] == [True]
    assert f"they are kept in {kept[0]}" in caplog.text


async def test_a_slave_that_lacks_what_another_has_is_promoted_by_force_only(
    place: SecretPlace,
) -> None:
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1)
    two = await place.start("two", BrokerRole.SLAVE, 2)
    three = await place.start("three", BrokerRole.SLAVE, 3)
    await eventually(lambda: has_all(two, one) and has_all(three, one))
    behind = two.broker.replication.master_link
    assert behind is not None
    behind.hold()
    one.broker.store.append(draft(b"of one slave only"))
    await eventually(lambda: has_all(three, one))
    one.stop()
    await eventually(lambda: not is_linked(three))
    async with AsyncAdmin(place.name_server) as admin:
        with pytest.raises(NotTheLongestLog) as refused:
            await admin.promote_broker(address(two))
        assert refused.value.other == address(three)
        await admin.promote_broker(address(three))
    assert bodies(three.broker.store) == [b"of one slave only"]


async def test_what_an_operator_made_of_it_survives(
    place: SecretPlace, caplog: pytest.LogCaptureFixture
) -> None:
    two = await place.start("two", BrokerRole.SLAVE, 2)
    async with AsyncAdmin(place.name_server) as admin:
        await admin.promote_broker(address(two))
    assert not two.broker.config.is_slave
    await place.running.aclose()
    again = await place.start("two", BrokerRole.SLAVE, 2)
    assert not again.broker.config.is_slave
    assert again.broker.replication.epoch == 2
    assert "an operator has made broker-a a master" in caplog.text


async def test_without_a_secret_no_slave_is_promoted(place: SecretPlace) -> None:
    two = await place.start("two", BrokerRole.SLAVE, 2, replication_secret_file=None)
    async with AsyncAdmin(place.name_server) as admin:
        with pytest.raises(RequestRefused, match=r"replication\.secretFile"):
            await admin.promote_broker(address(two))


async def test_a_secret_that_is_too_short_is_refused(place: SecretPlace) -> None:
    place.secret.write_text("short")
    with raises(ConfigError, key="replication.secretFile"):
        await place.start("one", BrokerRole.ASYNC_MASTER, 1)


async def test_a_master_that_was_succeeded_steps_down_by_itself(
    place: SecretPlace, caplog: pytest.LogCaptureFixture
) -> None:
    """The name server knows its successor."""
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1)
    two = await place.start("two", BrokerRole.SLAVE, 2)
    one.broker.store.append(draft(b"both"))
    await eventually(lambda: has_all(two, one))
    async with AsyncAdmin(place.name_server) as admin:
        await admin.promote_broker(address(two), force=True)
        await eventually(lambda: one.serving is not None and one.broker.config.is_slave)
        await eventually(lambda: has_all(one, two))
        known = {each.broker_id: each.address for each in await admin.brokers(with_state=False)}
        assert known == {0: address(two), 1: address(one)}
    assert f"{address(two)} is the master of broker-a in epoch 2" in caplog.text


async def test_a_master_that_was_succeeded_starts_as_a_slave(place: SecretPlace) -> None:
    """From its own file, as a service manager starts it."""
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1)
    two = await place.start("two", BrokerRole.SLAVE, 2)
    one.broker.store.append(draft(b"both"))
    await eventually(lambda: has_all(two, one))
    one.stop()
    await eventually(lambda: one.serving is None and not is_linked(two))
    async with AsyncAdmin(place.name_server) as admin:
        await admin.promote_broker(address(two))
    again = await place.start("one", BrokerRole.ASYNC_MASTER, 1)
    assert again.broker.config.is_slave
    await eventually(lambda: has_all(again, two))
    assert not two.broker.config.is_slave
    assert again.secret is not None
    assert again.secret.epochs.assigned_role == AssignedRole(is_master=False, broker_id=1)


async def test_of_two_masters_of_one_epoch_the_second_takes_no_messages(place: SecretPlace) -> None:
    """Both were made masters while no name server knew of the other."""
    one = await place.start("one", BrokerRole.ASYNC_MASTER, 1)
    two = await place.start("two", BrokerRole.ASYNC_MASTER, 2, name_servers=())
    two.broker.registrar.use([place.name_server])
    await eventually(lambda: two.broker.replication.refusal_reason)
    assert address(one) in (two.broker.replication.refusal_reason or "")
    with pytest.raises(StoreUnavailable):
        two.broker.store.append(draft(b"refused"))
    one.broker.store.append(draft(b"taken"))
    assert one.broker.replication.refusal_reason is None
    assert observed(two).unready_reasons()


async def test_a_promoted_slave_guarantees_what_its_master_did(place: SecretPlace) -> None:
    one = await place.start("one", BrokerRole.SYNC_MASTER, 1, ack_policy=None)
    two = await place.start("two", BrokerRole.SLAVE, 2, ack_policy=None)
    await eventually(lambda: has_all(two, one))
    async with AsyncAdmin(place.name_server) as admin:
        promoted = await admin.promote_broker(address(two), force=True)
        assert promoted == Promotion("one", 2)
        printed = await admin.broker_runtime(address(two))
    assert printed["replicationAcknowledge"] == "one"
    assert two.broker.config.waits_for_slaves
    await place.running.aclose()
    again = await place.start("two", BrokerRole.SLAVE, 2, ack_policy=None)
    assert again.broker.config.role is BrokerRole.SYNC_MASTER
