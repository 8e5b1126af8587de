"""How a master and its slaves see each other, and what a slave says to clients."""

from pathlib import Path

import pytest

from roquet.broker.replication.replica_progress import Slave
from roquet.broker.settings.config import BrokerRole
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.brokers import HaStatus, SlaveConnection
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import field_texts
from tests.support.broker_bed import (
    VERSION_4_9_7,
    VERSION_5_5_0,
    BedClient,
    BrokerBed,
    broker_bed,
)
from tests.support.common_requests import common_pull_header, common_send_header
from tests.support.drafts import draft
from tests.support.stores import messages, opened

TOPIC = "TopicA"


async def status(client: BedClient) -> HaStatus:
    return read_body(HaStatus, (await client.ask(RequestCode.GET_BROKER_HA_STATUS)).body)


async def test_a_master_names_its_slaves(bed: BrokerBed, client: BedClient) -> None:
    end = bed.put().size
    bed.broker.replication.replicas.join(Slave("10.1.2.3:4", 10, 20))
    found = await status(client)
    assert found.master
    assert (found.master_commit_log_max_offset, found.in_sync_slave_nums) == (end, 1)
    assert found.ha_connection_info == [
        SlaveConnection(
            addr="10.1.2.3:4",
            diff=end - 10,
            in_sync=True,
            slave_ack_offset=10,
            transfer_from_where=20,
        )
    ]


async def runtime_values(client: BedClient) -> dict[str, str]:
    reply = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    return read_body(KvTable, reply.body).table


async def test_operators_see_the_role_and_the_lag(bed: BrokerBed, client: BedClient) -> None:
    end = bed.put().size
    assert (await runtime_values(client))["slaveCount"] == "0"
    bed.broker.replication.replicas.join(Slave("10.1.2.3:4", 10, 20))
    values = await runtime_values(client)
    assert values["brokerRole"] == "ASYNC_MASTER"
    assert (values["slaveCount"], values["slaveLagBytes"]) == ("1", str(end - 10))


async def test_operators_see_whom_a_slave_follows(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, role=BrokerRole.SLAVE, broker_id=1) as bed:
        values = await runtime_values(bed.connect())
        assert (values["brokerRole"], values["followedMaster"]) == ("SLAVE", "")


async def test_a_slave_says_how_far_it_is(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, role=BrokerRole.SLAVE, broker_id=1) as bed:
        found = await status(bed.connect())
        assert not found.master
        assert found.ha_client_runtime_info.max_offset == 0


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (VERSION_4_9_7, ResponseCode.SERVICE_NOT_AVAILABLE),
        (VERSION_5_5_0, ResponseCode.SYSTEM_BUSY),
    ],
)
async def test_a_slave_takes_no_messages_and_makes_no_topics(
    tmp_path: Path, version: int, code: ResponseCode
) -> None:
    async with broker_bed(tmp_path, role=BrokerRole.SLAVE, broker_id=1) as bed:
        header = common_send_header("Fresh")
        reply = await bed.connect().ask(
            RequestCode.SEND_MESSAGE_V2, header, b"body", version=version
        )
        assert reply.code == code
        assert bed.broker.tables.topics.find("Fresh") is None
        assert bed.broker.store.log_end == 0


@pytest.mark.parametrize(
    ("checks_offsets", "code", "next_offset"),
    [
        (False, ResponseCode.PULL_RETRY_IMMEDIATELY, "7"),
        (True, ResponseCode.PULL_OFFSET_MOVED, "2"),
    ],
)
async def test_a_slave_moves_a_reader_only_if_it_may(
    tmp_path: Path, checks_offsets: bool, code: ResponseCode, next_offset: str
) -> None:
    with opened(tmp_path) as store:
        store.append(draft())
        store.append(draft())
    async with broker_bed(
        tmp_path, role=BrokerRole.SLAVE, broker_id=1, slave_checks_offsets=checks_offsets
    ) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name=TOPIC))
        reply = await bed.connect().ask(RequestCode.PULL_MESSAGE, common_pull_header(TOPIC, 0, 7))
        assert reply.code == code
        assert field_texts(reply.fields)["nextBeginOffset"] == next_offset


async def test_readers_of_a_slave_get_what_it_has(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(draft(b"copied"))
    async with broker_bed(tmp_path, role=BrokerRole.SLAVE, broker_id=1) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name=TOPIC))
        assert [each.body for each in messages(bed.broker.store, TOPIC)] == [b"copied"]
        reply = await bed.connect().ask(RequestCode.PULL_MESSAGE, common_pull_header(TOPIC, 0, 0))
        assert reply.code == ResponseCode.SUCCESS
