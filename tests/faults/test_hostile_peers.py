"""Peers that mean no good, against the process that users run: each costs only itself.

What is done about them is tested piece by piece in tests/unit/net, with a clock that moves; here
it is seen that the broker is put together so, and that others do not notice.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command, decode_command, encode_command
from roquet.protocol.frame import FRAME_SIZE_MAX
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.messages.record import split_records
from tests.support.common_requests import common_pull, common_send, receipt_of
from tests.support.golden_frames import golden_frames
from tests.support.hostile_bytes import hostile_bytes
from tests.support.our_cluster import OurBroker
from tests.support.process_memory import resident_size
from tests.support.raw_peer import RawPeer
from tests.support.topics import create_topic

pytestmark = pytest.mark.xdist_group("chaos")

MEGABYTE = 1024 * 1024
FRAME_TIMEOUT_S = 10.0
# What others may feel of it, on a machine that is busy elsewhere.
DELAY_S_MAX = 5.0

MORE = 100 if os.environ.get("ROQUET_LONG") else 1
TOPIC = "attacked"
HUGE = FRAME_SIZE_MAX + 1

GARBAGE = {
    "noise": Random(1).randbytes(1000),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600),
    "negative length": b"\xff" * 8,
    "no length": bytes(8),
    "huge length": HUGE.to_bytes(4) + bytes(100),
    "header behind the end": (20).to_bytes(4) + (10_000).to_bytes(4) + bytes(16),
    "unknown serializer": (20).to_bytes(4) + (7 << 24 | 16).to_bytes(4) + bytes(16),
    "no json": (20).to_bytes(4) + (16).to_bytes(4) + b"{" * 16,
}


def port_of(broker: OurBroker) -> int:
    return int(broker.address.rpartition(":")[2])


@pytest.fixture(scope="module", autouse=True)
def topic(broker: OurBroker) -> None:
    create_topic(broker.address, TOPIC)


@pytest.fixture
async def bystander(broker: OurBroker) -> AsyncIterator[None]:
    """Somebody who sends and reads all the while, is never kept waiting, and loses nothing."""
    delays_s: list[float] = []
    stop = asyncio.Event()

    async def live() -> None:
        async with await RawPeer.connect(port_of(broker)) as peer:
            while not stop.is_set():
                started_s = time.monotonic()
                body = os.urandom(16)
                offset = receipt_of(await peer.ask(common_send(TOPIC, body))).queue_offset
                pulled = await peer.ask(common_pull(TOPIC, 0, offset))
                delays_s.append(time.monotonic() - started_s)
                assert split_records(pulled.body)[0].body == body
                await asyncio.sleep(0.01)

    life = asyncio.create_task(live())
    yield
    stop.set()
    await life
    assert max(delays_s) < DELAY_S_MAX


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_is_cut_off_at_once(broker: OurBroker, garbage: bytes) -> None:
    async with await RawPeer.connect(port_of(broker)) as peer:
        peer.send(garbage)
        await peer.until_closed()


@pytest.mark.usefixtures("bystander")
async def test_what_was_asked_before_the_garbage_is_answered(broker: OurBroker) -> None:
    async with await RawPeer.connect(port_of(broker)) as peer:
        peer.send(common_send(TOPIC, b"good", opaque=7), GARBAGE["negative length"])
        reply = await peer.receive()
        assert (reply.opaque, reply.code) == (7, ResponseCode.SUCCESS)
        await peer.until_closed()


@pytest.mark.usefixtures("bystander")
async def test_one_byte_a_second_is_cut_off(broker: OurBroker) -> None:
    request = encode_command(common_send(TOPIC, b"slow"))
    async with await RawPeer.connect(port_of(broker)) as peer:
        started_s = time.monotonic()
        closed = asyncio.create_task(peer.until_closed(FRAME_TIMEOUT_S + 40))
        for byte in request:
            peer.send(bytes([byte]))
            await asyncio.wait([closed], timeout=1)
            if closed.done():
                break
        await closed
    assert FRAME_TIMEOUT_S - 1 < time.monotonic() - started_s < FRAME_TIMEOUT_S + 30


@pytest.mark.usefixtures("bystander")
async def test_lengths_that_are_only_declared_cost_nothing(broker: OurBroker) -> None:
    size_before = resident_size(broker.process_id)
    peers = [await RawPeer.connect(port_of(broker)) for _ in range(200)]
    try:
        for peer in peers:
            peer.send((FRAME_SIZE_MAX - 1).to_bytes(4) + bytes(4))
        # Answered after those before it were looked at.
        await peers[-1].until_sent()
        async with await RawPeer.connect(port_of(broker)) as witness:
            assert (await witness.ask(common_pull(TOPIC, 0, 0))).code == ResponseCode.SUCCESS
        assert resident_size(broker.process_id) - size_before < 10 * MEGABYTE
    finally:
        for peer in peers:
            peer.close()


@pytest.mark.usefixtures("bystander")
async def test_a_peer_that_asks_and_never_reads_gets_no_more_than_its_share(
    broker: OurBroker,
) -> None:
    async with await RawPeer.connect(port_of(broker)) as sender:
        offset = receipt_of(await sender.ask(common_send(TOPIC, bytes(MEGABYTE)))).queue_offset
    size_before = resident_size(broker.process_id)
    async with await RawPeer.connect(port_of(broker)) as peer:
        peer.stop_reading()
        # A gigabyte, if it were all answered.
        peer.send(*(common_pull(TOPIC, 0, offset, opaque=each) for each in range(1000)))
        await peer.until_sent()
        async with await RawPeer.connect(port_of(broker)) as witness:
            assert (await witness.ask(common_pull(TOPIC, 0, 0))).code == ResponseCode.SUCCESS
        assert resident_size(broker.process_id) - size_before < 20 * MEGABYTE
        # Who reads after all gets everything.
        peer.go_on_reading()
        assert [(await peer.receive()).opaque for _ in range(5)] == [0, 1, 2, 3, 4]


@pytest.mark.usefixtures("bystander")
async def test_a_peer_that_lets_answers_pile_up_is_cut_off(broker: OurBroker) -> None:
    create_topic(broker.address, "piled")
    size_before = resident_size(broker.process_id)
    async with await RawPeer.connect(port_of(broker)) as peer:
        # Nothing is there yet, so all of them wait for one message, which makes a gigabyte.
        peer.send(*(common_pull("piled", 0, 0, wait_ms=60_000) for _ in range(1000)))
        assert (await peer.ask(Command(RequestCode.GET_BROKER_CONFIG, opaque=1))).opaque == 1
        peer.stop_reading()
        async with await RawPeer.connect(port_of(broker)) as sender:
            receipt_of(await sender.ask(common_send("piled", bytes(MEGABYTE))))
            assert (await sender.ask(common_pull(TOPIC, 0, 0))).code == ResponseCode.SUCCESS
        assert resident_size(broker.process_id) - size_before < 100 * MEGABYTE
        peer.go_on_reading()
        assert len(await peer.until_closed()) < 70 * MEGABYTE


@pytest.mark.parametrize("seed", range(2 * MORE))
async def test_mistakes_in_real_requests_break_nothing(tmp_path: Path, seed: int) -> None:
    """On a broker of its own: some mistakes make requests of operators."""
    random = Random(seed)
    requests = [
        golden.data
        for golden in golden_frames()
        if golden.kind == "request" and golden.receiver == "broker"
    ]
    with OurBroker(tmp_path) as broker:
        for _ in range(500):
            async with await RawPeer.connect(port_of(broker)) as peer:
                peer.send(hostile_bytes(random, requests))
                peer.end_sending()
                answers = FrameDecoder().cut(await peer.until_closed())
                assert all(decode_command(answer).is_response for answer in answers)
        async with await RawPeer.connect(port_of(broker)) as peer:
            reply = await peer.ask(Command(RequestCode.GET_BROKER_CONFIG, opaque=1))
            assert reply.code == ResponseCode.SUCCESS
        # At the end of the block it stops, and has not logged an error.
