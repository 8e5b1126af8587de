"""What a switch keeps of each table, and what it begins without; docs/replication.md has it all.

Topics and groups are in `replication/test_table_log` and `faults/test_young_tables`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet import AsyncAdmin, Credentials
from roquet.access.accounts import OwnAccount
from roquet.broker.replication.in_sync import AckPolicy
from roquet.broker.settings.config import BrokerRole
from roquet.broker.supervisor import BrokerSupervisor
from roquet.broker.tables.queue_locks import QueueKey
from roquet.client.admin.cluster import AccountSettings
from roquet.client.admin.topics import TopicSettings
from roquet.protocol.codes import Permission
from tests.support.accounts import ACCOUNTS, ADMIN, REPLICA
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.secret_place import HOST, SecretPlace, address, followed, secret_place

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
    # Nobody can have read what the log does not have: it would be skipped when it comes.
    assert two.broker.tables.offsets.find(GROUP, TOPIC, 1) == 0


async def test_locks_of_queues_begin_again(place: SecretPlace) -> None:
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


async def test_what_is_counted_begins_at_each_broker(place: SecretPlace) -> None:
    one, two = await followed(place)
    one.broker.statistics.count_put(TOPIC, 3, 300)
    await switch(place, one, two)
    assert two.broker.statistics.runtime_entries()["putMessageTimesTotal"] == "0"


async def test_a_reset_moves_the_offset_and_is_not_told_again(place: SecretPlace) -> None:
    one, two = await followed(place, ack_policy=AckPolicy.ASYNC)
    for number in range(5):
        one.broker.store.append(draft(b"%d" % number, topic=TOPIC))
    one.broker.tables.offsets.reset(GROUP, TOPIC, 0, 3)
    await eventually(lambda: two.broker.tables.offsets.find(GROUP, TOPIC, 0) == 3)
    await eventually(lambda: two.broker.store.log_end == one.broker.store.log_end)
    await switch(place, one, two)
    assert two.broker.tables.offsets.find(GROUP, TOPIC, 0) == 3
    assert two.broker.tables.offsets.take_reset(GROUP, TOPIC, 0) is None


async def test_offsets_of_a_deleted_group_may_come_back(place: SecretPlace) -> None:
    one, two = await followed(place, ack_policy=AckPolicy.ASYNC)
    one.broker.store.append(draft(b"1", topic=TOPIC))
    one.broker.tables.offsets.commit(GROUP, TOPIC, 0, 1)
    await eventually(lambda: two.broker.tables.offsets.find(GROUP, TOPIC, 0) == 1)
    await eventually(lambda: two.broker.store.log_end == one.broker.store.log_end)
    one.broker.tables.offsets.forget_group(GROUP)
    await switch(place, one, two)
    assert two.broker.tables.offsets.find(GROUP, TOPIC, 0) == 1


async def test_writes_that_name_servers_forbade_are_allowed_again(place: SecretPlace) -> None:
    one, two = await followed(place)
    async with AsyncAdmin(place.name_server) as admin:
        await admin.create_topic(TOPIC, cluster="DefaultCluster")
        await admin.forbid_writes("broker-a")
        assert not (await admin.topic_route(TOPIC))[0].permission & Permission.WRITE
        await switch(place, one, two)
        await eventually(lambda: not two.broker.registrar.has_news)
        assert (await admin.topic_route(TOPIC))[0].permission & Permission.WRITE
