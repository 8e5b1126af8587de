"""A producer of transactions without a socket: starts them, ends them, and answers questions."""

from dataclasses import dataclass
from typing import Any

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import read_header
from roquet.protocol.headers.messages import (
    CheckTransactionHeader,
    EndTransactionHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
)
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.message_id import parse_offset_id
from tests.support.broker_bed import BedClient, BrokerBed
from tests.support.stores import messages

GROUP = "payers"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"

UNKNOWN = 0
COMMIT = 8
ROLLBACK = 12


@dataclass(frozen=True)
class Half:
    """A half message, as its producer knows it."""

    queue_offset: int
    physical_offset: int


def half_header(bed: BrokerBed, key: str, **members: Any) -> SendMessageHeaderV2:
    """A send as a Java producer makes it; `properties` are added to the usual ones."""
    properties = {
        "KEYS": f"order-{key}",
        "TRAN_MSG": "true",
        "UNIQ_KEY": key,
        "PGROUP": GROUP,
        "WAIT": "true",
    } | members.pop("properties", {})
    values: dict[str, Any] = {
        "producer_group": GROUP,
        "topic": "TopicA",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 1,
        "sys_flag": 4,
        "born_timestamp": bed.clock.now_ms(),
        "flag": 0,
        "properties": "\x02".join(f"{name}\x01{value}" for name, value in properties.items()),
    }
    return SendMessageHeaderV2(**(values | members))


async def begin(bed: BrokerBed, client: BedClient, key: str, **members: Any) -> Half:
    reply = await client.ask(
        RequestCode.SEND_MESSAGE_V2, half_header(bed, key, **members), key.encode()
    )
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    sent = read_header(SendMessageReplyHeader, reply.fields)
    return Half(sent.queue_offset, parse_offset_id(sent.msg_id).physical_offset)


async def end(
    client: BedClient, half: Half, commit_or_rollback: int, group: str = GROUP
) -> Command:
    header = EndTransactionHeader(
        producer_group=group,
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=half.physical_offset,
        commit_or_rollback=commit_or_rollback,
        msg_id="",
    )
    return await client.ask(RequestCode.END_TRANSACTION, header)


def asked_about(question: Command) -> Half:
    """The copy of a half message that a question names."""
    assert question.code == RequestCode.CHECK_TRANSACTION_STATE
    header = read_header(CheckTransactionHeader, question.fields)
    return Half(header.tran_state_table_offset, header.commit_log_offset)


def halves(bed: BrokerBed) -> list[StoredMessage]:
    return messages(bed.broker.store, HALF_TOPIC)


def delivered(bed: BrokerBed) -> list[bytes]:
    """The bodies that consumers of the topic find."""
    return [message.body for message in messages(bed.broker.store, "TopicA", 1)]


def over(bed: BrokerBed) -> list[bytes]:
    """The bodies of all op messages."""
    return [message.body for message in messages(bed.broker.store, OP_TOPIC)]


def given_up(bed: BrokerBed) -> list[bytes]:
    return [message.body for message in messages(bed.broker.store, GIVEN_UP_TOPIC)]
