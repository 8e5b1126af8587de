"""The end of a transaction (37), and an operator's wish to have one asked about again (323)."""

from typing import Final

from roquet.broker.broker import Broker
from roquet.broker.handlers.answers import check_is_master
from roquet.broker.handlers.needs import ENDING
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.messages.appending import stored_record
from roquet.broker.transactions.half_messages import real_queue, resumed
from roquet.broker.transactions.phases import (
    append_half,
    commit,
    commit_common,
    open_half,
    roll_back,
)
from roquet.net.errors import Refused
from roquet.net.router import Answer, Reply, Request, on
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.messages import (
    EndTransactionHeader,
    ResumeCheckHeader,
)
from roquet.protocol.messages.message import Property, StoredMessage, SysFlag
from roquet.protocol.messages.message_id import parse_offset_id
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import HALF_TOPIC, TOO_MANY_CHECKS_TOPIC

_ENDS: Final = {
    SysFlag.TRANSACTION_COMMIT.value: commit,
    SysFlag.TRANSACTION_ROLLBACK.value: roll_back,
}


def end_transaction(broker: Broker, request: Request[EndTransactionHeader]) -> Answer:
    header = request.header
    if broker.config.is_slave:
        raise Refused(ResponseCode.SLAVE_NOT_AVAILABLE, "transactions end on the master")
    broker.messages.acks.check_room(request)
    end = _ENDS.get(header.commit_or_rollback)
    if end is None:
        # Apache does not answer this request. Clients send it one-way; others get an answer.
        return Reply(remark="the end is not known yet: the broker will ask")
    record = stored_record(broker.store, header.commit_log_offset)
    log_end = None
    if end is commit:
        log_end = commit_common(
            broker, record, header.producer_group, header.tran_state_table_offset
        )
    if log_end is None:
        half = open_half(broker, _half_message(record, header))
        if half is None:
            return Reply(remark="the transaction is over already")
        log_end = end(broker, half)
    return broker.messages.acks.reply_when_safe(request, log_end, Reply(), OnTimeout.KEEP_WAITING)


def resume_check(broker: Broker, request: Request[ResumeCheckHeader]) -> Answer:
    check_is_master(broker.config)
    broker.messages.acks.check_room(request)
    place = parse_offset_id(request.header.msg_id or "")
    message = read_record(stored_record(broker.store, place.physical_offset))
    if message.topic not in (HALF_TOPIC, TOO_MANY_CHECKS_TOPIC):
        raise _refused("is not a half message", message)
    real_queue(message)
    appended = append_half(broker, resumed(message))
    end = appended.physical_offset + appended.size
    return broker.messages.acks.reply_when_safe(request, end, Reply(), OnTimeout.KEEP_WAITING)


def _half_message(record: bytes, header: EndTransactionHeader) -> StoredMessage:
    """What the header is about, if it really is. Raises Refused."""
    half = read_record(record)
    if half.topic != HALF_TOPIC:
        raise _refused("is not a half message", half)
    if half.properties.get(Property.PRODUCER_GROUP) != header.producer_group:
        raise _refused("is of another producer group", half)
    if half.queue_offset != header.tran_state_table_offset:
        raise _refused(f"is not at offset {header.tran_state_table_offset}", half)
    return half


def _refused(why: str, message: StoredMessage) -> Refused:
    return Refused(
        ResponseCode.SYSTEM_ERROR, f"the message at {message.physical_offset} of the log {why}"
    )


ROUTES = (
    on(RequestCode.END_TRANSACTION, EndTransactionHeader, end_transaction, needs=ENDING),
    on(RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHeader, resume_check),
)
