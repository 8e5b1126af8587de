"""Pops, acks and changes as a client makes them, and what it knows of the messages it got."""

from functools import cached_property
from typing import Any

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import read_header
from roquet.protocol.headers.pop import (
    AckMessageHeader,
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeReplyHeader,
    PopMessageHeader,
    PopMessageReplyHeader,
)
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.pop_receipt import Receipt
from roquet.protocol.messages.record import split_records
from roquet.protocol.names import pop_retry_topic
from tests.support.broker_bed import VERSION_5_5_0, BedClient

GROUP = "workers"
TOPIC = "TopicA"
INVISIBLE_MS = 10_000


def pop_header(**members: Any) -> PopMessageHeader:
    values: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": TOPIC,
        "queue_id": -1,
        "max_msg_nums": 32,
        "invisible_time": INVISIBLE_MS,
        "poll_time": 0,
        "born_time": 0,
        "init_mode": 0,
        "exp_type": "TAG",
        "exp": "*",
        "order": False,
    }
    return PopMessageHeader(**(values | members))


class Popped:
    """The reply to a pop, read as a client reads it."""

    def __init__(self, reply: Command, broker_name: str = "broker-a") -> None:
        self.code = reply.code
        self.remark = reply.remark
        self.header = read_header(PopMessageReplyHeader, reply.fields)
        self._body = reply.body
        self._broker_name = broker_name
        self._starts = {
            tuple(entry.split(" ")[:2]): int(entry.split(" ")[2])
            for entry in (self.header.start_offset_info or "").split(";")
            if entry
        }
        # In the order of the messages: kind, queue and offset of each.
        self._places = [
            (kind, queue_id, int(offset))
            for entry in (self.header.msg_offset_info or "").split(";")
            if entry
            for kind, queue_id, offsets in [entry.split(" ")]
            for offset in offsets.split(",")
        ]

    @cached_property
    def messages(self) -> list[StoredMessage]:
        return list(split_records(self._body))

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    @property
    def receipts(self) -> list[Receipt]:
        header = self.header
        return [
            Receipt(
                self._starts[kind, queue_id],
                header.pop_time,
                header.invisible_time,
                header.revive_qid,
                kind,
                self._broker_name,
                int(queue_id),
                offset,
            )
            for kind, queue_id, offset in self._places
        ]

    def receipt_of(self, message: StoredMessage) -> Receipt:
        return self.receipts[self.messages.index(message)]


async def pop(client: BedClient, **members: Any) -> Popped:
    reply = await client.ask(RequestCode.POP_MESSAGE, pop_header(**members), version=VERSION_5_5_0)
    return Popped(reply)


def topic_of(receipt: Receipt, group: str = GROUP, topic: str = TOPIC) -> str:
    return topic if receipt.kind == "0" else pop_retry_topic(group, topic)


def ack_header(receipt: Receipt, **members: Any) -> AckMessageHeader:
    return AckMessageHeader(**(_message_of(receipt) | members))


def change_header(receipt: Receipt, invisible_ms: int, **members: Any) -> ChangeInvisibleTimeHeader:
    values = _message_of(receipt) | {"invisible_time": invisible_ms}
    return ChangeInvisibleTimeHeader(**(values | members))


def _message_of(receipt: Receipt) -> dict[str, Any]:
    return {
        "consumer_group": GROUP,
        "topic": topic_of(receipt),
        "queue_id": receipt.queue_id,
        "extra_info": receipt.text,
        "offset": receipt.offset,
    }


async def ack(client: BedClient, receipt: Receipt, **members: Any) -> Command:
    header = ack_header(receipt, **members)
    return await client.ask(RequestCode.ACK_MESSAGE, header, version=VERSION_5_5_0)


async def change(
    client: BedClient, receipt: Receipt, invisible_ms: int, *, suspend: bool = False
) -> Receipt:
    """The new receipt."""
    header = change_header(receipt, invisible_ms, suspend=suspend)
    reply = await client.ask(
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header, version=VERSION_5_5_0
    )
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    fields = read_header(ChangeInvisibleTimeReplyHeader, reply.fields)
    return receipt._replace(
        start_offset=receipt.offset,
        pop_time_ms=fields.pop_time,
        invisible_ms=fields.invisible_time,
        revive_queue_id=fields.revive_qid,
    )
