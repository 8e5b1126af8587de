"""Pops in order at our broker and at one of Apache: what a client sees of one message group is the
same. Where there are several, Apache blocks them together, and ours does not.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import read_header
from roquet.protocol.headers.groups import GetMaxOffsetHeader, OffsetReplyHeader
from roquet.protocol.headers.pop import ChangeInvisibleTimeReplyHeader
from tests.support.blocking_peer import BlockingPeer
from tests.support.client_servers import PopServer
from tests.support.common_requests import common_send_header, receipt_of
from tests.support.eventually import wait_until
from tests.support.popped import Popped, ack_header, change_header, pop_header

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

SHORT_MS = 2_000
LONG_MS = 60_000


class Client(NamedTuple):
    """One that pops from the one queue of a topic of its own."""

    peer: BlockingPeer
    topic: str
    broker_name: str

    def send(self, *bodies: bytes) -> None:
        for body in bodies:
            header = common_send_header(self.topic)
            header.properties = "__SHARDINGKEY\x01a"
            receipt_of(self.peer.call(RequestCode.SEND_MESSAGE_V2, header, body))
        wait_until(lambda: self.end_offset == len(bodies))  # Apache's queues are a little late.

    @property
    def end_offset(self) -> int:
        header = GetMaxOffsetHeader(topic=self.topic, queue_id=0)
        reply = self.peer.call(RequestCode.GET_MAX_OFFSET, header)
        return read_header(OffsetReplyHeader, reply.fields).offset

    def pop(self, count: int, invisible_ms: int = LONG_MS, attempt_id: str | None = None) -> Popped:
        header = pop_header(
            topic=self.topic,
            max_msg_nums=count,
            invisible_time=invisible_ms,
            order=True,
            attempt_id=attempt_id,
        )
        return Popped(self.peer.call(RequestCode.POP_MESSAGE, header), self.broker_name)

    def ack(self, popped: Popped, index: int, offset: int | None = None) -> int:
        header = ack_header(popped.receipts[index], topic=self.topic)
        header.offset = header.offset if offset is None else offset
        return self.peer.call(RequestCode.ACK_MESSAGE, header).code


@pytest.fixture
def client(pop_server: PopServer, pop_topic: str) -> Iterator[Client]:
    with BlockingPeer(pop_server.broker) as peer:
        yield Client(peer, pop_topic, pop_server.broker_name)


def test_a_message_group_looks_the_same(client: Client) -> None:
    client.send(b"0", b"1", b"2", b"3")
    first = client.pop(2, attempt_id="x")
    assert (first.bodies, first.header.revive_qid) == ([b"0", b"1"], 999)
    assert first.header.start_offset_info == "0 0 0"
    assert first.header.msg_offset_info == "0 0 0,1"
    assert first.header.order_count_info == "0 0 0"
    # Blocked, but not for the attempt that has it.
    assert client.pop(2).bodies == []
    again = client.pop(2, attempt_id="x")
    assert (again.bodies, again.header.order_count_info) == ([b"0", b"1"], "0 0 0")
    # The old receipts are over, and a message that was not popped cannot be acknowledged.
    assert client.ack(first, 0) == 0
    assert client.ack(again, 0, offset=3) == 13
    assert client.ack(again, 0) == 0
    assert client.pop(2).bodies == []
    assert client.ack(again, 1) == 0
    assert client.pop(1, SHORT_MS).bodies == [b"2"]
    later: list[Popped] = []

    def has_come_again() -> bool:
        later.append(client.pop(1))
        return bool(later[-1].bodies)

    wait_until(has_come_again)
    assert later[-1].bodies == [b"2"]
    assert sorted((later[-1].header.order_count_info or "").split(";")) == ["0 0 1", "0 qo0%2 1"]


def test_a_changed_time_looks_the_same(client: Client) -> None:
    client.send(b"0")
    receipt = client.pop(1).receipts[0]
    header = change_header(receipt, SHORT_MS, topic=client.topic)
    reply = client.peer.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
    changed = read_header(ChangeInvisibleTimeReplyHeader, reply.fields)
    assert (reply.code, changed.pop_time, changed.revive_qid) == (0, receipt.pop_time_ms, 999)
    assert SHORT_MS <= changed.invisible_time < LONG_MS
    wait_until(lambda: client.pop(1).bodies == [b"0"])
