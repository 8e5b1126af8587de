"""What clients of 5.5.0 asked a broker of 5.5.0 about pops, asked again of ours."""

from collections.abc import Iterator
from pathlib import Path

from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import RequestCode as Code
from roquet.protocol.fields import field_texts
from roquet.protocol.messages.record import split_records
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.fake_clock import FakeClock
from tests.support.golden_frames import GoldenFrame, golden_frames

TOPIC = "PopPopTopic"
SCENARIO = "pop_s55_c55"
# Java's client, which pushes, and a client that was made by hand and popped from queue 0.
PUSH_SEQS = range(4)
RAW_SEQS = range(15, 31)


def exchanges(seqs: range) -> Iterator[tuple[GoldenFrame, GoldenFrame]]:
    waiting: dict[int, GoldenFrame] = {}
    for frame in golden_frames():
        if frame.scenario == SCENARIO and frame.seq in seqs:
            if frame.kind == "request":
                waiting[frame.command.opaque] = frame
            else:
                yield waiting.pop(frame.command.opaque), frame


def set_up(bed: BrokerBed) -> BedClient:
    topic = TopicConfig(topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2)
    bed.broker.tables.topics.update(topic)
    for number in range(18):
        bed.put(b"pop body %d" % number, topic=TOPIC, queue_id=number % 2)
    return bed.connect()


async def test_pops_are_answered_as_recorded(tmp_path: Path) -> None:
    """Fields by field; texts that are Java's habit, such as "not set any response code", apart."""
    seen = set()
    clock = FakeClock(1_794_774_525_602)
    async with broker_bed(tmp_path, clock=clock) as bed:
        client = set_up(bed)
        for request, recorded in exchanges(RAW_SEQS):
            if request.request_code == Code.CHANGE_MESSAGE_INVISIBLETIME:
                clock.advance((1_794_774_534_876 - clock.now_ms()) / 1000)
            client.send(request.command)
            reply = await client.replied()
            place = recorded.place
            assert reply.code == recorded.command.code, (place, reply.remark)
            assert field_texts(reply.fields) == field_texts(recorded.command.fields), place
            assert [each.queue_offset for each in split_records(reply.body)] == [
                each.queue_offset for each in split_records(recorded.command.body)
            ], place
            if recorded.command.remark and "not set" not in recorded.command.remark:
                assert reply.remark == recorded.command.remark
            seen.add(request.request_code)
        assert bed.broker.waiting.pops.in_flight.count == 1
    assert seen == {
        Code.POP_MESSAGE,
        Code.POLLING_INFO,
        Code.PEEK_MESSAGE,
        Code.NOTIFICATION,
        Code.ACK_MESSAGE,
        Code.CHANGE_MESSAGE_INVISIBLETIME,
        Code.BATCH_ACK_MESSAGE,
    }


async def test_a_push_consumer_has_to_pop_as_recorded(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        client = set_up(bed)
        bed.broker.tables.groups.update(GroupConfig(group_name="PopPopGroup"))
        await client.beat("10.9.7.1@drv", reads={"PopPopGroup": [TOPIC]})
        for request, recorded in exchanges(PUSH_SEQS):
            client.send(request.command)
            reply = await client.replied()
            assert (reply.code, reply.body) == (recorded.command.code, recorded.command.body)
