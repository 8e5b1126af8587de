"""kill -9 in the middle of everything, and a start on the same directory.

The page cache survives, so this says nothing about disks (tests/crash does); it says that a
broker that was torn away at any point comes back with all that it has acknowledged, that nobody
gets anything twice or out of order, and that readers that waited go on.
"""

import asyncio
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from roquet.protocol.codes import ResponseCode
from roquet.protocol.fields import read_header
from roquet.protocol.headers.messages import PullMessageReplyHeader
from roquet.protocol.messages.record import split_records
from tests.support.common_requests import common_pull, common_send, receipt_of
from tests.support.eventually import eventually
from tests.support.our_cluster import OurBroker
from tests.support.raw_peer import RawPeer
from tests.support.topics import create_topic

pytestmark = pytest.mark.xdist_group("chaos")

TOPIC = "killed"
QUEUE_COUNT = 4
IN_FLIGHT = 16
KILL_COUNT = 100 if os.environ.get("ROQUET_LONG") else 4
# What a peer may meet while the broker is away.
GONE = (ConnectionError, TimeoutError)
PAUSE_S = 0.01


@dataclass
class Ledger:
    """What became of the messages of one queue: each is sent once, under a number of its own."""

    attempted: set[bytes] = field(default_factory=set)
    acknowledged: dict[int, bytes] = field(default_factory=dict)  # by offset
    read: list[bytes] = field(default_factory=list)  # the index is the offset

    @property
    def is_read(self) -> bool:
        return len(self.read) > max(self.acknowledged, default=-1)


async def keep_sending(port: int, queue_id: int, ledger: Ledger, stop: asyncio.Event) -> None:
    number = 0
    while not stop.is_set():
        try:
            async with await RawPeer.connect(port) as peer:
                while not stop.is_set():
                    bodies = [b"%d-%d" % (queue_id, number + each) for each in range(IN_FLIGHT)]
                    number += IN_FLIGHT
                    ledger.attempted.update(bodies)
                    peer.send(*(common_send(TOPIC, body, queue_id) for body in bodies))
                    for body in bodies:
                        receipt = receipt_of(await peer.receive())
                        assert receipt.queue_offset not in ledger.acknowledged
                        ledger.acknowledged[receipt.queue_offset] = body
        except GONE:
            await asyncio.sleep(PAUSE_S)


async def keep_reading(port: int, queue_id: int, ledger: Ledger) -> None:
    while True:
        try:
            async with await RawPeer.connect(port) as peer:
                while True:
                    offset = len(ledger.read)
                    pull = common_pull(TOPIC, queue_id, offset, wait_ms=5000)
                    reply = await peer.ask(pull)
                    if reply.code == ResponseCode.SUCCESS:
                        messages = split_records(reply.body)
                        offsets = [message.queue_offset for message in messages]
                        assert offsets == list(range(offset, offset + len(messages)))
                        ledger.read += [message.body for message in messages]
                    else:
                        assert reply.code == ResponseCode.PULL_NOT_FOUND, reply
                        place = read_header(PullMessageReplyHeader, reply.fields)
                        assert place.max_offset == offset
        except GONE:
            await asyncio.sleep(PAUSE_S)


async def kill_and_restart(broker: OurBroker, ledgers: list[Ledger], moment: random.Random) -> None:
    """Lets some be acknowledged first, then waits a little, to be anywhere in the work."""
    counts = [len(ledger.acknowledged) for ledger in ledgers]
    await eventually(
        lambda: all(
            len(ledger.acknowledged) > count for ledger, count in zip(ledgers, counts, strict=True)
        ),
        patience_s=30,
    )
    await asyncio.sleep(moment.uniform(0, 0.2))
    broker.kill()
    await asyncio.to_thread(broker.start)


@pytest.mark.parametrize("flush_mode", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_nothing_acknowledged_is_lost_and_no_reader_is_stuck(
    tmp_path: Path, flush_mode: str
) -> None:
    seed = random.randrange(2**32)
    moment = random.Random(seed)
    ledgers = [Ledger() for _ in range(QUEUE_COUNT)]
    stop = asyncio.Event()
    with OurBroker(tmp_path, configuration={"flushDiskType": flush_mode}) as broker:
        create_topic(broker.address, TOPIC, QUEUE_COUNT)
        port = int(broker.address.rpartition(":")[2])
        async with asyncio.TaskGroup() as tasks:
            senders = [
                tasks.create_task(keep_sending(port, queue_id, ledger, stop))
                for queue_id, ledger in enumerate(ledgers)
            ]
            readers = [
                tasks.create_task(keep_reading(port, queue_id, ledger))
                for queue_id, ledger in enumerate(ledgers)
            ]
            for _ in range(KILL_COUNT):
                await kill_and_restart(broker, ledgers, moment)
            stop.set()
            await asyncio.wait(senders)
            await eventually(lambda: all(ledger.is_read for ledger in ledgers), patience_s=30)
            for reader in readers:
                reader.cancel()
    for ledger in ledgers:
        read = dict(enumerate(ledger.read))
        assert ledger.acknowledged.items() <= read.items(), seed
        assert ledger.attempted >= set(ledger.read), seed
        assert len(set(ledger.read)) == len(ledger.read), seed
