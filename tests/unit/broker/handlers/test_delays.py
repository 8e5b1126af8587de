"""What slaves learn of delayed messages."""

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.offset_table import DelayOffsetTable
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.addressed import NoFields
from tests.support.broker_bed import BedClient, BrokerBed


async def test_a_slave_is_told_what_the_disk_knows_and_no_more(
    bed: BrokerBed, client: BedClient
) -> None:
    async def told() -> dict[int, int]:
        reply = await client.ask(RequestCode.GET_ALL_DELAY_OFFSET, NoFields())
        return read_body(DelayOffsetTable, reply.body).offset_table

    delays = bed.broker.delays
    delays.levels._levels[0].offset = 6
    delays.propose()
    assert await told() == {}
    delays.settle(bed.broker.store.log_end)
    assert (await told())[1] == 6
