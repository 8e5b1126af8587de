"""A broker whose messages are popped in order is killed again and again, at any moment.

With sync flush: a message whose ack was answered never comes again, every other one does, none
while a client may still be busy with it, and none before an earlier one of its message group.
"""

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from roquet.broker.pop.receipts import Receipt
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.pop import AckMessageHeader
from tests.support.blocking_peer import BlockingPeer, PeerGone
from tests.support.common_requests import common_send_header, receipt_of
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker
from tests.support.popped import GROUP, TOPIC, Popped, pop_header
from tests.support.topics import create_topic

KILL_COUNT = 50 if os.environ.get("ROQUET_LONG") else 10
SYNC = {"flushDiskType": "SYNC_FLUSH", "brokerName": "broker-a"}
INVISIBLE_MS = 1_500
LIFE_S = (0.05, 0.6)
MESSAGE_GROUPS = (b"a", b"b", b"c")
SENT_COUNT = 40


class OrderedWorker:
    """One client that pops in order, acks some, and forgets the others."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        # Of each message group, in order.
        self.sent: dict[bytes, list[bytes]] = {group: [] for group in MESSAGE_GROUPS}
        self.acked: set[bytes] = set()
        # Whether the broker has the ack is not known: it was killed meanwhile.
        self.perhaps_acked: set[bytes] = set()
        self.invisible_until_ms: dict[bytes, int] = {}
        self.violations: list[str] = []

    @property
    def has_acked_all(self) -> bool:
        return {body for group in self.sent.values() for body in group} == (
            self.acked | self.perhaps_acked
        )

    def send(self, address: str) -> None:
        with BlockingPeer(address) as peer:
            for _ in range(SENT_COUNT):
                group = self._choose.choice(MESSAGE_GROUPS)
                body = b"%b%d" % (group, len(self.sent[group]))
                header = common_send_header(TOPIC)
                header.properties = f"__SHARDINGKEY\x01{group.decode()}"
                receipt_of(peer.call(RequestCode.SEND_MESSAGE_V2, header, body))
                self.sent[group].append(body)

    def work(self, address: str) -> None:
        """Until the broker is gone."""
        with suppress(OSError, PeerGone), BlockingPeer(address) as peer:
            while True:
                self.pop_once(peer, ack_share=0.7)

    def pop_once(self, peer: BlockingPeer, ack_share: float) -> None:
        header = pop_header(max_msg_nums=8, invisible_time=INVISIBLE_MS, poll_time=100, order=True)
        popped = Popped(peer.call(RequestCode.POP_MESSAGE, header))
        now_ms = time.time_ns() // 1_000_000
        bodies = [bytes(message.body) for message in popped.messages]
        for index, body in enumerate(bodies):
            self._check(body, bodies[:index], now_ms)
        for body, receipt in zip(bodies, popped.receipts, strict=True):
            self.invisible_until_ms[body] = receipt.pop_time_ms + receipt.invisible_ms
        for body, receipt in zip(bodies, popped.receipts, strict=True):
            if self._choose.random() < ack_share:
                self._ack(peer, body, receipt)

    def _check(self, body: bytes, before: list[bytes], now_ms: int) -> None:
        if body in self.acked:
            self.violations.append(f"{body!r} came after its ack was answered")
        if now_ms < self.invisible_until_ms.get(body, 0):
            self.violations.append(f"{body!r} came too early")
        group = self.sent[body[:1]]
        done = self.acked | self.perhaps_acked | set(before)
        missing = [each for each in group[: group.index(body)] if each not in done]
        if missing:
            self.violations.append(f"{body!r} came before {missing}")

    def _ack(self, peer: BlockingPeer, body: bytes, receipt: Receipt) -> None:
        header = AckMessageHeader(
            consumer_group=GROUP,
            topic=TOPIC,
            queue_id=receipt.queue_id,
            extra_info=receipt.text,
            offset=receipt.offset,
        )
        self.perhaps_acked.add(body)
        if peer.call(RequestCode.ACK_MESSAGE, header).code == ResponseCode.SUCCESS:
            self.perhaps_acked.discard(body)
            self.acked.add(body)


@contextmanager
def working(worker: OrderedWorker, address: str) -> Iterator[None]:
    thread = threading.Thread(target=worker.work, args=(address,))
    thread.start()
    yield
    thread.join()


@pytest.mark.full("kills a broker under load; test_killed_pops does it without order")
def test_no_kill_loses_an_ack_a_message_or_the_order(quick_path: Path) -> None:
    seed = random.randrange(1 << 32)
    choose, worker = random.Random(seed), OrderedWorker(seed)
    with OurBroker(quick_path, configuration=SYNC) as broker:
        create_topic(broker.address, TOPIC, 1)
        for _ in range(KILL_COUNT):
            worker.send(broker.address)
            with working(worker, broker.address):
                ends_s = time.monotonic() + choose.uniform(*LIFE_S)
                wait_until(lambda: time.monotonic() > ends_s)  # noqa: B023  Awaited at once.
                broker.kill()
            broker.start()
        with BlockingPeer(broker.address) as peer:

            def all_are_acked() -> bool:
                worker.pop_once(peer, ack_share=1.0)
                return worker.has_acked_all

            wait_until(all_are_acked)
        assert worker.violations == [], f"seed {seed}"
