"""Sends of messages without anything special, as a Java producer of 4.9 makes them."""

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import read_header
from roquet.protocol.headers.sending import SendMessageHeaderV2, SendMessageReplyHeader
from tests.support.blocking_peer import BlockingPeer


def plain_header(topic: str, queue_id: int = 0) -> SendMessageHeaderV2:
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


def send_plainly(
    peer: BlockingPeer, topic: str, body: bytes, queue_id: int = 0
) -> SendMessageReplyHeader:
    """The receipt of a message that was stored."""
    reply = peer.call(RequestCode.SEND_MESSAGE_V2, plain_header(topic, queue_id), body)
    return receipt_of(reply)


def receipt_of(reply: Command) -> SendMessageReplyHeader:
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return read_header(SendMessageReplyHeader, reply.fields)
