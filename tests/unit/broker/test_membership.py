"""Clients that fall silent."""

from pathlib import Path

from roquet.broker.membership import expire_clients
from roquet.broker.tables.clients import SILENCE_S_MAX
from roquet.protocol.codes import RequestCode
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.eventually import eventually

READS = {"g": ["TopicA"]}


def member_ids(bed: BrokerBed) -> list[str]:
    group = bed.broker.clients.consumers.find("g")
    return [] if group is None else group.client_ids


async def test_a_member_without_heartbeats_is_cut_off_and_the_others_take_over(
    tmp_path: Path,
) -> None:
    async with broker_bed(tmp_path) as bed:
        silent, producer, alive = bed.connect(), bed.connect(), bed.connect()
        await silent.beat("c1", reads=READS)
        await producer.beat("p1", sends=["p"])
        bed.clock.advance(SILENCE_S_MAX)
        await alive.beat("c2", reads=READS)
        expire_clients(bed.broker)
        assert member_ids(bed) == ["c1", "c2"]
        await alive.all_asked()
        bed.clock.advance(1)
        expire_clients(bed.broker)
        assert member_ids(bed) == ["c2"]
        (notice,) = await alive.all_asked()
        assert notice.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        await eventually(lambda: silent.is_closed and producer.is_closed)
        assert not alive.is_closed
