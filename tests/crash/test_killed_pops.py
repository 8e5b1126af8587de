"""A broker whose messages are popped is killed again and again, at any moment.

With sync flush: a message whose ack was answered never comes again, every other one does, and none
while a client may still be busy with it. With order, none comes before an earlier one of its
message group.
"""

import os
import random
import time
from pathlib import Path

import pytest

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.messages.pop_receipt import Receipt
from tests.support.blocking_peer import BlockingPeer
from tests.support.common_requests import common_send_header, receipt_of
from tests.support.killed_pops import PopRecord, pop_through_kills
from tests.support.popped import TOPIC, Popped, change_header, pop_header

IS_LONG = bool(os.environ.get("ROQUET_LONG"))
INVISIBLE_MS = 1_500
# Longer than any kill leaves it alone.
LONG_MS = 4_000
MESSAGE_GROUPS = (b"a", b"b", b"c")
SENT_COUNT = 40


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Worker:
    """Pops in any order, and postpones some."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._choose = random.Random(seed)
        self.record = PopRecord()
        self.sent: set[bytes] = set()

    def send(self, peer: BlockingPeer) -> None:
        for _ in range(SENT_COUNT):
            body = b"%d" % len(self.sent)
            receipt_of(peer.call(RequestCode.SEND_MESSAGE_V2, common_send_header(TOPIC), body))
            self.sent.add(body)

    def pop_once(self, peer: BlockingPeer, ack_share: float) -> None:
        header = pop_header(max_msg_nums=8, invisible_time=INVISIBLE_MS, poll_time=100)
        popped = Popped(peer.call(RequestCode.POP_MESSAGE, header))
        came_ms = now_ms()
        for body, receipt in zip(popped.bodies, popped.receipts, strict=True):
            self.record.check(body, came_ms)
            self.record.invisible_until_ms[body] = receipt.pop_time_ms + receipt.invisible_ms
        for body, receipt in zip(popped.bodies, popped.receipts, strict=True):
            chance = self._choose.random()
            if chance < ack_share:
                self.record.ack(peer, body, receipt)
            elif chance < ack_share + 0.1:
                self._postpone(peer, body, receipt)

    def _postpone(self, peer: BlockingPeer, body: bytes, receipt: Receipt) -> None:
        before_ms = now_ms()
        header = change_header(receipt, LONG_MS)
        reply = peer.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        if reply.code == ResponseCode.SUCCESS:
            self.record.invisible_until_ms[body] = before_ms + LONG_MS


class OrderedWorker:
    """Pops in order, of several message groups."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._choose = random.Random(seed)
        self.record = PopRecord()
        # Of each message group, in order.
        self._groups: dict[bytes, list[bytes]] = {group: [] for group in MESSAGE_GROUPS}

    @property
    def sent(self) -> set[bytes]:
        return {body for group in self._groups.values() for body in group}

    def send(self, peer: BlockingPeer) -> None:
        for _ in range(SENT_COUNT):
            group = self._choose.choice(MESSAGE_GROUPS)
            body = b"%b%d" % (group, len(self._groups[group]))
            header = common_send_header(TOPIC)
            header.properties = f"__SHARDINGKEY\x01{group.decode()}"
            receipt_of(peer.call(RequestCode.SEND_MESSAGE_V2, header, body))
            self._groups[group].append(body)

    def pop_once(self, peer: BlockingPeer, ack_share: float) -> None:
        header = pop_header(max_msg_nums=8, invisible_time=INVISIBLE_MS, poll_time=100, order=True)
        popped = Popped(peer.call(RequestCode.POP_MESSAGE, header))
        came_ms = now_ms()
        for index, body in enumerate(popped.bodies):
            self.record.check(body, came_ms)
            self._check_order(body, popped.bodies[:index])
        for body, receipt in zip(popped.bodies, popped.receipts, strict=True):
            self.record.invisible_until_ms[body] = receipt.pop_time_ms + receipt.invisible_ms
        for body, receipt in zip(popped.bodies, popped.receipts, strict=True):
            if self._choose.random() < ack_share:
                self.record.ack(peer, body, receipt)

    def _check_order(self, body: bytes, before: list[bytes]) -> None:
        group = self._groups[body[:1]]
        done = self.record.done | set(before)
        missing = [each for each in group[: group.index(body)] if each not in done]
        if missing:
            self.record.violations.append(f"{body!r} came before {missing}")


def test_no_kill_loses_an_ack_or_a_message(quick_path: Path) -> None:
    seed = random.randrange(1 << 32)
    violations = pop_through_kills(
        Worker(seed), quick_path, queue_count=2, kill_count=50 if IS_LONG else 4, ack_share=0.5
    )
    assert violations == [], f"seed {seed}"


@pytest.mark.full("kills a broker under load; the test before does it without order")
def test_no_kill_loses_an_ack_a_message_or_the_order(quick_path: Path) -> None:
    seed = random.randrange(1 << 32)
    violations = pop_through_kills(
        OrderedWorker(seed),
        quick_path,
        queue_count=1,
        kill_count=50 if IS_LONG else 10,
        ack_share=0.7,
    )
    assert violations == [], f"seed {seed}"
