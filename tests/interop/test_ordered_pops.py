"""Pops in order at our broker and at one of Apache: what a client sees of one message group is the
same. Where there are several, Apache blocks them together, and ours does not.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import read_header
from roquet.protocol.headers.pop import (
    AckMessageHeader,
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeReplyHeader,
)
from tests.support.apache import ApacheBroker
from tests.support.blocking_peer import BlockingPeer
from tests.support.common_requests import common_send_header, receipt_of
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.popped import GROUP, TOPIC, Popped, pop_header
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NAME = "broker-a"  # As receipts have it.
SHORT_MS = 2_000
LONG_MS = 60_000


@pytest.fixture(params=["ours", "Apache"])
def peer(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BlockingPeer]:
    with OurNameServer(tmp_path / "names") as names:
        directory = tmp_path / "broker"
        broker: OurBroker | ApacheBroker
        if request.param == "ours":
            broker = OurBroker(directory, names.address, broker_name=NAME)
        else:
            broker = ApacheBroker(
                ApacheVersion.V5_5_0,
                directory,
                names.address,
                broker_name=NAME,
                configuration={"timerWheelEnable": "true"},
            )
        with broker:
            create_topic(broker.address, TOPIC, 1)
            with BlockingPeer(broker.address) as peer:
                yield peer


def send(peer: BlockingPeer, *bodies: bytes) -> None:
    for body in bodies:
        header = common_send_header(TOPIC)
        header.properties = "__SHARDINGKEY\x01a"
        receipt_of(peer.call(RequestCode.SEND_MESSAGE_V2, header, body))


def pop(
    peer: BlockingPeer, count: int, invisible_ms: int = LONG_MS, attempt_id: str | None = None
) -> Popped:
    header = pop_header(
        max_msg_nums=count, invisible_time=invisible_ms, order=True, attempt_id=attempt_id
    )
    return Popped(peer.call(RequestCode.POP_MESSAGE, header))


def ack(peer: BlockingPeer, popped: Popped, index: int, offset: int | None = None) -> int:
    receipt = popped.receipts[index]
    header = AckMessageHeader(
        consumer_group=GROUP,
        topic=TOPIC,
        queue_id=0,
        extra_info=receipt.text,
        offset=receipt.offset if offset is None else offset,
    )
    return peer.call(RequestCode.ACK_MESSAGE, header).code


def test_a_message_group_looks_the_same(peer: BlockingPeer) -> None:
    send(peer, b"0", b"1", b"2", b"3")
    first = pop(peer, 2, attempt_id="x")
    assert (first.bodies, first.header.revive_qid) == ([b"0", b"1"], 999)
    assert first.header.start_offset_info == "0 0 0"
    assert first.header.msg_offset_info == "0 0 0,1"
    assert first.header.order_count_info == "0 0 0"
    # Blocked, but not for the attempt that has it.
    assert pop(peer, 2).bodies == []
    again = pop(peer, 2, attempt_id="x")
    assert (again.bodies, again.header.order_count_info) == ([b"0", b"1"], "0 0 0")
    # The old receipts are over, and a message that was not popped cannot be acknowledged.
    assert ack(peer, first, 0) == 0
    assert ack(peer, again, 0, offset=3) == 13
    assert ack(peer, again, 0) == 0
    assert pop(peer, 2).bodies == []
    assert ack(peer, again, 1) == 0
    assert pop(peer, 1, SHORT_MS).bodies == [b"2"]
    later: list[Popped] = []

    def has_come_again() -> bool:
        later.append(pop(peer, 1))
        return bool(later[-1].bodies)

    wait_until(has_come_again)
    assert later[-1].bodies == [b"2"]
    assert sorted((later[-1].header.order_count_info or "").split(";")) == ["0 0 1", "0 qo0%2 1"]


def test_a_changed_time_looks_the_same(peer: BlockingPeer) -> None:
    send(peer, b"0")
    receipt = pop(peer, 1).receipts[0]
    header = ChangeInvisibleTimeHeader(
        consumer_group=GROUP,
        topic=TOPIC,
        queue_id=0,
        extra_info=receipt.text,
        offset=receipt.offset,
        invisible_time=SHORT_MS,
    )
    reply = peer.call(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
    changed = read_header(ChangeInvisibleTimeReplyHeader, reply.fields)
    assert (reply.code, changed.pop_time, changed.revive_qid) == (0, receipt.pop_time_ms, 999)
    assert SHORT_MS <= changed.invisible_time < LONG_MS
    wait_until(lambda: pop(peer, 1).bodies == [b"0"])
