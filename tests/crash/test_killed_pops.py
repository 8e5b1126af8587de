"""A broker whose messages are popped is killed again and again, at any moment.

With sync flush: a message whose ack was answered never comes again, every other one does, and none
while a client may still be busy with it.
"""

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from roquet.broker.pop.receipts import Receipt
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.pop import AckMessageHeader, ChangeInvisibleTimeHeader
from tests.support.blocking_peer import BlockingPeer, PeerGone
from tests.support.common_requests import common_send_header, receipt_of
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker
from tests.support.popped import GROUP, TOPIC, Popped, pop_header, topic_of
from tests.support.topics import create_topic

KILL_COUNT = 50 if os.environ.get("ROQUET_LONG") else 4
SYNC = {"flushDiskType": "SYNC_FLUSH", "brokerName": "broker-a"}
INVISIBLE_MS = 1_500
# Longer than any kill leaves it alone.
LONG_MS = 4_000
LIFE_S = (0.05, 0.6)


class Worker:
    """One client that pops, acks some, postpones some, and forgets the others."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        self.sent: set[bytes] = set()
        self.acked: set[bytes] = set()
        # Until when each message is invisible, as far as an answer promised.
        self.invisible_until_ms: dict[bytes, int] = {}
        self.violations: list[str] = []

    def send(self, address: str, count: int) -> None:
        with BlockingPeer(address) as peer:
            for _ in range(count):
                body = b"%d" % len(self.sent)
                receipt_of(peer.call(RequestCode.SEND_MESSAGE_V2, common_send_header(TOPIC), body))
                self.sent.add(body)

    def work(self, address: str) -> None:
        """Until the broker is gone."""
        with suppress(OSError, PeerGone), BlockingPeer(address) as peer:
            while True:
                self.pop_once(peer, ack_share=0.5)

    def pop_once(self, peer: BlockingPeer, ack_share: float) -> int:
        header = pop_header(max_msg_nums=8, invisible_time=INVISIBLE_MS, poll_time=100)
        popped = Popped(peer.call(RequestCode.POP_MESSAGE, header))
        now_ms = time.time_ns() // 1_000_000
        for message, receipt in zip(popped.messages, popped.receipts, strict=True):
            body = bytes(message.body)
            if body in self.acked:
                self.violations.append(f"{body!r} came after its ack was answered")
            if now_ms < self.invisible_until_ms.get(body, 0):
                self.violations.append(f"{body!r} came too early")
            self.invisible_until_ms[body] = receipt.pop_time_ms + receipt.invisible_ms
        for message, receipt in zip(popped.messages, popped.receipts, strict=True):
            self._decide(peer, bytes(message.body), receipt, ack_share)
        return len(popped.messages)

    def _decide(self, peer: BlockingPeer, body: bytes, receipt: Receipt, ack_share: float) -> None:
        chance = self._choose.random()
        if chance < ack_share:
            header = AckMessageHeader(
                consumer_group=GROUP,
                topic=topic_of(receipt),
                queue_id=receipt.queue_id,
                extra_info=receipt.text,
                offset=receipt.offset,
            )
            if peer.call(RequestCode.ACK_MESSAGE, header).code == ResponseCode.SUCCESS:
                self.acked.add(body)
        elif chance < ack_share + 0.1:
            change = ChangeInvisibleTimeHeader(
                consumer_group=GROUP,
                topic=topic_of(receipt),
                queue_id=receipt.queue_id,
                extra_info=receipt.text,
                offset=receipt.offset,
                invisible_time=LONG_MS,
            )
            before_ms = time.time_ns() // 1_000_000
            reply = peer.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, change)
            if reply.code == ResponseCode.SUCCESS:
                self.invisible_until_ms[body] = before_ms + LONG_MS


@contextmanager
def working(worker: Worker, address: str) -> Iterator[None]:
    thread = threading.Thread(target=worker.work, args=(address,))
    thread.start()
    yield
    thread.join()


def test_no_kill_loses_an_ack_or_a_message(quick_path: Path) -> None:
    seed = random.randrange(1 << 32)
    choose, worker = random.Random(seed), Worker(seed)
    with OurBroker(quick_path, configuration=SYNC) as broker:
        create_topic(broker.address, TOPIC, 2)
        for _ in range(KILL_COUNT):
            worker.send(broker.address, 40)
            with working(worker, broker.address):
                ends_s = time.monotonic() + choose.uniform(*LIFE_S)
                wait_until(lambda: time.monotonic() > ends_s)  # noqa: B023  Awaited at once.
                broker.kill()
            broker.start()
        with BlockingPeer(broker.address) as peer:

            def all_are_acked() -> bool:
                worker.pop_once(peer, ack_share=1.0)
                return worker.acked == worker.sent

            wait_until(all_are_acked)
        assert worker.violations == [], f"seed {seed}"
