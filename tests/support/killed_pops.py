"""Pops at a broker that is killed again and again, at any moment.

With sync flush: a message whose ack was answered never comes again, every other one does, and none
while a client may still be busy with it. What else has to be true of them, a `PopWorker` checks.
"""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.messages.pop_receipt import Receipt
from tests.support.blocking_peer import BlockingPeer, PeerGone
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker
from tests.support.popped import TOPIC, ack_header
from tests.support.topics import create_topic

_SYNC = {"flushDiskType": "SYNC_FLUSH", "brokerName": "broker-a"}
_LIFE_S = (0.05, 0.6)


class PopRecord:
    """What one client knows of the messages that it has popped, and what should not have come."""

    def __init__(self) -> None:
        self.acked: set[bytes] = set()
        # Whether the broker has the ack is not known: it was killed meanwhile.
        self.perhaps_acked: set[bytes] = set()
        # Until when each message is invisible, as far as an answer promised.
        self.invisible_until_ms: dict[bytes, int] = {}
        self.violations: list[str] = []

    @property
    def done(self) -> set[bytes]:
        return self.acked | self.perhaps_acked

    def check(self, body: bytes, now_ms: int) -> None:
        """Of a message that was popped."""
        if body in self.acked:
            self.violations.append(f"{body!r} came after its ack was answered")
        if now_ms < self.invisible_until_ms.get(body, 0):
            self.violations.append(f"{body!r} came too early")

    def ack(self, peer: BlockingPeer, body: bytes, receipt: Receipt) -> None:
        self.perhaps_acked.add(body)
        reply = peer.call(RequestCode.ACK_MESSAGE, ack_header(receipt))
        self.perhaps_acked.discard(body)
        if reply.code == ResponseCode.SUCCESS:
            self.acked.add(body)


class PopWorker(Protocol):
    """A client that pops, acks a share of what it got, and forgets the rest."""

    @property
    def seed(self) -> int: ...
    @property
    def record(self) -> PopRecord: ...
    @property
    def sent(self) -> set[bytes]: ...
    def send(self, peer: BlockingPeer) -> None: ...
    def pop_once(self, peer: BlockingPeer, ack_share: float) -> None: ...


def pop_through_kills(
    worker: PopWorker, directory: Path, *, queue_count: int, kill_count: int, ack_share: float
) -> list[str]:
    """What was wrong. Returns when every message is acknowledged."""
    choose = random.Random(worker.seed)
    with OurBroker(directory, configuration=_SYNC) as broker:
        create_topic(broker.address, TOPIC, queue_count)
        for _ in range(kill_count):
            with BlockingPeer(broker.address) as peer:
                worker.send(peer)
            with _working(worker, broker.address, ack_share):
                ends_s = time.monotonic() + choose.uniform(*_LIFE_S)
                wait_until(lambda: time.monotonic() > ends_s)  # noqa: B023  Awaited at once.
                broker.kill()
            broker.start()
        with BlockingPeer(broker.address) as peer:

            def all_are_acked() -> bool:
                worker.pop_once(peer, ack_share=1.0)
                return worker.record.done == worker.sent

            wait_until(all_are_acked)
    return worker.record.violations


@contextmanager
def _working(worker: PopWorker, address: str, ack_share: float) -> Iterator[None]:
    """Until the broker is gone."""

    def work() -> None:
        with suppress(OSError, PeerGone), BlockingPeer(address) as peer:
            while True:
                worker.pop_once(peer, ack_share)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()
