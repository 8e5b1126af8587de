"""What slaves and operators learn of delayed messages."""

from roquet.broker.turn import Turn
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.kv_table import KvTable
from roquet.protocol.bodies.offset_table import DelayOffsetTable
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.addressed import NoFields
from tests.support.broker_bed import BedClient, BrokerBed
from tests.support.waiting import Receiver, put_delayed


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


async def test_an_operator_sees_how_far_each_level_is(bed: BrokerBed, client: BedClient) -> None:
    for _ in range(3):
        put_delayed(bed.broker.store, level=2)
    bed.clock.advance(5)
    bed.broker.delays.deliver(Turn(Receiver(), bed.clock, count_max=2))
    reply = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO, NoFields())
    table = read_body(KvTable, reply.body).table
    assert {name: value for name, value in table.items() if name.startswith("schedule")} == {
        "scheduleMessageOffset_2": "2,3"
    }
