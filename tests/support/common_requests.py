"""Sends and pulls without anything special, as Java clients of 4.9 make them."""

from collections import Counter
from collections.abc import Iterable

from roquet.protocol.codes import PullFlag, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of, read_header
from roquet.protocol.headers.messages import (
    PullMessageHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
)
from roquet.protocol.messages.record import split_records
from tests.support.blocking_peer import BlockingPeer


def common_send(topic: str, body: bytes, queue_id: int = 0, opaque: int = 0) -> Command:
    fields = fields_of(common_send_header(topic, queue_id))
    return Command(RequestCode.SEND_MESSAGE_V2, opaque, fields=fields, body=body)


def common_pull(
    topic: str, queue_id: int, offset: int, *, wait_ms: int = 0, opaque: int = 0
) -> Command:
    """With `wait_ms` the broker may keep the pull that long."""
    fields = fields_of(common_pull_header(topic, queue_id, offset, wait_ms=wait_ms))
    return Command(RequestCode.PULL_MESSAGE, opaque, fields=fields)


def common_pull_header(
    topic: str, queue_id: int, offset: int, *, wait_ms: int = 0
) -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group="plain-consumers",
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_ms else 0),
        commit_offset=0,
        suspend_timeout_millis=wait_ms,
        sub_version=0,
        subscription="*",
        expression_type="TAG",
    )


def send_common(
    peer: BlockingPeer, topic: str, body: bytes, queue_id: int = 0
) -> SendMessageReplyHeader:
    """The receipt of a message that was stored."""
    return receipt_of(
        peer.call(RequestCode.SEND_MESSAGE_V2, common_send_header(topic, queue_id), body)
    )


def receipt_of(reply: Command) -> SendMessageReplyHeader:
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return read_header(SendMessageReplyHeader, reply.fields)


def common_send_header(topic: str, queue_id: int = 0) -> SendMessageHeaderV2:
    return SendMessageHeaderV2(
        producer_group="plain-producers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties="WAIT\x01true\x02",
    )


def send_each(address: str, topic: str, bodies: Iterable[bytes], properties: str) -> None:
    """To the first queue, one after the other, with the same properties."""
    header = common_send_header(topic)
    header.properties = f"{properties}\x02WAIT\x01true\x02"
    with BlockingPeer(address) as peer:
        for body in bodies:
            receipt_of(peer.call(RequestCode.SEND_MESSAGE_V2, header, body))


def delivered(address: str, topic: str) -> Counter[bytes]:
    """How often each message can be read from the first queue."""
    found: Counter[bytes] = Counter()
    offset = 0
    with BlockingPeer(address) as peer:
        while True:
            reply = peer.call(RequestCode.PULL_MESSAGE, common_pull_header(topic, 0, offset))
            if reply.code != ResponseCode.SUCCESS:
                return found
            messages = split_records(reply.body)
            found.update(bytes(message.body) for message in messages)
            offset = messages[-1].queue_offset + 1
